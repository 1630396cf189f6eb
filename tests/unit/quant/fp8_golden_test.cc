// The 8-bit floats, compared with conversions of torch (tools/make_kv_goldens.py).
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "quant/codec.h"

namespace quire {
namespace {

using nlohmann::json;

class Fp8Golden : public testing::TestWithParam<DType> {
 protected:
  json golden_ = [] {
    std::ifstream file(QUIRE_SOURCE_DIR "/tests/golden/quant/fp8.json");
    return json::parse(file)[std::string(dtype_name(GetParam()))];
  }();
};

TEST_P(Fp8Golden, DecodesEveryCode) {
  ASSERT_EQ(golden_["decoded"].size(), 256U);
  for (int code = 0; code < 256; ++code) {
    const auto byte = static_cast<uint8_t>(code);
    const float value = load_f32(GetParam(), &byte, 0);
    const json& expected = golden_["decoded"][static_cast<size_t>(code)];
    if (expected.is_null()) {
      EXPECT_TRUE(std::isnan(value)) << code;
    } else {
      EXPECT_EQ(std::bit_cast<uint32_t>(value), expected.get<uint32_t>()) << code;
    }
  }
}

TEST_P(Fp8Golden, RoundsToTheExpectedCode) {
  ASSERT_GT(golden_["encoded"].size(), 1000U);
  for (const json& pair : golden_["encoded"]) {
    const float value = std::bit_cast<float>(pair[0].get<uint32_t>());
    uint8_t code = 0;
    store_f32(GetParam(), &code, 0, value);
    EXPECT_EQ(code, pair[1].get<uint8_t>()) << value;
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, Fp8Golden, testing::Values(DType::kF8E4M3, DType::kF8E5M2),
                         [](const auto& test) { return std::string(dtype_name(test.param)); });

}  // namespace
}  // namespace quire
