// Products with quantized matrices: packing is lossless, and every level gives the same bits as the
// reference.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "op_testing.h"
#include "ops/reference.h"
#include "quant/code_tables.h"
#include "quant/quant_layout.h"
#include "unit/quantized_testing.h"

namespace quire {
namespace {

using test::fast_isas;
using test::random_tensor;
using test::RandomCodes;
using test::same_row;
using test::same_rows;
using test::TestContext;
using test::TestTensor;
using test::usable_isas;

// A table of values for codes of `bits` bits.
std::span<const float> some_table(int32_t bits) {
  static const std::array<float, 256> numbers = [] {
    std::array<float, 256> v;
    for (size_t i = 0; i < v.size(); ++i) v[i] = std::sin(static_cast<float>(i * i));
    return v;
  }();
  return std::span(numbers).first(size_t{1} << bits);
}

// A table of 16 integers between -127 and 127.
std::span<const float> integer_table() {
  static const std::array<float, 16> numbers = {-127, -104, -83, -65, -49, -35, -22, -10,
                                                1,    13,   25,  38,  53,  69,  89,  113};
  return numbers;
}

struct Sizes {
  int64_t group;
  int64_t block;
};

std::vector<QuantFormat> formats() {
  std::vector<QuantFormat> all;
  const auto add = [&](QuantFormat format) {
    check_quant_format(format);
    all.push_back(format);
  };
  for (int32_t bits = 1; bits <= 8; ++bits) {
    for (const Sizes& sizes : {Sizes{0, 0}, Sizes{8, 8}, Sizes{32, 32}, Sizes{40, 40}, Sizes{128, 128},
                               Sizes{16, 256}, Sizes{32, 0}, Sizes{24, 48}}) {
      const bool two = sizes.group != sizes.block;
      QuantFormat format = {
          .code_bits = bits, .group_size = sizes.group, .block_size = sizes.block, .zero_point = bits * 2};
      format.half_scales = sizes.group == 32;
      format.bfloat_scales = sizes.group == 40;
      add(format);
      format.minima = true;
      add(format);
      format.minima = two;
      format.group_zero_points = true;
      add(format);
      format.group_zero_points = format.minima = false;
      format.values = CodeValues::kTable;
      format.table = some_table(bits);
      if (two) format.group_scale_table = e4m3_values();
      add(format);
    }
  }
  add({.code_bits = 8,
       .group_size = 128,
       .block_size = 128,
       .values = CodeValues::kTable,
       .table = e4m3_values()});
  add({.code_bits = 4,
       .group_size = 16,
       .block_size = 0,
       .values = CodeValues::kTable,
       .table = e2m1_values(),
       .group_scale_table = e4m3_values()});
  for (const int32_t bits : {2, 3, 4}) {
    QuantFormat format = {
        .code_bits = bits, .group_size = 0, .block_size = 0, .values = CodeValues::kRowTable};
    format.half_scales = bits == 4;
    format.bfloat_scales = bits == 2;
    add(format);
  }
  add({.code_bits = 4,
       .group_size = 32,
       .block_size = 0,
       .values = CodeValues::kTable,
       .table = e2m1_values(),
       .group_scale_table = e8m0_values()});
  add({.code_bits = 4,
       .group_size = 32,
       .block_size = 256,
       .values = CodeValues::kTable,
       .table = integer_table()});
  add({.code_bits = 3,
       .group_size = 16,
       .block_size = 256,
       .values = CodeValues::kTable,
       .table = integer_table().first(8)});
  add({.code_bits = 8, .group_size = 192, .block_size = 192, .zero_point = 128});
  add({.code_bits = 4, .group_size = 256, .block_size = 256, .zero_point = 8, .group_zero_points = true});
  return all;
}

std::string describe(const QuantFormat& f) {
  return std::to_string(f.code_bits) + " bits, groups of " + std::to_string(f.group_size) + " in blocks of " +
         std::to_string(f.block_size) +
         (f.values == CodeValues::kTable      ? ", table"
          : f.values == CodeValues::kRowTable ? ", row tables"
                                              : "") +
         (f.minima ? ", mins" : "") + (f.group_zero_points ? ", zero points" : "");
}

constexpr ActivationFormat kActivations[] = {ActivationFormat::kFloat, ActivationFormat::kInt16,
                                             ActivationFormat::kInt8};

const char* named(ActivationFormat activations) {
  constexpr std::array<const char*, 3> kNames = {"", ", int16", ", int8"};
  return kNames[static_cast<size_t>(activations)];
}

PackedLinear pack(const OpTable& table, const QuantizedMatrix& matrix,
                  ActivationFormat activations = ActivationFormat::kFloat) {
  const std::array<const QuantizedMatrix*, 1> parts = {&matrix};
  PackedLinear packed = table.pack_quantized({}, parts);
  packed.format.activations = activations;
  return packed;
}

std::vector<std::pair<CpuIsa, ActivationFormat>> isas_and_activations() {
  std::vector<std::pair<CpuIsa, ActivationFormat>> all;
  for (const CpuIsa& isa : usable_isas()) {
    for (const ActivationFormat activations : kActivations) all.emplace_back(isa, activations);
  }
  return all;
}

struct QuantizedCase {
  int64_t m, n, k;
};
constexpr QuantizedCase kCases[] = {{1, 1, 1},    {2, 33, 7},  {3, 40, 65},   {5, 31, 128},
                                    {8, 64, 300}, {9, 97, 33}, {13, 70, 256}, {26, 65, 530}};

TEST(LinearQuantized, AllLevelsGiveTheBitsOfTheReference) {
  const OpTable& plain = reference_ops();
  uint32_t seed = 0;
  size_t turn = 0;
  for (const QuantFormat& format : formats()) {
    // Sizes alternate: each format uses every second one.
    for (size_t i = ++turn % 2; i < std::size(kCases); i += 2) {
      const QuantizedCase& c = kCases[i];
      RandomCodes codes(format, c.n, c.k, ++seed);
      if (seed % 3 == 0) codes.add_outliers(seed);
      const TestTensor x = random_tensor(DType::kF32, {c.m, c.k}, 1, 3);
      const TestTensor residual = random_tensor(DType::kF32, {c.m, c.n}, 3, 1);
      const TestTensor bias = random_tensor(DType::kF32, {1, c.n}, 4);
      // Activation formats alternate, too, if the format supports integer products.
      const bool whole = integer_values(format).has_value();
      const auto activations = kActivations[whole ? seed / 2 % 3 : 0];
      PackedLinear packed = pack(plain, codes, activations);
      if (seed % 4 == 2) packed.format.outlier_threshold = 1.5F;
      packed.format.token_scales = activations == ActivationFormat::kInt8 && seed % 4 < 2;
      const TestTensor want(DType::kF32, {c.m, c.n});
      plain.run(TestContext(plain), ops::Linear{.out = want, .x = x, .w = packed});
      const auto set_bias = [&](bool set) {
        packed.bias = Buffer(set ? static_cast<size_t>(c.n) * sizeof(float) : 0);
        if (set) std::memcpy(packed.bias.data(), bias.view().data, packed.bias.size());
      };
      const TestTensor want_more(DType::kF32, {c.m, c.n});
      set_bias(true);
      plain.run(TestContext(plain), ops::Linear{.out = want_more, .x = x, .w = packed, .residual = residual});
      for (const CpuIsa& isa : fast_isas()) {
        if (isa.name.ends_with("_bf16") || (isa.name == "avx512_vnni" && !whole))
          continue;  // these levels have no kernels of their own for this format
        SCOPED_TRACE(std::string(isa.name) + ", " + describe(format) + named(activations) + ", " +
                     std::to_string(c.m) + " x " + std::to_string(c.n) + " x " + std::to_string(c.k));
        const TestContext ctx(*isa.table, c.m % 2 == 0 ? 2 : 1);
        const TestTensor out(DType::kF32, {c.m, c.n}, 2);
        set_bias(false);
        isa.table->run(ctx, ops::Linear{.out = out, .x = x, .w = packed});
        ASSERT_TRUE(same_rows(out, want));
        OpContext other = ctx;
        other.tuning.prefetch_into_l2 = !other.tuning.prefetch_into_l2;
        isa.table->run(other, ops::Linear{.out = out, .x = x, .w = packed});
        ASSERT_TRUE(same_rows(out, want));
        for (int64_t r = 0; r < c.m; ++r) {
          for (int64_t j = c.n; j < out.view().row_stride; ++j) ASSERT_TRUE(std::isnan(out.get(r, j)));
        }
        set_bias(true);
        isa.table->run(ctx, ops::Linear{.out = out, .x = x, .w = packed, .residual = residual});
        ASSERT_TRUE(same_rows(out, want_more));
      }
    }
  }
}

TEST(LinearQuantized, PackingIsLossless) {
  uint32_t seed = 1000;
  for (const QuantFormat& format : formats()) {
    SCOPED_TRACE(describe(format));
    for (const int64_t k : {int64_t{1}, int64_t{50}, int64_t{523}}) {
      RandomCodes codes(format, 70, k, ++seed);
      codes.add_outliers(seed);
      const PackedLinear packed = pack(reference_ops(), codes);
      const std::vector<int32_t> ids = {69, 0, 31, 32, 5};
      const TestTensor out(DType::kF32, {5, k});
      reference_ops().run({}, ops::PackedEmbedding{.out = out, .table = packed, .ids = ids});
      for (int64_t r = 0; r < 5; ++r) {
        for (int64_t i = 0; i < k; ++i) {
          const float want = codes.weight(ids[static_cast<size_t>(r)], i);
          const float got = out.get(r, i);
          ASSERT_EQ(std::memcmp(&got, &want, 4), 0)
              << "row " << r << ", column " << i << ": " << got << ", " << want;
        }
      }
    }
  }
}

TEST(LinearQuantized, MultipliesDecodedWeights) {
  uint32_t seed = 2000;
  for (const QuantFormat& format : formats()) {
    SCOPED_TRACE(describe(format));
    RandomCodes codes(format, 40, 200, ++seed);
    if (seed % 2 == 0) codes.add_outliers(seed);
    const TestTensor x = random_tensor(DType::kF32, {2, 200}, ++seed);
    const OpTable& table = *select_cpu_isa().table;
    for (const ActivationFormat activations : kActivations) {
      // Half a quantization step of an activation, as a fraction of the largest in its group.
      const double half_step = activations == ActivationFormat::kFloat || !integer_values(format) ? 0.0
                               : activations == ActivationFormat::kInt16 ? 1.0 / 64000.0
                                                                         : 1.0 / 253.0;
      const TestTensor out(DType::kF32, {2, 40});
      table.run(TestContext(table), ops::Linear{.out = out, .x = x, .w = pack(table, codes, activations)});
      for (int64_t r = 0; r < 2; ++r) {
        float largest = 0;
        for (int64_t i = 0; i < 200; ++i) largest = std::max(largest, std::fabs(x.get(r, i)));
        for (int64_t j = 0; j < 40; ++j) {
          double sum = 0;
          double slack = 0;
          for (int64_t i = 0; i < 200; ++i) {
            const double weight = codes.weight(j, i);
            sum += double{x.get(r, i)} * weight;
            slack += 1e-5 * std::fabs(double{x.get(r, i)} * weight);
            // Mins are subtracted separately, which rounds a second time.
            if (half_step > 0.0)
              slack +=
                  half_step * largest * std::fabs(weight) + 1e-5 * largest * (format.minima ? 10.0 : 0.0);
          }
          ASSERT_NEAR(out.get(r, j), sum, slack) << "row " << r << ", column " << j << named(activations);
        }
      }
    }
  }
}

TEST(LinearQuantized, ResultsDoNotDependOnTheBatch) {
  const int64_t k = 523;
  const int64_t n = 167;
  const TestTensor x = random_tensor(DType::kF32, {210, k}, 7);
  const int64_t step = test::repetitions(1, 15);  // between the rows that are compared
  RandomCodes whole(
      {.code_bits = 4, .group_size = 32, .block_size = 32, .zero_point = 8, .half_scales = true}, n, k, 8);
  whole.add_outliers(9);
  const RandomCodes table({.code_bits = 4,
                           .group_size = 56,
                           .block_size = 56,
                           .values = CodeValues::kTable,
                           .table = nf4_values()},
                          n, k, 9);
  RandomCodes row_tables({.code_bits = 4, .group_size = 0, .block_size = 0, .values = CodeValues::kRowTable},
                         n, k, 10);
  row_tables.add_outliers(11);
  for (const auto& [isa, activations] : isas_and_activations()) {
    // Tables of non-integers have no integer products.
    const bool floats = activations == ActivationFormat::kFloat;
    for (const RandomCodes* codes : floats ? std::vector<const RandomCodes*>{&whole, &table, &row_tables}
                                           : std::vector<const RandomCodes*>{&whole}) {
      const PackedLinear packed = pack(*isa.table, *codes, activations);
      const TestContext ctx(*isa.table);
      const TestContext threads(*isa.table, 3);
      const TestTensor alone(DType::kF32, {210, n});
      for (int64_t r = 0; r < 210; r += step)
        isa.table->run(
            ctx, ops::Linear{.out = row_slice(alone, r, r + 1), .x = row_slice(x, r, r + 1), .w = packed});
      for (const int64_t m : {2, 3, 4, 5, 7, 8, 9, 12, 13, 31, 64, 193, 210}) {
        if (test::kSanitizer && m != 31 && m != 210) continue;
        const TestTensor out(DType::kF32, {m, n});
        isa.table->run(m % 2 == 0 ? ctx : threads,
                       ops::Linear{.out = out, .x = row_slice(x, 210 - m, 210), .w = packed});
        for (int64_t row = (210 - m + step - 1) / step * step; row < 210; row += step)
          ASSERT_TRUE(same_row(out, row - 210 + m, alone, row))
              << isa.name << ", " << row - 210 + m << " of " << m;
      }
    }
  }
}

// A feature that is much larger than the others reduces their precision if they are quantized together.
TEST(LinearQuantized, OutlierActivationsAreNotQuantizedWithTheOthers) {
  const int64_t k = 256;
  const int64_t n = 70;
  TestTensor x = random_tensor(DType::kF32, {3, k}, 7, 0, 0.5F);
  x.set(1, 17, 80.0F);
  x.set(1, 200, -60.0F);
  const RandomCodes codes({.code_bits = 8, .group_size = 0, .block_size = 0, .zero_point = 128}, n, k, 8);
  for (const CpuIsa& isa : usable_isas()) {
    const TestContext ctx(*isa.table);
    const auto product = [&](ActivationFormat activations, float threshold) {
      TestTensor out(DType::kF32, {3, n});
      PackedLinear packed = pack(*isa.table, codes, activations);
      packed.format.outlier_threshold = threshold;
      isa.table->run(ctx, ops::Linear{.out = out, .x = x, .w = packed});
      return out;
    };
    const TestTensor exact = product(ActivationFormat::kFloat, 6.0F);
    EXPECT_TRUE(same_rows(exact, product(ActivationFormat::kFloat, 0.0F))) << isa.name;
    const TestTensor rounded = product(ActivationFormat::kInt8, 0.0F);
    const TestTensor apart = product(ActivationFormat::kInt8, 6.0F);
    const auto error = [&](const TestTensor& got, int64_t row) {
      double sum = 0.0;
      for (int64_t j = 0; j < n; ++j) sum += std::pow(double{got.get(row, j)} - double{exact.get(row, j)}, 2);
      return std::sqrt(sum / static_cast<double>(n));
    };
    // Rows without outliers do not change.
    for (const int64_t row : {0, 2}) EXPECT_TRUE(same_row(apart, row, rounded, row)) << isa.name;
    EXPECT_LT(error(apart, 1), 2.0 * error(rounded, 0)) << isa.name;
    EXPECT_GT(error(rounded, 1), 20.0 * error(apart, 1)) << isa.name;
  }
}

TEST(LinearQuantized, ReordersActivationsLikeTheColumns) {
  const int64_t k = 96;
  std::vector<int32_t> order(k);
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), std::mt19937(3));
  const QuantFormat format = {.code_bits = 4, .group_size = 32, .block_size = 32, .zero_point = 8};
  const RandomCodes sorted(format, 50, k, 5);
  const RandomCodes permuted(format, 50, k, 5, order);
  const TestTensor x = random_tensor(DType::kF32, {17, k}, 6);
  TestTensor gathered(DType::kF32, {17, k});
  for (int64_t r = 0; r < 17; ++r) {
    for (int64_t i = 0; i < k; ++i) gathered.set(r, i, x.get(r, permuted.feature(i)));
  }
  const std::vector<int32_t> ids = {49, 3};
  for (const auto& [isa, activations] : isas_and_activations()) {
    const PackedLinear packed = pack(*isa.table, permuted, activations);
    const TestTensor want(DType::kF32, {17, 50});
    isa.table->run(TestContext(*isa.table),
                   ops::Linear{.out = want, .x = gathered, .w = pack(*isa.table, sorted, activations)});
    const TestTensor out(DType::kF32, {17, 50});
    isa.table->run(TestContext(*isa.table, 2), ops::Linear{.out = out, .x = x, .w = packed});
    EXPECT_TRUE(same_rows(out, want)) << isa.name;
    std::vector<std::byte> room(64 + 5 * k * sizeof(float));  // rows are processed in several parts
    isa.table->run({nullptr, room}, ops::Linear{.out = out, .x = x, .w = packed});
    EXPECT_TRUE(same_rows(out, want)) << isa.name;
    const TestTensor rows(DType::kF32, {2, k});
    isa.table->run(TestContext(*isa.table), ops::PackedEmbedding{.out = rows, .table = packed, .ids = ids});
    for (int64_t r = 0; r < 2; ++r) {
      for (int64_t i = 0; i < k; ++i)
        EXPECT_EQ(rows.get(r, permuted.feature(i)), permuted.weight(ids[static_cast<size_t>(r)], i))
            << isa.name;
    }
  }
}

