// Floats into ggml's blocks. The types of one level whose codes are whole numbers have the bits of ggml's
// reference encoders (as the PyPI package gguf has them); of those with two levels (Q2_K to Q6_K) and with a
// table (IQ4_NL, IQ4_XS) the layout is ggml's and the search for scales our own. Format:
// github.com/ggml-org/ggml, src/ggml-common.h. Free functions; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "io/gguf/ggml_type.h"

namespace quire {

// Whether encode_ggml writes the type: F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K to Q6_K,
// IQ4_NL, IQ4_XS.
bool can_encode(const GgmlType& type);
// x: whole blocks of finite numbers; out: type.bytes_of(x.size()). importance: [x.size()], not negative, or
// empty; of coded types scales are then searched for that leave the smallest sum of importance * (error)^2,
// those of one level too.
void encode_ggml(const GgmlType& type, std::span<const float> x, std::byte* out,
                 std::span<const float> importance = {});

// For who chooses the codes of blocks in another way than to nearest. Of types that encode_ggml writes and
// that are coded.
//
// What the codes of a group stand for: code * step + least, or with a table (of the type, ascending)
// table[code] * step + least.
struct GgmlLine {
  float step = 0.0F;
  float least = 0.0F;
  std::span<const float> table = {};

  float value(uint8_t code) const;
  // The code nearest to v, of 2^code_bits.
  uint8_t nearest(float v, int32_t code_bits) const;
};
// Of the groups of type.format.group_size numbers of whole blocks.
void ggml_lines(const GgmlType& type, const std::byte* blocks, std::span<GgmlLine> out);
// Gives blocks whose scales are there other codes (0 .. 2^code_bits - 1, a byte each).
void put_ggml_codes(const GgmlType& type, std::span<const uint8_t> codes, std::byte* out);

}  // namespace quire
