#include "quant/sparse_24.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

namespace quire {
namespace {

// Zero of either sign.
template <class T>
bool is_zero(T bits) {
  return static_cast<T>(bits << 1) == 0;
}

template <class T>
bool has_sparse_24(const std::byte* row, int64_t n) {
  for (int64_t i = 0; i < n; i += 4) {
    std::array<T, 4> four = {};
    std::memcpy(four.data(), row + i * static_cast<int64_t>(sizeof(T)),
                static_cast<size_t>(std::min<int64_t>(4, n - i)) * sizeof(T));
    if (std::ranges::count_if(four, is_zero<T>) < 2) return false;
  }
  return true;
}

// Positions of the two weights to keep, in the requested order; the other weights are zero.
template <class T>
std::pair<size_t, size_t> kept_places(const std::array<T, 4>& four, KeptOrder order) {
  size_t first = 0;
  while (first < 2 && is_zero(four[first])) ++first;
  size_t second = 3;
  while (second > first + 1 && is_zero(four[second])) --second;
  const bool pair = second == first + 1 && first != 1;
  if (order == KeptOrder::kOddFirst && pair) std::swap(first, second);
  return {first, second};
}

// depth: columns of W that are interleaved in the panel.
template <class T>
void pack(const T* panel, int64_t depth, int64_t k, KeptOrder order, std::byte* dst) {
  constexpr int64_t kPanel = Sparse24::kPanel;
  constexpr int64_t kSize = sizeof(T);
  for (int64_t b = 0; b < k / Sparse24::kBlock; ++b, dst += Sparse24::block_bytes(kSize)) {
    auto* codes = reinterpret_cast<uint32_t*>(dst);
    auto* weights = reinterpret_cast<T*>(dst + Sparse24::kCodeBytes);
    std::fill_n(codes, kPanel, 0U);
    for (int64_t f = 0; f < Sparse24::kQuads; ++f, panel += 4 * kPanel, weights += 2 * kPanel) {
      for (int64_t p = 0; p < kPanel; ++p) {
        std::array<T, 4> four;
        for (int64_t i = 0; i < 4; ++i)
          four[static_cast<size_t>(i)] = panel[(i / depth * kPanel + p) * depth + i % depth];
        const auto [first, second] = kept_places(four, order);
        codes[p] |= static_cast<uint32_t>(first | second << 2) << (4 * f);
        weights[p * depth] = four[second];
        weights[depth > 1 ? p * depth + 1 : kPanel + p] = four[first];
      }
    }
  }
}

}  // namespace

bool is_sparse_24(const TensorView& matrix, int64_t begin, int64_t end) {
  const auto size = static_cast<int64_t>(dtype_size(matrix.dtype));
  const auto check = size == 2 ? has_sparse_24<uint16_t> : has_sparse_24<uint32_t>;
  for (int64_t r = begin; r < end; ++r) {
    if (!check(matrix.as<std::byte>() + r * matrix.row_stride * size, matrix.row_size())) return false;
  }
  return true;
}

void pack_sparse_24(const std::byte* panel, DType dtype, int64_t k, KeptOrder order, std::byte* dst) {
  if (dtype == DType::kF32) return pack(reinterpret_cast<const uint32_t*>(panel), 1, k, order, dst);
  pack(reinterpret_cast<const uint16_t*>(panel), dtype == DType::kBF16 ? 2 : 1, k, order, dst);
}

}  // namespace quire
