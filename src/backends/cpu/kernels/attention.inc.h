// Attention of a chunk of query lines over positions of one sequence, tile by tile.
//
// Order of every sum: a score runs over head_dim from first to last; a tile's weights are added lane by lane
// (16 lanes, tiles' four groups of 16 positions in pairs), then across lanes; a line's output runs over the
// positions from first to last, in the steps of its terms. Tiles, segments and steps begin at fixed
// positions. So a line's state depends on its query, the cache, low and high alone.

constexpr int kLineBlock = 6;

// scores[r][16 g + i] = q[r] . key of position 16 g + i, for kCount groups from `first` on.
template <class V, class E, int kRows, int kCount>
void score_block(const typename E::Query* const* q, const E& tile, int first, int64_t head_dim, float* scores,
                 const char* const* ahead) {
  using F = typename V::F;
  F sum[kRows][kCount];
  QUIRE_UNROLL
  for (int r = 0; r < kRows; ++r) {
    QUIRE_UNROLL
    for (int g = 0; g < kCount; ++g) sum[r][g] = V::zero();
  }
  for (int64_t d = 0; d < head_dim; d += E::kDepth) {
    if (ahead != nullptr && d % 4 == 0) prefetch_groups<sizeof(typename E::T), kCount>(ahead, first, 16 * d);
    F key[kCount];
    QUIRE_UNROLL
    for (int g = 0; g < kCount; ++g) key[g] = tile.key(first + g, d);
    QUIRE_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const F v = E::query(q[r], d);
      QUIRE_UNROLL
      for (int g = 0; g < kCount; ++g) sum[r][g] = E::multiply(v, key[g], sum[r][g]);
    }
  }
  QUIRE_UNROLL
  for (int r = 0; r < kRows; ++r) {
    QUIRE_UNROLL
    for (int g = 0; g < kCount; ++g) V::store(scores + r * kTile + (first + g) * 16, sum[r][g]);
  }
}

// Groups (or vectors of 16 dimensions) that go with a block of `rows` lines.
template <class V>
constexpr int columns_for(int rows) {
  return rows * 4 <= V::kMaxAccumulators ? 4 : rows * 2 <= V::kMaxAccumulators ? 2 : 1;
}

template <class V, class E, int kRows>
void score_rows(int rows, const typename E::Query* const* q, const E& tile, int first, int last,
                int64_t head_dim, float* scores, const char* const* ahead) {
  if constexpr (kRows > 1) {
    if (rows < kRows) return score_rows<V, E, kRows - 1>(rows, q, tile, first, last, head_dim, scores, ahead);
  }
  constexpr int kCount = columns_for<V>(kRows);
  // Sums of one or two lines wait for each other: all groups take no longer than one. Those that are not
  // there are chosen away later.
  if constexpr (kRows <= 2 && kCount == kGroups) {
    return score_block<V, E, kRows, kCount>(q, tile, 0, head_dim, scores, ahead);
  }
  for (; first + kCount <= last; first += kCount)
    score_block<V, E, kRows, kCount>(q, tile, first, head_dim, scores, ahead);
  for (; first < last; ++first) score_block<V, E, kRows, 1>(q, tile, first, head_dim, scores, ahead);
}

// acc[r][16 c + i] += sum over positions [begin, end) of weights[r][position] * values[position][16 c + i].
template <class V, class E, int kRows, int kCount>
void weigh_block(const E& tile, int64_t begin, int64_t end, int64_t dim, int64_t lanes, const float* weights,
                 float* acc, int64_t acc_stride, const char* const* ahead, int64_t value_dim) {
  using F = typename V::F;
  F sum[kRows][kCount];
  QUIRE_UNROLL
  for (int r = 0; r < kRows; ++r) {
    QUIRE_UNROLL
    for (int c = 0; c < kCount; ++c) sum[r][c] = V::load(acc + r * acc_stride + dim + 16 * c);
  }
  for_each_step<E::kDepth>(
      begin, end, [&](int64_t p, Terms terms) __attribute__((always_inline)) {
        if (ahead != nullptr && p % 4 == 0) {
          const char* run[kCount];
          QUIRE_UNROLL
          for (int c = 0; c < kCount; ++c) run[c] = ahead[p / 16] + 64 * c * sizeof(typename E::T);
          prefetch_groups<sizeof(typename E::T), kCount>(run, 0, p % 16 * value_dim + 4 * dim);
        }
        F value[kCount];
        QUIRE_UNROLL
        for (int c = 0; c < kCount; ++c)
          value[c] = tile.value(p, terms, dim + 16 * c, kCount == 1 ? lanes : 16);
        QUIRE_UNROLL
        for (int r = 0; r < kRows; ++r) {
          const F w = E::weight(weights + r * kTile, p);
          QUIRE_UNROLL
          for (int c = 0; c < kCount; ++c) sum[r][c] = E::multiply(w, value[c], sum[r][c]);
        }
      });
  QUIRE_UNROLL
  for (int r = 0; r < kRows; ++r) {
    QUIRE_UNROLL
    for (int c = 0; c < kCount; ++c) V::store(acc + r * acc_stride + dim + 16 * c, sum[r][c]);
  }
}

