#include "io/gguf/ggml_type.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <vector>

#include "io/gguf/ggml_grids.h"

namespace quire {
namespace {

constexpr int64_t kSuper = 256;  // elements of a super-block, which has two levels of scales

constexpr std::array<float, 16> kIq4Values = {-127, -104, -83, -65, -49, -35, -22, -10,
                                              1,    13,   25,  38,  53,  69,  89,  113};
// Twice the values of e2m1.
constexpr std::array<float, 16> kE2m1Values = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
// Magnitudes of the codebooks, followed by their negatives.
constexpr std::array<float, 8> kIq2Values = {8, 25, 43, 0, -8, -25, -43, 0};
constexpr std::array<float, 16> kIq3XxsValues = {4,  12,  20,  28,  36,  44,  52,  62,
                                                 -4, -12, -20, -28, -36, -44, -52, -62};
constexpr std::array<float, 16> kIq3SValues = {1, 3, 5, 7, 9, 11, 13, 15, -1, -3, -5, -7, -9, -11, -13, -15};
// -1, 0 and 1 plus 1/8, then (from the fifth entry on) minus 1/8.
constexpr std::array<float, 8> kIq1Values = {-0.875F, 0.125F, 1.125F, 0, -1.125F, -0.125F, 0.875F, 0};

template <typename T>
T load(const uint8_t* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}
float half(const uint8_t* at) {
  return f16_to_f32(load<uint16_t>(at));
}

// n bytes: their low halves, then their high halves.
void unpack_nibbles(const uint8_t* in, int n, uint8_t* codes) {
  for (int i = 0; i < n; ++i) {
    codes[i] = in[i] & 0xF;
    codes[n + i] = in[i] >> 4;
  }
}
// Adds bit i of a little-endian mask as the fifth bit of code i.
void add_fifth_bits(uint32_t mask, uint8_t* codes) {
  for (uint32_t i = 0; i < 32; ++i) codes[i] |= static_cast<uint8_t>((mask >> i & 1) << 4);
}

void unpack_q4_0(const uint8_t* in, const GgmlBlock& out) {
  out.block_scales[0] = half(in);
  unpack_nibbles(in + 2, 16, out.codes);
}
void unpack_q4_1(const uint8_t* in, const GgmlBlock& out) {
  out.block_scales[0] = half(in);
  out.block_minima[0] = -half(in + 2);
  unpack_nibbles(in + 4, 16, out.codes);
}
void unpack_q5_0(const uint8_t* in, const GgmlBlock& out) {
  out.block_scales[0] = half(in);
  unpack_nibbles(in + 6, 16, out.codes);
  add_fifth_bits(load<uint32_t>(in + 2), out.codes);
}
void unpack_q5_1(const uint8_t* in, const GgmlBlock& out) {
  out.block_scales[0] = half(in);
  out.block_minima[0] = -half(in + 2);
  unpack_nibbles(in + 8, 16, out.codes);
  add_fifth_bits(load<uint32_t>(in + 4), out.codes);
}
void unpack_q8_0(const uint8_t* in, const GgmlBlock& out) {
  out.block_scales[0] = half(in);
  for (int i = 0; i < 32; ++i) out.codes[i] = in[2 + i] ^ 0x80;
}

// 64 bytes with four 2-bit codes each: per 32 bytes, the lowest pair of all of them first.
void unpack_pairs(const uint8_t* in, uint8_t* codes) {
  for (int half = 0; half < 2; ++half) {
    for (int shift = 0; shift < 4; ++shift) {
      for (int i = 0; i < 32; ++i) *codes++ = in[32 * half + i] >> (2 * shift) & 3;
    }
  }
}

void unpack_q2_k(const uint8_t* in, const GgmlBlock& out) {
  for (int g = 0; g < 16; ++g) {
    out.group_scales[g] = static_cast<int8_t>(in[g] & 0xF);
    out.group_minima[g] = in[g] >> 4;
  }
  unpack_pairs(in + 16, out.codes);
  out.block_scales[0] = half(in + 80);
  out.block_minima[0] = half(in + 82);
}

void unpack_q3_k(const uint8_t* in, const GgmlBlock& out) {
  unpack_pairs(in + 32, out.codes);
  for (int i = 0; i < kSuper; ++i) out.codes[i] |= static_cast<uint8_t>((in[i % 32] >> (i / 32) & 1) << 2);
  const uint8_t* scales = in + 96;
  for (int g = 0; g < 16; ++g) {
    const int low = scales[g % 8] >> (4 * (g / 8)) & 0xF;
    const int high = scales[8 + g % 4] >> (2 * (g / 4)) & 3;
    out.group_scales[g] = static_cast<int8_t>((low | high << 4) - 32);
  }
  out.block_scales[0] = half(in + 108);
}

// Eight 6-bit scales and eight 6-bit mins in twelve bytes.
void unpack_six_bits(const uint8_t* in, const GgmlBlock& out) {
  for (int g = 0; g < 4; ++g) {
    out.group_scales[g] = static_cast<int8_t>(in[g] & 0x3F);
    out.group_minima[g] = in[4 + g] & 0x3F;
    out.group_scales[4 + g] = static_cast<int8_t>((in[8 + g] & 0xF) | (in[g] >> 2 & 0x30));
    out.group_minima[4 + g] = static_cast<uint8_t>(in[8 + g] >> 4 | (in[4 + g] >> 2 & 0x30));
  }
}

void unpack_q4_k(const uint8_t* in, const GgmlBlock& out) {
  out.block_scales[0] = half(in);
  out.block_minima[0] = half(in + 2);
  unpack_six_bits(in + 4, out);
  for (int i = 0; i < 4; ++i) unpack_nibbles(in + 16 + 32 * i, 32, out.codes + 64 * i);
}
void unpack_q5_k(const uint8_t* in, const GgmlBlock& out) {
  out.block_scales[0] = half(in);
  out.block_minima[0] = half(in + 2);
  unpack_six_bits(in + 4, out);
  for (int i = 0; i < 4; ++i) unpack_nibbles(in + 48 + 32 * i, 32, out.codes + 64 * i);
  for (int i = 0; i < kSuper; ++i)
    out.codes[i] |= static_cast<uint8_t>((in[16 + i % 32] >> (i / 32) & 1) << 4);
}
void unpack_q6_k(const uint8_t* in, const GgmlBlock& out) {
  for (int i = 0; i < 2; ++i) unpack_nibbles(in + 64 * i, 64, out.codes + 128 * i);
  for (int i = 0; i < kSuper; ++i) {
    const int high = in[128 + 32 * (i / 128) + i % 32] >> (2 * (i / 32 % 4)) & 3;
    out.codes[i] |= static_cast<uint8_t>(high << 4);
  }
  std::memcpy(out.group_scales, in + 192, 16);
  out.block_scales[0] = half(in + 208);
}

void unpack_iq4_xs(const uint8_t* in, const GgmlBlock& out) {
  out.block_scales[0] = half(in);
  const auto high = load<uint16_t>(in + 2);
  for (int g = 0; g < 8; ++g) {
    const int low = in[4 + g / 2] >> (4 * (g % 2)) & 0xF;
    out.group_scales[g] = static_cast<int8_t>((low | (high >> (2 * g) & 3) << 4) - 32);
    unpack_nibbles(in + 8 + 16 * g, 16, out.codes + 32 * g);
  }
}

// 2^(e - 128)
float e8m0_half(uint8_t e) {
  return std::bit_cast<float>(e < 2 ? 0x00200000U << e : static_cast<uint32_t>(e - 1) << 23);
}
void unpack_mxfp4(const uint8_t* in, const GgmlBlock& out) {
  out.block_scales[0] = e8m0_half(in[0]);
  unpack_nibbles(in + 1, 16, out.codes);
}
// Half of an unsigned e4m3 number.
float ue4m3_half(uint8_t x) {
  return (x & 0x7F) == 0x7F ? 0.0F : 0.5F * f8e4m3_to_f32(x & 0x7F);
}
void unpack_nvfp4(const uint8_t* in, const GgmlBlock& out) {
  for (int g = 0; g < 4; ++g) {
    out.block_scales[g] = ue4m3_half(in[g]);
    unpack_nibbles(in + 4 + 8 * g, 8, out.codes + 16 * g);
  }
}

// A base-3 digit of a fraction of 256.
uint8_t ternary(uint8_t byte, uint8_t power) {
  return static_cast<uint8_t>(static_cast<uint8_t>(byte * power) * 3 >> 8);
}
void unpack_tq1_0(const uint8_t* in, const GgmlBlock& out) {
  constexpr std::array<uint8_t, 5> kPowers = {1, 3, 9, 27, 81};
  uint8_t* code = out.codes;
  const auto take = [&](const uint8_t* bytes, int n, size_t digits) {
    for (size_t d = 0; d < digits; ++d) {
      for (int i = 0; i < n; ++i) *code++ = ternary(bytes[i], kPowers[d]);
    }
  };
  take(in, 32, 5);
  take(in + 32, 16, 5);
  take(in + 48, 4, 4);
  out.block_scales[0] = half(in + 52);
}
void unpack_tq2_0(const uint8_t* in, const GgmlBlock& out) {
  unpack_pairs(in, out.codes);
  out.block_scales[0] = half(in + 64);
}

// Eight codes of a codebook entry (`bits` each) with a sign each.
void put_signed(uint32_t entry, uint32_t bits, int n, uint32_t signs, uint8_t* codes) {
  for (int i = 0; i < n; ++i) {
    const uint32_t magnitude = entry >> (bits * static_cast<uint32_t>(i)) & ((1U << bits) - 1);
    codes[i] = static_cast<uint8_t>(magnitude | (signs >> i & 1) << (bits == 2 ? 2 : 3));
  }
}
// Seven signs are stored; the eighth makes the number of negative signs even.
uint32_t even_signs(uint32_t seven) {
  seven &= 0x7F;
  return seven | static_cast<uint32_t>(std::popcount(seven) & 1) << 7;
}
int8_t odd(uint32_t s) {
  return static_cast<int8_t>(2 * s + 1);
}

void unpack_iq2_xxs(const uint8_t* in, const GgmlBlock& out) {
  out.block_scales[0] = half(in) * 0.125F;
  for (int g = 0; g < 8; ++g) {
    const uint8_t* part = in + 2 + 8 * g;
    const auto word = load<uint32_t>(part + 4);
    out.group_scales[g] = odd(word >> 28);
    for (int j = 0; j < 4; ++j)
      put_signed(kIq2XxsGrid[part[j]], 2, 8, even_signs(word >> (7 * j)), out.codes + 32 * g + 8 * j);
  }
}
void unpack_iq2_xs(const uint8_t* in, const GgmlBlock& out) {
  out.block_scales[0] = half(in) * 0.125F;
  for (int g = 0; g < 16; ++g) {
    out.group_scales[g] = odd(in[66 + g / 2] >> (4 * (g % 2)) & 0xFU);
    for (int j = 2 * g; j < 2 * g + 2; ++j) {
      const uint32_t word = load<uint16_t>(in + 2 + 2 * j);
      put_signed(kIq2XsGrid[word & 511], 2, 8, even_signs(word >> 9), out.codes + 8 * j);
    }
  }
}
void unpack_iq2_s(const uint8_t* in, const GgmlBlock& out) {
  out.block_scales[0] = half(in) * 0.125F;
  for (int g = 0; g < 16; ++g) out.group_scales[g] = odd(in[74 + g / 2] >> (4 * (g % 2)) & 0xFU);
  for (int j = 0; j < 32; ++j) {
    const uint32_t high = in[66 + j / 4] >> (2 * (j % 4)) & 3U;
    put_signed(kIq2SGrid[in[2 + j] | high << 8], 2, 8, in[34 + j], out.codes + 8 * j);
  }
}
void unpack_iq3_xxs(const uint8_t* in, const GgmlBlock& out) {
  out.block_scales[0] = half(in) * 0.25F;
  for (int g = 0; g < 8; ++g) {
    const auto word = load<uint32_t>(in + 66 + 4 * g);
    out.group_scales[g] = odd(word >> 28);
    for (int j = 0; j < 8; ++j) {
      const uint32_t signs = even_signs(word >> (7 * (j / 2))) >> (4 * (j % 2));
      put_signed(kIq3XxsGrid[in[2 + 8 * g + j]], 3, 4, signs, out.codes + 32 * g + 4 * j);
    }
  }
}
void unpack_iq3_s(const uint8_t* in, const GgmlBlock& out) {
  out.block_scales[0] = half(in);
  for (int g = 0; g < 8; ++g) out.group_scales[g] = odd(in[106 + g / 2] >> (4 * (g % 2)) & 0xFU);
  for (int j = 0; j < 64; ++j) {
    const uint32_t high = in[66 + j / 8] >> (j % 8) & 1U;
    const uint32_t signs = in[74 + j / 2] >> (4 * (j % 2));
    put_signed(kIq3SGrid[in[2 + j] | high << 8], 3, 4, signs, out.codes + 4 * j);
  }
}
// Eight codes of an entry of the ternary codebook; shift: minus 1/8 instead of plus 1/8.
void put_ternary(uint32_t entry, bool shift, uint8_t* codes) {
  for (int i = 0; i < 8; ++i) codes[i] = static_cast<uint8_t>((entry >> (2 * i) & 3) | (shift ? 4 : 0));
}
void unpack_iq1_s(const uint8_t* in, const GgmlBlock& out) {
  out.block_scales[0] = half(in);
  for (int g = 0; g < 8; ++g) {
    const uint32_t word = load<uint16_t>(in + 34 + 2 * g);
    out.group_scales[g] = odd(word >> 12 & 7);
    for (int j = 0; j < 4; ++j) {
      const uint32_t index = in[2 + 4 * g + j] | (word >> (3 * j) & 7) << 8;
      put_ternary(kIq1Grid[index], (word & 0x8000) != 0, out.codes + 32 * g + 8 * j);
    }
  }
}
void unpack_iq1_m(const uint8_t* in, const GgmlBlock& out) {
  uint16_t scale = 0;
  for (int i = 0; i < 4; ++i) {
    const auto word = load<uint16_t>(in + 48 + 2 * i);
    scale |= static_cast<uint16_t>(word >> 12 << (4 * i));
    for (int j = 0; j < 4; ++j) out.group_scales[4 * i + j] = odd(word >> (3 * j) & 7U);
  }
  out.block_scales[0] = f16_to_f32(scale);
  for (int j = 0; j < 32; ++j) {
    const uint32_t high = in[32 + j / 2] >> (4 * (j % 2));
    put_ternary(kIq1Grid[in[j] | (high & 7) << 8], (high & 8) != 0, out.codes + 8 * j);
  }
}

constexpr QuantFormat linear(int32_t bits, int64_t group, int64_t block, int32_t zero, bool minima = false) {
  return {.code_bits = bits,
          .group_size = group,
          .block_size = block,
          .zero_point = zero,
          .minima = minima,
          .half_scales = true};
}
constexpr QuantFormat table(int32_t bits, int64_t group, int64_t block, std::span<const float> values,
                            bool half_scales = false) {
  return {.code_bits = bits,
          .group_size = group,
          .block_size = block,
          .values = CodeValues::kTable,
          .table = values,
          .half_scales = half_scales};
}

const std::array<GgmlType, 27> kGgmlTypes = {{
    {0, "F32", 1, 4, DType::kF32},
    {1, "F16", 1, 2, DType::kF16},
    {30, "BF16", 1, 2, DType::kBF16},
    {2, "Q4_0", 32, 18, {}, linear(4, 32, 32, 8), unpack_q4_0},
    {3, "Q4_1", 32, 20, {}, linear(4, 32, 32, 0, true), unpack_q4_1},
    {6, "Q5_0", 32, 22, {}, linear(5, 32, 32, 16), unpack_q5_0},
    {7, "Q5_1", 32, 24, {}, linear(5, 32, 32, 0, true), unpack_q5_1},
    {8, "Q8_0", 32, 34, {}, linear(8, 32, 32, 128), unpack_q8_0},
    {10, "Q2_K", kSuper, 84, {}, linear(2, 16, kSuper, 0, true), unpack_q2_k},
    {11, "Q3_K", kSuper, 110, {}, linear(3, 16, kSuper, 4), unpack_q3_k},
    {12, "Q4_K", kSuper, 144, {}, linear(4, 32, kSuper, 0, true), unpack_q4_k},
    {13, "Q5_K", kSuper, 176, {}, linear(5, 32, kSuper, 0, true), unpack_q5_k},
    {14, "Q6_K", kSuper, 210, {}, linear(6, 16, kSuper, 32), unpack_q6_k},
    {16, "IQ2_XXS", kSuper, 66, {}, table(3, 32, kSuper, kIq2Values), unpack_iq2_xxs},
    {17, "IQ2_XS", kSuper, 74, {}, table(3, 16, kSuper, kIq2Values), unpack_iq2_xs},
    {22, "IQ2_S", kSuper, 82, {}, table(3, 16, kSuper, kIq2Values), unpack_iq2_s},
    {18, "IQ3_XXS", kSuper, 98, {}, table(4, 32, kSuper, kIq3XxsValues), unpack_iq3_xxs},
    {21, "IQ3_S", kSuper, 110, {}, table(4, 32, kSuper, kIq3SValues, true), unpack_iq3_s},
    {19, "IQ1_S", kSuper, 50, {}, table(3, 32, kSuper, kIq1Values, true), unpack_iq1_s},
    {29, "IQ1_M", kSuper, 56, {}, table(3, 16, kSuper, kIq1Values, true), unpack_iq1_m},
    {20, "IQ4_NL", 32, 18, {}, table(4, 32, 32, kIq4Values, true), unpack_q4_0},
    {23, "IQ4_XS", kSuper, 136, {}, table(4, 32, kSuper, kIq4Values, true), unpack_iq4_xs},
    {34, "TQ1_0", kSuper, 54, {}, linear(2, kSuper, kSuper, 1), unpack_tq1_0},
    {35, "TQ2_0", kSuper, 66, {}, linear(2, kSuper, kSuper, 1), unpack_tq2_0},
    {39, "MXFP4", 32, 17, {}, table(4, 32, 32, kE2m1Values), unpack_mxfp4},
    {40, "NVFP4", 64, 36, {}, table(4, 16, 16, kE2m1Values), unpack_nvfp4},
    {28, "F64", 1, 8, DType::kF64},
}};

struct NamedId {
  uint32_t id;
  std::string_view name;
};
constexpr std::array<NamedId, 7> kUnsupported = {
    {{9, "Q8_1"}, {15, "Q8_K"}, {24, "I8"}, {25, "I16"}, {26, "I32"}, {27, "I64"}, {41, "Q1_0"}}};

class GgmlMatrix : public QuantizedMatrix {
 public:
  GgmlMatrix(const GgmlType& type, std::span<const std::byte> data, int64_t rows, int64_t cols,
             std::span<const int32_t> order)
      : type_(type), data_(data), rows_(rows), cols_(cols), order_(order.begin(), order.end()) {}

