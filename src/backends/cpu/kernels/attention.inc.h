// Attention of a chunk of query lines over positions of one sequence, tile by tile.
//
// Order of every sum: a score runs over head_dim from first to last; a tile's weights are added lane by lane
// (16 lanes, tiles' four groups of 16 positions in pairs), then across lanes; a line's output runs over the
// positions from first to last. Tiles and segments begin at fixed positions. So a line's state depends on its
// query, the cache, low and high alone.

constexpr int kLineBlock = 6;
constexpr int kGroups = static_cast<int>(kTile / 16);  // groups of 16 positions in a tile

// Where the keys of each group of 16 positions of a tile are: element (d, i) at group[g][d * stride + i].
template <class S>
struct KeyTile {
  const typename S::T* group[kGroups];
  int64_t stride;
};

// scores[r][16 g + i] = q[r] . key of position 16 g + i, for kCount groups from `first` on.
template <class V, class S, int kRows, int kCount>
void score_block(const float* const* q, const KeyTile<S>& tile, int first, int64_t head_dim, float* scores) {
  using F = typename V::F;
  F sum[kRows][kCount];
  QUIRE_UNROLL
  for (int r = 0; r < kRows; ++r) {
    QUIRE_UNROLL
    for (int g = 0; g < kCount; ++g) sum[r][g] = V::zero();
  }
  for (int64_t d = 0; d < head_dim; ++d) {
    F key[kCount];
    QUIRE_UNROLL
    for (int g = 0; g < kCount; ++g) key[g] = S::template load<V>(tile.group[first + g] + d * tile.stride);
    QUIRE_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const F v = V::set1(q[r][d]);
      QUIRE_UNROLL
      for (int g = 0; g < kCount; ++g) sum[r][g] = V::fma(v, key[g], sum[r][g]);
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

template <class V, class S, int kRows>
void score_rows(int rows, const float* const* q, const KeyTile<S>& tile, int first, int last,
                int64_t head_dim, float* scores) {
  if constexpr (kRows > 1) {
    if (rows < kRows) return score_rows<V, S, kRows - 1>(rows, q, tile, first, last, head_dim, scores);
  }
  constexpr int kCount = columns_for<V>(kRows);
  for (; first + kCount <= last; first += kCount)
    score_block<V, S, kRows, kCount>(q, tile, first, head_dim, scores);
  for (; first < last; ++first) score_block<V, S, kRows, 1>(q, tile, first, head_dim, scores);
}

// acc[r][16 c + i] += sum over positions [begin, end) of weights[r][position] * values[position][16 c + i].
template <class V, class S, int kRows, int kCount>
void weigh_block(const typename S::T* const* values, int64_t begin, int64_t end, int64_t dim, int64_t lanes,
                 const float* weights, float* acc, int64_t acc_stride) {
  using F = typename V::F;
  F sum[kRows][kCount];
  QUIRE_UNROLL
  for (int r = 0; r < kRows; ++r) {
    QUIRE_UNROLL
    for (int c = 0; c < kCount; ++c) sum[r][c] = V::load(acc + r * acc_stride + dim + 16 * c);
  }
  for (int64_t p = begin; p < end; ++p) {
    F value[kCount];
    QUIRE_UNROLL
    for (int c = 0; c < kCount; ++c) {
      const typename S::T* at = values[p] + dim + 16 * c;
      value[c] = kCount == 1 && lanes < 16 ? S::template load_part<V>(at, lanes) : S::template load<V>(at);
    }
    QUIRE_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const F w = V::set1(weights[r * kTile + p]);
      QUIRE_UNROLL
      for (int c = 0; c < kCount; ++c) sum[r][c] = V::fma(w, value[c], sum[r][c]);
    }
  }
  QUIRE_UNROLL
  for (int r = 0; r < kRows; ++r) {
    QUIRE_UNROLL
    for (int c = 0; c < kCount; ++c) V::store(acc + r * acc_stride + dim + 16 * c, sum[r][c]);
  }
}

template <class V, class S, int kRows>
void weigh_rows(int rows, const typename S::T* const* values, int64_t begin, int64_t end, int64_t head_dim,
                const float* weights, float* acc, int64_t acc_stride) {
  if constexpr (kRows > 1) {
    if (rows < kRows) {
      return weigh_rows<V, S, kRows - 1>(rows, values, begin, end, head_dim, weights, acc, acc_stride);
    }
  }
  if (begin >= end) return;
  constexpr int kCount = columns_for<V>(kRows);
  int64_t dim = 0;
  for (; dim + 16 * kCount <= head_dim; dim += 16 * kCount) {
    weigh_block<V, S, kRows, kCount>(values, begin, end, dim, 16, weights, acc, acc_stride);
  }
  for (; dim < head_dim; dim += 16) {
    weigh_block<V, S, kRows, 1>(values, begin, end, dim, head_dim - dim, weights, acc, acc_stride);
  }
}

// The scales of a tile's positions; those that nobody sees are 0.
struct TileScales {
  float key[kTile];
  float value[kTile];
};

// Turns a line's scores of one tile, of which [low, high) count, into softmax weights, and its state with
// them. `scales` of formats that have some. The weights that are left in `scores` carry what the values are
// to be multiplied by.
template <class V, class S>
void softmax_tile(const AttentionArgs& args, const TileScales& scales, float* scores, int64_t low,
                  int64_t high, bool fresh, float* line_max, float* line_sum, float* acc) {
  using F = typename V::F;
  const F none = V::set1(-__builtin_inff());
  const F factor = V::set1(args.scale * S::kFactor);
  F score[kGroups];
  QUIRE_UNROLL
  for (int g = 0; g < kGroups; ++g) {
    // The lanes outside are chosen away, whatever the memory under them holds.
    const auto seen = V::lanes(low - 16 * g, high - 16 * g);
    F s = V::load(scores + 16 * g);
    if constexpr (S::kTokenScales) s = V::mul(s, V::load(scales.key + 16 * g));
    s = V::mul(s, factor);
    if (args.softcap > 0.0F) s = V::mul(V::set1(args.softcap), tanh<V>(V::div(s, V::set1(args.softcap))));
    score[g] = V::select(seen, s, none);
  }
  static_assert(kGroups == 4);
  float highest = V::reduce_max(V::max(V::max(score[0], score[1]), V::max(score[2], score[3])));
  if (!fresh && *line_max > highest) highest = *line_max;
  QUIRE_UNROLL
  for (int g = 0; g < kGroups; ++g) {
    const auto seen = V::lanes(low - 16 * g, high - 16 * g);
    score[g] = V::select(seen, exp<V>(V::sub(score[g], V::set1(highest))), V::zero());
    F weight = score[g];
    if constexpr (S::kTokenScales) weight = V::mul(weight, V::load(scales.value + 16 * g));
    if constexpr (S::kFactor != 1.0F) weight = V::mul(weight, V::set1(S::kFactor));
    V::store(scores + 16 * g, weight);
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
           (args.kv_head * args.block_size + position % args.block_size) * args.head_dim;
  }
  const float* key_scales(int64_t position) const { return scales(position, args.scales_offset); }
  const float* value_scales(int64_t position) const {
    return scales(position, args.values_offset + args.scales_offset);
  }

 private:
  const std::byte* block(int64_t position) const {
    return args.keys + args.blocks[position / args.block_size] * args.block_stride;
  }
  const T* at(int64_t position, int64_t offset) const {
    return reinterpret_cast<const T*>(block(position) + offset);
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
template <class S>
void find_keys(const AttentionArgs& args, int64_t origin, int64_t begin, int64_t end, KeyTile<S>* tile) {
  using T = typename S::T;
  const PagedRows<S> rows{args};
  const int first = static_cast<int>((begin - origin) / 16);
  const int last = static_cast<int>((end - origin + 15) / 16);
  if (args.block_size % 16 == 0) {
    tile->stride = args.block_size;
    for (int g = first; g < last; ++g) tile->group[g] = rows.keys(origin + 16 * g);
    return;
  }
  T* gathered = static_cast<T*>(args.key_tile);
  tile->stride = kTile;
  for (int g = first; g < last; ++g) tile->group[g] = gathered + 16 * g;
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

// Few lines leave no time to wait for memory, and blocks lie anywhere, so that the processor cannot guess the
// next one: values are asked for before the scores, the next tile's keys before the values.
inline void prefetch_bytes(const void* begin, int64_t bytes) {
  const char* p = static_cast<const char*>(begin);
  for (int64_t i = 0; i < bytes; i += 64) _mm_prefetch(p + i, _MM_HINT_T0);
}

template <class S>
void prefetch_keys(const AttentionArgs& args, int64_t begin, int64_t end) {
  if (args.block_size % 16 != 0) return;
  const PagedRows<S> rows{args};
  const int64_t row_bytes = args.block_size * static_cast<int64_t>(sizeof(typename S::T));
  for (int64_t p = begin; p < end; p += 16) {
    const auto* keys = rows.keys(p);
    if constexpr (S::kTokenScales) {
      prefetch_bytes(rows.key_scales(p), 16 * sizeof(float));
      prefetch_bytes(rows.value_scales(p), 16 * sizeof(float));
    }
    if (args.block_size == 16) {
      prefetch_bytes(keys, args.head_dim * row_bytes);
    } else {
      for (int64_t d = 0; d < args.head_dim; ++d)
        prefetch_bytes(keys + d * args.block_size, 16 * sizeof(typename S::T));
    }
  }
}

// The weighted values of lines [first, last) of the chunk. Lines that see all the positions go together; what
// only some of them see goes line by line, before and after, so that each line's order is that of the
// positions.
template <class V, class S>
void weigh_lines(const AttentionArgs& args, const typename S::T* const* values, int64_t origin, int first,
                 int last, const AttentionState& state) {
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
  const auto one = [&](int l, int64_t begin, int64_t end) {
    weigh_rows<V, S, 1>(1, values, begin, end, args.head_dim, args.scores + l * kTile,
                        state.acc + l * args.acc_stride, args.acc_stride);
  };
  if (common_low >= common_high) {
    for (int l = first; l < last; ++l) one(l, low[l - first], high[l - first]);
    return;
  }
  for (int l = first; l < last; ++l) one(l, low[l - first], common_low);
  weigh_rows<V, S, kLineBlock>(last - first, values, common_low, common_high, args.head_dim,
                               args.scores + first * kTile, state.acc + first * args.acc_stride,
                               args.acc_stride);
  for (int l = first; l < last; ++l) one(l, common_high, high[l - first]);
}

template <class V, class S>
void attend_tile(const AttentionArgs& args, const AttentionState& state, int64_t segment, int64_t origin) {
  // Both ends of what lines see ascend, so those that see any of the tile stand together.
  int first = 0;
  while (first < args.num_lines && args.lines[first].high <= origin) ++first;
  int last = args.num_lines;
  while (last > first && args.lines[last - 1].low >= origin + kTile) --last;
  if (first == last) return;
  const int64_t begin = args.lines[first].low > origin ? args.lines[first].low : origin;
  const int64_t last_high = args.lines[last - 1].high;
  const int64_t end = last_high < origin + kTile ? last_high : origin + kTile;

  KeyTile<S> tile;
  find_keys<S>(args, origin, begin, end, &tile);
  TileScales scales;
  if constexpr (S::kTokenScales) find_scales<S>(args, origin, begin, end, &scales);
  const int first_group = static_cast<int>((begin - origin) / 16);
  const int last_group = static_cast<int>((end - origin + 15) / 16);
  const typename S::T* values[kTile];
  const PagedRows<S> rows{args};
  for (int64_t p = begin; p < end;) {
    const typename S::T* row = rows.values(p);
    const int64_t left = args.block_size - p % args.block_size;
    const int64_t run_end = end - p < left ? end : p + left;
    for (; p < run_end; ++p, row += args.head_dim) values[p - origin] = row;
  }

  const int lines = last - first;
  const int blocks = (lines + kLineBlock - 1) / kLineBlock;
  if (blocks == 1) {
    const int64_t row_bytes = args.head_dim * static_cast<int64_t>(sizeof(typename S::T));
    for (int64_t p = begin; p < end; ++p) prefetch_bytes(values[p - origin], row_bytes);
  }
  for (int b = 0; b < blocks; ++b) {
    const int from = first + lines * b / blocks;
    const int to = first + lines * (b + 1) / blocks;
    const float* q[kLineBlock];
    for (int l = from; l < to; ++l) q[l - from] = args.lines[l].q;
    score_rows<V, S, kLineBlock>(to - from, q, tile, first_group, last_group, args.head_dim,
                                 args.scores + from * kTile);
    for (int l = from; l < to; ++l) {
      const AttentionLine& line = args.lines[l];
      const int64_t seen_first = line.low > segment ? line.low : segment;
      softmax_tile<V, S>(args, scales, args.scores + l * kTile, line.low - origin, line.high - origin,
                         seen_first >= origin, state.max + l, state.sum + l, state.acc + l * args.acc_stride);
    }
    if (blocks == 1 && last_high > origin + kTile) {
      prefetch_keys<S>(args, origin + kTile, last_high < origin + 2 * kTile ? last_high : origin + 2 * kTile);
    }
    weigh_lines<V, S>(args, values, origin, from, to, state);
  }
}

template <class V, class S>
void attend_segment(const AttentionArgs& args, AttentionState state, int64_t begin, int64_t end) {
  for (int64_t origin = begin; origin < end; origin += kTile) attend_tile<V, S>(args, state, begin, origin);
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
void attention_finish(float* out, const float* acc, float sum, int64_t head_dim) {
  for (int64_t i = 0; i < head_dim; i += 16) {
    store_up_to_16<V>(out + i, V::div(V::load(acc + i), V::set1(sum)), head_dim - i);
  }
}
