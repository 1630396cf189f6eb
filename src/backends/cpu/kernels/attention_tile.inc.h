// A tile of positions in the cache: its addresses, the part of it that query rows see, and copies of it for
// many query rows.

// Memory that is read next: for each group of 16 positions, a run of 16 * head_dim elements. In a block, the
// keys and the values of a head are such runs. Blocks have arbitrary addresses, so the hardware prefetcher
// cannot predict the next one; kernels prefetch it piece by piece between the multiplications of the current
// tile. Null if there is nothing to prefetch.
using NextRuns = const char* [kGroups];

// Prefetches 64 elements of each of kCount runs, from run `first`, at element `offset` of each run.
template <int kBytes, int kCount>
void prefetch_groups(const char* const* ahead, int first, int64_t offset) {
  QUIRE_UNROLL
  for (int g = 0; g < kCount; ++g) {
    QUIRE_UNROLL
    for (int i = 0; i < kBytes; ++i) _mm_prefetch(ahead[first + g] + offset * kBytes + 64 * i, _MM_HINT_T0);
  }
}

// The scales of a tile's positions; 0 for positions that no query row sees.
struct TileScales {
  float key[kTile];
  float value[kTile];
};

// Addresses of a sequence's positions.
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
  // The part of a head's memory, 16 elements per dimension, that corresponds to the group of 16 positions at
  // `position`. The runs of all groups of a block cover the memory of the head.
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

// Copies the scales of positions [begin, end) of the tile at `origin`.
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

// Sets the addresses of the keys of positions [begin, end) of the tile at `origin`. If the block size is not
// a multiple of 16, keys are gathered first.
template <class S, class E>
void find_keys(const AttentionArgs& args, int64_t origin, int64_t begin, int64_t end, E* tile) {
  using T = typename S::T;
  const PagedRows<S> rows{args};
  const int first = static_cast<int>((begin - origin) / 16);
  const int last = static_cast<int>((end - origin + 15) / 16);
  if (args.block_size % 16 == 0) {
    tile->stride = args.block_size;
    // Groups outside of the range use the address of a valid group.
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

// Sets the runs of a head's keys, or values, of positions [begin, end) of the tile at `origin`. Returns false
// if the block size is not a multiple of 16; such blocks are not prefetched.
template <class S, bool kKeys>
bool find_runs(const AttentionArgs& args, int64_t origin, int64_t begin, int64_t end, NextRuns runs) {
  if (args.block_size % 16 != 0 || begin >= end) return false;
  const PagedRows<S> rows{args};
  for (int g = 0; g < kGroups; ++g) {
    // Groups outside of the range repeat a valid one; prefetching it again has no effect.
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

// The query rows that see part of a tile, and the range of positions that at least one of them sees.
struct TileView {
  int first;
  int last;
  int64_t begin;
  int64_t end;

  // kv_begin and kv_end both ascend, so the rows that see part of the tile are consecutive.
  TileView(const AttentionArgs& args, int64_t origin) : first(0), last(args.num_query_rows) {
    while (first < args.num_query_rows && args.query_rows[first].kv_end <= origin) ++first;
    while (last > first && args.query_rows[last - 1].kv_begin >= origin + kTile) --last;
    if (first == last) return;
    begin = args.query_rows[first].kv_begin > origin ? args.query_rows[first].kv_begin : origin;
    end =
        args.query_rows[last - 1].kv_end < origin + kTile ? args.query_rows[last - 1].kv_end : origin + kTile;
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

// Copies a tile's keys to the form that many query rows read. ahead: memory to prefetch meanwhile.
template <class E, class W>
void widen_keys(const AttentionArgs& args, int64_t origin, const TileView& view, const E& narrow,
                const char* const* ahead, W* wide) {
  constexpr int kBytes = sizeof(typename E::T);
  const int first_group = static_cast<int>((view.begin - origin) / 16);
  const int last_group = static_cast<int>((view.end - origin + 15) / 16);
  wide->keys = args.wide_keys;
  for (int g = first_group; g < last_group; ++g) {
    for (int64_t d = 0; d < args.head_dim; d += E::kDepth) {
      if (ahead != nullptr && d % 4 == 0) prefetch_groups<kBytes, 1>(ahead, g, 16 * d);
      W::store(wide->key_at(g, d), narrow.key(g, d));
    }
  }
}

// Same, for its values.
template <class E, class W>
void widen_values(const AttentionArgs& args, int64_t origin, const TileView& view, const E& narrow,
                  const char* const* ahead, W* wide) {
  constexpr int kBytes = sizeof(typename E::T);
  wide->values = args.wide_values;
  wide->values_stride = args.acc_stride;
  for_each_step<E::kDepth>(view.begin - origin, view.end - origin, [&](int64_t p, Terms terms) {
    for (int64_t d = 0; d < args.value_dim; d += 16) {
      if (ahead != nullptr && d % 64 == 0)
        prefetch_groups<kBytes, 1>(ahead, static_cast<int>(p / 16), p % 16 * args.value_dim + d);
      W::store(wide->value_at(p, d), narrow.value(p, terms, d, args.value_dim - d));
    }
  });
}

// Transposes dimensions [first, first + count) of the keys, which are also the values, to the memory in which
// `to` reads values. The tokens of a dimension are contiguous, so 16 dimensions of 16 steps are transposed at
// a time.
template <class V, class E, class W>
void transpose_values(int64_t origin, const TileView& view, const E& keys, int64_t first, int64_t count,
                      W* to) {
  const int first_group = static_cast<int>((view.begin - origin) / 16) / E::kDepth * E::kDepth;
  const int last_group = static_cast<int>((view.end - origin + 15) / 16);
  for (int g = first_group; g < last_group; g += E::kDepth) {
    for (int64_t dim = 0; dim < count; dim += 16) {
      typename V::F steps[16];
      QUIRE_UNROLL
      for (int i = 0; i < 16; ++i) {
        // Lanes after the last dimension are padding that is never read.
        const int64_t d = dim + i < count ? dim + i : count - 1;
        steps[i] = keys.steps(g, first + d);
      }
      V::transpose(steps);
      QUIRE_UNROLL
      for (int i = 0; i < 16; ++i) W::store(to->value_at(16 * g + i * E::kDepth, dim), steps[i]);
    }
  }
}
