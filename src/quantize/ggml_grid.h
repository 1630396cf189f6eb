// The blocks of a ggml type as what GPTQ rounds to: their scales are those that the type's encoder chooses
// for the weights as they are, their codes the nearest to what the weights have become.
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
  // type: blocks of codes that can be encoded. A matrix [n, k], k whole blocks. importance: [k], which stays
  // the caller's, or empty: what errors in each column count where scales are chosen.
  GgmlGrid(const GgmlType& type, int64_t n, int64_t k, std::span<const float> importance = {});

  void begin_row(int64_t row, std::span<const float> w) override;
  float round(int64_t row, int64_t column, std::span<const float> rest) override;

  // When all are rounded: the matrix's blocks, and what they stand for.
  std::vector<std::byte> blocks() const;
  std::vector<float> values() const;

 private:
  size_t at(int64_t row, int64_t column) const { return static_cast<size_t>(row * k_ + column); }

  const GgmlType& type_;
  int64_t k_;
  std::span<const float> importance_;
  std::vector<uint8_t> codes_;     // [n, k]
  std::vector<GgmlLine> lines_;    // [n, k / group_size]
  std::vector<std::byte> blocks_;  // [n, bytes of a row], with the codes of the encoder
};

}  // namespace quire
