// Conversion of elements of each storage format to lanes, and products with packed weights of each format.
//
// A stored row of a panel contains kDepth consecutive elements along K of all columns; those of one column
// are contiguous. A product processes it in kSteps steps, each with one X of the activations: the elements
// that one instruction multiplies by a register of weights.

struct StoredF32 {
  using T = float;
  using X = float;
  static constexpr int kDepth = 1;
  static constexpr int kSteps = 1;
  template <class V>
  static typename V::F load(const T* p) {
    return V::load(p);
  }
  template <class V>
  static typename V::F load_part(const T* p, int64_t n) {
    return V::load_part(p, n);
  }
  // One step, for the columns of one register.
  template <class V>
  static typename V::Narrow weights(const T* p, int) {
    return V::narrow_load(p);
  }
  template <class V>
  static typename V::Narrow multiply(X x, typename V::Narrow w, typename V::Narrow sum) {
    return V::narrow_fma(V::narrow_set1(x), w, sum);
  }
};

struct StoredBF16 {
  using T = uint16_t;
  using X = float;
  static constexpr int kDepth = 2;
  static constexpr int kSteps = 2;
  template <class V>
  static typename V::F load(const T* p) {
    return V::load_bf16(p);
  }
  template <class V>
  static typename V::F load_part(const T* p, int64_t n) {
    return V::load_bf16_part(p, n);
  }
  template <class V>
  static typename V::Narrow weights(const T* p, int step) {
    return step == 0 ? V::narrow_load_bf16_low(p) : V::narrow_load_bf16_high(p);
  }
  template <class V>
  static typename V::Narrow multiply(X x, typename V::Narrow w, typename V::Narrow sum) {
    return V::narrow_fma(V::narrow_set1(x), w, sum);
  }
};

struct StoredF16 {
  using T = uint16_t;
  using X = float;
  static constexpr int kDepth = 1;
  static constexpr int kSteps = 1;
  template <class V>
  static typename V::F load(const T* p) {
    return V::load_f16(p);
  }
  template <class V>
  static typename V::F load_part(const T* p, int64_t n) {
    return V::load_f16_part(p, n);
  }
  template <class V>
  static typename V::Narrow weights(const T* p, int) {
    return V::narrow_load_f16(p);
  }
  template <class V>
  static typename V::Narrow multiply(X x, typename V::Narrow w, typename V::Narrow sum) {
    return V::narrow_fma(V::narrow_set1(x), w, sum);
  }
};

template <class V>
typename V::F load_stored(const void* src, Storage storage, int64_t at, int64_t n) {
  const auto* halves = static_cast<const uint16_t*>(src) + at;
  if (n >= 16) {
    if (storage == kStorageF32) return V::load(static_cast<const float*>(src) + at);
    return storage == kStorageBF16 ? V::load_bf16(halves) : V::load_f16(halves);
  }
  if (storage == kStorageF32) return V::load_part(static_cast<const float*>(src) + at, n);
  return storage == kStorageBF16 ? V::load_bf16_part(halves, n) : V::load_f16_part(halves, n);
}