TEST(LinearQuantized, NanCodesGiveNanInTheirOutputOnly) {
  RandomCodes codes({.code_bits = 8,
                     .group_size = 32,
                     .block_size = 32,
                     .values = CodeValues::kTable,
                     .table = e4m3_values()},
                    40, 96, 9);
  codes.set_code(3, 50, 0x7f);
  const TestTensor x = random_tensor(DType::kF32, {2, 96}, 6);
  for (const CpuIsa& isa : usable_isas()) {
    const TestTensor out(DType::kF32, {2, 40});
    isa.table->run(TestContext(*isa.table), ops::Linear{.out = out, .x = x, .w = pack(*isa.table, codes)});
    for (int64_t j = 0; j < 40; ++j) EXPECT_EQ(std::isnan(out.get(1, j)), j == 3) << isa.name << ", " << j;
  }
}

TEST(LinearQuantized, NonFiniteActivationsGiveNanInTheirRowOnly) {
  const RandomCodes codes({.code_bits = 4, .group_size = 32, .block_size = 32, .zero_point = 8}, 40, 96, 9);
  for (const auto& [isa, activations] : isas_and_activations()) {
    for (const int64_t m : {2, 13}) {
      TestTensor x = random_tensor(DType::kF32, {m, 96}, 6);
      const PackedLinear packed = pack(*isa.table, codes, activations);
      const TestTensor want(DType::kF32, {m, 40});
      isa.table->run(TestContext(*isa.table), ops::Linear{.out = want, .x = x, .w = packed});
      x.set(1, 70, std::numeric_limits<float>::infinity());
      const TestTensor out(DType::kF32, {m, 40});
      isa.table->run(TestContext(*isa.table), ops::Linear{.out = out, .x = x, .w = packed});
      for (int64_t r = 0; r < m; ++r) {
        if (r != 1) {
          ASSERT_TRUE(same_row(out, r, want, r)) << isa.name << ", " << r << " of " << m;
          continue;
        }
        for (int64_t j = 0; j < 40; ++j) ASSERT_TRUE(std::isnan(out.get(1, j))) << isa.name << ", " << j;
      }
    }
  }
}

