#include "io/gguf/ggml_encode.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "quant/codec.h"
#include "quant/int_rounding.h"

namespace quire {
namespace {

constexpr size_t kSuperBlock = 256;
constexpr size_t kMaxGroups = 16;  // maximum number of groups per block

void put_half(float v, uint8_t* out) {
  const uint16_t half = f32_to_f16(v);
  std::memcpy(out, &half, sizeof(half));
}
float stored_half(float v) {
  return f16_to_f32(f32_to_f16(v));
}

// The nearest index of an ascending table: the number of midpoints below v.
uint8_t nearest_number(std::span<const float> table, float v) {
  int32_t below = 0;
  for (size_t i = 1; i < table.size(); ++i) below += v > 0.5F * (table[i - 1] + table[i]) ? 1 : 0;
  return static_cast<uint8_t>(below);
}

// Packs n codes of four bits: the low halves of n / 2 bytes, then the high halves.
void put_nibbles(const uint8_t* codes, size_t n, uint8_t* out) {
  for (size_t i = 0; i < n / 2; ++i)
    out[i] = static_cast<uint8_t>((codes[i] & 15) | (codes[n / 2 + i] & 15) << 4);
}
void put_fifth_bits(const uint8_t* codes, uint8_t* out) {
  uint32_t mask = 0;
  for (size_t i = 0; i < 32; ++i) mask |= static_cast<uint32_t>(codes[i] >> 4 & 1) << i;
  std::memcpy(out, &mask, sizeof(mask));
}

// Quantizes 32 values symmetrically; the value with the largest magnitude gets the lowest code.
float symmetric(const float* x, int32_t middle, uint8_t* codes) {
  float extreme = 0.0F;
  for (size_t i = 0; i < 32; ++i) {
    if (std::fabs(x[i]) > std::fabs(extreme)) extreme = x[i];
  }
  const float scale = extreme / static_cast<float>(-middle);
  const float inverse = scale == 0.0F ? 0.0F : 1.0F / scale;
  for (size_t i = 0; i < 32; ++i) {
    const float v = std::trunc(x[i] * inverse + (static_cast<float>(middle) + 0.5F));
    codes[i] = static_cast<uint8_t>(std::clamp(v, 0.0F, static_cast<float>(2 * middle - 1)));
  }
  return scale;
}
// Quantizes 32 values with the smallest value as offset.
float with_minimum(const float* x, int32_t max_code, float& offset, uint8_t* codes) {
  const auto [low, high] = std::minmax_element(x, x + 32);
  offset = *low;
  const float scale = (*high - offset) / static_cast<float>(max_code);
  const float inverse = scale == 0.0F ? 0.0F : 1.0F / scale;
  for (size_t i = 0; i < 32; ++i) {
    const float v = std::trunc((x[i] - offset) * inverse + 0.5F);
    codes[i] = static_cast<uint8_t>(std::clamp(v, 0.0F, static_cast<float>(max_code)));
  }
  return scale;
}

// x = scale * code - minimum, where minimum is not negative.
struct Affine {
  float scale = 0.0F;
  float minimum = 0.0F;
};

// Search for the parameters of n values with codes 0 to max_code. importance: weights of the squared errors;
// null = equal weights.
struct AffineSearch {
  const float* x;
  const float* importance;
  size_t n;
  int32_t max_code;

  double weight(size_t i) const { return importance == nullptr ? 1.0 : importance[i]; }
  float code(const Affine& line, float v) const {
    // Adding this constant rounds values below 2^22 to integers; calling nearbyint would dominate the run
    // time.
    constexpr float kWhole = 12582912.0F;
    return std::clamp((v + line.minimum) / line.scale, 0.0F, static_cast<float>(max_code)) + kWhole - kWhole;
  }

  double error(const Affine& line) const {
    double sum = 0.0;
    for (size_t i = 0; i < n; ++i) {
      const double d = line.scale * code(line, x[i]) - line.minimum - x[i];
      sum += weight(i) * d * d;
    }
    return sum;
  }