  const QuantFormat& format() const override { return type_.format; }
  const GgmlType& type() const { return type_; }
  int64_t rows() const override { return rows_; }
  int64_t cols() const override { return cols_; }

  void read_rows(int64_t first, std::span<const QuantizedRow> out) const override {
    const QuantFormat& format = type_.format;
    const int64_t groups = type_.elements / format.group_size;
    const int64_t blocks = type_.elements / format.block_size;
    const size_t row_bytes = type_.bytes_of(cols_);
    for (size_t i = 0; i < out.size(); ++i) {
      const auto row = static_cast<size_t>(first) + i;
      const size_t stored = order_.empty() ? row : static_cast<size_t>(order_[row]);
      const auto* block = reinterpret_cast<const uint8_t*>(data_.data()) + stored * row_bytes;
      GgmlBlock to = {out[i].codes.data(), out[i].block_scales.data(), out[i].group_scales.data(),
                      out[i].block_minima.data(), out[i].group_minima.data()};
      for (int64_t k = 0; k < cols_; k += type_.elements, block += type_.bytes) {
        type_.unpack(block, to);
        to.codes += type_.elements;
        to.block_scales += blocks;
        if (format.two_levels()) to.group_scales += groups;
        if (!format.minima) continue;
        to.block_minima += blocks;
        if (format.two_levels()) to.group_minima += groups;
      }
    }
  }

