#include "io/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "unit/io/io_test_util.h"

namespace quire {
namespace {

using test::as_bytes;
using test::error_of;
using test::safetensors_file;
using testing::AllOf;
using testing::HasSubstr;

constexpr const char* kGood =
    R"({"__metadata__":{"format":"pt"},"b":{"dtype":"F32","shape":[2,3],"data_offsets":[6,30]},)"
    R"("a":{"dtype":"BF16","shape":[3],"data_offsets":[0,6]},"s":{"dtype":"F16","shape":[],"data_offsets":[30,32]},)"
    R"("none":{"dtype":"F32","shape":[0,4],"data_offsets":[6,6]}})";

TEST(Safetensors, ReadsTensorsInOrderOfTheirBytes) {
  const std::string file = safetensors_file(kGood, 32);
  const Safetensors tensors(as_bytes(file), "f.safetensors");
  ASSERT_EQ(tensors.tensors().size(), 4U);
  const auto all = tensors.tensors();
  EXPECT_EQ(all[0].name, "a");
  EXPECT_EQ(all[0].dtype, DType::kBF16);
  EXPECT_EQ(all[1].name, "none");
  EXPECT_EQ(all[1].bytes, 0U);
  EXPECT_EQ(all[2].name, "b");
  EXPECT_EQ(all[2].shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(all[2].shape_text(), "[2, 3]");
  EXPECT_EQ(tensors.data(all[2]).size(), 24U);
  EXPECT_EQ(std::to_integer<int>(tensors.data(all[2])[0]), 6);
  EXPECT_EQ(all[3].shape.size(), 0U);
  EXPECT_EQ(all[3].bytes, 2U);
}

TEST(Safetensors, ReadsAHeaderWithoutTheData) {
  const std::string file = safetensors_file(kGood, 32);
  const size_t header = safetensors_header_bytes(as_bytes(file).first(8), file.size(), "f");
  EXPECT_EQ(header, file.size() - 32);
  const auto parsed = parse_safetensors_header(as_bytes(file).first(header), file.size(), "f");
  ASSERT_EQ(parsed.tensors.size(), 4U);
  EXPECT_EQ(parsed.tensors[2].offset, header + 6);
  EXPECT_EQ(parsed.metadata.at("format"), "pt");
}

TEST(Safetensors, AcceptsAFileWithoutTensors) {
  const std::string file = safetensors_file("{}", 0);
  EXPECT_TRUE(Safetensors(as_bytes(file), "f").tensors().empty());
}

TEST(Safetensors, AcceptsPaddingAfterTheHeader) {
  const std::string file = safetensors_file(std::string(kGood) + "     ", 32);
  EXPECT_EQ(Safetensors(as_bytes(file), "f").tensors().size(), 4U);
}

TEST(Safetensors, EveryTruncationIsAnError) {
  const std::string file = safetensors_file(kGood, 32);
  for (size_t size = 0; size < file.size(); ++size) {
    // A copy of exactly this size, so that the sanitizer detects reads past the end.
    const std::vector<char> cut(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(size));
    EXPECT_THAT(error_of([&] {
                  Safetensors(as_bytes({cut.data(), cut.size()}), "f.safetensors");
                }),
                HasSubstr("f.safetensors"))
        << size;
  }
}

TEST(Safetensors, SurvivesEveryChangedByte) {
  const std::string file = safetensors_file(kGood, 32);
  std::mt19937 random(1);
  for (int round = 0; round < 20000; ++round) {
    std::string changed = file;
    for (uint32_t i = 0; i <= round % 3U; ++i)
      changed[random() % (file.size() - 32)] = static_cast<char>(random());
    try {
      const Safetensors tensors(as_bytes(changed), "f");
      for (const auto& info : tensors.tensors()) EXPECT_LE(info.offset + info.bytes, changed.size());
    } catch (const Error&) {
    }
  }
}

TEST(Safetensors, RejectsWrongHeaderLengths) {
  for (const uint64_t length :
       {uint64_t{3}, uint64_t{1000}, uint64_t{100'000'001}, uint64_t{1} << 40, UINT64_MAX, UINT64_MAX - 7}) {
    std::string file = safetensors_file(kGood, 32);
    file.replace(0, 8, test::little_endian(length));
    EXPECT_THAT(error_of([&] { Safetensors(as_bytes(file), "f.safetensors"); }), HasSubstr("f.safetensors: "))
        << length;
  }
}

struct BadHeader {
  const char* what;
  const char* header;
  size_t data_bytes;
  const char* message;
};

const BadHeader kBadHeaders[] = {
    {"not JSON", "x", 0, "header:1: "},
    {"a list", "[]", 0, "not a JSON object"},
    {"a number", "1", 0, "not a JSON object"},
    {"nothing", "", 0, "header:1: "},
    {"entry is not an object", R"({"a":1})", 0, "tensor 'a': its header entry is not an object"},
    {"no dtype", R"({"a":{"shape":[],"data_offsets":[0,4]}})", 4, "tensor 'a': has no 'dtype'"},
    {"no shape", R"({"a":{"dtype":"F32","data_offsets":[0,4]}})", 4, "tensor 'a': has no 'shape'"},
    {"no offsets", R"({"a":{"dtype":"F32","shape":[1]}})", 4, "tensor 'a': has no 'data_offsets'"},
    {"other dtype of another size", R"({"a":{"dtype":"U16","shape":[4],"data_offsets":[0,4]}})", 4,
     "U16 [4] takes 8"},
    {"half a byte", R"({"a":{"dtype":"F4","shape":[3],"data_offsets":[0,2]}})", 2, "F4 [3] takes 2"},
    {"other dtype beyond the end", R"({"a":{"dtype":"F9_E9M0","shape":[4],"data_offsets":[0,8]}})", 4,
     "truncated?"},
    {"dtype is not a string", R"({"a":{"dtype":4,"shape":[1],"data_offsets":[0,4]}})", 4,
     "dtype is not a string"},
    {"shape is not a list", R"({"a":{"dtype":"F32","shape":1,"data_offsets":[0,4]}})", 4,
     "shape is not a list"},
    {"negative dimension", R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", 4,
     "a dimension of the shape must be"},
    {"fractional dimension", R"({"a":{"dtype":"F32","shape":[1.5],"data_offsets":[0,6]}})", 6,
     "a dimension of the shape must be"},
    {"dimension beyond 64 bits",
     R"({"a":{"dtype":"F32","shape":[99999999999999999999],"data_offsets":[0,4]}})", 4,
     "a dimension of the shape must be"},
    {"dimension beyond signed 64 bits",
     R"({"a":{"dtype":"U8","shape":[18446744073709551615],"data_offsets":[0,4]}})", 4, "overflows"},
    {"product overflows to the right size",
     R"({"a":{"dtype":"F32","shape":[4294967296,4294967296,1],"data_offsets":[0,0]}})", 0,
     "the shape's size overflows"},
    {"element size overflows", R"({"a":{"dtype":"F64","shape":[2305843009213693952],"data_offsets":[0,0]}})",
     0, "overflows"},
    {"too many dimensions",
     R"({"a":{"dtype":"U8","shape":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1],"data_offsets":[0,1]}})", 1,
     "has 17 dimensions"},
    {"one offset", R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0]}})", 4, "not a list of two numbers"},
    {"negative offset", R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[-4,0]}})", 4,
     "data_offsets must be"},
    {"end before begin", R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", 4,
     "end before they start"},
    {"fewer bytes than the shape", R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4, "takes 8"},
    {"more bytes than the shape", R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,8]}})", 8, "takes 4"},
    {"beyond the end", R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 4, "truncated?"},
    {"far beyond the end",
     R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[18446744073709551614,18446744073709551615]}})", 4,
     "truncated?"},
    {"overlap",
     R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})",
     12, "tensor 'b': overlaps another tensor"},
    {"same offset",
     R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
     4, "overlaps another tensor"},
    {"gap",
     R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}})",
     12, "tensor 'b': leaves a gap of 4 bytes before it"},
    {"bytes at the end", R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 6,
     "2 bytes follow the last tensor"},
    {"duplicate name",
     R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
     8, "duplicate key 'a'"},
    {"deep", R"({"__metadata__":[[[[[[[[[[[[]]]]]]]]]]]]})", 0, "nested deeper"},
};

class SafetensorsHeader : public testing::TestWithParam<BadHeader> {};

TEST_P(SafetensorsHeader, ReportsTheProblem) {
  const std::string file = safetensors_file(GetParam().header, GetParam().data_bytes);
  EXPECT_THAT(error_of([&] { Safetensors(as_bytes(file), "f.safetensors"); }),
              AllOf(HasSubstr("f.safetensors: "), HasSubstr(GetParam().message)));
}

INSTANTIATE_TEST_SUITE_P(Bad, SafetensorsHeader, testing::ValuesIn(kBadHeaders), [](const auto& test) {
  std::string name = test.param.what;
  for (char& c : name) c = c == ' ' ? '_' : c;
  for (size_t at; (at = name.find_first_of("-'")) != std::string::npos;) name.erase(at, 1);
  return name;
});

TEST(Safetensors, RejectsMillionsOfBrackets) {
  const std::string file = safetensors_file("{\"a\":" + std::string(5'000'000, '['), 0);
  EXPECT_THAT(error_of([&] { Safetensors(as_bytes(file), "f"); }), HasSubstr("nested deeper"));
}

}  // namespace
}  // namespace quire
