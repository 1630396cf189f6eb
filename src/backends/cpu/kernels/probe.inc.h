// Peak throughput of the instructions, as limits that profiles compare ops with.

constexpr int kProbeChains = 12;  // more than latency times execution units of all current cores

// rounds x kProbeChains independent fused multiply-adds in registers. Returns the number of operations.
template <class V>
double probe_fma(int64_t rounds, float* sink) {
  using N = typename V::Narrow;
  N sum[kProbeChains];
  for (int i = 0; i < kProbeChains; ++i) sum[i] = V::narrow_set1(static_cast<float>(i));
  const N a = V::narrow_set1(0.999F);
  const N b = V::narrow_set1(0.001F);
  for (int64_t i = 0; i < rounds; ++i) {
    QUIRE_UNROLL
    for (int j = 0; j < kProbeChains; ++j) sum[j] = V::narrow_fma(sum[j], a, b);
  }
  for (int i = 1; i < kProbeChains; ++i) sum[0] = V::narrow_add(sum[0], sum[i]);
  V::narrow_store(sink, sum[0]);
  return 2.0 * V::kNarrowLanes * kProbeChains * static_cast<double>(rounds);
}

// Sums p[0, n); n is a multiple of 128.
template <class V>
void probe_read(const float* p, int64_t n, float* sink) {
  using N = typename V::Narrow;
  constexpr int kStreams = 8;
  N sum[kStreams];
  for (auto& s : sum) s = V::narrow_zero();
  for (int64_t i = 0; i < n; i += kStreams * V::kNarrowLanes) {
    QUIRE_UNROLL
    for (int j = 0; j < kStreams; ++j)
      sum[j] = V::narrow_add(sum[j], V::narrow_load(p + i + j * V::kNarrowLanes));
  }
  for (int j = 1; j < kStreams; ++j) sum[0] = V::narrow_add(sum[0], sum[j]);
  V::narrow_store(sink, sum[0]);
}