TEST(LinearQuantized, StackedPartsArePackedIndependently) {
  const QuantFormat format = {.code_bits = 3, .group_size = 16, .block_size = 64, .minima = true};
  const RandomCodes a(format, 20, 100, 1);
  const RandomCodes b(format, 1, 100, 2);
  const RandomCodes c(format, 60, 100, 3);
  const TestTensor x = random_tensor(DType::kF32, {3, 100}, 20);
  const std::vector<const QuantizedMatrix*> parts = {&a, &b, &c};
  for (const CpuIsa& isa : usable_isas()) {
    const TestContext ctx(*isa.table, 2);
    const TestTensor whole(DType::kF32, {3, 81});
    isa.table->run(ctx, ops::Linear{.out = whole, .x = x, .w = isa.table->pack_quantized(ctx, parts)});
    int64_t column = 0;
    for (const QuantizedMatrix* part : parts) {
      const TestTensor own(DType::kF32, {3, part->rows()});
      isa.table->run(ctx, ops::Linear{.out = own, .x = x, .w = pack(*isa.table, *part)});
      EXPECT_TRUE(same_rows(column_slice(whole, column, column + part->rows()), own)) << isa.name;
      column += part->rows();
    }
  }
}

TEST(LinearQuantized, RejectsMismatchedPartsAndUnsupportedFormats) {
  const QuantFormat format = {.code_bits = 4, .group_size = 32, .block_size = 32};
  QuantFormat other = format;
  other.zero_point = 8;
  const RandomCodes a(format, 8, 64, 1);
  const RandomCodes b(other, 8, 64, 2);
  const RandomCodes c(format, 8, 32, 3);
  const RandomCodes wrong({.code_bits = 4, .group_size = 12, .block_size = 12}, 8, 24, 3);
  const RandomCodes outside(format, 8, 2, 3, {0, 2});
  const auto pack_all = [](std::vector<const QuantizedMatrix*> parts) {
    return reference_ops().pack_quantized({}, parts);
  };
  EXPECT_THROW(pack_all({}), Error);
  EXPECT_THROW(pack_all({&a, &b}), Error);
  EXPECT_THROW(pack_all({&a, &c}), Error);
  EXPECT_THROW(pack_all({&wrong}), Error);
  EXPECT_THROW(pack_all({&outside}), Error);
}

TEST(LinearQuantized, PackedSizeIsCloseToTheCodes) {
  const auto bits = [](const QuantFormat& format) {
    return bits_per_weight({.dtype = DType::kU8, .quantized = format}, 4096);
  };
  EXPECT_EQ(bits({.code_bits = 4, .group_size = 32, .block_size = 32, .half_scales = true}), 4.5);
  EXPECT_EQ(bits({.code_bits = 4, .group_size = 128, .block_size = 128, .half_scales = true}), 4.125);
  EXPECT_EQ(bits({.code_bits = 4, .group_size = 32, .block_size = 256, .minima = true, .half_scales = true}),
            4.625);
  EXPECT_EQ(bits({.code_bits = 6, .group_size = 16, .block_size = 256, .half_scales = true}), 6.5625);
  EXPECT_EQ(bits({.code_bits = 3, .group_size = 128, .block_size = 128, .half_scales = true}), 3.125);
  EXPECT_EQ(bits({.code_bits = 8, .group_size = 32, .block_size = 32, .half_scales = true}), 8.5);
}

}  // namespace
}  // namespace quire
