// Attention of a chunk of query rows over positions of one sequence, one tile at a time.
//
// Order of every sum: a score accumulates over head_dim from first to last. The weights of a tile are added
// lane by lane (16 lanes; the four groups of 16 positions in pairs), then across lanes. The output of a query
// row accumulates over positions from first to last, in the reader's steps. Tiles, KV splits and steps start
// at fixed positions, so the state of a query row depends only on its query, the cache, kv_begin and kv_end.

constexpr int kQueryRowBlock = 6;

// scores[r][16 g + i] = q[r] . key of position 16 g + i, for kCount groups starting at `first`.
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

// Number of groups of positions, or vectors of 16 dimensions, computed together for a block of `rows` query
// rows.
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
  // With one or two query rows, the latency of an accumulation chain dominates: all groups take no longer
  // than one. Scores of positions outside the range are masked later.
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

// exp() for x <= 0, with the same bits. No clamping is needed: results below the range are replaced by 0.
template <class V>
typename V::F exp_down(typename V::F x) {
  const auto [p, n] = exp_parts<V>(x);
  return V::select(V::less(x, V::set1(-86.6F)), V::zero(), V::times_pow2(p, n));
}

constexpr uint64_t kAllBits = ~uint64_t{0};
static_assert(kTile == 64);
// Bits of a tile's positions that the query row attends to.
inline uint64_t selected_bits(const QueryRow& query_row, int64_t origin) {
  return query_row.selected == nullptr ? kAllBits : query_row.selected[origin / kTile];
}
// A finite value below all scores: the maximum score of a query row that has no selected position so far.
constexpr float kNoScore = -3.4028234e38F;

