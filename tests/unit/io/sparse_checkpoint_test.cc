// Pruned weights packed by compressed-tensors (tests/golden/sparse).
#include "io/quantized/sparse_checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <string>

#include "io/mapped_file.h"
#include "unit/io/io_test_util.h"

namespace quire {
namespace {

using test::as_bytes;
using test::error_of;
using testing::AllOf;
using testing::HasSubstr;

std::string config_of(const std::string& format) {
  const nlohmann::json sparsity = {{"format", format}};
  const nlohmann::json quantization = {{"quant_method", "compressed-tensors"}, {"sparsity_config", sparsity}};
  return nlohmann::json{{"quantization_config", quantization}}.dump();
}

std::string golden(const std::string& format) {
  const MappedFile file(std::filesystem::path(QUIRE_SOURCE_DIR) / "tests/golden/sparse" /
                        (format + ".safetensors"));
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

class Sparse : public ::testing::TestWithParam<const char*> {};

TEST_P(Sparse, UnpacksTheOriginalWeights) {
  const std::string file = golden(GetParam());
  const std::string config = config_of(GetParam());
  const auto checkpoint = Checkpoint::from_memory({"pruned", config, "", as_bytes(file)});
  for (const std::string module : {"wide", "one", "tall"}) {
    const TensorInfo* info = checkpoint->find(module + ".weight");
    const TensorInfo* want = checkpoint->find("want." + module);
    ASSERT_NE(info, nullptr);
    EXPECT_EQ(info->dtype, want->dtype);
    EXPECT_EQ(info->shape, want->shape);
    EXPECT_EQ(info->bytes, want->bytes);
    for (int read = 0; read < 2; ++read) {
      EXPECT_TRUE(std::ranges::equal(checkpoint->bytes(info->name), checkpoint->bytes(want->name))) << module;
      checkpoint->release(info->name);
    }
    EXPECT_EQ(checkpoint->find(module + ".bitmask"), nullptr);
  }
  EXPECT_THAT(checkpoint->names(), testing::ElementsAre("one.weight", "tall.weight", "want.one", "want.tall",
                                                        "want.wide", "wide.weight"));
}

// The error message when the header of a file is changed.
std::string error_after(const std::string& format, const std::function<void(nlohmann::json&)>& change) {
  const std::string file = golden(format);
  uint64_t size = 0;
  std::memcpy(&size, file.data(), sizeof(size));
  nlohmann::json header = nlohmann::json::parse(file.substr(8, size));
  change(header);
  const std::string text = header.dump();
  const std::string changed = test::little_endian(text.size()) + text + file.substr(8 + size);
  return error_of([&] { Checkpoint::from_memory({"pruned", config_of(format), "", as_bytes(changed)}); });
}

TEST_P(Sparse, ErrorsNameTheInvalidTensor) {
  const auto shape_of = [](nlohmann::json& header, const char* name) -> nlohmann::json& {
    return header.at(name).at("shape");
  };
  EXPECT_THAT(error_after(GetParam(),
                          [&](nlohmann::json& h) {
                            shape_of(h, "tall.bitmask") = {3, 33};
                          }),
              AllOf(HasSubstr("tall.bitmask"), HasSubstr("33 x 20")));
  EXPECT_THAT(error_after(GetParam(),
                          [&](nlohmann::json& h) {
                            h["other"] = h.at("wide.compressed");
                            h.erase("wide.compressed");
                          }),
              AllOf(HasSubstr("wide.compressed"), HasSubstr("missing")));
  EXPECT_THAT(
      error_after(GetParam(),
                  [&](nlohmann::json& h) { std::swap(h.at("one.compressed"), h.at("tall.compressed")); }),
      AllOf(HasSubstr(".compressed"), HasSubstr("but the mask")));
}

INSTANTIATE_TEST_SUITE_P(Formats, Sparse, ::testing::Values("sparse-24-bitmask", "sparse-bitmask"),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::erase(name, '-');
                           return name;
                         });

TEST(SparseFormats, RejectsOtherFormats) {
  const std::string file = golden("sparse-bitmask");
  EXPECT_THAT(error_of([&] {
                Checkpoint::from_memory({"pruned", config_of("marlin-24"), "", as_bytes(file)});
              }),
              AllOf(HasSubstr("marlin-24"), HasSubstr("sparse-24-bitmask")));
}

}  // namespace
}  // namespace quire
