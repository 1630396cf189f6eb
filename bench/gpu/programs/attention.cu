// Part `attention`: times of the paged decode attention against the bandwidth of a kernel that only reads.
#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "../arithmetic.h"
#include "../kernels/decode_attention.cuh"
#include "../kernels/operands.cuh"
#include "program.h"

namespace {

using decode::kHeadDim;
using operands::Kind;
using probe::Memory;
using probe::MemoryKind;

// Llama 3 8B: 32 query heads, 8 KV heads.
constexpr int kKvHeads = 8, kGroup = 4, kHeads = kKvHeads * kGroup, kBlockSize = 16, kRepeats = 10;
constexpr float kScale = 0.088388348F;  // 1 / sqrt(kHeadDim)
constexpr uint64_t kSeedCache = 1, kSeedQuery = 2;

// Sequences of equal length with their block tables in random order, all in device memory.
struct Problem {
  int num_seqs, length, max_splits, blocks_per_seq;
  int64_t value_offset = int64_t{kKvHeads} * kBlockSize * kHeadDim, block_stride = 2 * value_offset;
  std::vector<int> table;
  Memory cache, q, out, acc, state, lengths, indptr, device_table;

  Problem(int seqs, int seq_len, const probe::Stream& stream)
      : num_seqs(seqs),
        length(seq_len),
        max_splits((seq_len + decode::kSplit - 1) / decode::kSplit),
        blocks_per_seq((seq_len + kBlockSize - 1) / kBlockSize),
        table(static_cast<size_t>(seqs) * static_cast<size_t>(blocks_per_seq)),
        cache(device_memory(table.size() * static_cast<size_t>(block_stride) * 2)),
        q(device_memory(rows() * kHeadDim * 2)),
        out(device_memory(rows() * kHeadDim * 4)),
        acc(device_memory(rows() * static_cast<size_t>(max_splits) * kHeadDim * 4)),
        state(device_memory(rows() * static_cast<size_t>(max_splits) * sizeof(float2))),
        lengths(device_memory(static_cast<size_t>(seqs) * 4)),
        indptr(device_memory(static_cast<size_t>(seqs + 1) * 4)),
        device_table(device_memory(table.size() * 4)) {
    std::iota(table.begin(), table.end(), 0);
    std::shuffle(table.begin(), table.end(), std::mt19937(1));
    std::vector<int> starts;
    for (int i = 0; i <= seqs; ++i) starts.push_back(i * blocks_per_seq);
    upload(device_table, table);
    upload(indptr, starts);
    upload(lengths, std::vector<int>(static_cast<size_t>(seqs), seq_len));
    operands::run_fill(cache.as<uint16_t>(), static_cast<int64_t>(cache.bytes() / 2), kSeedCache,
                       Kind::kUniform, true, 1024, stream);
    operands::run_fill(q.as<uint16_t>(), static_cast<int64_t>(q.bytes() / 2), kSeedQuery, Kind::kUniform,
                       true, 64, stream);
  }

  static Memory device_memory(size_t bytes) { return Memory(bytes, MemoryKind::kDevice); }
  static void upload(const Memory& target, const std::vector<int>& values) {
    probe::check(cudaMemcpy(target.as<void>(), values.data(), values.size() * 4, cudaMemcpyHostToDevice),
                 "copying block tables");
  }
  size_t rows() const { return static_cast<size_t>(num_seqs) * kHeads; }
  size_t kv_bytes() const { return rows() / kGroup * static_cast<size_t>(length) * kHeadDim * 4; }

  void run(cudaStream_t stream) const {
    decode::run<kGroup>(out.as<float>(), {acc.as<float>(), state.as<float2>()}, q.as<__nv_bfloat16>(),
                        {cache.as<__nv_bfloat16>(), block_stride, value_offset, kBlockSize, kKvHeads},
                        {lengths.as<int>(), indptr.as<int>(), device_table.as<int>()}, num_seqs, max_splits,
                        kScale, stream);
  }

