#include "../kernels/decode_attention.cuh"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "emulated.h"

namespace {

using decode::kHeadDim;
constexpr int kKvHeads = 2;
constexpr float kScale = 0.088388348F;  // 1 / sqrt(kHeadDim)

// Random queries, and a KV cache with blocks in random order. Positions past the end of a sequence hold NaN.
// The keys and values of a position depend on its sequence's name and on the position alone.
template <int kGroup>
struct Problem {
  static constexpr int kHeads = kKvHeads * kGroup;
  std::vector<int> names, lengths, indptr{0}, table;
  int block_size;
  int64_t value_offset, block_stride;
  std::vector<__nv_bfloat16> pool, q;

  Problem(std::vector<int> seq_names, std::vector<int> seq_lens, int size)
      : names(std::move(seq_names)), lengths(std::move(seq_lens)), block_size(size) {
    value_offset = int64_t{kKvHeads} * block_size * kHeadDim;
    block_stride = 2 * value_offset;
    for (const int length : lengths) indptr.push_back(indptr.back() + (length + block_size - 1) / block_size);
    table.resize(static_cast<size_t>(indptr.back()));
    std::iota(table.begin(), table.end(), 0);
    std::shuffle(table.begin(), table.end(), std::mt19937(1));
    pool.assign(table.size() * static_cast<size_t>(block_stride), __nv_bfloat16{0xffff});
    for (size_t s = 0; s < names.size(); ++s) {
      const auto name = static_cast<unsigned>(names[s]);
      const auto queries = random_operands(kHeads * kHeadDim, probe::OperandType::kBf16, 1000 + name);
      for (const uint16_t bits : queries) q.push_back({bits});
      for (int position = 0; position < lengths[s]; ++position) {
        const auto row = random_operands(2 * kKvHeads * kHeadDim, probe::OperandType::kBf16,
                                         name * 100000 + static_cast<unsigned>(position));
        for (int i = 0; i < 2 * kKvHeads * kHeadDim; ++i) {
          const int head = i / kHeadDim % kKvHeads;
          const int64_t offset = i < kKvHeads * kHeadDim ? 0 : value_offset;
          pool[index(s, head, position, i % kHeadDim) + static_cast<size_t>(offset)] = {
              row[static_cast<size_t>(i)]};
        }
      }
    }
  }

  size_t index(size_t seq, int kv_head, int position, int d) const {
    const int block = table[static_cast<size_t>(indptr[seq] + position / block_size)];
    return static_cast<size_t>(block * block_stride +
                               (kv_head * block_size + position % block_size) * kHeadDim + d);
  }

  std::vector<float> run() const {
    const int longest = *std::max_element(lengths.begin(), lengths.end());
    const int splits = (longest + decode::kSplit - 1) / decode::kSplit;
    std::vector<float> out(q.size(), NAN), acc(q.size() * static_cast<size_t>(splits), NAN);
    std::vector<float2> state(names.size() * kHeads * static_cast<size_t>(splits));
    decode::run<kGroup>(out.data(), {acc.data(), state.data()}, q.data(),
                        {pool.data(), block_stride, value_offset, block_size, kKvHeads},
                        {lengths.data(), indptr.data(), table.data()}, static_cast<int>(names.size()), splits,
                        kScale, nullptr);
    return out;
  }

  // One row of the output in float64, and the weighted sum of the magnitudes of the values.
  void reference(size_t seq, int head, std::vector<double>& out, std::vector<double>& magnitude) const {
    std::vector<double> p(static_cast<size_t>(lengths[seq]), 0.0);
    const __nv_bfloat16* query = &q[(seq * kHeads + static_cast<size_t>(head)) * kHeadDim];
    for (size_t i = 0; i < p.size(); ++i) {
      for (int d = 0; d < kHeadDim; ++d)
        p[i] += double{__bfloat162float(query[d])} * value(seq, head, i, d, 0) * kScale;
    }
    const double top = *std::max_element(p.begin(), p.end());
    for (double& x : p) x = std::exp(x - top);
    const double sum = std::accumulate(p.begin(), p.end(), 0.0);
    out.assign(kHeadDim, 0.0);
    magnitude.assign(kHeadDim, 0.0);
    for (size_t i = 0; i < p.size(); ++i) {
      for (int d = 0; d < kHeadDim; ++d) {
        const double v = value(seq, head, i, d, value_offset);
        out[static_cast<size_t>(d)] += p[i] / sum * v;
        magnitude[static_cast<size_t>(d)] += p[i] / sum * std::fabs(v);
      }
    }
  }

  double value(size_t seq, int head, size_t position, int d, int64_t offset) const {
    return __bfloat162float(
        pool[index(seq, head / kGroup, static_cast<int>(position), d) + static_cast<size_t>(offset)]);
  }
};

class DecodeAttention : public testing::Test {
 protected:
  void SetUp() override { emulated::set_mma_arithmetic(emulated::MmaArithmetic::kFma); }
};

template <int kGroup>
void expect_float64(const Problem<kGroup>& problem) {
  const auto y = run_with_every_seed([&] { return problem.run(); });
  std::vector<double> expected, magnitude;
  for (size_t s = 0; s < problem.names.size(); ++s) {
    for (int head = 0; head < problem.kHeads; ++head) {
      problem.reference(s, head, expected, magnitude);
      for (size_t d = 0; d < kHeadDim; ++d) {
        const size_t at = (s * problem.kHeads + static_cast<size_t>(head)) * kHeadDim + d;
        // Softmax weights are rounded to bf16: a relative error of at most 2^-8 each.
        ASSERT_NEAR(y[at], expected[d], magnitude[d] / 256 + 1e-6)
            << "length " << problem.lengths[s] << ", head " << head << ", dimension " << d;
      }
    }
  }
}

TEST_F(DecodeAttention, MatchesFloat64ForEverySeed) {
  expect_float64(Problem<4>({1, 2, 3, 4, 5}, {1, 16, 17, 300, 530}, 16));
}

TEST_F(DecodeAttention, SupportsOneAndSixteenQueryHeadsPerKvHead) {
  expect_float64(Problem<1>({1, 2}, {5, 70}, 32));
  expect_float64(Problem<16>({1, 2}, {5, 70}, 32));
}

TEST_F(DecodeAttention, BitsDoNotDependOnTheBatch) {
  emulated::set_seed(1);
  const auto batch = Problem<4>({7, 8, 9}, {40, 530, 3}, 16).run(), alone = Problem<4>({8}, {530}, 16).run();
  for (size_t i = 0; i < alone.size(); ++i) ASSERT_TRUE(same_bits(alone[i], batch[alone.size() + i])) << i;
}

TEST_F(DecodeAttention, BitsDoNotDependOnTheBlockSize) {
  emulated::set_seed(1);
  const auto expected = Problem<4>({7}, {300}, 16).run();
  for (const int block_size : {1, 24, 512}) {
    const auto y = Problem<4>({7}, {300}, block_size).run();
    for (size_t i = 0; i < y.size(); ++i)
      ASSERT_TRUE(same_bits(y[i], expected[i])) << "block size " << block_size;
  }
}

}  // namespace
