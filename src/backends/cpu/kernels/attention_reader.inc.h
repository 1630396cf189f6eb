// How the products of attention read a tile of the cache: an E of attention.inc.h.
//
// A step adds kDepth terms at once: dimensions of a score, positions of a weighted value. Steps begin at
// fixed places, multiples of kDepth. What a reader must have: T, an element of the cache; Query, what a query
// is made of; query_of() of a line; key() and value(), a step of 16 positions or dimensions; query() and
// weight(), what meets it; multiply(); store_weights(). Of the cache itself also: steps(), 16 steps of
// positions from a group on in one dimension of keys.

constexpr int kGroups = static_cast<int>(kTile / 16);  // groups of 16 positions in a tile

// Which terms of a step count: at the ends of what a line sees, not all.
enum Terms { kAllTerms, kFirstTerm, kSecondTerm };

// f(position, terms) for the steps that hold positions [begin, end).
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

// A tile copied into bfloat16, which holds each 8-bit element exactly.
template <class V>
struct WideSingles;
template <class V>
struct TurnedSingles;

// One fused multiply-add for each term.
template <class V>
struct SingleTerms {
  using F = typename V::F;
  using Query = float;
  static constexpr int kDepth = 1;

  static const Query* query_of(const AttentionLine& line) { return line.q; }
  static F query(const Query* q, int64_t d) { return V::set1(q[d]); }
  static F weight(const float* weights, int64_t p) { return V::set1(weights[p]); }
  static F multiply(F x, F y, F sum) { return V::fma(x, y, sum); }
  static void store_weights(float* weights, int group, F w) { V::store(weights + 16 * group, w); }
};

// The cache itself. 8-bit elements are widened once for all where many lines read them.
template <class V, class S>
struct Singles : SingleTerms<V> {
  using F = typename V::F;
  using T = typename S::T;
  using Wide = WideSingles<V>;
  using Turned = TurnedSingles<V>;
  static constexpr bool kWidens = sizeof(T) == 1;

  const T* keys[kGroups];  // element (d, i) of a group of 16 positions at keys[group][d * stride + i]
  int64_t stride;
  const T* values[kTile];

  F key(int group, int64_t d) const { return S::template load<V>(keys[group] + d * stride); }
  F steps(int group, int64_t d) const { return key(group, d); }
  F value(int64_t p, Terms, int64_t dim, int64_t lanes) const {
    const T* at = values[p] + dim;
    return lanes < 16 ? S::template load_part<V>(at, lanes) : S::template load<V>(at);
  }
};

// Some dimensions of values that were turned out of keys.
template <class V>
struct TurnedSingles : SingleTerms<V> {
  using F = typename V::F;
  using T = float;

  float* values;  // [kTile, kTurnedDims]

  F value(int64_t p, Terms, int64_t dim, int64_t) const { return V::load(value_at(p, dim)); }
  float* value_at(int64_t p, int64_t dim) const { return values + p * kTurnedDims + dim; }
  static void store(float* to, F v) { V::store(to, v); }
  static TurnedSingles at(float* scratch) {
    TurnedSingles turned;
    turned.values = scratch;
    return turned;
  }
};

// Where a copied tile keeps a step: keys [head_dim / depth, kTile, depth], values [kTile / depth, stride,
// depth].
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
