#include "ops/compressed_keys.h"

#include <algorithm>
#include <bit>

#include "ops/parallel.h"

namespace quire {
namespace {

void set_bit(uint64_t* words, int64_t place) {
  words[place / 64] |= uint64_t{1} << (place % 64);
}

void mark_row(uint64_t* words, int64_t position, const CompressedKeys& keys, int32_t window,
              const uint64_t* picked) {
  for (int64_t p = std::max<int64_t>(0, position - window + 1); p <= position; ++p)
    set_bit(words, keys.place_of_token(p));
  const int64_t seen = keys.seen(position);
  if (picked == nullptr) {
    for (int64_t i = 0; i < seen; ++i) set_bit(words, keys.place_of_key(i));
    return;
  }
  for (int64_t begin = 0; begin < seen; begin += 64) {
    for (uint64_t left = picked[begin / 64]; left != 0; left &= left - 1) {
      const int64_t i = begin + std::countr_zero(left);
      if (i < seen) set_bit(words, keys.place_of_key(i));
    }
  }
}

}  // namespace

void mark_compressed(const OpContext& ctx, const KeyMask& chosen, const AttentionBatch& batch,
                     const CompressedKeys& keys, int32_t window, const KeyMask& picked) {
  const int64_t rows = batch.cu_seqlens_q[static_cast<size_t>(batch.num_seqs)];
  parallel_ranges(ctx, rows, row_grain(chosen.stride + 8 * window), [&](int64_t begin, int64_t end, int) {
    const auto* after =
        std::upper_bound(batch.cu_seqlens_q.data(), batch.cu_seqlens_q.data() + batch.num_seqs, begin);
    auto seq = static_cast<size_t>(after - batch.cu_seqlens_q.data() - 1);
    for (int64_t row = begin; row < end; ++row) {
      while (batch.cu_seqlens_q[seq + 1] <= row) ++seq;
      const int64_t length = batch.seq_lens[seq];
      std::fill_n(chosen.row(row), keys.place_of_token(length - 1) / 64 + 1, uint64_t{0});
      mark_row(chosen.row(row), length - (batch.cu_seqlens_q[seq + 1] - row), keys, window, picked.row(row));
    }
  });
}

}  // namespace quire
