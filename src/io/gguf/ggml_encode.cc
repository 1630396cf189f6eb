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

constexpr size_t kSuper = 256;
constexpr size_t kMostGroups = 16;  // of a block

void put_half(float v, uint8_t* out) {
  const uint16_t half = f32_to_f16(v);
  std::memcpy(out, &half, sizeof(half));
}
float stored_half(float v) {
  return f16_to_f32(f32_to_f16(v));
}

// n codes of four bits: the low halves of n / 2 bytes, then the high ones.
void put_nibbles(const uint8_t* codes, size_t n, uint8_t* out) {
  for (size_t i = 0; i < n / 2; ++i)
    out[i] = static_cast<uint8_t>((codes[i] & 15) | (codes[n / 2 + i] & 15) << 4);
}
void put_fifth_bits(const uint8_t* codes, uint8_t* out) {
  uint32_t mask = 0;
  for (size_t i = 0; i < 32; ++i) mask |= static_cast<uint32_t>(codes[i] >> 4 & 1) << i;
  std::memcpy(out, &mask, sizeof(mask));
}

// Codes of 32 numbers around the middle; the largest number becomes the lowest code.
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
// Codes of 32 numbers from the smallest on.
float with_minimum(const float* x, int32_t most, float& least, uint8_t* codes) {
  const auto [low, high] = std::minmax_element(x, x + 32);
  least = *low;
  const float scale = (*high - least) / static_cast<float>(most);
  const float inverse = scale == 0.0F ? 0.0F : 1.0F / scale;
  for (size_t i = 0; i < 32; ++i) {
    const float v = std::trunc((x[i] - least) * inverse + 0.5F);
    codes[i] = static_cast<uint8_t>(std::clamp(v, 0.0F, static_cast<float>(most)));
  }
  return scale;
}

// x = scale * code - minimum, with a minimum that is not negative.
struct Affine {
  float scale = 0.0F;
  float minimum = 0.0F;
};

// Of some widths of the step the one with the smallest squared error, scale and minimum being the best ones
// for its codes. importance: what the square of each error counts, null: all the same.
Affine choose_affine(const float* x, const float* importance, size_t n, int32_t most) {
  constexpr std::array<float, 9> kWidths = {1.0F, 1.04F, 0.97F, 0.94F, 0.91F, 0.88F, 0.85F, 0.81F, 0.76F};
  float low = 0.0F;
  float high = x[0];
  for (size_t i = 0; i < n; ++i) {
    low = std::min(low, x[i]);
    high = std::max(high, x[i]);
  }
  Affine best{0.0F, -low};
  if (!(high - low > 1e-36F)) return best;
  double least = std::numeric_limits<double>::infinity();
  const auto weight = [&](size_t i) { return importance == nullptr ? 1.0 : importance[i]; };
  const auto code = [&](const Affine& a, float v) {
    return std::clamp(std::nearbyint((v + a.minimum) / a.scale), 0.0F, static_cast<float>(most));
  };
  for (const float width : kWidths) {
    Affine tried{(high - low) / static_cast<float>(most) * width, -low * width};
    // Least squares over the codes' line.
    double count = 0.0;
    double q = 0.0;
    double qq = 0.0;
    double qx = 0.0;
    double sum = 0.0;
    for (size_t i = 0; i < n; ++i) {
      const double c = code(tried, x[i]);
      const double own = weight(i);
      count += own;
      q += own * c;
      qq += own * c * c;
      qx += own * c * x[i];
      sum += own * x[i];
    }
    const double determinant = count * qq - q * q;
    if (determinant > 0.0) {
      const double scale = (count * qx - q * sum) / determinant;
      const double minimum = (q * qx - qq * sum) / determinant;
      if (scale > 0.0 && minimum >= 0.0) {
        tried = {static_cast<float>(scale), static_cast<float>(minimum)};
      } else if (qx > 0.0 && qq > 0.0) {
        tried = {static_cast<float>(qx / qq), 0.0F};
      }
    }
    double error = 0.0;
    for (size_t i = 0; i < n; ++i) {
      const double d = tried.scale * code(tried, x[i]) - tried.minimum - x[i];
      error += weight(i) * d * d;
    }
    if (error < least) {
      least = error;
      best = tried;
    }
  }
  return best;
}

