// Writes the outputs of a product. Args: LinearArgs or IntLinearArgs.

// One register: adds the bias, then the residual, each rounded. Full registers are stored without a mask:
// masked stores are slow on some processors.
template <class V, class Args>
void finish_columns(const Args& args, int64_t row, int64_t column, typename V::Narrow value) {
  const int64_t n = args.n - column < V::kNarrowLanes ? args.n - column : V::kNarrowLanes;
  if (n <= 0) return;
  float* out = args.out + row * args.out_stride + column;
  const float* residual =
      args.residual == nullptr ? nullptr : args.residual + row * args.residual_stride + column;
  if (n == V::kNarrowLanes) {
    if (args.bias != nullptr) value = V::narrow_add(value, V::narrow_load(args.bias + column));
    if (residual != nullptr) value = V::narrow_add(value, V::narrow_load(residual));
    V::narrow_store(out, value);
  } else {
    if (args.bias != nullptr) value = V::narrow_add(value, V::narrow_load_part(args.bias + column, n));
    if (residual != nullptr) value = V::narrow_add(value, V::narrow_load_part(residual, n));
    V::narrow_store_part(out, value, n);
  }
}

// Same, for two registers of ups starting at `column`. They are multiplied by the activated gates, which are
// in `out`. Not inlined, to keep its code out of ungated products.
template <class V, class Args>
__attribute__((noinline)) void finish_ups(const Args& args, int64_t row, int64_t column,
                                          typename V::Narrow first, typename V::Narrow second) {
  constexpr int64_t kLanes = V::kNarrowLanes;
  if (args.bias != nullptr) {
    first = V::narrow_add(first, V::narrow_load(args.bias + column));
    second = V::narrow_add(second, V::narrow_load(args.bias + column + kLanes));
  }
  alignas(64) float ups[2 * kLanes];
  V::narrow_store(ups, first);
  V::narrow_store(ups + kLanes, second);
  float* out = args.out + row * args.out_stride + column - args.n / 2;
  args.gate.apply(out, out, ups, 2 * kLanes, args.gate.act);
}

// Two consecutive registers, starting at `column`.
template <class V, class Args>
void finish_pair(const Args& args, int64_t row, int64_t column, typename V::Narrow first,
                 typename V::Narrow second) {
  if (args.gate.apply != nullptr && column >= args.n / 2)
    return finish_ups<V>(args, row, column, first, second);
  finish_columns<V>(args, row, column, first);
  finish_columns<V>(args, row, column + V::kNarrowLanes, second);
}
