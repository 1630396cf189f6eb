// Recurrent layers. Lanes are columns of a state, so no sum crosses lanes, and rows are processed one after
// another. Values do not depend on how a sequence is divided into steps.

template <class V>
void decay_gates(float* decay, float* dt, const float* dt_bias, const float* a, int64_t heads, float low,
                 float high, float bound) {
  for (int64_t i = 0; i < heads; i += 16) {
    const int64_t n = heads - i;
    const auto x = V::add(load_up_to_16<V>(dt + i, n), load_up_to_16<V>(dt_bias + i, n));
    const auto by = load_up_to_16<V>(a + i, n);
    if (bound < 0.0F) {
      const auto gate = V::div(V::set1(1.0F), V::add(V::set1(1.0F), exp<V>(V::mul(by, x))));
      store_up_to_16<V>(dt + i, gate, n);
      store_up_to_16<V>(decay + i, exp<V>(V::mul(V::set1(bound), gate)), n);
      continue;
    }
    const auto limited = V::min(V::set1(high), V::max(V::set1(low), softplus<V>(x)));
    store_up_to_16<V>(dt + i, limited, n);
    store_up_to_16<V>(decay + i, exp<V>(V::mul(by, limited)), n);
  }
}

// Sixteen columns, with the last inputs in registers.
template <class V, int kConvKernel>
void conv_columns(const ConvArgs& a, int64_t column) {
  using F = typename V::F;
  const int64_t n = a.columns - column;
  F weight[kConvKernel];
  F inputs[kConvKernel];
  for (int j = 0; j < kConvKernel; ++j)
    weight[j] = load_up_to_16<V>(a.weight + j * a.weight_stride + column, n);
  for (int j = 0; j + 1 < kConvKernel; ++j)
    inputs[j] = load_up_to_16<V>(a.inputs + j * a.inputs_stride + column, n);
  const F bias = a.bias == nullptr ? V::zero() : load_up_to_16<V>(a.bias + column, n);
  for (int64_t r = 0; r < a.rows; ++r) {
    float* x = a.x + r * a.x_stride + column;
    inputs[kConvKernel - 1] = load_up_to_16<V>(x, n);
    F sum = bias;
    for (int j = 0; j < kConvKernel; ++j) sum = V::fma(weight[j], inputs[j], sum);
    store_up_to_16<V>(x, sum, n);
    for (int j = 0; j + 1 < kConvKernel; ++j) inputs[j] = inputs[j + 1];
  }
  for (int j = 0; j + 1 < kConvKernel; ++j)
    store_up_to_16<V>(a.inputs + j * a.inputs_stride + column, inputs[j], n);
}

template <class V>
void causal_conv(const ConvArgs& a) {
  for (int64_t column = 0; column < a.columns; column += 16) {
    switch (a.conv_kernel) {
      case 1:
        conv_columns<V, 1>(a, column);
        break;
      case 2:
        conv_columns<V, 2>(a, column);
        break;
      case 3:
        conv_columns<V, 3>(a, column);
        break;
      case 4:
        conv_columns<V, 4>(a, column);
        break;
      case 5:
        conv_columns<V, 5>(a, column);
        break;
      case 6:
        conv_columns<V, 6>(a, column);
        break;
      case 7:
        conv_columns<V, 7>(a, column);
        break;
      default:
        conv_columns<V, 8>(a, column);
        break;
    }
  }
}

// kTile rows of the state, sixteen columns each, stay in registers for all rows of the step; their
// contributions accumulate in `out`. The order of a sum does not depend on the tiling.
template <class V, int kTile>
void ssm_tile(const SsmArgs& a, int64_t column, int64_t line) {
  using F = typename V::F;
  const int64_t n = a.p - column;
  float* at = a.state + line * a.p + column;
  F state[kTile];
  for (int j = 0; j < kTile; ++j) state[j] = load_up_to_16<V>(at + j * a.p, n);
  const F d = V::set1(a.d);
  for (int64_t r = 0; r < a.rows; ++r) {
    const F x = load_up_to_16<V>(a.x + r * a.x_stride + column, n);
    const F decay = V::set1(a.decay[r * a.decay_stride]);
    const F dt_x = V::mul(V::set1(a.dt[r * a.dt_stride]), x);
    const float* b = a.b + r * a.b_stride + line;
    const float* c = a.c + r * a.c_stride + line;
    float* out = a.out + r * a.out_stride + column;
    F sum = line == 0 ? V::mul(d, x) : load_up_to_16<V>(out, n);
    for (int j = 0; j < kTile; ++j) {
      state[j] = V::fma(state[j], decay, V::mul(V::set1(b[j]), dt_x));
      sum = V::fma(V::set1(c[j]), state[j], sum);
    }
    store_up_to_16<V>(out, sum, n);
  }
  for (int j = 0; j < kTile; ++j) store_up_to_16<V>(at + j * a.p, state[j], n);
}

// A single row. Reads and writes the state once, from its beginning to its end for p = 16 kColumns: a decode
// step is limited by memory bandwidth. Computes the same bits as ssm_tile.
template <class V, int kColumns>
void ssm_row(const SsmArgs& a, int64_t column) {
  using F = typename V::F;
  const int64_t left = a.p - column;
  const F decay = V::set1(a.decay[0]);
  F dt_x[kColumns];
  F sum[kColumns];
  for (int i = 0; i < kColumns; ++i) {
    const F x = load_up_to_16<V>(a.x + column + 16 * i, left - 16 * i);
    dt_x[i] = V::mul(V::set1(a.dt[0]), x);
    sum[i] = V::mul(V::set1(a.d), x);
  }
  for (int64_t j = 0; j < a.n; ++j) {
    float* line = a.state + j * a.p + column;
    const F b = V::set1(a.b[j]);
    const F c = V::set1(a.c[j]);
    for (int i = 0; i < kColumns; ++i) {
      const F state = V::fma(load_up_to_16<V>(line + 16 * i, left - 16 * i), decay, V::mul(b, dt_x[i]));
      store_up_to_16<V>(line + 16 * i, state, left - 16 * i);
      sum[i] = V::fma(c, state, sum[i]);
    }
  }
  for (int i = 0; i < kColumns; ++i) store_up_to_16<V>(a.out + column + 16 * i, sum[i], left - 16 * i);
}