// As above, with scales that are searched for.
float symmetric(const float* x, const float* importance, int32_t bits, uint8_t* codes) {
  const IntRounding rounding{.bits = bits, .scales = DType::kF16};
  const std::span<const float> weights(importance, 32);
  // There is a code more on one side: the scale's sign says on which.
  float scale = 0.0F;
  double least = std::numeric_limits<double>::infinity();
  for (const float sign : {-1.0F, 1.0F}) {
    std::array<float, 32> turned;
    for (size_t i = 0; i < 32; ++i) turned[i] = sign * x[i];
    const IntGroup group = choose_group(rounding, turned, weights);
    std::array<uint8_t, 32> tried;
    double error = 0.0;
    for (size_t i = 0; i < 32; ++i) {
      tried[i] = static_cast<uint8_t>(code_of(rounding, group, turned[i]));
      const double difference = group.value(tried[i]) - turned[i];
      error += importance[i] * difference * difference;
    }
    if (error < least) {
      least = error;
      scale = sign * group.scale;
      std::ranges::copy(tried, codes);
    }
  }
  return scale;
}
float with_minimum(const float* x, const float* importance, int32_t most, float& least, uint8_t* codes) {
  const Affine line = choose_affine(x, importance, 32, most);
  const float scale = stored_half(line.scale);
  least = stored_half(-line.minimum);
  for (size_t i = 0; i < 32; ++i) {
    const float v = scale > 0.0F ? std::nearbyint((x[i] - least) / scale) : 0.0F;
    codes[i] = static_cast<uint8_t>(std::clamp(v, 0.0F, static_cast<float>(most)));
  }
  return scale;
}

// Of a block: choose_... puts its header into `out` and its codes into `codes`, put_... the codes into `out`.
// importance: of each number, or null.
template <int32_t kBits>
void choose_symmetric(const float* x, const float* importance, uint8_t* out, uint8_t* codes) {
  put_half(
      importance == nullptr ? symmetric(x, 1 << (kBits - 1), codes) : symmetric(x, importance, kBits, codes),
      out);
}
template <int32_t kBits>
void choose_with_minimum(const float* x, const float* importance, uint8_t* out, uint8_t* codes) {
  constexpr int32_t kMost = (1 << kBits) - 1;
  float least = 0.0F;
  put_half(importance == nullptr ? with_minimum(x, kMost, least, codes)
                                 : with_minimum(x, importance, kMost, least, codes),
           out);
  put_half(least, out + 2);
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
  float most = 0.0F;
  for (size_t i = 0; i < 32; ++i) most = std::max(most, std::fabs(x[i]));
  const float scale = most / 127.0F;
  const float inverse = scale == 0.0F ? 0.0F : 1.0F / scale;
  put_half(scale, out);
  // Halves away from zero.
  for (size_t i = 0; i < 32; ++i) codes[i] = static_cast<uint8_t>(std::round(x[i] * inverse) + 128.0F);
}
void put_q8_0(const uint8_t* codes, uint8_t* out) {
  for (size_t i = 0; i < 32; ++i) out[2 + i] = codes[i] ^ 0x80;
}

