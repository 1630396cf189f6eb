// How elements of each storage format are read into lanes.

struct StoredF32 {
  using T = float;
  template <class V>
  static typename V::F load(const T* p) {
    return V::load(p);
  }
  template <class V>
  static typename V::F load_part(const T* p, int64_t n) {
    return V::load_part(p, n);
  }
  // Columns lane.. and 16 + lane.. of one k of a panel, as wide as a register.
  template <class V>
  static void load_columns(const T* p, typename V::Narrow* low, typename V::Narrow* high) {
    *low = V::narrow_load(p);
    *high = V::narrow_load(p + 16);
  }
  // Elements from a panel's begin to where load_columns finds register `unit` of it.
  static constexpr int64_t column_offset(int64_t lane) { return lane; }
};

struct StoredBF16 {
  using T = uint16_t;
  template <class V>
  static typename V::F load(const T* p) {
    return V::load_bf16(p);
  }
  template <class V>
  static typename V::F load_part(const T* p, int64_t n) {
    return V::load_bf16_part(p, n);
  }
  template <class V>
  static void load_columns(const T* p, typename V::Narrow* low, typename V::Narrow* high) {
    V::narrow_load_bf16_pairs(p, low, high);
  }
  static constexpr int64_t column_offset(int64_t lane) { return 2 * lane; }
};

struct StoredF16 {
  using T = uint16_t;
  template <class V>
  static typename V::F load(const T* p) {
    return V::load_f16(p);
  }
  template <class V>
  static typename V::F load_part(const T* p, int64_t n) {
    return V::load_f16_part(p, n);
  }
  template <class V>
  static void load_columns(const T* p, typename V::Narrow* low, typename V::Narrow* high) {
    *low = V::narrow_load_f16(p);
    *high = V::narrow_load_f16(p + 16);
  }
  static constexpr int64_t column_offset(int64_t lane) { return lane; }
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