constexpr float kLaneNumbers[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

// Converts the products of a query row with one tile to scores, in place, and masks positions outside of
// [kv_begin, kv_end) or whose bit is 0. Returns the highest score. `scales` is used if the format has scales
// per token.
template <class V, class S>
float finish_scores(const AttentionArgs& args, const TileScales& scales, float slope, float* scores,
                    int64_t kv_begin, int64_t kv_end, uint64_t bits) {
  using F = typename V::F;
  const F none = V::set1(-__builtin_inff());
  const F factor = V::set1(args.scale * S::kFactor);
  const bool whole = kv_begin <= 0 && kv_end >= kTile;
  F score[kGroups];
  QUIRE_UNROLL
  for (int g = 0; g < kGroups; ++g) {
    F s = V::load(scores + 16 * g);
    if constexpr (S::kTokenScales) s = V::mul(s, V::load(scales.key + 16 * g));
    s = V::mul(s, factor);
    if (args.softcap > 0.0F) s = V::mul(V::set1(args.softcap), tanh<V>(V::div(s, V::set1(args.softcap))));
    if (args.alibi) {
      const F distance = V::add(V::load(kLaneNumbers), V::set1(static_cast<float>(16 * g + 1 - kv_end)));
      s = V::fma(V::set1(slope), distance, s);
    }
    // Masks lanes outside of the range, whose memory may contain anything.
    if (!whole) s = V::select(V::lanes(kv_begin - 16 * g, kv_end - 16 * g), s, none);
    if (bits != kAllBits) s = V::select(V::lanes_of(static_cast<uint16_t>(bits >> (16 * g))), s, none);
    score[g] = s;
    V::store(scores + 16 * g, score[g]);
  }
  static_assert(kGroups == 4);
  return V::reduce_max(V::max(V::max(score[0], score[1]), V::max(score[2], score[3])));
}

// Converts the scores of a query row with one tile to softmax weights relative to `highest`, which is at
// least as large as each of them, and updates its state. The weights stored in `scores`, in the form that E
// reads, include the scales of the values.
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

// Accumulates the weighted values of query rows [first, last) of the chunk. Positions that all rows see are
// processed for all rows together; positions that only some rows see are processed row by row before and
// after them. So each row accumulates in order of position.
template <class V, class E>
void weighted_values_of_rows(const AttentionArgs& args, const E& tile, int64_t origin, int first, int last,
                             const AttentionState& state, const char* const* ahead) {
  int64_t kv_begin[kQueryRowBlock];
  int64_t kv_end[kQueryRowBlock];
  int64_t common_begin = 0;
  int64_t common_end = kTile;
  for (int l = first; l < last; ++l) {
    const QueryRow& query_row = args.query_rows[l];
    kv_begin[l - first] = query_row.kv_begin > origin ? query_row.kv_begin - origin : 0;
    kv_end[l - first] = query_row.kv_end - origin < kTile ? query_row.kv_end - origin : kTile;
    if (kv_begin[l - first] > common_begin) common_begin = kv_begin[l - first];
    if (kv_end[l - first] < common_end) common_end = kv_end[l - first];
  }
  // Only full steps are shared: if a query row sees only part of a step, the rest must not be added to it.
  common_begin = (common_begin + E::kDepth - 1) / E::kDepth * E::kDepth;
  common_end = common_end / E::kDepth * E::kDepth;
  const auto one = [&](int l, int64_t begin, int64_t end) {
    weigh_rows<V, E, 1>(1, tile, begin, end, args.value_dim, args.scores + l * kTile,
                        state.acc + l * args.acc_stride, args.acc_stride, nullptr);
  };
  if (common_begin >= common_end) {
    for (int l = first; l < last; ++l) one(l, kv_begin[l - first], kv_end[l - first]);
    return;
  }
  for (int l = first; l < last; ++l) one(l, kv_begin[l - first], common_begin);
  weigh_rows<V, E, kQueryRowBlock>(last - first, tile, common_begin, common_end, args.value_dim,
                                   args.scores + first * kTile, state.acc + first * args.acc_stride,
                                   args.acc_stride, ahead);
  for (int l = first; l < last; ++l) one(l, common_end, kv_end[l - first]);
}

// Divides the query rows of a tile into blocks of nearly equal size.
struct QueryRowBlocks {
  int first;
  int query_rows;
  int count;

  explicit QueryRowBlocks(const TileView& view)
      : first(view.first),
        query_rows(view.last - view.first),
        count((view.last - view.first + kQueryRowBlock - 1) / kQueryRowBlock) {}
  int begin(int b) const { return first + query_rows * b / count; }
};

// Computes scores, then softmax weights, for all query rows of a tile. S is the format of the cache, E the
// reader of the products. ahead: memory to prefetch during the first block.
template <class V, class S, class E>
void find_weights(const AttentionArgs& args, const AttentionState& state, int64_t split, int64_t origin,
                  const TileView& view, const E& tile, const TileScales& scales, const char* const* ahead) {
  const int first_group = static_cast<int>((view.begin - origin) / 16);
  const int last_group = static_cast<int>((view.end - origin + 15) / 16);
  const QueryRowBlocks blocks(view);
  for (int b = 0; b < blocks.count; ++b) {
    const int from = blocks.begin(b);
    const int to = blocks.begin(b + 1);
    const typename E::Query* q[kQueryRowBlock];
    for (int l = from; l < to; ++l) q[l - from] = E::query_of(args.query_rows[l]);
    score_rows<V, E, kQueryRowBlock>(to - from, q, tile, first_group, last_group, args.head_dim,
                                     args.scores + from * kTile, b == 0 ? ahead : nullptr);
  }
  // Two separate loops: while one query row waits for its maximum score, arithmetic of the next rows can
  // proceed.
  float highest[kMaxQueryRows];
  for (int l = view.first; l < view.last; ++l) {
    const QueryRow& query_row = args.query_rows[l];
    highest[l] = finish_scores<V, S>(args, scales, query_row.slope, args.scores + l * kTile,
                                     query_row.kv_begin - origin, query_row.kv_end - origin,
                                     selected_bits(query_row, origin));
    if (query_row.selected != nullptr && highest[l] < kNoScore) highest[l] = kNoScore;
  }
  for (int l = view.first; l < view.last; ++l) {
    const int64_t kv_begin = args.query_rows[l].kv_begin;
    const bool fresh = (kv_begin > split ? kv_begin : split) >= origin;
    if (!fresh && state.max[l] > highest[l]) highest[l] = state.max[l];
    softmax_tile<V, S, E>(args, scales, highest[l], args.scores + l * kTile, fresh, state.max + l,
                          state.sum + l, state.acc + l * args.acc_stride);
  }
}

// Accumulates the weighted values of all query rows of a tile.
template <class V, class E>
void weigh_values(const AttentionArgs& args, const AttentionState& state, int64_t origin,
                  const TileView& view, const E& tile, const char* const* ahead) {
  const QueryRowBlocks blocks(view);
  for (int b = 0; b < blocks.count; ++b)
    weighted_values_of_rows<V, E>(args, tile, origin, blocks.begin(b), blocks.begin(b + 1), state,
                                  b == 0 ? ahead : nullptr);
}

// Scores first, then values, so that L1 holds the keys or the values, but not both.
template <class V, class S, class E>
void attend_query_rows(const AttentionArgs& args, const AttentionState& state, int64_t split, int64_t origin,
                       const TileView& view, const E& tile, const TileScales& scales,
                       const char* const* own_values, const char* const* next_keys) {
  find_weights<V, S>(args, state, split, origin, view, tile, scales, own_values);
  weigh_values<V>(args, state, origin, view, tile, next_keys);
}

// Minimum number of query rows for which tiles are copied to the form that is fastest to read. For fewer rows
// the copy costs more than it saves.
constexpr int kWidenQueryRows = 2 * kQueryRowBlock + 1;

// Skips a tile of which no query row has selected a position, and initializes the states of rows that see
// nothing before it. Unselected positions add zeros, so a row with no selection may share a tile with others.
template <class V>
bool skip_tile(const AttentionArgs& args, const AttentionState& state, int64_t split, int64_t origin,
               const TileView& view) {
  for (int l = view.first; l < view.last; ++l) {
    if (selected_bits(args.query_rows[l], origin) != 0) return false;
  }
  for (int l = view.first; l < view.last; ++l) {
    const int64_t kv_begin = args.query_rows[l].kv_begin;
    if ((kv_begin > split ? kv_begin : split) < origin) continue;
    state.max[l] = kNoScore;
    state.sum[l] = 0.0F;
    for (int64_t i = 0; i < args.acc_stride; i += 16)
      V::store(state.acc + l * args.acc_stride + i, V::zero());
  }
  return true;
}

// A tile whose values are the last dimensions of its keys (MLA). Values are transposed a few dimensions at a
// time, and stay in L1 while all query rows read them.
template <class V, class S, class E>
void attend_keys_alone(const AttentionArgs& args, const AttentionState& state, int64_t split, int64_t origin,
                       const TileView& view, const E& tile, const TileScales& scales,
                       const char* const* next_keys) {
  bool widened = false;
  if constexpr (E::kWidens) {
    widened = view.last - view.first >= kWidenQueryRows;
    if (widened) {
      typename E::Wide wide;
      widen_keys(args, origin, view, tile, next_keys, &wide);
      find_weights<V, S>(args, state, split, origin, view, wide, scales, nullptr);
    }
  }
  if (!widened) find_weights<V, S>(args, state, split, origin, view, tile, scales, next_keys);
  auto values = E::Transposed::at(args.transposed);
  for (int64_t dim = 0; dim < args.value_dim; dim += kTransposedDims) {
    AttentionArgs part = args;
    part.value_dim = args.value_dim - dim < kTransposedDims ? args.value_dim - dim : kTransposedDims;
    transpose_values<V>(origin, view, tile, args.head_dim - args.value_dim + dim, part.value_dim, &values);
    weigh_values<V>(part, {state.max, state.sum, state.acc + dim}, origin, view, values, nullptr);
  }
}

// next_keys: address of the keys that are read after this tile, or null.
template <class V, class S, template <class, class> class Reader>
void attend_tile(const AttentionArgs& args, const AttentionState& state, int64_t split, int64_t origin,
                 const char* const* next_keys) {
  using E = Reader<V, S>;
  const TileView view(args, origin);
  if (view.first == view.last || skip_tile<V>(args, state, split, origin, view)) return;
  E tile;
  find_keys<S>(args, origin, view.begin, view.end, &tile);
  TileScales scales;
  if constexpr (S::kTokenScales) find_scales<S>(args, origin, view.begin, view.end, &scales);
  if (args.values_in_keys)
    return attend_keys_alone<V, S>(args, state, split, origin, view, tile, scales, next_keys);
  find_values<S>(args, origin, view, &tile);
  NextRuns runs;
  const char* const* own_values =
      find_runs<S, false>(args, origin, view.begin, view.end, runs) ? runs : nullptr;
  if constexpr (E::kWidens) {
    if (view.last - view.first >= kWidenQueryRows) {
      typename E::Wide wide;
      widen_keys(args, origin, view, tile, own_values, &wide);
      widen_values(args, origin, view, tile, next_keys, &wide);
      return attend_query_rows<V, S>(args, state, split, origin, view, wide, scales, nullptr, nullptr);
    }
  }
  attend_query_rows<V, S>(args, state, split, origin, view, tile, scales, own_values, next_keys);
}

// For each tile, all KV heads.
template <class V, class S, template <class, class> class Reader>
void attend_split(const AttentionArgs& args, AttentionState state, int64_t begin, int64_t end) {
  const auto of_head = [&args](int head) {
    AttentionArgs own = args;
    own.query_rows += head * args.query_row_stride;
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
      const int64_t at = int64_t{h} * args.query_row_stride;
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
  // A sum of zeros may be -0; adding 0 makes it +0.
  for (int64_t i = 0; i < value_dim; i += 16) {
    const F result = V::div(V::mul(V::load(acc + i), share), total);
    store_up_to_16<V>(out + i, V::add(result, V::zero()), value_dim - i);
  }
}