// Eight groups of 32 whose scales and minima are numbers of six bits. Codes [256]; 16 bytes of header.
void affine_groups(const float* x, const float* importance, int32_t most, uint8_t* header, uint8_t* codes) {
  std::array<Affine, 8> groups;
  float scale = 0.0F;
  float minimum = 0.0F;
  for (size_t g = 0; g < 8; ++g) {
    groups[g] = choose_affine(x + 32 * g, importance == nullptr ? nullptr : importance + 32 * g, 32, most);
    scale = std::max(scale, groups[g].scale);
    minimum = std::max(minimum, groups[g].minimum);
  }
  const float d = stored_half(scale / 63.0F);
  const float dmin = stored_half(minimum / 63.0F);
  put_half(d, header);
  put_half(dmin, header + 2);
  const auto six_bits = [](float v, float unit) {
    return unit > 0.0F ? static_cast<uint8_t>(std::clamp(std::nearbyint(v / unit), 0.0F, 63.0F)) : uint8_t{0};
  };
  uint8_t* packed = header + 4;
  std::fill_n(packed, 12, uint8_t{0});
  for (size_t g = 0; g < 8; ++g) {
    const uint8_t s = six_bits(groups[g].scale, d);
    const uint8_t m = six_bits(groups[g].minimum, dmin);
    if (g < 4) {
      packed[g] |= s;
      packed[4 + g] |= m;
    } else {
      packed[4 + g] = static_cast<uint8_t>((s & 15) | (m & 15) << 4);
      packed[g - 4] |= static_cast<uint8_t>(s >> 4 << 6);
      packed[g] |= static_cast<uint8_t>(m >> 4 << 6);
    }
    const float own = d * static_cast<float>(s);
    const float least = dmin * static_cast<float>(m);
    for (size_t i = 32 * g; i < 32 * g + 32; ++i) {
      const float v = own > 0.0F ? std::nearbyint((x[i] + least) / own) : 0.0F;
      codes[i] = static_cast<uint8_t>(std::clamp(v, 0.0F, static_cast<float>(most)));
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
  for (size_t i = 0; i < kSuper; ++i)
    out[16 + i % 32] |= static_cast<uint8_t>((codes[i] >> 4 & 1) << (i / 32));
  for (size_t i = 0; i < 4; ++i) put_nibbles(codes + 64 * i, 64, out + 48 + 32 * i);
}

// Sixteen groups of 16 whose scales are numbers of eight bits.
void choose_q6_k(const float* x, const float* importance, uint8_t* out, uint8_t* codes) {
  const IntRounding rounding{.bits = 6, .scales = DType::kF32};
  std::array<float, 16> scales;
  for (size_t g = 0; g < 16; ++g) {
    std::span<const float> weights;
    if (importance != nullptr) weights = {importance + 16 * g, 16};
    scales[g] = choose_group(rounding, {x + 16 * g, 16}, weights).scale;
  }
  const float d = stored_half(*std::ranges::max_element(scales) / 127.0F);
  for (size_t g = 0; g < 16; ++g) {
    const auto s =
        static_cast<int8_t>(d > 0.0F ? std::clamp(std::nearbyint(scales[g] / d), 0.0F, 127.0F) : 0.0F);
    out[192 + g] = static_cast<uint8_t>(s);
    const IntGroup group{d * static_cast<float>(s), 32};
    for (size_t i = 16 * g; i < 16 * g + 16; ++i)
      codes[i] = static_cast<uint8_t>(code_of(rounding, group, x[i]));
  }
  put_half(d, out + 208);
}
void put_q6_k(const uint8_t* codes, uint8_t* out) {
  std::fill_n(out + 128, 64, uint8_t{0});
  for (size_t i = 0; i < 2; ++i) put_nibbles(codes + 128 * i, 128, out + 64 * i);
  for (size_t i = 0; i < kSuper; ++i)
    out[128 + 32 * (i / 128) + i % 32] |= static_cast<uint8_t>((codes[i] >> 4 & 3) << (2 * (i / 32 % 4)));
}

struct Encoder {
  std::string_view name;
  void (*choose)(const float* x, const float* importance, uint8_t* block, uint8_t* codes);
  void (*put)(const uint8_t* codes, uint8_t* block);
};
constexpr std::array<Encoder, 8> kEncoders = {{{"Q4_0", choose_symmetric<4>, put_q4_0},
                                               {"Q4_1", choose_with_minimum<4>, put_q4_1},
                                               {"Q5_0", choose_symmetric<5>, put_q5_0},
                                               {"Q5_1", choose_with_minimum<5>, put_q5_1},
                                               {"Q8_0", choose_q8_0, put_q8_0},
                                               {"Q4_K", choose_q4_k, put_q4_k},
                                               {"Q5_K", choose_q5_k, put_q5_k},
                                               {"Q6_K", choose_q6_k, put_q6_k}}};

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
  std::array<uint8_t, kSuper> codes;
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
  const CodedFormat& format = type.format;
  const auto groups = static_cast<size_t>(type.elements / format.group_size);
  std::array<uint8_t, kSuper> codes;
  std::array<int8_t, kMostGroups> scales;
  std::array<uint8_t, kMostGroups> minima;
  for (size_t begin = 0; begin < out.size(); begin += groups, blocks += type.bytes) {
    float scale = 0.0F;
    float minimum = 0.0F;
    type.unpack(reinterpret_cast<const uint8_t*>(blocks),
                {codes.data(), &scale, scales.data(), &minimum, minima.data()});
    for (size_t g = 0; g < groups; ++g) {
      const bool two = format.two_levels();
      const float step = two ? scale * static_cast<float>(scales[g]) : scale;
      const float least = two && format.minima ? minimum * static_cast<float>(minima[g]) : minimum;
      out[begin + g] = {step, -step * static_cast<float>(format.zero) - least};
    }
  }
}

}  // namespace quire
