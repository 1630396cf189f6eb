#include "backends/cpu/machine_limits.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "base/clock.h"
#include "tensor/tensor.h"

namespace quire::cpu {
namespace {

constexpr int kRounds = 5;

// Returns the best rate of kRounds runs of `work`, in units per second. `work` returns the units it
// processed.
template <typename F>
double best_rate(F&& work) {
  double best = 0;
  for (int i = 0; i < kRounds; ++i) {
    const double begin = monotonic_seconds();
    const double done = work();
    best = std::max(best, done / (monotonic_seconds() - begin));
  }
  return best;
}

// The peak rate of the probe's instructions with all threads, in operations per second. `probe` returns the
// number of operations that it performed. 0 if there is no probe.
double peak(double (*probe)(int64_t rounds, float* sink), ThreadPool& pool) {
  if (probe == nullptr) return 0;
  constexpr int64_t kProbeRounds = 50000;
  // More ranges than threads, so that all threads take part even if some wake late.
  const int64_t ranges = int64_t{16} * pool.num_threads();
  std::vector<double> done(static_cast<size_t>(pool.num_threads()));
  return best_rate([&] {
    std::fill(done.begin(), done.end(), 0.0);
    pool.parallel_for(ranges, 1, [&](int64_t begin, int64_t end, int thread) {
      std::array<float, 16> sink;
      for (int64_t r = begin; r < end; ++r)
        done[static_cast<size_t>(thread)] += probe(kProbeRounds, sink.data());
    });
    double sum = 0;
    for (const double d : done) sum += d;
    return sum;
  });
}

// Plain code for machines without the instructions of the probes.
double plain_fma(int64_t rounds, float* sink) {
  std::array<float, 16> sum{};
  for (int64_t i = 0; i < rounds; ++i) {
    for (auto& s : sum) s = s * 0.999F + 0.001F;
  }
  std::memcpy(sink, sum.data(), sizeof(sum));
  return 32.0 * static_cast<double>(rounds);
}
void plain_read(const float* p, int64_t n, float* sink) {
  std::array<float, 16> sum{};
  for (int64_t i = 0; i < n; i += 16) {
    for (int64_t j = 0; j < 16; ++j) sum[static_cast<size_t>(j)] += p[i + j];
  }
  std::memcpy(sink, sum.data(), sizeof(sum));
}

double read_rate(void (*probe)(const float* p, int64_t n, float* sink), ThreadPool& pool) {
  constexpr int64_t kFloats = int64_t{64} << 20;
  constexpr int64_t kChunk = 65536;
  Buffer memory(static_cast<size_t>(kFloats) * sizeof(float));
  float* data = memory.as<float>();
  // Every page is written once: unwritten pages would all map to the same page of zeros.
  pool.parallel_for(kFloats, kChunk,
                    [&](int64_t begin, int64_t end, int) { std::fill(data + begin, data + end, 1.0F); });
  return best_rate([&] {
    pool.parallel_for(kFloats, kChunk, [&](int64_t begin, int64_t end, int) {
      std::array<float, 16> sink;
      probe(data + begin, end - begin, sink.data());
    });
    return static_cast<double>(kFloats) * sizeof(float);
  });
}

}  // namespace

MachineLimits measure_limits(const CpuKernels& kernels, ThreadPool& pool) {
  MachineLimits limits;
  limits.read_bytes_per_s = read_rate(kernels.probe_read != nullptr ? kernels.probe_read : plain_read, pool);
  limits.f32_flop_per_s = peak(kernels.probe_fma != nullptr ? kernels.probe_fma : plain_fma, pool);
  limits.bf16_flop_per_s = peak(kernels.probe_bf16, pool);
  limits.int8_flop_per_s = peak(kernels.probe_int8, pool);
  return limits;
}

}  // namespace quire::cpu