template <class V, class E, int kRows>
void weigh_rows(int rows, const E& tile, int64_t begin, int64_t end, int64_t value_dim, const float* weights,
                float* acc, int64_t acc_stride, const char* const* ahead) {
  if constexpr (kRows > 1) {
    if (rows < kRows) {
      return weigh_rows<V, E, kRows - 1>(rows, tile, begin, end, value_dim, weights, acc, acc_stride, ahead);
    }
  }
  if (begin >= end) return;
  constexpr int kCount = columns_for<V>(kRows);
  int64_t dim = 0;
  for (; dim + 16 * kCount <= value_dim; dim += 16 * kCount) {
    weigh_block<V, E, kRows, kCount>(tile, begin, end, dim, 16, weights, acc, acc_stride, ahead, value_dim);
  }
  for (; dim < value_dim; dim += 16) {
    weigh_block<V, E, kRows, 1>(tile, begin, end, dim, value_dim - dim, weights, acc, acc_stride, ahead,
                                value_dim);
  }
}

// exp() of x <= 0, with the same bits: there is nothing to clamp, since what falls below the range is chosen
// away, whatever was computed for it.
template <class V>
typename V::F exp_down(typename V::F x) {
  const auto [p, n] = exp_parts<V>(x);
  return V::select(V::less(x, V::set1(-86.6F)), V::zero(), V::times_pow2(p, n));
}

constexpr uint64_t kAllBits = ~uint64_t{0};
static_assert(kTile == 64);
// Of a tile's positions those that a line has chosen.
inline uint64_t chosen_bits(const AttentionLine& line, int64_t origin) {
  return line.chosen == nullptr ? kAllBits : line.chosen[origin / kTile];
}
// Below all scores, and yet a number: the highest score of a line that has chosen nothing so far.
constexpr float kNoScore = -3.4028234e38F;

