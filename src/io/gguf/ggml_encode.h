// Encodes floats as ggml blocks. One-level integer types have the same bits as ggml's reference encoders (the
// PyPI package gguf). Two-level types (Q2_K to Q6_K) and table types (IQ4_NL, IQ4_XS) have ggml's layout, but
// search for scales with our own method. Format: github.com/ggml-org/ggml, src/ggml-common.h. Free functions;
// thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "io/gguf/ggml_type.h"

namespace quire {

// Whether encode_ggml supports the type: F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K to Q6_K, IQ4_NL,
// IQ4_XS.
bool can_encode(const GgmlType& type);
// x: full blocks of finite values; out: type.bytes_of(x.size()). importance: [x.size()], not negative, or
// empty. With importance, scales of quantized types, also of one-level types, are searched that minimize the
// sum of importance * error^2.
void encode_ggml(const GgmlType& type, std::span<const float> x, std::byte* out,
                 std::span<const float> importance = {});

// For other rounding methods than round-to-nearest. Only for quantized types that encode_ggml supports.
// ¶ Parameters of a group: a code represents code * step + offset or, with a table (of the type, ascending),
// table[code] * step + offset.
// table[code] * step + least.
struct GgmlLine {
  float step = 0.0F;
  float offset = 0.0F;
  std::span<const float> table = {};

  float value(uint8_t code) const;
  // The nearest of 2^code_bits codes.
  uint8_t nearest(float v, int32_t code_bits) const;
};
// Parameters of each group of type.format.group_size elements in full blocks.
void ggml_lines(const GgmlType& type, const std::byte* blocks, std::span<GgmlLine> out);
// Replaces the codes of blocks and keeps their scales. codes: 0 to 2^code_bits - 1, one per byte.
void put_ggml_codes(const GgmlType& type, std::span<const uint8_t> codes, std::byte* out);

}  // namespace quire
