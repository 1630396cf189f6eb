// Ops on one row: norms, rotary embedding, activations, conversions, packing.

// The terms of a row are summed in four accumulators of 16 lanes: element i in lane i % 16 of accumulator (i
// / 16) % 4. Then the accumulators are added, then the lanes (reduce_add). The order depends only on the
// length of the row.
template <class V, class Term>
float sum_row(int64_t d, Term term) {
  using F = typename V::F;
  F sum[4] = {V::zero(), V::zero(), V::zero(), V::zero()};
  int64_t i = 0;
  for (; i + 64 <= d; i += 64) {
    for (int a = 0; a < 4; ++a) sum[a] = term(sum[a], i + 16 * a, int64_t{16});
  }
  for (int a = 0; i < d; i += 16, ++a) sum[a] = term(sum[a], i, d - i);
  return V::reduce_add(V::add(V::add(sum[0], sum[1]), V::add(sum[2], sum[3])));
}

template <class V>
typename V::F load_up_to_16(const float* p, int64_t n) {
  return n >= 16 ? V::load(p) : V::load_part(p, n);
}

template <class V>
void store_up_to_16(float* p, typename V::F v, int64_t n) {
  if (n >= 16) {
    V::store(p, v);
  } else {
    V::store_part(p, v, n);
  }
}

inline float inverse_root(float v) {
  return 1.0F / _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(v)));
}

template <class V>
void rms_norm(float* out, const float* x, const float* weight, int64_t d, float eps, float weight_offset) {
  using F = typename V::F;
  const float squares = sum_row<V>(d, [x](F sum, int64_t i, int64_t n) {
    const F v = load_up_to_16<V>(x + i, n);
    return V::fma(v, v, sum);
  });
  const F scale = V::set1(inverse_root(squares / static_cast<float>(d) + eps));
  const F offset = V::set1(weight_offset);
  for (int64_t i = 0; i < d; i += 16) {
    const F w = V::add(load_up_to_16<V>(weight + i, d - i), offset);
    store_up_to_16<V>(out + i, V::mul(V::mul(load_up_to_16<V>(x + i, d - i), scale), w), d - i);
  }
}

template <class V>
void layer_norm(float* out, const float* x, const float* weight, const float* bias, int64_t d, float eps) {
  using F = typename V::F;
  const float total =
      sum_row<V>(d, [x](F sum, int64_t i, int64_t n) { return V::add(sum, load_up_to_16<V>(x + i, n)); });
  const F mean = V::set1(total / static_cast<float>(d));
  const float squares = sum_row<V>(d, [x, mean](F sum, int64_t i, int64_t n) {
    // Lanes past the end are excluded: they would add mean^2.
    const F v = V::select(V::lanes(0, n), V::sub(load_up_to_16<V>(x + i, n), mean), V::zero());
    return V::fma(v, v, sum);
  });
  const F scale = V::set1(inverse_root(squares / static_cast<float>(d) + eps));
  for (int64_t i = 0; i < d; i += 16) {
    const F v = V::mul(V::sub(load_up_to_16<V>(x + i, d - i), mean), scale);
    const F w = load_up_to_16<V>(weight + i, d - i);
    const F result = bias == nullptr ? V::mul(v, w) : V::add(V::mul(v, w), load_up_to_16<V>(bias + i, d - i));
    store_up_to_16<V>(out + i, result, d - i);
  }
}

template <class V>
void rope_neox(float* x, int64_t heads, int64_t head_dim, const float* cosine, const float* sine,
               int64_t half) {
  using F = typename V::F;
  for (int64_t i = 0; i < half; i += 16) {
    const F c = load_up_to_16<V>(cosine + i, half - i);
    const F s = load_up_to_16<V>(sine + i, half - i);
    for (int64_t h = 0; h < heads; ++h) {
      float* low = x + h * head_dim + i;
      float* high = low + half;
      const F a = load_up_to_16<V>(low, half - i);
      const F b = load_up_to_16<V>(high, half - i);
      store_up_to_16<V>(low, V::fms(a, c, V::mul(b, s)), half - i);
      store_up_to_16<V>(high, V::fma(b, c, V::mul(a, s)), half - i);
    }
  }
}

