#include "quantize/low_rank_rows.h"

#include <algorithm>

#include "quant/codec.h"

namespace quire {

LowRankRows::LowRankRows(const LowRank& change)
    : change_(change), a_(static_cast<size_t>(change.ranks() * change.k)) {
  decode_f32(change.dtype, change.a.data(), a_.data(), static_cast<int64_t>(a_.size()));
  int64_t a_begin = 0;
  int64_t b_begin = 0;
  for (const LowRank::Piece& piece : change.pieces) {
    pieces_.push_back({piece, a_begin, b_begin});
    a_begin += piece.rank;
    b_begin += piece.n * piece.rank;
  }
}

bool LowRankRows::changes(int64_t begin, int64_t end) const {
  return std::ranges::any_of(pieces_, [&](const Piece& at) {
    return at.piece.out_begin < end && at.piece.out_begin + at.piece.n > begin;
  });
}

void LowRankRows::add_to(int64_t row, std::span<float> w, std::span<float> sum) const {
  for (const auto& [piece, a_begin, b_begin] : pieces_) {
    const int64_t output = row - piece.out_begin;
    if (output < 0 || output >= piece.n) continue;
    std::ranges::fill(sum, 0.0F);
    for (int64_t j = 0; j < piece.rank; ++j) {
      const float b = load_f32(change_.dtype, change_.b.data(), b_begin + b_index(piece, output, j));
      const float* a = a_.data() + (a_begin + j) * change_.k;
      for (size_t k = 0; k < sum.size(); ++k) sum[k] += b * a[k];
    }
    for (size_t k = 0; k < w.size(); ++k) w[k] += piece.scale * sum[k];
  }
}

float LowRankRows::bias(int64_t row) const {
  return change_.bias.size() == 0 ? 0.0F : change_.bias.as<float>()[row];
}

}  // namespace quire
