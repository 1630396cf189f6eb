// Indexer scores of positions for one row: for each head, the product of its query and the position's key;
// negative products are set to zero, then weighted and added head by head. A product accumulates over
// head_dim from first to last, so a score depends only on its row and the cache.

// Computes the products of several heads, starting at `first`, with a tile, in args.scores, kTile per head.
// Returns the number of heads.
template <class V, class E>
int score_some_heads(const AttentionArgs& args, const float* q, int heads, int first, const E& tile,
                     int groups) {
  const int count = heads - first < kQueryRowBlock ? heads - first : kQueryRowBlock;
  const float* lines[kQueryRowBlock];
  for (int l = 0; l < count; ++l) lines[l] = q + (first + l) * args.head_dim;
  score_rows<V, E, kQueryRowBlock>(count, lines, tile, 0, groups, args.head_dim, args.scores, nullptr);
  return count;
}

// out[p - begin] for positions [begin, end), begin a multiple of kTile. args has the addresses of the keys
// and the scratch `scores`. q: [heads, head_dim]; weights: [heads].
template <class V, class S>
void score_keys(const AttentionArgs& args, const float* q, const float* weights, int heads, int64_t begin,
                int64_t end, float* out) {
  using F = typename V::F;
  using E = Singles<V, S>;
  const PagedRows<S> rows{args};
  for (int64_t origin = begin; origin < end; origin += kTile) {
    const int64_t tile_end = end < origin + kTile ? end : origin + kTile;
    const int groups = static_cast<int>((tile_end - origin + 15) / 16);
    E tile;
    find_keys<S>(args, origin, origin, tile_end, &tile);
    F sum[kGroups];
    for (int g = 0; g < kGroups; ++g) sum[g] = V::zero();
    for (int first = 0; first < heads; first += kQueryRowBlock) {
      const int count = score_some_heads<V>(args, q, heads, first, tile, groups);
      for (int l = 0; l < count; ++l) {
        const F weight = V::set1(weights[first + l]);
        for (int g = 0; g < groups; ++g) {
          const F product = V::max(V::load(args.scores + l * kTile + 16 * g), V::zero());
          sum[g] = V::fma(weight, product, sum[g]);
        }
      }
    }
    float* to = out + (origin - begin);
    for (int g = 0; g < groups; ++g) {
      const int64_t left = tile_end - origin - 16 * g;
      store_up_to_16<V>(to + 16 * g, V::mul(sum[g], V::set1(S::kFactor)), left);
    }
    if constexpr (S::kTokenScales) {
      for (int64_t p = origin; p < tile_end; ++p) to[p - origin] *= *rows.key_scales(p);
    }
  }
}

// Only the order of the scores matters, so the factor of the format is omitted. args.values_offset is 0.
template <class V, class S>
void score_blocks(const AttentionArgs& args, const float* q, int heads, int64_t block, int64_t begin,
                  int64_t end, float* out, int64_t stride) {
  using F = typename V::F;
  using E = Singles<V, S>;
  const F none = V::set1(-__builtin_inff());
  for (int64_t origin = begin; origin < end; origin += kTile) {
    const int64_t tile_end = end < origin + kTile ? end : origin + kTile;
    const int groups = static_cast<int>((tile_end - origin + 15) / 16);
    E tile;
    find_keys<S>(args, origin, origin, tile_end, &tile);
    TileScales scales;
    if constexpr (S::kTokenScales) find_scales<S>(args, origin, origin, tile_end, &scales);
    for (int first = 0; first < heads; first += kQueryRowBlock) {
      const int count = score_some_heads<V>(args, q, heads, first, tile, groups);
      for (int l = 0; l < count; ++l) {
        for (int g = 0; g < groups; ++g) {
          F product = V::load(args.scores + l * kTile + 16 * g);
          if constexpr (S::kTokenScales) product = V::mul(product, V::load(scales.key + 16 * g));
          product = V::select(V::lanes(0, tile_end - origin - 16 * g), product, none);
          const float highest = V::reduce_max(product);
          const int64_t at = origin + 16 * g - begin;
          float* best = out + (first + l) * stride + at / block;
          if (at % block == 0 || highest > *best) *best = highest;
        }
      }
    }
  }
}