  // The least-squares parameters for the codes that `line` gives.
  Affine fitted(const Affine& line) const {
    double count = 0.0;
    double q = 0.0;
    double qq = 0.0;
    double qx = 0.0;
    double sum = 0.0;
    for (size_t i = 0; i < n; ++i) {
      const double c = code(line, x[i]);
      const double own = weight(i);
      count += own;
      q += own * c;
      qq += own * c * c;
      qx += own * c * x[i];
      sum += own * x[i];
    }
    const double determinant = count * qq - q * q;
    if (!(determinant > 0.0)) return line;
    const double scale = (count * qx - q * sum) / determinant;
    const double minimum = (q * qx - qq * sum) / determinant;
    if (scale > 0.0 && minimum >= 0.0) return {static_cast<float>(scale), static_cast<float>(minimum)};
    return qx > 0.0 ? Affine{static_cast<float>(qx / qq), 0.0F} : line;
  }

  // Tries the range of the values and clipped ranges, where clipping is on both sides or on one. Each is
  // fitted twice; the one with the smallest error is used.
  Affine best() const {
    constexpr std::array<float, 9> kWidths = {1.0F, 1.04F, 0.97F, 0.94F, 0.91F, 0.88F, 0.85F, 0.81F, 0.76F};
    float low = 0.0F;
    float high = x[0];
    for (size_t i = 0; i < n; ++i) {
      low = std::min(low, x[i]);
      high = std::max(high, x[i]);
    }
    Affine found{0.0F, -low};
    if (!(high - low > 1e-36F)) return found;
    double min_error = std::numeric_limits<double>::infinity();
    const auto step = (high - low) / static_cast<float>(max_code);
    for (const float width : kWidths) {
      for (const float cut : {0.0F, 0.5F, 1.0F}) {  // fraction of the clipping that is at the lower end
        Affine line{step * width, std::max(0.0F, -low - (high - low) * (1.0F - width) * cut)};
        line = fitted(fitted(line));
        const double own = error(line);
        if (own < min_error) {
          min_error = own;
          found = line;
        }
      }
    }
    return found;
  }
};

// The scale of n values for 2^bits codes around the middle. One side has one more code; the sign of the scale
// selects it.
float signed_scale(const IntRounding& rounding, const float* x, const float* importance, size_t n) {
  std::array<float, 32> flipped;
  std::span<const float> weights;
  if (importance != nullptr) weights = {importance, n};
  float scale = 0.0F;
  double min_error = std::numeric_limits<double>::infinity();
  for (const float sign : {-1.0F, 1.0F}) {
    for (size_t i = 0; i < n; ++i) flipped[i] = sign * x[i];
    const IntGroup group = choose_group(rounding, std::span(flipped).first(n), weights);
    double error = 0.0;
    for (size_t i = 0; i < n; ++i) {
      const double difference = group.value(code_of(rounding, group, flipped[i])) - flipped[i];
      error += (importance == nullptr ? 1.0 : importance[i]) * difference * difference;
    }
    if (error < min_error) {
      min_error = error;
      scale = sign * group.scale;
    }
  }
  return scale;
}

uint8_t nearest_step(float v, float scale, int32_t middle, int32_t max_code) {
  const float steps = scale == 0.0F ? 0.0F : std::nearbyint(v / scale);
  return static_cast<uint8_t>(
      std::clamp(steps + static_cast<float>(middle), 0.0F, static_cast<float>(max_code)));
}

// Same, with a search for the scale.
float symmetric(const float* x, const float* importance, int32_t bits, uint8_t* codes) {
  const int32_t middle = 1 << (bits - 1);
  const float scale = signed_scale({.bits = bits, .scales = DType::kF16}, x, importance, 32);
  for (size_t i = 0; i < 32; ++i) codes[i] = nearest_step(x[i], scale, middle, 2 * middle - 1);
  return scale;
}
float with_minimum(const float* x, const float* importance, int32_t max_code, float& offset, uint8_t* codes) {
  const Affine line = AffineSearch{x, importance, 32, max_code}.best();
  const float scale = stored_half(line.scale);
  offset = stored_half(-line.minimum);
  for (size_t i = 0; i < 32; ++i) codes[i] = nearest_step(x[i] - offset, scale, 0, max_code);
  return scale;
}

// Encoding of one block: choose_... writes the header to `out` and the codes to `codes`; put_... writes the
// codes to `out`. importance: one value per element, or null.
template <int32_t kBits>
void choose_symmetric(const float* x, const float* importance, uint8_t* out, uint8_t* codes) {
  put_half(
      importance == nullptr ? symmetric(x, 1 << (kBits - 1), codes) : symmetric(x, importance, kBits, codes),
      out);
}
template <int32_t kBits>
void choose_with_minimum(const float* x, const float* importance, uint8_t* out, uint8_t* codes) {
  constexpr int32_t kMaxCode = (1 << kBits) - 1;
  float offset = 0.0F;
  put_half(importance == nullptr ? with_minimum(x, kMaxCode, offset, codes)
                                 : with_minimum(x, importance, kMaxCode, offset, codes),
           out);
  put_half(offset, out + 2);
}
void put_q4_0(const uint8_t* codes, uint8_t* out) {
  put_nibbles(codes, 32, out + 2);
}
void put_q5_0(const uint8_t* codes, uint8_t* out) {
  put_fifth_bits(codes, out + 2);
  put_nibbles(codes, 32, out + 6);
}
void put_q4_1(const uint8_t* codes, uint8_t* out) {
  put_nibbles(codes, 32, out + 4);
}
void put_q5_1(const uint8_t* codes, uint8_t* out) {
  put_fifth_bits(codes, out + 4);
  put_nibbles(codes, 32, out + 8);
}
void choose_q8_0(const float* x, const float* importance, uint8_t* out, uint8_t* codes) {
  if (importance != nullptr) return put_half(symmetric(x, importance, 8, codes), out);
  float largest = 0.0F;
  for (size_t i = 0; i < 32; ++i) largest = std::max(largest, std::fabs(x[i]));
  const float scale = largest / 127.0F;
  const float inverse = scale == 0.0F ? 0.0F : 1.0F / scale;
  put_half(scale, out);
  // Halves are rounded away from zero.
  for (size_t i = 0; i < 32; ++i) codes[i] = static_cast<uint8_t>(std::round(x[i] * inverse) + 128.0F);
}
void put_q8_0(const uint8_t* codes, uint8_t* out) {
  for (size_t i = 0; i < 32; ++i) out[2 + i] = codes[i] ^ 0x80;
}

// Groups of n values whose scales and mins are integers from 0 to max_scale. header: the two float16 factors
// of scales and mins.
struct AffineGroups {
  size_t n;
  int32_t max_code;  // maximum code
  float max_scale;
  std::array<uint8_t, kMaxGroups> scales{};
  std::array<uint8_t, kMaxGroups> minima{};

