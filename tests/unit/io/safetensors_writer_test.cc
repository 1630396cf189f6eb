// Written safetensors files, read back.
#include "io/safetensors_writer.h"

#include <gtest/gtest.h>

#include "io/checkpoint.h"
#include "unit/io/io_test_util.h"

namespace quire {
namespace {

using test::error_of;
using test::TempDir;

std::vector<TensorInfo> some_tensors() {
  return {{.name = "b", .dtype = DType::kF16, .shape = {2, 3}},
          {.name = "a", .dtype = DType::kU8, .shape = {5}},
          {.name = "none", .dtype = DType::kF32, .shape = {0, 4}},
          {.name = "c", .dtype = DType::kF8E4M3, .shape = {4, 1}}};
}

void write_all(SafetensorsWriter& writer) {
  // In another order than declared.
  writer.write("c", test::as_bytes("wxyz"));
  writer.write("b", test::as_bytes("0123456789AB"));
  writer.write("a", test::as_bytes("abcde"));
  writer.finish();
}

std::string text_of(const Checkpoint& checkpoint, std::string_view name) {
  const auto bytes = checkpoint.bytes(name);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

void expect_all(const Checkpoint& checkpoint) {
  EXPECT_EQ(checkpoint.names(), (std::vector<std::string>{"a", "b", "c", "none"}));
  EXPECT_EQ(text_of(checkpoint, "a"), "abcde");
  EXPECT_EQ(text_of(checkpoint, "b"), "0123456789AB");
  EXPECT_EQ(text_of(checkpoint, "c"), "wxyz");
  EXPECT_EQ(checkpoint.find("b")->dtype, DType::kF16);
  EXPECT_EQ(checkpoint.find("b")->shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(checkpoint.find("c")->dtype, DType::kF8E4M3);
  EXPECT_EQ(checkpoint.find("none")->bytes, 0U);
}

TEST(SafetensorsWriter, WritesOneFile) {
  const TempDir dir;
  dir.write("config.json", "{}");
  SafetensorsWriter writer(dir.path(), some_tensors());
  EXPECT_EQ(writer.total_bytes(), 21);
  write_all(writer);
  EXPECT_TRUE(std::filesystem::exists(dir.path() / "model.safetensors"));
  expect_all(*Checkpoint::open(dir.path()));
}

TEST(SafetensorsWriter, WritesSeveralFilesWithAnIndex) {
  const TempDir dir;
  dir.write("config.json", "{}");
  SafetensorsWriter writer(dir.path(), some_tensors(), 14);
  write_all(writer);
  EXPECT_TRUE(std::filesystem::exists(dir.path() / "model-00002-of-00002.safetensors"));
  expect_all(*Checkpoint::open(dir.path()));
}

TEST(SafetensorsWriter, ReportsErrors) {
  const TempDir dir;
  SafetensorsWriter writer(dir.path(), some_tensors());
  EXPECT_NE(error_of([&] { writer.write("d", {}); }).find("'d' was not declared"), std::string::npos);
  EXPECT_NE(
      error_of([&] { writer.write("a", test::as_bytes("abc")); }).find("3 bytes, but was declared with 5"),
      std::string::npos);
  EXPECT_NE(error_of([&] { writer.finish(); }).find("was not written"), std::string::npos);
  // The file already exists.
  EXPECT_NE(
      error_of([&] { SafetensorsWriter again(dir.path(), some_tensors()); }).find("cannot create the file"),
      std::string::npos);
  auto twice = some_tensors();
  twice.push_back(twice.front());
  const TempDir other;
  EXPECT_NE(error_of([&] { SafetensorsWriter bad(other.path(), twice); }).find("duplicate tensor 'b'"),
            std::string::npos);
}

TEST(SafetensorsWriter, ReportsAFullDiskBeforeWriting) {
  const TempDir dir;
  const std::vector<TensorInfo> huge = {{.name = "x", .dtype = DType::kU8, .shape = {int64_t{1} << 55}}};
  EXPECT_NE(error_of([&] { SafetensorsWriter writer(dir.path(), huge); }).find("no space left for"),
            std::string::npos);
}

}  // namespace
}  // namespace quire
