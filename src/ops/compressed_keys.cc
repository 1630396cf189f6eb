#include "ops/compressed_keys.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "ops/parallel.h"
#include "ops/shape_check.h"
#include "ops/state_check.h"

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

// The partial softmax state of one channel of an incomplete window; all zeros before its first token.
struct Compressed {
  float* highest;
  float* sum;
  float* weighted;

  Compressed(float* state, int64_t channels, int64_t channel)
      : highest(state + channel), sum(highest + channels), weighted(sum + channels) {}
  void add(float gate, float value) const {
    const float top = *sum == 0.0F ? gate : std::max(*highest, gate);
    const float kept = *sum == 0.0F ? 0.0F : std::exp(*highest - top);
    const float weight = std::exp(gate - top);
    *sum = *sum * kept + weight;
    *weighted = *weighted * kept + weight * value;
    *highest = top;
  }
  void take(const Compressed& other) const {
    *highest = *other.highest;
    *sum = *other.sum;
    *weighted = *other.weighted;
  }
  void clear() const { *highest = *sum = *weighted = 0.0F; }
};

}  // namespace

namespace ops {

void check(const CompressKeys& op) {
  const ShapeCheck shapes(
      op.kName, {{"out", &op.out}, {"values", &op.values}, {"gates", &op.gates}, {"bias", &op.bias}});
  shapes.require_f32({&op.out, &op.values, &op.gates, &op.bias});
  const int64_t d = op.out.row_size();
  shapes.require((op.values.row_size() == d || op.values.row_size() == 2 * d) &&
                     op.gates.row_size() == op.values.row_size() &&
                     op.bias.row_size() == op.values.row_size() && op.bias.rows() >= 1,
                 "values, gates and bias must have out's columns, or twice as many");
  shapes.require(op.values.rows() == op.out.rows() && op.gates.rows() == op.out.rows(),
                 "out, values and gates must have the same number of rows");
  require_states(shapes, op.batch, op.state, op.out.rows(), 1);
}

OpCost cost(const CompressKeys& op) {
  return elementwise_cost("compress keys", op.values, 3, 12);
}

void run_reference(const OpContext& ctx, const CompressKeys& op) {
  const int64_t d = op.out.row_size();
  const int64_t tokens = op.bias.rows();
  const bool overlap = op.values.row_size() == 2 * d;
  const int64_t own = overlap ? d : 0;  // first column of a token's own window
  const auto pool_channel = [&](int64_t seq, int64_t channel) {
    float* state = state_part(op.state, op.batch, seq, 0);
    const Compressed window(state, d, channel);
    const Compressed next(state + compress_state(d, false), d, channel);
    int64_t position = op.batch.positions[static_cast<size_t>(seq)];
    if (position == 0) {
      window.clear();
      if (overlap) next.clear();
    }
    const auto add = [&](const Compressed& to, int64_t row, int64_t column) {
      to.add(op.gates.row<float>(row)[column] + op.bias.row<float>(position % tokens)[column],
             op.values.row<float>(row)[column]);
    };
    const auto s = static_cast<size_t>(seq);
    for (int64_t r = op.batch.cu_rows[s]; r < op.batch.cu_rows[s + 1]; ++r, ++position) {
      add(window, r, own + channel);
      if (overlap) add(next, r, channel);
      float& result = op.out.row<float>(r)[channel];
      result = 0.0F;
      if ((position + 1) % tokens != 0) continue;
      result = *window.weighted / *window.sum;
      window.clear();
      if (!overlap) continue;
      window.take(next);
      next.clear();
    }
  };
  parallel_ranges(ctx, op.batch.num_seqs * d, row_grain(16 * op.out.rows()),
                  [&](int64_t begin, int64_t end, int) {
                    for (int64_t i = begin; i < end; ++i) pool_channel(i / d, i % d);
                  });
}

void check(const MarkCompressed& op) {
  const ShapeCheck shapes(op.kName, {});
  const auto seqs = static_cast<size_t>(op.batch.num_seqs);
  shapes.require(op.batch.cu_seqlens_q.size() == seqs + 1 && op.batch.seq_lens.size() == seqs,
                 "the arrays of the batch must match its number of sequences", "num_seqs ", seqs);
  shapes.require(op.keys.tokens > 0 && op.keys.block > 0 && op.keys.slots >= 0 && op.window >= 0,
                 "sizes must be positive", "tokens ", op.keys.tokens, ", block ", op.keys.block, ", slots ",
                 op.keys.slots, ", window ", op.window);
  const int32_t longest = seqs == 0 ? 1 : std::ranges::max(op.batch.seq_lens);
  shapes.require(op.mask.words != nullptr && op.keys.place_of_token(longest - 1) < op.mask.stride * 64,
                 "a row's mask must reach the place of the last token", op.mask.stride, " words, ", longest,
                 " tokens");
  shapes.require(op.selected.words == nullptr || op.selected.stride * 64 >= longest / op.keys.tokens,
                 "a row's selection must reach the last compressed key", op.selected.stride, " words, ",
                 longest, " tokens");
}

OpCost cost(const MarkCompressed& op) {
  const int64_t rows = op.batch.cu_seqlens_q[static_cast<size_t>(op.batch.num_seqs)];
  return {.label = "mark keys",
          .bytes = static_cast<double>(rows * op.mask.stride) * static_cast<double>(sizeof(uint64_t)),
          .rows = rows};
}

void run_reference(const OpContext& ctx, const MarkCompressed& op) {
  const auto& bounds = op.batch.cu_seqlens_q;
  const int64_t rows = bounds[static_cast<size_t>(op.batch.num_seqs)];
  parallel_ranges(ctx, rows, row_grain(op.mask.stride + 8 * op.window), [&](int64_t begin, int64_t end, int) {
    const auto* after = std::upper_bound(bounds.data(), bounds.data() + op.batch.num_seqs, begin);
    auto seq = static_cast<size_t>(after - bounds.data() - 1);
    for (int64_t row = begin; row < end; ++row) {
      while (bounds[seq + 1] <= row) ++seq;
      const int64_t length = op.batch.seq_lens[seq];
      std::fill_n(op.mask.row(row), op.keys.place_of_token(length - 1) / 64 + 1, uint64_t{0});
      mark_row(op.mask.row(row), length - (bounds[seq + 1] - row), op.keys, op.window, op.selected.row(row));
    }
  });
}

}  // namespace ops
}  // namespace quire
