// Integer weights: supported formats, memory layout, and rounding errors.
#include "quant/weight_format.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "base/error.h"
#include "quant/int_layout.h"

namespace quire {
namespace {

using testing::HasSubstr;

constexpr int64_t kPanel = IntLayout::kPanel;

WeightFormat int_format(int32_t bits, int32_t group, bool zero_points = false) {
  return {.dtype = DType::kI8, .code_bits = bits, .group_size = group, .zero_points = zero_points};
}

// int4 with second-level scales, for int8 activations.
WeightFormat two_level_format(int32_t group, int32_t second_level_group) {
  WeightFormat format = int_format(4, group);
  format.second_level_group = second_level_group;
  format.activations = ActivationFormat::kInt8;
  format.activation_group = group;
  return format;
}

std::string format_error(const WeightFormat& format) {
  try {
    check_weight_format(format);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// [k][32], the input of quantize_panel.
std::vector<float> random_panel(int64_t k, uint32_t seed) {
  std::mt19937 rng(seed);
  std::normal_distribution<float> normal(0.0F, 0.02F);
  std::vector<float> panel(static_cast<size_t>(k * kPanel));
  for (float& v : panel) v = normal(rng);
  return panel;
}

struct Packed {
  IntLayout at;
  std::vector<std::byte> bytes;

  Packed(const WeightFormat& format, int64_t k, std::vector<float> panel)
      : at(format, k), bytes(static_cast<size_t>(at.panel_bytes)) {
    quantize_panel(at, panel.data(), bytes.data());
  }
  float get(int64_t row, int64_t i) const {
    return int_scale(at, bytes.data(), row, i) * static_cast<float>(int_code(at, bytes.data(), row, i));
  }
};

double squared_error(const Packed& packed, const std::vector<float>& panel) {
  double sum = 0;
  for (int64_t i = 0; i < packed.at.k; ++i) {
    for (int64_t j = 0; j < kPanel; ++j) {
      const double d = double{packed.get(j, i)} - double{panel[static_cast<size_t>(i * kPanel + j)]};
      sum += d * d;
    }
  }
  return sum;
}

TEST(WeightFormat, ErrorsNameTheUnsupportedField) {
  EXPECT_EQ(format_error(int_format(8, 0)), "");
  EXPECT_EQ(format_error(int_format(4, 64, true)), "");
  EXPECT_EQ(format_error({DType::kBF16}), "");
  EXPECT_THAT(format_error({DType::kI32}), HasSubstr("instead of int32"));
  EXPECT_THAT(format_error(int_format(5, 0)), HasSubstr("code_bits must be 8 or 4, not 5"));
  EXPECT_THAT(format_error(int_format(4, 12)), HasSubstr("group_size must be 0 or a multiple of 8"));
  EXPECT_THAT(format_error(int_format(8, 64, true)), HasSubstr("zero points need 4-bit weights"));
  EXPECT_THAT(format_error(int_format(4, 512, true)), HasSubstr("group_size of 8 to 256, not 512"));
  WeightFormat uneven = int_format(4, 64);
  uneven.activation_group = 96;
  EXPECT_THAT(format_error(uneven), HasSubstr("one must be a multiple of the other"));
}

TEST(WeightFormat, SecondLevelScalesFitTheirGroups) {
  EXPECT_EQ(format_error(two_level_format(128, 32)), "");
  EXPECT_EQ(format_error(two_level_format(128, 128)), "");
  for (const int32_t second_level_group : {-32, 12, 48, 8, 256})
    EXPECT_THAT(format_error(two_level_format(128, second_level_group)),
                HasSubstr("second_level_group must be a multiple of 8"));
  EXPECT_THAT(format_error(two_level_format(0, 32)), HasSubstr("second_level_group must be"));
  WeightFormat wrong = two_level_format(128, 32);
  wrong.activation_group = 64;
  EXPECT_THAT(format_error(wrong),
              HasSubstr("activation_group must be 0 or a multiple of group_size, not 64"));
  wrong = two_level_format(128, 32);
  wrong.code_bits = 8;
  EXPECT_THAT(format_error(wrong), HasSubstr("second-level scales need 4-bit weights"));
  wrong = two_level_format(128, 32);
  wrong.activations = ActivationFormat::kFloat;
  EXPECT_THAT(format_error(wrong), HasSubstr("second-level scales need int8 activations"));
}

TEST(WeightFormat, ErrorsListTheKnownQuantizations) {
  EXPECT_FALSE(quantization_from_name("auto").has_value());
  for (const auto* name : {"int8", "int4", "int4-g64", "int4-g128", "w8a8", "w8a16", "w4a16"}) {
    const auto found = quantization_from_name(name);
    ASSERT_TRUE(found.has_value());
    EXPECT_EQ(found->name, name);
    EXPECT_EQ(format_error(found->layers), "");
    EXPECT_EQ(format_error(found->head), "");
  }
  try {
    quantization_from_name("int3");
    FAIL() << "int3 was found";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(),
                HasSubstr("--quantization: 'int3' is not known; use auto, int8, int4, int4-g64"));
  }
}

TEST(WeightFormat, BitsPerWeightIncludeScales) {
  EXPECT_DOUBLE_EQ(bits_per_weight({DType::kBF16}, 100), 16.0);
  EXPECT_DOUBLE_EQ(bits_per_weight(int_format(8, 0), 2048), 8.0 + 32.0 / 2048);
  EXPECT_DOUBLE_EQ(bits_per_weight(int_format(4, 64), 2048), 4.25);
  EXPECT_DOUBLE_EQ(bits_per_weight(int_format(4, 32), 2048), 4.5);
  EXPECT_DOUBLE_EQ(bits_per_weight(int_format(4, 128), 2048), 4.125);
  EXPECT_DOUBLE_EQ(bits_per_weight(two_level_format(128, 32), 2048), 4.375);
}

TEST(WeightFormat, RepresentableWeightsAreExact) {
  // Weights that are representable, including the extremes, so that the exact scale is found.
  struct Case {
    WeightFormat format;
    int low, high;
  };
  for (const Case& c : {Case{int_format(8, 0), -127, 127}, Case{int_format(8, 32), -127, 127},
                        Case{int_format(4, 32), -8, 7}, Case{int_format(4, 64, true), -3, 12}}) {
    const int64_t k = 150;
    std::mt19937 rng(3);
    std::uniform_int_distribution<int> code(c.low, c.high);
    std::vector<float> panel(static_cast<size_t>(k * kPanel));
    for (float& v : panel) v = 0.25F * static_cast<float>(code(rng));
    for (int64_t i = 0; i < k; i += 16) {
      for (int64_t j = 0; j < kPanel; ++j) {
        panel[static_cast<size_t>(i * kPanel + j)] = 0.25F * static_cast<float>(c.low);
        panel[static_cast<size_t>((i + 1) * kPanel + j)] = 0.25F * static_cast<float>(c.high);
      }
    }
    const Packed packed(c.format, k, panel);
    for (int64_t i = 0; i < k; ++i) {
      for (int64_t j = 0; j < kPanel; ++j) {
        const float v = panel[static_cast<size_t>(i * kPanel + j)];
        ASSERT_NEAR(packed.get(j, i), v, 1e-6F * std::fabs(v)) << i << ", " << j;
      }
    }
  }
}

TEST(WeightFormat, RoundingErrorMatchesTheStepWidth) {
  const int64_t k = 512;
  const std::vector<float> panel = random_panel(k, 4);
  for (const auto& [format, relative] :
       {std::pair{int_format(8, 0), 0.0001}, std::pair{int_format(4, 32), 0.0070},
        std::pair{int_format(4, 64), 0.0088}, std::pair{int_format(4, 128), 0.0110},
        std::pair{int_format(4, 64, true), 0.0085}}) {
    double size = 0;
    for (const float v : panel) size += double{v} * double{v};
    const double error = squared_error(Packed(format, k, panel), panel) / size;
    EXPECT_LT(error, relative) << format.code_bits << " bits, groups of " << format.group_size;
    EXPECT_GT(error, relative / 4) << "the bound is too loose to be meaningful";
  }
}

TEST(WeightFormat, ScaleIsBetterThanFittingTheLargestWeight) {
  const int64_t k = 256;
  const std::vector<float> panel = random_panel(k, 5);
  for (const int32_t group : {32, 64, 128}) {
    const Packed packed(int_format(4, group), k, panel);
    double naive = 0;
    for (int64_t j = 0; j < kPanel; ++j) {
      for (int64_t begin = 0; begin < k; begin += group) {
        float largest = 0;
        for (int64_t i = begin; i < begin + group; ++i)
          largest = std::max(largest, std::fabs(panel[static_cast<size_t>(i * kPanel + j)]));
        const float scale = largest / 7.0F;
        for (int64_t i = begin; i < begin + group; ++i) {
          const float v = panel[static_cast<size_t>(i * kPanel + j)];
          const double d = double{v} - double{scale} * std::nearbyint(double{v} / double{scale});
          naive += d * d;
        }
      }
    }
    EXPECT_LT(squared_error(packed, panel), 0.85 * naive) << group;
  }
}

// Groups of different magnitudes as in real layers: outliers make some of them several times as large.
TEST(WeightFormat, SecondLevelScalesAreNearlyAsGoodAsFloatScales) {
  const int64_t k = 1024;
  std::vector<float> panel = random_panel(k, 6);
  for (int64_t i = 0; i < k; i += 32) {
    for (int64_t j = 0; j < kPanel; ++j)
      panel[static_cast<size_t>((i + (i / 32 + j) % 32) * kPanel + j)] *=
          static_cast<float>(1 + (i / 32 + j) % 5);
  }
  const double factors = squared_error(Packed(two_level_format(128, 32), k, panel), panel);
  EXPECT_LT(factors, 1.06 * squared_error(Packed(int_format(4, 32), k, panel), panel));
  EXPECT_LT(factors, 0.75 * squared_error(Packed(int_format(4, 128), k, panel), panel));
}

TEST(WeightFormat, ProductsWithSecondLevelScalesFitInt8) {
  const Packed packed(two_level_format(128, 32), 200, random_panel(200, 7));
  int32_t largest = 0;
  for (int64_t i = 0; i < 200; ++i) {
    for (int64_t j = 0; j < kPanel; ++j)
      largest = std::max(largest, std::abs(int_code(packed.at, packed.bytes.data(), j, i)));
  }
  EXPECT_LE(largest, 120);
  EXPECT_GE(largest, 105) << "the largest group has the largest second-level scale";
}

TEST(WeightFormat, ActivationScaleFitsTheLargestOfTheGroup) {
  const std::vector<float> x = {0.5F, -1.27F, 0.005F, 0.015F, 1.0F};
  std::vector<int8_t> codes(x.size());
  EXPECT_FLOAT_EQ(quantize_activations(x.data(), 5, codes.data()), 0.01F);
  EXPECT_THAT(codes, testing::ElementsAre(50, -127, testing::AnyOf(0, 1), testing::AnyOf(1, 2), 100));
  const std::vector<float> zeros(3, 0.0F);
  EXPECT_EQ(quantize_activations(zeros.data(), 3, codes.data()), 0.0F);
  const std::vector<float> broken = {1.0F, std::numeric_limits<float>::infinity()};
  EXPECT_TRUE(std::isnan(quantize_activations(broken.data(), 2, codes.data())));
  EXPECT_EQ(codes[0], 0);
}

}  // namespace
}  // namespace quire
