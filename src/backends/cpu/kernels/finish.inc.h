// The last step of one register of a product: bias, then residual, each rounded. Args: LinearArgs or
// IntLinearArgs. Whole registers go without a mask: stores with one are slow on some processors.
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
