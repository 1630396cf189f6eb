// Readers of a tile of the cache for the products of attention: the E of attention.inc.h.
//
// A step adds kDepth terms at once: dimensions of a score, or positions of a weighted value. Steps start at
// multiples of kDepth. A reader defines T, an element of the cache; Query, an element of a query; query_of(),
// the query of a query row; key() and value(), a step of 16 positions or dimensions; query() and weight(),
// the operands that they are multiplied by; multiply(); and store_weights(). Readers of the cache itself also
// define steps(): 16 steps of positions, starting at a group, in one dimension of the keys.

constexpr int kGroups = static_cast<int>(kTile / 16);  // groups of 16 positions in a tile

// The terms of a step that count. At the ends of the visible range a step may be partial.
enum Terms { kAllTerms, kFirstTerm, kSecondTerm };

// Calls f(position, terms) for the steps that contain positions [begin, end).
template <int kDepth, class F>
void for_each_step(int64_t begin, int64_t end, F f) {
  if constexpr (kDepth == 1) {
    for (int64_t p = begin; p < end; ++p) f(p, kAllTerms);
  } else {
    static_assert(kDepth == 2);
    int64_t p = begin;
    if (p % 2 != 0 && p < end) f(p++ - 1, kSecondTerm);
    for (; p + 2 <= end; p += 2) f(p, kAllTerms);
    if (p < end) f(p, kFirstTerm);
  }
}

// A tile copied to bfloat16, which represents 8-bit elements exactly.
template <class V>
struct WideSingles;
template <class V>
struct TransposedSingles;

// One fused multiply-add per term.
template <class V>
struct SingleTerms {
  using F = typename V::F;
  using Query = float;
  static constexpr int kDepth = 1;

  static const Query* query_of(const QueryRow& query_row) { return query_row.q; }
  static F query(const Query* q, int64_t d) { return V::set1(q[d]); }
  static F weight(const float* weights, int64_t p) { return V::set1(weights[p]); }
  static F multiply(F x, F y, F sum) { return V::fma(x, y, sum); }
  static void store_weights(float* weights, int group, F w) { V::store(weights + 16 * group, w); }
};

// Reads the cache itself. 8-bit elements are widened once if many query rows read them.
template <class V, class S>
struct Singles : SingleTerms<V> {
  using F = typename V::F;
  using T = typename S::T;
  using Wide = WideSingles<V>;
  using Transposed = TransposedSingles<V>;
  static constexpr bool kWidens = sizeof(T) == 1;

  const T* keys[kGroups];  // element (d, i) of a group of 16 positions is keys[group][d * stride + i]
  int64_t stride;
  const T* values[kTile];

  F key(int group, int64_t d) const { return S::template load<V>(keys[group] + d * stride); }
  F steps(int group, int64_t d) const { return key(group, d); }
  F value(int64_t p, Terms, int64_t dim, int64_t lanes) const {
    const T* at = values[p] + dim;
    return lanes < 16 ? S::template load_part<V>(at, lanes) : S::template load<V>(at);
  }
};

// Some value dimensions, transposed out of keys.
template <class V>
struct TransposedSingles : SingleTerms<V> {
  using F = typename V::F;
  using T = float;

  float* values;  // [kTile, kTransposedDims]

  F value(int64_t p, Terms, int64_t dim, int64_t) const { return V::load(value_at(p, dim)); }
  float* value_at(int64_t p, int64_t dim) const { return values + p * kTransposedDims + dim; }
  static void store(float* to, F v) { V::store(to, v); }
  static TransposedSingles at(float* scratch) {
    TransposedSingles transposed;
    transposed.values = scratch;
    return transposed;
  }
};

// Layout of a copied tile: keys [head_dim / depth, kTile, depth], values [kTile / depth, stride, depth].
template <int kDepth>
struct WidePlaces {
  using T = uint16_t;
  static constexpr bool kWidens = false;

  uint16_t* keys;
  uint16_t* values;
  int64_t values_stride;

  uint16_t* key_at(int group, int64_t d) const { return keys + d * kTile + 16 * kDepth * group; }
  uint16_t* value_at(int64_t p, int64_t dim) const { return values + p * values_stride + kDepth * dim; }
};

template <class V>
struct WideSingles : SingleTerms<V>, WidePlaces<1> {
  using F = typename V::F;
  F key(int group, int64_t d) const { return V::load_bf16(key_at(group, d)); }
  F value(int64_t p, Terms, int64_t dim, int64_t) const { return V::load_bf16(value_at(p, dim)); }
  static void store(uint16_t* to, F v) { V::store_bf16_exact(to, v); }
};