 private:
  const GgmlType& type_;
  std::span<const std::byte> data_;
  int64_t rows_;
  int64_t cols_;
  std::vector<int32_t> order_;
};

}  // namespace

std::span<const GgmlType> ggml_types() {
  return kGgmlTypes;
}

const GgmlType* find_ggml_type(uint32_t id) {
  const auto at =
      std::find_if(kGgmlTypes.begin(), kGgmlTypes.end(), [&](const auto& t) { return t.id == id; });
  return at == kGgmlTypes.end() ? nullptr : &*at;
}
const GgmlType* find_ggml_type(std::string_view name) {
  const auto at =
      std::find_if(kGgmlTypes.begin(), kGgmlTypes.end(), [&](const auto& t) { return t.name == name; });
  return at == kGgmlTypes.end() ? nullptr : &*at;
}

std::string_view ggml_type_name(uint32_t id) {
  if (const GgmlType* type = find_ggml_type(id)) return type->name;
  for (const auto& row : kUnsupported) {
    if (row.id == id) return row.name;
  }
  return "";
}

std::string_view ggml_type_name(const QuantizedMatrix& matrix) {
  const auto* known = dynamic_cast<const GgmlMatrix*>(&matrix);
  return known == nullptr ? std::string_view() : known->type().name;
}

std::unique_ptr<QuantizedMatrix> make_ggml_matrix(const GgmlType& type, std::span<const std::byte> data,
                                                  int64_t rows, int64_t cols,
                                                  std::span<const int32_t> order) {
  return std::make_unique<GgmlMatrix>(type, data, rows, cols, order);
}

}  // namespace quire
