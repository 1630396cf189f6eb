// The last step of a product. Args: LinearArgs or IntLinearArgs.

// One register: bias, then residual, each rounded. Whole registers go without a mask: stores with one are
// slow on some processors.
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

// The same of ups, two registers from `column` on: they meet their gates, which wait in `out`. Not inlined,
// so that nothing of it stands in the way of other products.
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

// Two registers that follow each other, the first from `column` on.
template <class V, class Args>
void finish_pair(const Args& args, int64_t row, int64_t column, typename V::Narrow first,
                 typename V::Narrow second) {
  if (args.gate.apply != nullptr && column >= args.n / 2)
    return finish_ups<V>(args, row, column, first, second);
  finish_columns<V>(args, row, column, first);
  finish_columns<V>(args, row, column + V::kNarrowLanes, second);
}
