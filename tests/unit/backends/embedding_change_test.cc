// Changes to embeddings: the values of the definition, for any rows and threads.
#include "ops/embedding_change.h"

#include <gtest/gtest.h>

#include <vector>

#include "op_testing.h"
#include "ops/reference.h"

namespace quire {
namespace {

using test::fast_isas;
using test::random_buffer;
using test::random_tensor;
using test::same_rows;
using test::TestContext;
using test::TestTensor;

constexpr int64_t kEmbeddingRows = 50;
constexpr int64_t kEmbeddingSize = 150;  // two blocks of columns and a part
constexpr int32_t kFirstEmbedding = 100;

EmbeddingChange make_embedding_change(DType dtype, int64_t rank, float scale, uint32_t seed) {
  EmbeddingChange change{
      .vocab_size = kEmbeddingRows, .size = kEmbeddingSize, .rank = rank, .scale = scale, .dtype = dtype};
  change.a = random_buffer(dtype, kEmbeddingRows * rank, seed);
  change.b = random_buffer(dtype, rank * kEmbeddingSize, seed + 1);
  return change;
}

struct EmbeddingCall {
  std::vector<EmbeddingChange> changes;
  std::vector<std::vector<int32_t>> rows;
  std::vector<int32_t> ids;
};

EmbeddingCall make_embedding_call() {
  EmbeddingCall call;
  call.changes.push_back(make_embedding_change(DType::kF32, 7, 0.5F, 1));
  call.changes.push_back(make_embedding_change(DType::kBF16, 1, -2.0F, 3));
  call.changes.push_back(make_embedding_change(DType::kF16, 16, 1.0F, 5));
  call.rows.resize(3);
  for (int32_t i = 0; i < 40; ++i) {
    call.ids.push_back(i * 7 % static_cast<int32_t>(kEmbeddingRows));
    if (i % 4 < 3) call.rows[static_cast<size_t>(i) % 4].push_back(kFirstEmbedding + i);
  }
  return call;
}

TestTensor embeddings_of(const EmbeddingCall& call, const OpTable& table, const OpContext& ctx) {
  TestTensor out = random_tensor(DType::kF32, {static_cast<int64_t>(call.ids.size()), kEmbeddingSize}, 9);
  std::vector<EmbeddingGroup> groups;
  for (size_t g = 0; g < call.changes.size(); ++g) groups.push_back({&call.changes[g], call.rows[g]});
  checked(table).run(ctx, ops::AddEmbeddingChanges{
                              .out = out, .ids = call.ids, .groups = groups, .first_row = kFirstEmbedding});
  return out;
}

TEST(AddEmbeddingChanges, AddsTheProductOfTheTokensRow) {
  const EmbeddingCall call = make_embedding_call();
  const TestTensor base =
      random_tensor(DType::kF32, {static_cast<int64_t>(call.ids.size()), kEmbeddingSize}, 9);
  const TestTensor got = embeddings_of(call, reference_ops(), {});
  for (size_t r = 0; r < call.ids.size(); ++r) {
    const auto row = static_cast<int64_t>(r);
    for (int64_t n = 0; n < kEmbeddingSize; ++n) {
      double want = base.get(row, n);
      if (r % 4 < 3) {
        const EmbeddingChange& change = call.changes[r % 4];
        for (int64_t j = 0; j < change.rank; ++j)
          want += static_cast<double>(change.scale) *
                  load_f32(change.dtype, change.a.data(), call.ids[r] * change.rank + j) *
                  load_f32(change.dtype, change.b.data(), j * kEmbeddingSize + n);
      }
      ASSERT_NEAR(got.get(row, n), want, 1e-4) << "row " << r << ", column " << n;
    }
  }
}

TEST(AddEmbeddingChanges, HasTheSameBitsOnEveryLevelAndAnyNumberOfThreads) {
  const EmbeddingCall call = make_embedding_call();
  const TestTensor want = embeddings_of(call, reference_ops(), {});
  for (const CpuIsa& isa : fast_isas()) {
    const TestContext three(*isa.table, 3);
    EXPECT_TRUE(same_rows(embeddings_of(call, *isa.table, three), want)) << isa.name;
  }
}

}  // namespace
}  // namespace quire