template <class V>
void rope_interleaved(float* x, int64_t heads, int64_t head_dim, const float* cosine, const float* sine,
                      int64_t half) {
  using F = typename V::F;
  for (int64_t i = 0; i < half; i += 16) {
    const F c = load_up_to_16<V>(cosine + i, half - i);
    const F s = load_up_to_16<V>(sine + i, half - i);
    const int64_t elements = 2 * (half - i);
    for (int64_t h = 0; h < heads; ++h) {
      float* pairs = x + h * head_dim + 2 * i;
      // In a short row, the second load may begin past the end; it is skipped.
      const F first = load_up_to_16<V>(pairs, elements);
      const F second = elements > 16 ? load_up_to_16<V>(pairs + 16, elements - 16) : V::zero();
      F a, b;
      V::split_pairs(first, second, &a, &b);
      F transposed_first, transposed_second;
      V::join_pairs(V::fms(a, c, V::mul(b, s)), V::fma(b, c, V::mul(a, s)), &transposed_first,
                    &transposed_second);
      store_up_to_16<V>(pairs, transposed_first, elements);
      if (elements > 16) store_up_to_16<V>(pairs + 16, transposed_second, elements - 16);
    }
  }
}

// Results differ from the reference formulas only by rounding: gelu_tanh uses (1 + tanh u) / 2 = sigmoid(2
// u), which avoids cancellation for negative u.
template <class V, int kAct>
typename V::F activate_lanes(typename V::F x) {
  using F = typename V::F;
  if constexpr (kAct == kActSilu) {
    return V::div(x, V::add(V::set1(1.0F), exp<V>(V::sub(V::zero(), x))));
  } else if constexpr (kAct == kActGelu) {
    return V::mul(x, normal_cdf<V>(x));
  } else if constexpr (kAct == kActGeluTanh) {
    const F cube = V::mul(V::mul(x, x), x);
    return V::mul(x, sigmoid<V>(V::mul(V::set1(1.59576912F), V::fma(V::set1(0.044715F), cube, x))));
  } else if constexpr (kAct == kActSigmoid) {
    return sigmoid<V>(x);
  } else if constexpr (kAct == kActSoftplus) {
    return softplus<V>(x);
  } else if constexpr (kAct == kActNone) {
    return x;
  } else if constexpr (kAct == kActClampedSwish) {
    const F gate = V::select(V::less(V::set1(7.0F), x), V::set1(7.0F), x);
    return V::mul(gate, sigmoid<V>(V::mul(V::set1(1.702F), gate)));
  } else if constexpr (kAct == kActUnclampedSwish) {
    return V::mul(x, sigmoid<V>(V::mul(V::set1(1.702F), x)));
  } else {
    const F positive = V::select(V::less(x, V::zero()), V::zero(), x);
    return kAct == kActRelu ? positive : V::mul(positive, positive);
  }
}

// The factor of an activated gate.
template <class V, int kAct>
typename V::F up_lanes(typename V::F up) {
  if constexpr (kAct == kActUnclampedSwish) return V::add(up, V::set1(1.0F));
  if constexpr (kAct != kActClampedSwish) return up;
  const auto limit = V::set1(7.0F);
  const auto min_value = V::set1(-7.0F);
  up = V::select(V::less(limit, up), limit, up);
  return V::add(V::select(V::less(up, min_value), min_value, up), V::set1(1.0F));
}

template <class V, int kAct>
void activate_row(float* out, const float* gate, const float* up, int64_t n) {
  for (int64_t i = 0; i < n; i += 16) {
    auto v = activate_lanes<V, kAct>(load_up_to_16<V>(gate + i, n - i));
    if (up != nullptr) v = V::mul(v, up_lanes<V, kAct>(load_up_to_16<V>(up + i, n - i)));
    store_up_to_16<V>(out + i, v, n - i);
  }
}

template <class V>
void activate(float* out, const float* gate, const float* up, int64_t n, Act act) {
  switch (act) {
    case kActSilu:
      return activate_row<V, kActSilu>(out, gate, up, n);
    case kActGelu:
      return activate_row<V, kActGelu>(out, gate, up, n);
    case kActGeluTanh:
      return activate_row<V, kActGeluTanh>(out, gate, up, n);
    case kActRelu:
      return activate_row<V, kActRelu>(out, gate, up, n);
    case kActReluSquared:
      return activate_row<V, kActReluSquared>(out, gate, up, n);
    case kActClampedSwish:
      return activate_row<V, kActClampedSwish>(out, gate, up, n);
    case kActUnclampedSwish:
      return activate_row<V, kActUnclampedSwish>(out, gate, up, n);
    case kActSigmoid:
      return activate_row<V, kActSigmoid>(out, gate, up, n);
    case kActSoftplus:
      return activate_row<V, kActSoftplus>(out, gate, up, n);
    case kActNone:
      return activate_row<V, kActNone>(out, gate, up, n);
  }
}