  // One row of the result in float64.
  std::vector<double> reference(int seq, int head) const {
    const auto value = [](uint64_t seed, int64_t index) {
      return double{
          probe::to_float(operands::element(seed, static_cast<uint64_t>(index), Kind::kUniform, true),
                          probe::OperandType::kBf16)};
    };
    const auto key = [&](int position) {
      const int block = table[static_cast<size_t>(seq * blocks_per_seq + position / kBlockSize)];
      return block * block_stride + (int64_t{head / kGroup} * kBlockSize + position % kBlockSize) * kHeadDim;
    };
    std::vector<double> weights, row(kHeadDim, 0.0);
    double sum = 0;
    for (int position = 0; position < length; ++position) {
      double score = 0;
      for (int d = 0; d < kHeadDim; ++d)
        score += value(kSeedQuery, (int64_t{seq} * kHeads + head) * kHeadDim + d) *
                 value(kSeedCache, key(position) + d);
      weights.push_back(std::exp(score * kScale));
      sum += weights.back();
    }
    for (int position = 0; position < length; ++position) {
      for (int d = 0; d < kHeadDim; ++d)
        row[static_cast<size_t>(d)] += weights[static_cast<size_t>(position)] / sum *
                                       value(kSeedCache, key(position) + value_offset + d);
    }
    return row;
  }
};

// The values are below 1 and softmax weights are rounded to bf16, so an error of 2^-8 would be too much by
// far.
void check_values(const probe::Stream& stream, probe::Results& results) {
  const Problem problem(3, 1337, stream);
  problem.run(stream);
  stream.synchronize("running attention");
  const auto out = probe::to_host(problem.out.as<float>(), problem.rows() * kHeadDim);
  double largest = 0;
  for (int seq = 0; seq < problem.num_seqs; ++seq) {
    for (const int head : {0, 5, kHeads - 1}) {
      const auto expected = problem.reference(seq, head);
      for (size_t d = 0; d < kHeadDim; ++d)
        largest = std::fmax(
            largest, std::fabs(out[static_cast<size_t>(seq * kHeads + head) * kHeadDim + d] - expected[d]));
    }
  }
  results.add("largest error against float64", {}, largest, "");
  if (!(largest < 1.0 / 256))
    throw probe::Error(probe::kFailed, "decode attention gives wrong values on this device");
}

void measure(const probe::Arguments&, const probe::Device& device, probe::Results& results) {
  const probe::Stream stream;
  check_values(stream, results);
  const double bandwidth = probe::read_bandwidth(device, stream);
  results.add("bandwidth of a kernel that reads", {}, bandwidth, "GB/s");
  constexpr int kCases[][2] = {{1, 2048}, {1, 8192},  {1, 32768}, {16, 2048},
                               {64, 512}, {64, 2048}, {64, 8192}, {256, 1024}};
  for (const auto& [seqs, length] : kCases) {
    // Like the layers of a model, each call reads a cache of its own; together they are larger than L2.
    std::vector<std::unique_ptr<Problem>> layers;
    size_t total = 0;
    while (layers.size() < 2 || (total < 8 * device.l2_bytes && layers.size() < 64)) {
      layers.push_back(std::make_unique<Problem>(seqs, length, stream));
      total += layers.back()->kv_bytes();
    }
    const probe::Time time = probe::time_graph(stream, kRepeats, static_cast<int>(layers.size()), [&] {
      for (const auto& layer : layers) layer->run(stream);
    });
    const probe::Labels labels{{"sequences", std::to_string(seqs)}, {"tokens each", std::to_string(length)}};
    const double rate = static_cast<double>(layers[0]->kv_bytes()) * 1e-3 / time.median_us;
    results.add("time", labels, time.median_us, "us");
    results.add("KV cache read", labels, rate, "GB/s");
    results.add("KV cache read, fraction of the read bandwidth", labels, rate / bandwidth, "");
  }
}

}  // namespace

int main(int argc, char** argv) {
  return probe::run_program(argc, argv, measure);
}