template <class V>
void ssm_scan(const SsmArgs& a) {
  if (a.rows == 1) {
    constexpr int kColumns = V::kMaxAccumulators >= 16 ? 4 : 2;
    int64_t column = 0;
    for (; column + 16 * (kColumns - 1) < a.p; column += 16 * kColumns) ssm_row<V, kColumns>(a, column);
    for (; column < a.p; column += 16) ssm_row<V, 1>(a, column);
    return;
  }
  constexpr int kTile = V::kMaxAccumulators >= 16 ? 16 : 8;
  for (int64_t column = 0; column < a.p; column += 16) {
    int64_t line = 0;
    for (; line + kTile <= a.n; line += kTile) ssm_tile<V, kTile>(a, column, line);
    for (; line < a.n; ++line) ssm_tile<V, 1>(a, column, line);
  }
}

// Columns of a state that are contiguous, [k][kDeltaPanel]. A panel stays in L1 while a row reads it twice.
constexpr int64_t kDeltaPanel = 64;

// Processes kColumns vectors of columns; rows of `state` are `stride` apart. kByKey: DeltaArgs::by_key, where
// decay is applied to the keys before the prediction.
template <class V, int kColumns, bool kByKey>
void delta_columns(const DeltaArgs& a, int64_t column, float* state, int64_t stride) {
  using F = typename V::F;
  const int64_t left = a.v_dim - column;
  for (int64_t r = 0; r < a.rows; ++r) {
    const float* q = a.q + r * a.q_stride;
    const float* k = a.k + r * a.k_stride;
    const float* by = a.decay + r * a.decay_stride;
    F prediction[kColumns][4];
    for (auto& sums : prediction) {
      for (F& sum : sums) sum = V::zero();
    }
    const auto predict = [&](int64_t j, int place) {
      const F key = V::set1(kByKey ? k[j] * by[j] : k[j]);
      const float* line = state + j * stride;
      for (int i = 0; i < kColumns; ++i)
        prediction[i][place] =
            V::fma(key, load_up_to_16<V>(line + 16 * i, left - 16 * i), prediction[i][place]);
    };
    int64_t j = 0;
    for (; j + 4 <= a.k_dim; j += 4) {
      predict(j, 0);
      predict(j + 1, 1);
      predict(j + 2, 2);
      predict(j + 3, 3);
    }
    if (j < a.k_dim) predict(j, 0);
    if (j + 1 < a.k_dim) predict(j + 1, 1);
    if (j + 2 < a.k_dim) predict(j + 2, 2);

    const F decay = V::set1(by[0]);
    const F beta = V::set1(a.beta[r * a.beta_stride]);
    F error[kColumns];
    F sum[kColumns];
    for (int i = 0; i < kColumns; ++i) {
      const F predicted =
          V::add(V::add(prediction[i][0], prediction[i][1]), V::add(prediction[i][2], prediction[i][3]));
      const F value = load_up_to_16<V>(a.v + r * a.v_stride + column + 16 * i, left - 16 * i);
      error[i] = V::mul(beta, kByKey ? V::sub(value, predicted) : V::fnma(decay, predicted, value));
      sum[i] = V::zero();
    }
    for (j = 0; j < a.k_dim; ++j) {
      const F key = V::set1(k[j]);
      const F query = V::set1(q[j]);
      const F row_decay = kByKey ? V::set1(by[j]) : decay;
      float* line = state + j * stride;
      for (int i = 0; i < kColumns; ++i) {
        const F old = load_up_to_16<V>(line + 16 * i, left - 16 * i);
        const F next = V::fma(old, row_decay, V::mul(key, error[i]));
        store_up_to_16<V>(line + 16 * i, next, left - 16 * i);
        sum[i] = V::fma(query, next, sum[i]);
      }
    }
    for (int i = 0; i < kColumns; ++i)
      store_up_to_16<V>(a.out + r * a.out_stride + column + 16 * i, sum[i], left - 16 * i);
  }
}

template <class V, bool kByKey>
void delta_panels(const DeltaArgs& a) {
  constexpr int kColumns = V::kMaxAccumulators >= 16 ? 4 : 2;
  for (int64_t begin = 0; begin < a.v_dim; begin += kDeltaPanel) {
    const int64_t width = a.v_dim - begin < kDeltaPanel ? a.v_dim - begin : kDeltaPanel;
    float* panel = a.state + begin * a.k_dim;
    int64_t at = 0;
    for (; at + 16 * kColumns <= width; at += 16 * kColumns)
      delta_columns<V, kColumns, kByKey>(a, begin + at, panel + at, width);
    for (; at < width; at += 16) delta_columns<V, 1, kByKey>(a, begin + at, panel + at, width);
  }
}

template <class V>
void delta_rule(const DeltaArgs& a) {
  a.by_key ? delta_panels<V, true>(a) : delta_panels<V, false>(a);
}

template <class V>
void fill_states(CpuKernels& t) {
  t.decay_gates = decay_gates<V>;
  t.causal_conv = causal_conv<V>;
  t.ssm_scan = ssm_scan<V>;
  t.delta_rule = delta_rule<V>;
}