template <class V>
void add(float* x, const float* y, int64_t n) {
  for (int64_t i = 0; i < n; i += 16) {
    store_up_to_16<V>(x + i, V::add(load_up_to_16<V>(x + i, n - i), load_up_to_16<V>(y + i, n - i)), n - i);
  }
}

template <class V>
void scale_softcap(float* x, int64_t n, float scale, float cap) {
  const auto factor = V::set1(scale);
  const auto limit = V::set1(cap);
  for (int64_t i = 0; i < n; i += 16) {
    auto v = V::mul(load_up_to_16<V>(x + i, n - i), factor);
    if (cap > 0.0F) v = V::mul(limit, tanh<V>(V::div(v, limit)));
    store_up_to_16<V>(x + i, v, n - i);
  }
}

template <class V>
void combine(float* out, const float* residual, const float* y, int64_t y_stride,
             const int32_t* permuted_rows, const float* weights, int64_t count, int64_t d) {
  for (int64_t i = 0; i < d; i += 16) {
    auto sum = residual == nullptr ? V::zero() : load_up_to_16<V>(residual + i, d - i);
    for (int64_t j = 0; j < count; ++j)
      sum = V::fma(V::set1(weights[j]), load_up_to_16<V>(y + permuted_rows[j] * y_stride + i, d - i), sum);
    store_up_to_16<V>(out + i, sum, d - i);
  }
}

template <class V>
void decode(float* dst, const void* src, Storage storage, int64_t n) {
  for (int64_t i = 0; i < n; i += 16)
    store_up_to_16<V>(dst + i, load_stored<V>(src, storage, i, n - i), n - i);
}

// Transposes a panel in blocks of 16 x 16, which are read along the rows and written across them.
template <class V>
void pack_panel(void* dst, Storage dst_storage, const void* const* rows, const Storage* row_storage,
                int64_t k) {
  using F = typename V::F;
  for (int64_t begin = 0; begin < k; begin += 16) {
    const int64_t depth = k - begin < 16 ? k - begin : 16;
    F low[16];
    F high[16];
    for (int j = 0; j < 16; ++j) {
      low[j] = rows[j] == nullptr ? V::zero() : load_stored<V>(rows[j], row_storage[j], begin, depth);
      high[j] = rows[j + 16] == nullptr ? V::zero()
                                        : load_stored<V>(rows[j + 16], row_storage[j + 16], begin, depth);
    }
    V::transpose(low);
    V::transpose(high);
    if (dst_storage == kStorageBF16) {
      // For an odd k, load_stored sets the missing element to zero.
      for (int64_t i = 0; i < depth; i += 2) {
        auto* at = static_cast<uint16_t*>(dst) + (begin + i) * kPanel;
        V::store_bf16_pairs(at, low[i], low[i + 1]);
        V::store_bf16_pairs(at + kPanel, high[i], high[i + 1]);
      }
      continue;
    }
    for (int64_t i = 0; i < depth; ++i) {
      const int64_t at = (begin + i) * kPanel;
      if (dst_storage == kStorageF32) {
        V::store(static_cast<float*>(dst) + at, low[i]);
        V::store(static_cast<float*>(dst) + at + 16, high[i]);
      } else {
        V::store_f16(static_cast<uint16_t*>(dst) + at, low[i]);
        V::store_f16(static_cast<uint16_t*>(dst) + at + 16, high[i]);
      }
    }
  }
}

template <class V>
void fill_rows(CpuKernels& t) {
  t.pack_panel = pack_panel<V>;
  t.decode = decode<V>;
  t.rms_norm = rms_norm<V>;
  t.layer_norm = layer_norm<V>;
  t.rope_neox = rope_neox<V>;
  t.rope_interleaved = rope_interleaved<V>;
  t.activate = activate<V>;
  t.add = add<V>;
  t.scale_softcap = scale_softcap<V>;
  t.combine = combine<V>;
}
