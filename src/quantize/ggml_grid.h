// Blocks of a ggml type as the rounding grid of GPTQ. The encoder of the type chooses the scales from the
// original weights; codes are the nearest ones to the updated weights.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "io/gguf/ggml_encode.h"
#include "quantize/gptq.h"

namespace quire {

class GgmlGrid : public RoundingGrid {
 public:
  // type: a ggml type that can be encoded. The matrix is [n, k] with k a multiple of the block. importance:
  // [k], owned by the caller, or empty: weights of the squared errors per column when scales are chosen.
  GgmlGrid(const GgmlType& type, int64_t n, int64_t k, std::span<const float> importance = {});

  void begin_row(int64_t row, std::span<const float> w) override;
  float round(int64_t row, int64_t column, std::span<const float> rest) override;

  // The blocks of the matrix and their values, after all weights have been rounded.
  std::vector<std::byte> blocks() const;
  std::vector<float> values() const;

 private:
  size_t at(int64_t row, int64_t column) const { return static_cast<size_t>(row * k_ + column); }

  const GgmlType& type_;
  int64_t k_;
  std::span<const float> importance_;
  std::vector<uint8_t> codes_;     // [n, k]
  std::vector<GgmlLine> lines_;    // [n, k / group_size]
  std::vector<std::byte> blocks_;  // [n, bytes per row], with the codes of the encoder
};

}  // namespace quire