constexpr float kLaneNumbers[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

// Turns a line's products of one tile, of which those of [low, high) count whose bits are set, into scores,
// in place; returns the highest one. `scales` of formats that have some.
template <class V, class S>
float finish_scores(const AttentionArgs& args, const TileScales& scales, float slope, float* scores,
                    int64_t low, int64_t high, uint64_t bits) {
  using F = typename V::F;
  const F none = V::set1(-__builtin_inff());
  const F factor = V::set1(args.scale * S::kFactor);
  const bool whole = low <= 0 && high >= kTile;
  F score[kGroups];
  QUIRE_UNROLL
  for (int g = 0; g < kGroups; ++g) {
    F s = V::load(scores + 16 * g);
    if constexpr (S::kTokenScales) s = V::mul(s, V::load(scales.key + 16 * g));
    s = V::mul(s, factor);
    if (args.softcap > 0.0F) s = V::mul(V::set1(args.softcap), tanh<V>(V::div(s, V::set1(args.softcap))));
    if (args.alibi) {
      const F distance = V::add(V::load(kLaneNumbers), V::set1(static_cast<float>(16 * g + 1 - high)));
      s = V::fma(V::set1(slope), distance, s);
    }
    // The lanes outside are chosen away, whatever the memory under them holds.
    if (!whole) s = V::select(V::lanes(low - 16 * g, high - 16 * g), s, none);
    if (bits != kAllBits) s = V::select(V::lanes_of(static_cast<uint16_t>(bits >> (16 * g))), s, none);
    score[g] = s;
    V::store(scores + 16 * g, score[g]);
  }
  static_assert(kGroups == 4);
  return V::reduce_max(V::max(V::max(score[0], score[1]), V::max(score[2], score[3])));
}

// Turns a line's scores of one tile into softmax weights below `highest`, no less than any of them, and its
// state with them. The weights that are left in `scores`, as E reads them, carry what the values are to be
// multiplied by.
template <class V, class S, class E>
void softmax_tile(const AttentionArgs& args, const TileScales& scales, float highest, float* scores,
                  bool fresh, float* line_max, float* line_sum, float* acc) {
  using F = typename V::F;
  F score[kGroups];
  QUIRE_UNROLL
  for (int g = 0; g < kGroups; ++g) {
    score[g] = exp_down<V>(V::sub(V::load(scores + 16 * g), V::set1(highest)));
    F weight = score[g];
    if constexpr (S::kTokenScales) weight = V::mul(weight, V::load(scales.value + 16 * g));
    if constexpr (S::kFactor != 1.0F) weight = V::mul(weight, V::set1(S::kFactor));
    E::store_weights(scores, g, weight);
  }
  const float sum = V::reduce_add(V::add(V::add(score[0], score[1]), V::add(score[2], score[3])));
  if (fresh) {
    *line_sum = sum;
    for (int64_t i = 0; i < args.acc_stride; i += 16) V::store(acc + i, V::zero());
  } else {
    if (highest != *line_max) {
      const F shrink = exp<V>(V::sub(V::set1(*line_max), V::set1(highest)));
      float lanes[16];
      V::store(lanes, shrink);
      *line_sum *= lanes[0];
      for (int64_t i = 0; i < args.acc_stride; i += 16) V::store(acc + i, V::mul(V::load(acc + i), shrink));
    }
    *line_sum += sum;
  }
  *line_max = highest;
}

// The weighted values of lines [first, last) of the chunk. Lines that see all the positions go together; what
// only some of them see goes line by line, before and after, so that each line's order is that of the
// positions.
template <class V, class E>
void weigh_lines(const AttentionArgs& args, const E& tile, int64_t origin, int first, int last,
                 const AttentionState& state, const char* const* ahead) {
  int64_t low[kLineBlock];
  int64_t high[kLineBlock];
  int64_t common_low = 0;
  int64_t common_high = kTile;
  for (int l = first; l < last; ++l) {
    const AttentionLine& line = args.lines[l];
    low[l - first] = line.low > origin ? line.low - origin : 0;
    high[l - first] = line.high - origin < kTile ? line.high - origin : kTile;
    if (low[l - first] > common_low) common_low = low[l - first];
    if (high[l - first] < common_high) common_high = high[l - first];
  }
  // Whole steps alone: where a line sees a part of a step, the others must not be added to it.
  common_low = (common_low + E::kDepth - 1) / E::kDepth * E::kDepth;
  common_high = common_high / E::kDepth * E::kDepth;
  const auto one = [&](int l, int64_t begin, int64_t end) {
    weigh_rows<V, E, 1>(1, tile, begin, end, args.value_dim, args.scores + l * kTile,
                        state.acc + l * args.acc_stride, args.acc_stride, nullptr);
  };
  if (common_low >= common_high) {
    for (int l = first; l < last; ++l) one(l, low[l - first], high[l - first]);
    return;
  }
  for (int l = first; l < last; ++l) one(l, low[l - first], common_low);
  weigh_rows<V, E, kLineBlock>(last - first, tile, common_low, common_high, args.value_dim,
                               args.scores + first * kTile, state.acc + first * args.acc_stride,
                               args.acc_stride, ahead);
  for (int l = first; l < last; ++l) one(l, common_high, high[l - first]);
}

// Lines of a tile in blocks of nearly one size.
struct LineBlocks {
  int first;
  int lines;
  int count;

  explicit LineBlocks(const TileView& view)
      : first(view.first),
        lines(view.last - view.first),
        count((view.last - view.first + kLineBlock - 1) / kLineBlock) {}
  int begin(int b) const { return first + lines * b / count; }
};

// Lines of a tile: scores of all blocks of lines, then softmax weights. S is the cache's format, E how the
// products read it. ahead: what to ask for during the first block.
template <class V, class S, class E>
void find_weights(const AttentionArgs& args, const AttentionState& state, int64_t segment, int64_t origin,
                  const TileView& view, const E& tile, const TileScales& scales, const char* const* ahead) {
  const int first_group = static_cast<int>((view.begin - origin) / 16);
  const int last_group = static_cast<int>((view.end - origin + 15) / 16);
  const LineBlocks blocks(view);
  for (int b = 0; b < blocks.count; ++b) {
    const int from = blocks.begin(b);
    const int to = blocks.begin(b + 1);
    const typename E::Query* q[kLineBlock];
    for (int l = from; l < to; ++l) q[l - from] = E::query_of(args.lines[l]);
    score_rows<V, E, kLineBlock>(to - from, q, tile, first_group, last_group, args.head_dim,
                                 args.scores + from * kTile, b == 0 ? ahead : nullptr);
  }
  // Line by line, but apart: what waits for one line's highest score lets the next lines' arithmetic pass.
  float highest[kMaxLines];
  for (int l = view.first; l < view.last; ++l) {
    const AttentionLine& line = args.lines[l];
    highest[l] = finish_scores<V, S>(args, scales, line.slope, args.scores + l * kTile, line.low - origin,
                                     line.high - origin, chosen_bits(line, origin));
    if (line.chosen != nullptr && highest[l] < kNoScore) highest[l] = kNoScore;
  }
  for (int l = view.first; l < view.last; ++l) {
    const int64_t low = args.lines[l].low;
    const bool fresh = (low > segment ? low : segment) >= origin;
    if (!fresh && state.max[l] > highest[l]) highest[l] = state.max[l];
    softmax_tile<V, S, E>(args, scales, highest[l], args.scores + l * kTile, fresh, state.max + l,
                          state.sum + l, state.acc + l * args.acc_stride);
  }
}

// The weighted values of all of them.
template <class V, class E>
void weigh_values(const AttentionArgs& args, const AttentionState& state, int64_t origin,
                  const TileView& view, const E& tile, const char* const* ahead) {
  const LineBlocks blocks(view);
  for (int b = 0; b < blocks.count; ++b)
    weigh_lines<V, E>(args, tile, origin, blocks.begin(b), blocks.begin(b + 1), state,
                      b == 0 ? ahead : nullptr);
}

// Both: so the first-level cache holds keys, then values, and not both.
template <class V, class S, class E>
void attend_lines(const AttentionArgs& args, const AttentionState& state, int64_t segment, int64_t origin,
                  const TileView& view, const E& tile, const TileScales& scales,
                  const char* const* own_values, const char* const* next_keys) {
  find_weights<V, S>(args, state, segment, origin, view, tile, scales, own_values);
  weigh_values<V>(args, state, origin, view, tile, next_keys);
}

// From this many lines on, tiles are copied into the form that is read fastest: for fewer the copy costs more
// than it saves.
constexpr int kWidenLines = 2 * kLineBlock + 1;

// A tile of which no line has chosen anything: begins the states of those that see nothing before it. What
// weighs nothing adds zeros, so a line may as well be among others that have chosen something.
template <class V>
bool skip_tile(const AttentionArgs& args, const AttentionState& state, int64_t segment, int64_t origin,
               const TileView& view) {
  for (int l = view.first; l < view.last; ++l) {
    if (chosen_bits(args.lines[l], origin) != 0) return false;
  }
  for (int l = view.first; l < view.last; ++l) {
    const int64_t low = args.lines[l].low;
    if ((low > segment ? low : segment) < origin) continue;
    state.max[l] = kNoScore;
    state.sum[l] = 0.0F;
    for (int64_t i = 0; i < args.acc_stride; i += 16)
      V::store(state.acc + l * args.acc_stride + i, V::zero());
  }
  return true;
}

// A tile whose values lie in its keys. They are turned some dimensions at a time, which stay in the
// first-level cache while all lines read them.
template <class V, class S, class E>
void attend_keys_alone(const AttentionArgs& args, const AttentionState& state, int64_t segment,
                       int64_t origin, const TileView& view, const E& tile, const TileScales& scales,
                       const char* const* next_keys) {
  bool widened = false;
  if constexpr (E::kWidens) {
    widened = view.last - view.first >= kWidenLines;
    if (widened) {
      typename E::Wide wide;
      widen_keys(args, origin, view, tile, next_keys, &wide);
      find_weights<V, S>(args, state, segment, origin, view, wide, scales, nullptr);
    }
  }
  if (!widened) find_weights<V, S>(args, state, segment, origin, view, tile, scales, next_keys);
  auto values = E::Turned::at(args.turned);
  for (int64_t dim = 0; dim < args.value_dim; dim += kTurnedDims) {
    AttentionArgs part = args;
    part.value_dim = args.value_dim - dim < kTurnedDims ? args.value_dim - dim : kTurnedDims;
    turn_values<V>(origin, view, tile, args.head_dim - args.value_dim + dim, part.value_dim, &values);
    weigh_values<V>(part, {state.max, state.sum, state.acc + dim}, origin, view, values, nullptr);
  }
}

// next_keys: where the keys begin that are read after this tile, or null.
template <class V, class S, template <class, class> class Reader>
void attend_tile(const AttentionArgs& args, const AttentionState& state, int64_t segment, int64_t origin,
                 const char* const* next_keys) {
  using E = Reader<V, S>;
  const TileView view(args, origin);
  if (view.first == view.last || skip_tile<V>(args, state, segment, origin, view)) return;
  E tile;
  find_keys<S>(args, origin, view.begin, view.end, &tile);
  TileScales scales;
  if constexpr (S::kTokenScales) find_scales<S>(args, origin, view.begin, view.end, &scales);
  if (args.values_in_keys)
    return attend_keys_alone<V, S>(args, state, segment, origin, view, tile, scales, next_keys);
  find_values<S>(args, origin, view, &tile);
  NextRuns runs;
  const char* const* own_values =
      find_runs<S, false>(args, origin, view.begin, view.end, runs) ? runs : nullptr;
  if constexpr (E::kWidens) {
    if (view.last - view.first >= kWidenLines) {
      typename E::Wide wide;
      widen_keys(args, origin, view, tile, own_values, &wide);
      widen_values(args, origin, view, tile, next_keys, &wide);
      return attend_lines<V, S>(args, state, segment, origin, view, wide, scales, nullptr, nullptr);
    }
  }
  attend_lines<V, S>(args, state, segment, origin, view, tile, scales, own_values, next_keys);
}

// Tile by tile, and in a tile key head by key head.
template <class V, class S, template <class, class> class Reader>
void attend_segment(const AttentionArgs& args, AttentionState state, int64_t begin, int64_t end) {
  const auto of_head = [&args](int head) {
    AttentionArgs own = args;
    own.lines += head * args.line_stride;
    own.kv_head += head;
    return own;
  };
  for (int64_t origin = begin; origin < end; origin += kTile) {
    for (int h = 0; h < args.num_kv_heads; ++h) {
      const bool last = h + 1 == args.num_kv_heads;
      const AttentionArgs coming = of_head(last ? 0 : h + 1);
      const int64_t next_origin = last ? origin + kTile : origin;
      const int64_t next_end = end < next_origin + kTile ? end : next_origin + kTile;
      NextRuns runs;
      const char* const* next_keys =
          find_runs<S, true>(coming, next_origin, next_origin, next_end, runs) ? runs : nullptr;
      const int64_t at = int64_t{h} * args.line_stride;
      const AttentionState own = {state.max + at, state.sum + at, state.acc + at * args.acc_stride};
      attend_tile<V, S, Reader>(of_head(h), own, begin, origin, next_keys);
    }
  }
}

template <class V>
void attention_merge(float* total_max, float* total_sum, float* total_acc, float next_max, float next_sum,
                     const float* next_acc, int64_t acc_stride) {
  using F = typename V::F;
  const float highest = next_max > *total_max ? next_max : *total_max;
  const F old_share = exp<V>(V::sub(V::set1(*total_max), V::set1(highest)));
  const F new_share = exp<V>(V::sub(V::set1(next_max), V::set1(highest)));
  float old_lanes[16];
  float new_lanes[16];
  V::store(old_lanes, old_share);
  V::store(new_lanes, new_share);
  *total_sum = *total_sum * old_lanes[0] + next_sum * new_lanes[0];
  *total_max = highest;
  for (int64_t i = 0; i < acc_stride; i += 16) {
    const F next = V::mul(V::load(next_acc + i), new_share);
    V::store(total_acc + i, V::fma(V::load(total_acc + i), old_share, next));
  }
}

template <class V>
void attention_finish(float* out, const float* acc, float max, float sum, const float* sink,
                      int64_t value_dim) {
  using F = typename V::F;
  F share = V::set1(1.0F);
  F total = V::set1(sum);
  if (sink != nullptr) {
    const F highest = V::set1(*sink > max ? *sink : max);
    share = exp<V>(V::sub(V::set1(max), highest));
    total = V::fma(total, share, exp<V>(V::sub(V::set1(*sink), highest)));
  }
  // A sum of zeros has whatever sign it met on its way: it leaves without one.
  for (int64_t i = 0; i < value_dim; i += 16) {
    const F result = V::div(V::mul(V::load(acc + i), share), total);
    store_up_to_16<V>(out + i, V::add(result, V::zero()), value_dim - i);
  }
}
