// Number formats of the KV cache, and writing tokens to a block.
//
// A format converts 16 elements to lanes and back. An element is its lane times kFactor and, if kTokenScales,
// times the scale of its token. Attention multiplies scores and weights by them, once per position instead of
// once per element. kFactor is a power of two, so multiplying by it is exact.

struct KvF32 : StoredF32 {
  static constexpr float kFactor = 1.0F;
  static constexpr bool kTokenScales = false;
  template <class V>
  static void store(T* p, typename V::F v) {
    V::store(p, v);
  }
};

struct KvBF16 : StoredBF16 {
  static constexpr float kFactor = 1.0F;
  static constexpr bool kTokenScales = false;
  template <class V>
  static void store(T* p, typename V::F v) {
    V::store_bf16(p, v);
  }
};

struct KvF16 : StoredF16 {
  static constexpr float kFactor = 1.0F;
  static constexpr bool kTokenScales = false;
  template <class V>
  static void store(T* p, typename V::F v) {
    V::store_f16(p, v);
  }
};

struct KvE4M3 {
  using T = uint8_t;
  static constexpr float kFactor = 256.0F;
  static constexpr bool kTokenScales = false;
  template <class V>
  static typename V::F load(const T* p) {
    return V::load_e4m3(p);
  }
  template <class V>
  static typename V::F load_part(const T* p, int64_t n) {
    return V::load_e4m3_part(p, n);
  }
  template <class V>
  static void store(T* p, typename V::F v) {
    V::template store_f8<3, -6>(p, v, 448.0F);
  }
};

struct KvE5M2 {
  using T = uint8_t;
  static constexpr float kFactor = 1.0F;
  static constexpr bool kTokenScales = false;
  template <class V>
  static typename V::F load(const T* p) {
    return V::load_e5m2(p);
  }
  template <class V>
  static typename V::F load_part(const T* p, int64_t n) {
    return V::load_e5m2_part(p, n);
  }
  template <class V>
  static void store(T* p, typename V::F v) {
    V::template store_f8<2, -14>(p, v, 57344.0F);
  }
};

struct KvI8 {
  using T = int8_t;
  static constexpr float kFactor = 1.0F;
  static constexpr bool kTokenScales = true;
  template <class V>
  static typename V::F load(const T* p) {
    return V::load_i8(p);
  }
  template <class V>
  static typename V::F load_part(const T* p, int64_t n) {
    return V::load_i8_part(p, n);
  }
  // Lanes within [-127, 127] after rounding.
  template <class V>
  static void store(T* p, typename V::F v) {
    V::store_i8(p, v);
  }
};

// int8_scale of quant/codec.h.
template <class V>
float token_scale(const float* x, int64_t n) {
  using F = typename V::F;
  F largest = V::zero();
  F flaws = V::zero();  // stays 0 while all elements are finite, otherwise NaN
  for (int64_t i = 0; i < n; i += 16) {
    const F v = load_up_to_16<V>(x + i, n - i);
    largest = V::max(V::abs(v), largest);
    flaws = V::add(flaws, V::sub(v, v));
  }
  if (V::reduce_add(flaws) != 0.0F) return __builtin_nanf("");
  return V::reduce_max(largest) / 127.0F;
}

// Prepares lanes of one head of one token for storing.
template <class V, class S>
struct TokenEncoder {
  using F = typename V::F;
  float scale = 1.0F;

  TokenEncoder() = default;
  TokenEncoder(const float* x, int64_t n) {
    if constexpr (S::kTokenScales) scale = token_scale<V>(x, n);
  }
  F operator()(F v) const {
    if constexpr (S::kTokenScales) {
      if (!(scale > 0.0F)) return V::zero();
      return V::min(V::max(V::div(v, V::set1(scale)), V::set1(-127.0F)), V::set1(127.0F));
    } else {
      return v;
    }
  }
};

// Writes the values of consecutive tokens; a token's values are contiguous.
template <class V, class S>
void write_values(const KvWriteArgs& args, int64_t head) {
  using T = typename S::T;
  const int64_t d = args.value_dim;
  for (int64_t t = 0; t < args.count; ++t) {
    const int64_t at = head * args.block_size + args.offset + t;
    T* values = reinterpret_cast<T*>(args.values) + at * d;
    const float* v = args.v + t * args.v_stride + head * d;
    const TokenEncoder<V, S> encode(v, d);
    if constexpr (S::kTokenScales)
      reinterpret_cast<float*>(args.values + args.value_scales)[at] = encode.scale;
    for (int64_t i = 0; i < d; i += 16) {
      const int64_t n = d - i < 16 ? d - i : 16;
      T lanes[16];
      S::template store<V>(lanes, encode(load_up_to_16<V>(v + i, n)));
      for (int64_t j = 0; j < n; ++j) values[i + j] = lanes[j];
    }
  }
}

// Writes the keys of consecutive tokens. In a block, the tokens of one dimension are contiguous, so 16
// dimensions of all tokens are converted and then transposed. Each cache line of the block is written once
// instead of once per token.
template <class V, class S>
void write_keys(const KvWriteArgs& args, int64_t head) {
  using T = typename S::T;
  const int64_t d = args.head_dim;
  T* keys = reinterpret_cast<T*>(args.keys) + head * d * args.block_size + args.offset;
  const float* k = args.k + head * d;
  float scales[kMaxRun];
  if constexpr (S::kTokenScales) {
    float* stored =
        reinterpret_cast<float*>(args.keys + args.key_scales) + head * args.block_size + args.offset;
    for (int64_t t = 0; t < args.count; ++t) stored[t] = scales[t] = token_scale<V>(k + t * args.k_stride, d);
  }
  T lanes[kMaxRun][16];
  for (int64_t i = 0; i < d; i += 16) {
    const int64_t n = d - i < 16 ? d - i : 16;
    for (int64_t t = 0; t < args.count; ++t) {
      TokenEncoder<V, S> encode;
      if constexpr (S::kTokenScales) encode.scale = scales[t];
      S::template store<V>(lanes[t], encode(load_up_to_16<V>(k + t * args.k_stride + i, n)));
    }
    for (int64_t j = 0; j < n; ++j) {
      T* line = keys + (i + j) * args.block_size;
      for (int64_t t = 0; t < args.count; ++t) line[t] = lanes[t][j];
    }
  }
}

template <class V, class S>
void kv_write(const KvWriteArgs& args) {
  for (int64_t h = 0; h < args.num_heads; ++h) {
    write_keys<V, S>(args, h);
    if (args.v != nullptr) write_values<V, S>(args, h);
  }
}
