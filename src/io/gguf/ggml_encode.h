// Floats into ggml's blocks. The types of one level have the bits of ggml's reference encoders (as the PyPI
// package gguf has them); of those with two levels (Q4_K, Q5_K, Q6_K) the layout is ggml's and the search for
// scales our own. Format: github.com/ggml-org/ggml, src/ggml-common.h. Free functions; any thread.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "io/gguf/ggml_type.h"

namespace quire {

// Whether encode_ggml writes the type: F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K, Q6_K.
bool can_encode(const GgmlType& type);
// x: whole blocks of finite numbers; out: type.bytes_of(x.size()).
void encode_ggml(const GgmlType& type, std::span<const float> x, std::byte* out);

}  // namespace quire
