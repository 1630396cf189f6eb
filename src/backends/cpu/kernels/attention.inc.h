// Attention of a chunk of query lines over positions of one sequence, tile by tile.
//
// Order of every sum: a score runs over head_dim from first to last; a tile's weights are added lane by lane
// (16 lanes, tiles' four groups of 16 positions in pairs), then across lanes; a line's output runs over the
// positions from first to last, in the steps of its terms. Tiles, segments and steps begin at fixed
// positions. So a line's state depends on its query, the cache, low and high alone.

constexpr int kLineBlock = 6;

// What is read next: for each group of 16 positions a run of 16 times as many elements as a head has. The
// memory of a head is such a run in a block, keys and values alike, and blocks lie anywhere, so that the
// processor cannot guess the next one. It is asked for piece by piece between the multiplications over what
// is there. Null: nothing to ask for.
using NextRuns = const char* [kGroups];

// The kCount pieces of 64 elements from `offset` of the runs from `first` on.
template <int kBytes, int kCount>
void prefetch_groups(const char* const* ahead, int first, int64_t offset) {
  QUIRE_UNROLL
  for (int g = 0; g < kCount; ++g) {
    QUIRE_UNROLL
    for (int i = 0; i < kBytes; ++i) _mm_prefetch(ahead[first + g] + offset * kBytes + 64 * i, _MM_HINT_T0);
  }
}

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

// The scales of a tile's positions; those that nobody sees are 0.
struct TileScales {
  float key[kTile];
  float value[kTile];
};

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

// The memory of a sequence's positions.
template <class S>
struct PagedRows {
  using T = typename S::T;
  const AttentionArgs& args;

  const T* keys(int64_t position) const {
    return at(position, 0) + args.kv_head * args.head_dim * args.block_size + position % args.block_size;
  }
  const T* values(int64_t position) const {
    return at(position, args.values_offset) +
           (args.kv_head * args.block_size + position % args.block_size) * args.value_dim;
  }
  // The run of 16 dimensions' elements that belongs to the group of 16 positions at `position`: of whole
  // blocks and of several groups in a block together it is the head's memory, whatever the order inside.
  const char* key_run(int64_t position) const { return run(position, 0, args.head_dim); }
  const char* value_run(int64_t position) const { return run(position, args.values_offset, args.value_dim); }
  const float* key_scales(int64_t position) const { return scales(position, args.key_scales); }
  const float* value_scales(int64_t position) const {
    return scales(position, args.values_offset + args.value_scales);
  }

 private:
  const std::byte* block(int64_t position) const {
    return args.keys + args.blocks[position / args.block_size] * args.block_stride;
  }
  const T* at(int64_t position, int64_t offset) const {
    return reinterpret_cast<const T*>(block(position) + offset);
  }
  const char* run(int64_t position, int64_t offset, int64_t dim) const {
    return reinterpret_cast<const char*>(at(position, offset) +
                                         (args.kv_head * args.block_size + position % args.block_size) * dim);
  }
  const float* scales(int64_t position, int64_t offset) const {
    return reinterpret_cast<const float*>(block(position) + offset) + args.kv_head * args.block_size +
           position % args.block_size;
  }
};

// The scales of positions [begin, end) of the tile at `origin`.
template <class S>
void find_scales(const AttentionArgs& args, int64_t origin, int64_t begin, int64_t end, TileScales* tile) {
  const PagedRows<S> rows{args};
  if (end - begin < kTile) *tile = {};
  for (int64_t p = begin; p < end;) {
    const float* keys = rows.key_scales(p);
    const float* values = rows.value_scales(p);
    const int64_t left = args.block_size - p % args.block_size;
    const int64_t run_end = end - p < left ? end : p + left;
    for (; p < run_end; ++p) {
      tile->key[p - origin] = *keys++;
      tile->value[p - origin] = *values++;
    }
  }
}

// Finds the keys of positions [begin, end) of the tile at `origin`; where blocks are not made of whole groups
// they are gathered first.
template <class S, class E>
void find_keys(const AttentionArgs& args, int64_t origin, int64_t begin, int64_t end, E* tile) {
  using T = typename S::T;
  const PagedRows<S> rows{args};
  const int first = static_cast<int>((begin - origin) / 16);
  const int last = static_cast<int>((end - origin + 15) / 16);
  if (args.block_size % 16 == 0) {
    tile->stride = args.block_size;
    // A group that is not there stands for itself as another one.
    for (int g = 0; g < kGroups; ++g)
      tile->keys[g] = rows.keys(g >= first && g < last ? origin + 16 * g : origin + 16 * first);
    return;
  }
  T* gathered = static_cast<T*>(args.key_tile);
  tile->stride = kTile;
  for (int g = 0; g < kGroups; ++g) tile->keys[g] = gathered + 16 * g;
  for (int64_t p = begin; p < end;) {
    const int64_t left = args.block_size - p % args.block_size;
    const int64_t run = end - p < left ? end - p : left;
    const T* from = rows.keys(p);
    T* to = gathered + (p - origin);
    for (int64_t d = 0; d < args.head_dim; ++d) {
      for (int64_t i = 0; i < run; ++i) to[d * kTile + i] = from[d * args.block_size + i];
    }
    p += run;
  }
}