  void choose(const float* x, const float* importance, uint8_t* header, uint8_t* codes) {
    std::array<Affine, kMaxGroups> groups;
    float scale = 0.0F;
    float minimum = 0.0F;
    for (size_t g = 0; g < kSuperBlock / n; ++g) {
      groups[g] =
          AffineSearch{x + n * g, importance == nullptr ? nullptr : importance + n * g, n, max_code}.best();
      scale = std::max(scale, groups[g].scale);
      minimum = std::max(minimum, groups[g].minimum);
    }
    const float d = stored_half(scale / max_scale);
    const float dmin = stored_half(minimum / max_scale);
    put_half(d, header);
    put_half(dmin, header + 2);
    const auto times = [&](float v, float unit) {
      return unit > 0.0F ? static_cast<uint8_t>(std::clamp(std::nearbyint(v / unit), 0.0F, max_scale))
                         : uint8_t{0};
    };
    for (size_t g = 0; g < kSuperBlock / n; ++g) {
      scales[g] = times(groups[g].scale, d);
      minima[g] = times(groups[g].minimum, dmin);
      const float own = d * static_cast<float>(scales[g]);
      const float offset = dmin * static_cast<float>(minima[g]);
      for (size_t i = n * g; i < n * g + n; ++i) codes[i] = nearest_step(x[i] + offset, own, 0, max_code);
    }
  }
};

// Sixteen groups of 16 with 4-bit scales and mins.
void choose_q2_k(const float* x, const float* importance, uint8_t* out, uint8_t* codes) {
  AffineGroups groups{.n = 16, .max_code = 3, .max_scale = 15.0F};
  groups.choose(x, importance, out + 80, codes);
  for (size_t g = 0; g < 16; ++g) out[g] = static_cast<uint8_t>(groups.scales[g] | groups.minima[g] << 4);
}
// Packs the two lowest bits of 256 codes; the four codes of a byte are 32 apart.
void put_pairs(const uint8_t* codes, uint8_t* out) {
  std::fill_n(out, 64, uint8_t{0});
  for (size_t i = 0; i < kSuperBlock; ++i)
    out[32 * (i / 128) + i % 32] |= static_cast<uint8_t>((codes[i] & 3) << (2 * (i / 32 % 4)));
}
void put_q2_k(const uint8_t* codes, uint8_t* out) {
  put_pairs(codes, out + 16);
}

// Stores the scales of groups as integers from -max_code to max_code - 1, times a float16 factor, which is
// returned. The scale with the largest magnitude becomes -max_code.
float put_signed_scales(std::span<const float> scales, int32_t max_code, std::span<int32_t> numbers) {
  const auto limit = static_cast<float>(max_code);
  const float extreme = *std::ranges::max_element(scales, {}, [](float v) { return std::fabs(v); });
  const float d = stored_half(-extreme / limit);
  for (size_t g = 0; g < scales.size(); ++g) {
    const float times = d == 0.0F ? 0.0F : std::nearbyint(scales[g] / d);
    numbers[g] = static_cast<int32_t>(std::clamp(times, -limit, limit - 1.0F));
  }
  return d;
}

// Sixteen symmetric groups of 16, with scales of this kind.
float choose_signed_groups(const float* x, const float* importance, int32_t bits, int32_t max_scale,
                           std::span<int32_t, 16> numbers, uint8_t* codes) {
  const IntRounding rounding{.bits = bits, .scales = DType::kF32};
  const int32_t middle = 1 << (bits - 1);
  std::array<float, 16> scales;
  for (size_t g = 0; g < 16; ++g)
    scales[g] = signed_scale(rounding, x + 16 * g, importance == nullptr ? nullptr : importance + 16 * g, 16);
  const float d = put_signed_scales(scales, max_scale, numbers);
  for (size_t i = 0; i < kSuperBlock; ++i)
    codes[i] = nearest_step(x[i], d * static_cast<float>(numbers[i / 16]), middle, 2 * middle - 1);
  return d;
}

// 6-bit scales.
void choose_q3_k(const float* x, const float* importance, uint8_t* out, uint8_t* codes) {
  std::array<int32_t, 16> numbers;
  put_half(choose_signed_groups(x, importance, 3, 32, numbers, codes), out + 108);
  std::fill_n(out + 96, 12, uint8_t{0});
  for (size_t g = 0; g < 16; ++g) {
    const auto stored = static_cast<uint8_t>(numbers[g] + 32);
    out[96 + g % 8] |= static_cast<uint8_t>((stored & 15) << (4 * (g / 8)));
    out[104 + g % 4] |= static_cast<uint8_t>(stored >> 4 << (2 * (g / 4)));
  }
}
void put_q3_k(const uint8_t* codes, uint8_t* out) {
  std::fill_n(out, 32, uint8_t{0});
  for (size_t i = 0; i < kSuperBlock; ++i)
    out[i % 32] |= static_cast<uint8_t>((codes[i] >> 2 & 1) << (i / 32));
  put_pairs(codes, out + 32);
}

// Eight groups of 32 with 6-bit scales and mins. Codes [256]; 16 bytes of header.
void affine_groups(const float* x, const float* importance, int32_t max_code, uint8_t* header,
                   uint8_t* codes) {
  AffineGroups groups{.n = 32, .max_code = max_code, .max_scale = 63.0F};
  groups.choose(x, importance, header, codes);
  uint8_t* packed = header + 4;
  std::fill_n(packed, 12, uint8_t{0});
  for (size_t g = 0; g < 8; ++g) {
    const uint8_t s = groups.scales[g];
    const uint8_t m = groups.minima[g];
    if (g < 4) {
      packed[g] |= s;
      packed[4 + g] |= m;
    } else {
      packed[4 + g] = static_cast<uint8_t>((s & 15) | (m & 15) << 4);
      packed[g - 4] |= static_cast<uint8_t>(s >> 4 << 6);
      packed[g] |= static_cast<uint8_t>(m >> 4 << 6);
    }
  }
}

void choose_q4_k(const float* x, const float* importance, uint8_t* out, uint8_t* codes) {
  affine_groups(x, importance, 15, out, codes);
}
void put_q4_k(const uint8_t* codes, uint8_t* out) {
  for (size_t i = 0; i < 4; ++i) put_nibbles(codes + 64 * i, 64, out + 16 + 32 * i);
}
void choose_q5_k(const float* x, const float* importance, uint8_t* out, uint8_t* codes) {
  affine_groups(x, importance, 31, out, codes);
}
void put_q5_k(const uint8_t* codes, uint8_t* out) {
  std::fill_n(out + 16, 32, uint8_t{0});
  for (size_t i = 0; i < kSuperBlock; ++i)
    out[16 + i % 32] |= static_cast<uint8_t>((codes[i] >> 4 & 1) << (i / 32));
  for (size_t i = 0; i < 4; ++i) put_nibbles(codes + 64 * i, 64, out + 48 + 32 * i);
}

// Sixteen groups of 16 with 8-bit scales.
void choose_q6_k(const float* x, const float* importance, uint8_t* out, uint8_t* codes) {
  std::array<int32_t, 16> numbers;
  const float d = choose_signed_groups(x, importance, 6, 128, numbers, codes);
  for (size_t g = 0; g < 16; ++g) out[192 + g] = static_cast<uint8_t>(numbers[g]);
  put_half(d, out + 208);
}
void put_q6_k(const uint8_t* codes, uint8_t* out) {
  std::fill_n(out + 128, 64, uint8_t{0});
  for (size_t i = 0; i < 2; ++i) put_nibbles(codes + 128 * i, 128, out + 64 * i);
  for (size_t i = 0; i < kSuperBlock; ++i)
    out[128 + 32 * (i / 128) + i % 32] |= static_cast<uint8_t>((codes[i] >> 4 & 3) << (2 * (i / 32 % 4)));
}

// The scale of 32 values for codes of a table: tries scales that map the largest value near an end of the
// table, each refined by least squares, and returns the one with the smallest squared error.
float table_scale(std::span<const float> table, const float* x, const float* importance) {
  float extreme = 0.0F;
  for (size_t i = 0; i < 32; ++i) {
    if (std::fabs(x[i]) > std::fabs(extreme)) extreme = x[i];
  }
  if (extreme == 0.0F) return 0.0F;
  float best = 0.0F;
  double min_error = std::numeric_limits<double>::infinity();
  for (const float end : {table.front(), table.back()}) {
    for (float width = 0.8F; width < 1.25F; width += 0.06F) {
      float scale = extreme / (end * width);
      for (int32_t round = 0; round < 2; ++round) {
        double products = 0.0;
        double squares = 0.0;
        double error = 0.0;
        for (size_t i = 0; i < 32; ++i) {
          const double own = importance == nullptr ? 1.0 : importance[i];
          const double number = table[nearest_number(table, x[i] / scale)];
          products += own * number * x[i];
          squares += own * number * number;
          error += own * (scale * number - x[i]) * (scale * number - x[i]);
        }
        if (error < min_error) {
          min_error = error;
          best = scale;
        }
        if (!(squares > 0.0) || products == 0.0) break;
        scale = static_cast<float>(products / squares);
      }
    }
  }
  return best;
}

void choose_table_codes(std::span<const float> table, const float* x, float scale, uint8_t* codes) {
  for (size_t i = 0; i < 32; ++i) codes[i] = nearest_number(table, scale == 0.0F ? 0.0F : x[i] / scale);
}

void choose_iq4_nl(const float* x, const float* importance, uint8_t* out, uint8_t* codes) {
  const std::span<const float> table = find_ggml_type("IQ4_NL")->format.table;
  const float scale = stored_half(table_scale(table, x, importance));
  put_half(scale, out);
  choose_table_codes(table, x, scale, codes);
}

void choose_iq4_xs(const float* x, const float* importance, uint8_t* out, uint8_t* codes) {
  const std::span<const float> table = find_ggml_type("IQ4_XS")->format.table;
  std::array<float, 8> scales;
  for (size_t g = 0; g < 8; ++g)
    scales[g] = table_scale(table, x + 32 * g, importance == nullptr ? nullptr : importance + 32 * g);
  std::array<int32_t, 8> numbers;
  const float d = put_signed_scales(scales, 32, numbers);
  put_half(d, out);
  std::fill_n(out + 2, 6, uint8_t{0});
  for (size_t g = 0; g < 8; ++g) {
    const auto stored = static_cast<uint8_t>(numbers[g] + 32);
    out[2 + g / 4] |= static_cast<uint8_t>(stored >> 4 << (2 * (g % 4)));
    out[4 + g / 2] |= static_cast<uint8_t>((stored & 15) << (4 * (g % 2)));
    choose_table_codes(table, x + 32 * g, d * static_cast<float>(numbers[g]), codes + 32 * g);
  }
}
void put_iq4_xs(const uint8_t* codes, uint8_t* out) {
  for (size_t g = 0; g < 8; ++g) put_nibbles(codes + 32 * g, 32, out + 8 + 16 * g);
}

struct Encoder {
  std::string_view name;
  void (*choose)(const float* x, const float* importance, uint8_t* block, uint8_t* codes);
  void (*put)(const uint8_t* codes, uint8_t* block);
};
constexpr std::array<Encoder, 12> kEncoders = {{{"Q4_0", choose_symmetric<4>, put_q4_0},
                                                {"Q4_1", choose_with_minimum<4>, put_q4_1},
                                                {"Q5_0", choose_symmetric<5>, put_q5_0},
                                                {"Q5_1", choose_with_minimum<5>, put_q5_1},
                                                {"Q8_0", choose_q8_0, put_q8_0},
                                                {"Q2_K", choose_q2_k, put_q2_k},
                                                {"Q3_K", choose_q3_k, put_q3_k},
                                                {"Q4_K", choose_q4_k, put_q4_k},
                                                {"Q5_K", choose_q5_k, put_q5_k},
                                                {"Q6_K", choose_q6_k, put_q6_k},
                                                {"IQ4_NL", choose_iq4_nl, put_q4_0},
                                                {"IQ4_XS", choose_iq4_xs, put_iq4_xs}}};

const Encoder* find_encoder(const GgmlType& type) {
  const auto at = std::ranges::find(kEncoders, type.name, &Encoder::name);
  return at == kEncoders.end() ? nullptr : &*at;
}

}  // namespace

bool can_encode(const GgmlType& type) {
  return type.dtype ? is_storage_dtype(*type.dtype) : find_encoder(type) != nullptr;
}

void encode_ggml(const GgmlType& type, std::span<const float> x, std::byte* out,
                 std::span<const float> importance) {
  if (type.dtype) {
    for (size_t i = 0; i < x.size(); ++i) {
      alignas(4) std::array<std::byte, 4> number{};
      store_f32(*type.dtype, number.data(), 0, x[i]);
      std::memcpy(out + i * type.bytes, number.data(), type.bytes);
    }
    return;
  }
  const Encoder& encoder = *find_encoder(type);
  std::array<uint8_t, kSuperBlock> codes;
  const auto elements = static_cast<size_t>(type.elements);
  for (size_t i = 0; i < x.size(); i += elements, out += type.bytes) {
    auto* block = reinterpret_cast<uint8_t*>(out);
    encoder.choose(x.data() + i, importance.empty() ? nullptr : importance.data() + i, block, codes.data());
    encoder.put(codes.data(), block);
  }
}

void put_ggml_codes(const GgmlType& type, std::span<const uint8_t> codes, std::byte* out) {
  const Encoder& encoder = *find_encoder(type);
  const auto elements = static_cast<size_t>(type.elements);
  for (size_t i = 0; i < codes.size(); i += elements, out += type.bytes)
    encoder.put(codes.data() + i, reinterpret_cast<uint8_t*>(out));
}

void ggml_lines(const GgmlType& type, const std::byte* blocks, std::span<GgmlLine> out) {
  const QuantFormat& format = type.format;
  const auto groups = static_cast<size_t>(type.elements / format.group_size);
  std::array<uint8_t, kSuperBlock> codes;
  std::array<int8_t, kMaxGroups> scales;
  std::array<uint8_t, kMaxGroups> minima;
  for (size_t begin = 0; begin < out.size(); begin += groups, blocks += type.bytes) {
    float scale = 0.0F;
    float minimum = 0.0F;
    type.unpack(reinterpret_cast<const uint8_t*>(blocks),
                {codes.data(), &scale, scales.data(), &minimum, minima.data()});
    for (size_t g = 0; g < groups; ++g) {
      const bool two = format.two_levels();
      const float step = two ? scale * static_cast<float>(scales[g]) : scale;
      const float offset = two && format.minima ? minimum * static_cast<float>(minima[g]) : minimum;
      out[begin + g] = {step, -step * static_cast<float>(format.zero_point) - offset, format.table};
    }
  }
}

float GgmlLine::value(uint8_t code) const {
  return (table.empty() ? static_cast<float>(code) : table[code]) * step + offset;
}

uint8_t GgmlLine::nearest(float v, int32_t code_bits) const {
  // Groups of equal values have a step of 0.
  const float number = step == 0.0F ? 0.0F : (v - offset) / step;
  if (!table.empty()) return nearest_number(table, number);
  const auto max_code = static_cast<float>((1 << code_bits) - 1);
  return static_cast<uint8_t>(std::clamp(std::nearbyint(number), 0.0F, max_code));
}

}  // namespace quire