// Where a head's keys, or its values, of positions [begin, end) of the tile at `origin` lie; false where
// blocks are not made of whole groups, which nobody asks ahead for.
template <class S, bool kKeys>
bool find_runs(const AttentionArgs& args, int64_t origin, int64_t begin, int64_t end, NextRuns runs) {
  if (args.block_size % 16 != 0 || begin >= end) return false;
  const PagedRows<S> rows{args};
  for (int g = 0; g < kGroups; ++g) {
    // A group that is not there stands for itself once more: asking for it again does nothing.
    int64_t p = origin + 16 * g;
    if (p + 16 <= begin || p >= end) p = begin / 16 * 16;
    runs[g] = kKeys ? rows.key_run(p) : rows.value_run(p);
    if constexpr (S::kTokenScales && kKeys) {
      _mm_prefetch(reinterpret_cast<const char*>(rows.key_scales(p)), _MM_HINT_T0);
      _mm_prefetch(reinterpret_cast<const char*>(rows.value_scales(p)), _MM_HINT_T0);
    }
  }
  return true;
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

// Which lines see some of a tile, and which positions of it any of them sees.
struct TileView {
  int first;
  int last;
  int64_t begin;
  int64_t end;

  // Both ends of what lines see ascend, so those that see any of the tile stand together.
  TileView(const AttentionArgs& args, int64_t origin) : first(0), last(args.num_lines) {
    while (first < args.num_lines && args.lines[first].high <= origin) ++first;
    while (last > first && args.lines[last - 1].low >= origin + kTile) --last;
    if (first == last) return;
    begin = args.lines[first].low > origin ? args.lines[first].low : origin;
    end = args.lines[last - 1].high < origin + kTile ? args.lines[last - 1].high : origin + kTile;
  }
};

template <class S, class E>
void find_values(const AttentionArgs& args, int64_t origin, const TileView& view, E* tile) {
  const PagedRows<S> rows{args};
  for (int64_t p = view.begin; p < view.end;) {
    const typename S::T* row = rows.values(p);
    const int64_t left = args.block_size - p % args.block_size;
    const int64_t run_end = view.end - p < left ? view.end : p + left;
    for (; p < run_end; ++p, row += args.value_dim) tile->values[p - origin] = row;
  }
}

// Copies a tile into the form that many lines read. own_values, next_keys: what to ask for meanwhile.
template <class E, class W>
void widen_tile(const AttentionArgs& args, int64_t origin, const TileView& view, const E& narrow,
                const char* const* own_values, const char* const* next_keys, W* wide) {
  constexpr int kBytes = sizeof(typename E::T);
  const int first_group = static_cast<int>((view.begin - origin) / 16);
  const int last_group = static_cast<int>((view.end - origin + 15) / 16);
  wide->keys = args.wide_keys;
  wide->values = args.wide_values;
  wide->values_stride = args.acc_stride;
  for (int g = first_group; g < last_group; ++g) {
    for (int64_t d = 0; d < args.head_dim; d += E::kDepth) {
      if (own_values != nullptr && d % 4 == 0) prefetch_groups<kBytes, 1>(own_values, g, 16 * d);
      W::store(wide->key_at(g, d), narrow.key(g, d));
    }
  }
  for_each_step<E::kDepth>(view.begin - origin, view.end - origin, [&](int64_t p, Terms terms) {
    for (int64_t d = 0; d < args.value_dim; d += 16) {
      if (next_keys != nullptr && d % 64 == 0)
        prefetch_groups<kBytes, 1>(next_keys, static_cast<int>(p / 16), p % 16 * args.head_dim + d);
      W::store(wide->value_at(p, d), narrow.value(p, terms, d, args.value_dim - d));
    }
  });
}

// Lines of a tile: scores of all blocks of lines, softmax weights, weighted values. So the first-level cache
// holds keys, then values, and not both. S is the cache's format, E how the products read it. own_values,
// next_keys: what to ask for during the first block.
template <class V, class S, class E>
void attend_lines(const AttentionArgs& args, const AttentionState& state, int64_t segment, int64_t origin,
                  const TileView& view, const E& tile, const TileScales& scales,
                  const char* const* own_values, const char* const* next_keys) {
  const int first_group = static_cast<int>((view.begin - origin) / 16);
  const int last_group = static_cast<int>((view.end - origin + 15) / 16);
  const int lines = view.last - view.first;
  const int blocks = (lines + kLineBlock - 1) / kLineBlock;
  const auto block_begin = [&](int b) { return view.first + lines * b / blocks; };
  for (int b = 0; b < blocks; ++b) {
    const int from = block_begin(b);
    const int to = block_begin(b + 1);
    const typename E::Query* q[kLineBlock];
    for (int l = from; l < to; ++l) q[l - from] = E::query_of(args.lines[l]);
    score_rows<V, E, kLineBlock>(to - from, q, tile, first_group, last_group, args.head_dim,
                                 args.scores + from * kTile, b == 0 ? own_values : nullptr);
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
  for (int b = 0; b < blocks; ++b)
    weigh_lines<V, E>(args, tile, origin, block_begin(b), block_begin(b + 1), state,
                      b == 0 ? next_keys : nullptr);
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

// next_keys: where the keys begin that are read after this tile, or null.
template <class V, class S, template <class, class> class Reader>
void attend_tile(const AttentionArgs& args, const AttentionState& state, int64_t segment, int64_t origin,
                 const char* const* next_keys) {
  using E = Reader<V, S>;
  const TileView view(args, origin);
  if (view.first == view.last || skip_tile<V>(args, state, segment, origin, view)) return;
  E tile;
  find_keys<S>(args, origin, view.begin, view.end, &tile);
  find_values<S>(args, origin, view, &tile);
  NextRuns runs;
  const char* const* own_values =
      find_runs<S, false>(args, origin, view.begin, view.end, runs) ? runs : nullptr;
  TileScales scales;
  if constexpr (S::kTokenScales) find_scales<S>(args, origin, view.begin, view.end, &scales);
  if constexpr (E::kWidens) {
    if (view.last - view.first >= kWidenLines) {
      typename E::Wide wide;
      widen_tile(args, origin, view, tile, own_values, next_keys, &wide);
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
