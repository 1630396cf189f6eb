// One valid call of every op, and the changes that make it invalid. The tests that cover all ops are
// templates over AllOps that use these; an op without an example does not compile.
#pragma once

#include <array>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "unit/ops/adapter_op_examples.h"
#include "unit/ops/op_example_parts.h"

namespace quire::test {

// ----- linear.h

inline ops::Linear example(Type<ops::Linear> /*op*/) {
  return {.out = floats({2, 5}), .x = floats({2, 3}), .w = matrix(5, 3), .residual = floats({2, 5})};
}
inline std::vector<Fault<ops::Linear>> faults(Type<ops::Linear> /*op*/) {
  return {{"x [2, 4]",
           [](auto& op) {
             op.x = floats({2, 4});
           }},
          {"out [2, 6]",
           [](auto& op) {
             op.out = floats({2, 6});
           }},
          {"out [3, 5]",
           [](auto& op) {
             op.out = floats({3, 5});
           }},
          {"residual [1, 5]",
           [](auto& op) {
             op.residual = floats({1, 5});
           }},
          {"bfloat16", [](auto& op) { op.out.dtype = DType::kBF16; }},
          {"row stride of 4", [](auto& op) { op.out.row_stride = 4; }}};
}

// Two matrices [5, 3], and none.
inline std::span<const PackedLinear* const> matrices() {
  static const std::array<const PackedLinear*, 3> all = {&matrix(5, 3), nullptr, &matrix(5, 3)};
  return all;
}
inline std::span<const PackedLinear* const> unequal_matrices() {
  static const std::array<const PackedLinear*, 2> all = {&matrix(5, 3), &matrix(5, 4)};
  return all;
}
inline ops::GroupedLinear example(Type<ops::GroupedLinear> /*op*/) {
  return {.out = floats({4, 5}),
          .x = floats({2, 3}),
          .matrices = matrices(),
          .offsets = ids({0, 1, 2, 4}),
          .rows = ids({0, 1, 0, 1})};
}
inline std::vector<Fault<ops::GroupedLinear>> faults(Type<ops::GroupedLinear> /*op*/) {
  return {{"x [2, 4]",
           [](auto& op) {
             op.x = floats({2, 4});
           }},
          {"out [4, 6]",
           [](auto& op) {
             op.out = floats({4, 6});
           }},
          {"out [3, 5]",
           [](auto& op) {
             op.out = floats({3, 5});
           }},
          {"same shape", [](auto& op) { op.matrices = unequal_matrices(); }},
          {"no matrices", [](auto& op) { op.matrices = op.matrices.subspan(1, 1); }},
          {"offsets [3]", [](auto& op) { op.offsets = op.offsets.first(3); }},
          {"must ascend",
           [](auto& op) {
             op.offsets = ids({0, 2, 1, 4});
           }},
          {"2 of 2",
           [](auto& op) {
             op.rows = ids({0, 1, 2, 0});
           }},
          {"rows [3]", [](auto& op) { op.rows = op.rows.first(3); }},
          {"x must have a row", [](auto& op) { op.rows = {}; }}};
}

inline ops::BatchedLinear example(Type<ops::BatchedLinear> /*op*/) {
  static const std::array<const PackedLinear*, 2> kBoth = {&matrix(5, 3), &matrix(5, 3)};
  return {.out = floats({2, 10}), .x = floats({2, 6}), .matrices = kBoth};
}
inline std::vector<Fault<ops::BatchedLinear>> faults(Type<ops::BatchedLinear> /*op*/) {
  return {{"x [2, 3]",
           [](auto& op) {
             op.x = floats({2, 3});
           }},
          {"out [2, 5]",
           [](auto& op) {
             op.out = floats({2, 5});
           }},
          {"same shape", [](auto& op) { op.matrices = unequal_matrices(); }},
          {"no gate", [](auto& op) { op.matrices = matrices(); }}};
}

inline ops::Embedding example(Type<ops::Embedding> /*op*/) {
  return {.out = floats({2, 4}), .table = floats({10, 4}), .ids = ids({0, 9})};
}
inline std::vector<Fault<ops::Embedding>> faults(Type<ops::Embedding> /*op*/) {
  return {{"10 of 10",
           [](auto& op) {
             op.ids = ids({0, 10});
           }},
          {"-1 of 10",
           [](auto& op) {
             op.ids = ids({-1, 0});
           }},
          {"out [3, 4]",
           [](auto& op) {
             op.out = floats({3, 4});
           }},
          {"int8", [](auto& op) { op.table.dtype = DType::kI8; }}};
}

inline ops::PackedEmbedding example(Type<ops::PackedEmbedding> /*op*/) {
  return {.out = floats({2, 4}), .table = matrix(10, 4), .ids = ids({0, 9})};
}
inline std::vector<Fault<ops::PackedEmbedding>> faults(Type<ops::PackedEmbedding> /*op*/) {
  return {{"10 of 10",
           [](auto& op) {
             op.ids = ids({0, 10});
           }},
          {"out [2, 5]", [](auto& op) {
             op.out = floats({2, 5});
           }}};
}

// ----- rows.h

inline ops::RmsNorm example(Type<ops::RmsNorm> /*op*/) {
  return {.out = floats({2, 3, 8}), .x = floats({2, 3, 8}), .weight = floats({8})};
}
inline std::vector<Fault<ops::RmsNorm>> faults(Type<ops::RmsNorm> /*op*/) {
  return {{"weight [7]", [](auto& op) { op.weight = floats({7}); }}, {"out [2, 8]", [](auto& op) {
                                                                        op.out = floats({2, 8});
                                                                      }}};
}

inline ops::LayerNorm example(Type<ops::LayerNorm> /*op*/) {
  return {.out = floats({2, 8}), .x = floats({2, 8}), .weight = floats({8}), .bias = floats({8})};
}
inline std::vector<Fault<ops::LayerNorm>> faults(Type<ops::LayerNorm> /*op*/) {
  return {{"weight [7]", [](auto& op) { op.weight = floats({7}); }},
          {"bias [6]", [](auto& op) { op.bias = floats({6}); }},
          {"out [2, 9]", [](auto& op) {
             op.out = floats({2, 9});
           }}};
}

inline ops::Rope example(Type<ops::Rope> /*op*/) {
  return {.x = floats({2, 3, 8}), .positions = ids({0, 4}), .cos_sin = floats({5, 6})};
}
inline std::vector<Fault<ops::Rope>> faults(Type<ops::Rope> /*op*/) {
  return {{"5 of 5",
           [](auto& op) {
             op.positions = ids({0, 5});
           }},
          {"cos_sin [5, 10]",
           [](auto& op) {
             op.cos_sin = floats({5, 10});
           }},
          {"cos_sin [5, 5]",
           [](auto& op) {
             op.cos_sin = floats({5, 5});
           }},
          {"positions [2]", [](auto& op) {
             op.x = floats({3, 3, 8});
           }}};
}

inline ops::GatedActivation example(Type<ops::GatedActivation> /*op*/) {
  return {.out = floats({2, 4}), .gate_up = floats({2, 8})};
}
inline std::vector<Fault<ops::GatedActivation>> faults(Type<ops::GatedActivation> /*op*/) {
  return {{"gate_up [2, 7]", [](auto& op) { op.gate_up = floats({2, 7}); }}};
}

inline ops::Gate example(Type<ops::Gate> /*op*/) {
  TensorView same = floats({1, 2});  // one row for all
  same.shape = Shape{3, 2};
  same.row_stride = 0;
  return {.out = floats({3, 8}), .x = floats({3, 8}), .gate = same};
}
inline std::vector<Fault<ops::Gate>> faults(Type<ops::Gate> /*op*/) {
  return {{"gate [3, 3]",
           [](auto& op) {
             op.gate = floats({3, 3});
           }},
          {"x [3, 7]",
           [](auto& op) {
             op.x = floats({3, 7});
           }},
          {"x has a row stride of 0", [](auto& op) { op.x.row_stride = 0; }}};
}

template <class Args>
Args in_place_example() {
  return {.x = floats({2, 8})};
}
template <class Args>
std::vector<Fault<Args>> in_place_faults() {
  return {{"int8", [](Args& op) { op.x.dtype = DType::kI8; }},
          {"x none", [](Args& op) { op.x = {}; }},
          {"row stride of 7", [](Args& op) { op.x.row_stride = 7; }}};
}
inline auto example(Type<ops::Activate> /*op*/) {
  return in_place_example<ops::Activate>();
}
inline auto faults(Type<ops::Activate> /*op*/) {
  return in_place_faults<ops::Activate>();
}
inline auto example(Type<ops::Xielu> /*op*/) {
  return in_place_example<ops::Xielu>();
}
inline auto faults(Type<ops::Xielu> /*op*/) {
  return in_place_faults<ops::Xielu>();
}
inline auto example(Type<ops::GaussianTopk> /*op*/) {
  return in_place_example<ops::GaussianTopk>();
}
inline auto faults(Type<ops::GaussianTopk> /*op*/) {
  return in_place_faults<ops::GaussianTopk>();
}
inline auto example(Type<ops::ScaleSoftcap> /*op*/) {
  return in_place_example<ops::ScaleSoftcap>();
}
inline auto faults(Type<ops::ScaleSoftcap> /*op*/) {
  return in_place_faults<ops::ScaleSoftcap>();
}

inline auto example(Type<ops::Clamp> /*op*/) {
  return in_place_example<ops::Clamp>();
}
inline std::vector<Fault<ops::Clamp>> faults(Type<ops::Clamp> /*op*/) {
  auto all = in_place_faults<ops::Clamp>();
  all.push_back({"low must be at most high", [](auto& op) { op.low = 1.0F; }});
  return all;
}

inline ops::MatchRms example(Type<ops::MatchRms> /*op*/) {
  return {.x = floats({2, 8}), .target = floats({2, 8})};
}
inline std::vector<Fault<ops::MatchRms>> faults(Type<ops::MatchRms> /*op*/) {
  return {{"target [2, 7]", [](auto& op) { op.target = floats({2, 7}); }}};
}

inline ops::Add example(Type<ops::Add> /*op*/) {
  TensorView same = floats({1, 8});  // one row for all
  same.shape = Shape{2, 8};
  same.row_stride = 0;
  return {.x = floats({2, 8}), .y = same};
}
inline std::vector<Fault<ops::Add>> faults(Type<ops::Add> /*op*/) {
  return {{"y [3, 8]", [](auto& op) { op.y = floats({3, 8}); }}};
}

inline ops::GatherRows example(Type<ops::GatherRows> /*op*/) {
  return {.out = floats({3, 8}), .x = floats({2, 8}), .rows = ids({1, 0, 1})};
}
inline std::vector<Fault<ops::GatherRows>> faults(Type<ops::GatherRows> /*op*/) {
  return {{"2 of 2",
           [](auto& op) {
             op.rows = ids({1, 0, 2});
           }},
          {"out [2, 8]",
           [](auto& op) {
             op.out = floats({2, 8});
           }},
          {"x [2, 7]", [](auto& op) {
             op.x = floats({2, 7});
           }}};
}

// ----- attention.h

inline KvCacheView cache_of(int32_t heads) {
  return {.base = reinterpret_cast<std::byte*>(floats({4096}).data),
          .block_stride = 1024,
          .layer_offset = 0,
          .dtype = DType::kF32,
          .block_size = 4,
          .num_kv_heads = heads,
          .head_dim = 8};
}
// Two new tokens of a sequence of nine, in three blocks of four.
inline const AttentionBatch& two_rows() {
  static const AttentionBatch batch = {.num_seqs = 1,
                                       .cu_seqlens_q = ids({0, 2}),
                                       .seq_lens = ids({9}),
                                       .block_table_indptr = ids({0, 3}),
                                       .block_table = ids({0, 1, 2})};
  return batch;
}
inline std::span<const int64_t> slots_of_two_rows() {
  static constexpr std::array<int64_t, 2> kSlots = {0, -1};
  return kSlots;
}

inline ops::KvWrite example(Type<ops::KvWrite> /*op*/) {
  return {.cache = cache_of(2),
          .k = floats({2, 2, 8}),
          .v = floats({2, 2, 8}),
          .slot_mapping = slots_of_two_rows()};
}
inline std::vector<Fault<ops::KvWrite>> faults(Type<ops::KvWrite> /*op*/) {
  return {{"k [2, 3, 8]",
           [](auto& op) {
             op.k = floats({2, 3, 8});
           }},
          {"slots [2]",
           [](auto& op) {
             op.k = floats({3, 2, 8});
             op.v = floats({3, 2, 8});
           }},
          {"number formats", [](auto& op) { op.cache.dtype = DType::kI16; }},
          {"takes no v", [](auto& op) { op.cache.values_in_keys = true; }}};
}

inline ops::PagedAttention example(Type<ops::PagedAttention> /*op*/) {
  static const AttentionParams params;
  return {.out = floats({2, 4, 8}),
          .q = floats({2, 4, 8}),
          .cache = cache_of(1),
          .batch = two_rows(),
          .params = params};
}
inline std::vector<Fault<ops::PagedAttention>> faults(Type<ops::PagedAttention> /*op*/) {
  return {{"q [2, 4, 9]",
           [](auto& op) {
             op.q = floats({2, 4, 9});
           }},
          {"q [3, 4, 8]",
           [](auto& op) {
             op.q = op.out = floats({3, 4, 8});
           }},
          {"out [2, 4, 7]",
           [](auto& op) {
             op.out = floats({2, 4, 7});
           }},
          {"blocks of 2", [](auto& op) { op.cache.block_size = 2; }}};
}

inline uint64_t* mask_words() {
  static std::array<uint64_t, 64> words{};
  return words.data();
}
inline ops::TopkKeys example(Type<ops::TopkKeys> /*op*/) {
  return {.mask = {mask_words(), 1, 1},
          .q = floats({2, 4, 8}),
          .weights = floats({2, 4}),
          .keys = cache_of(1),
          .batch = two_rows(),
          .count = 3};
}
inline std::vector<Fault<ops::TopkKeys>> faults(Type<ops::TopkKeys> /*op*/) {
  return {{"weights [2, 3]",
           [](auto& op) {
             op.weights = floats({2, 3});
           }},
          {"one KV head", [](auto& op) { op.keys.num_kv_heads = 2; }},
          {"0 words", [](auto& op) { op.mask.stride = 0; }},
          {"at least one token", [](auto& op) { op.tokens_per_key = 0; }},
          {"count 0", [](auto& op) { op.count = 0; }}};
}

inline ops::TopkBlocks example(Type<ops::TopkBlocks> /*op*/) {
  return {.mask = {mask_words(), 1, 4},
          .q = floats({2, 4, 8}),
          .keys = cache_of(1),
          .batch = two_rows(),
          .blocks = {.size = 16, .count = 1, .local = 1}};
}
inline std::vector<Fault<ops::TopkBlocks>> faults(Type<ops::TopkBlocks> /*op*/) {
  return {{"q [2, 4, 9]",
           [](auto& op) {
             op.q = floats({2, 4, 9});
           }},
          {"1 of 4", [](auto& op) { op.mask.heads = 1; }},
          {"multiple of 16", [](auto& op) { op.blocks.size = 8; }},
          {"2 of 1", [](auto& op) { op.blocks.local = 2; }}};
}

inline ops::RelativeAttention example(Type<ops::RelativeAttention> /*op*/) {
  static const AttentionBatch batch = {.num_seqs = 2, .cu_seqlens_q = ids({0, 1, 3})};
  static const RelativeParams params = {.buckets = ids({0, 2, 1}), .num_buckets = 3};
  return {.out = floats({3, 2, 4}),
          .q = floats({3, 2, 4}),
          .k = floats({3, 2, 4}),
          .v = floats({3, 2, 4}),
          .batch = batch,
          .params = params};
}
inline std::vector<Fault<ops::RelativeAttention>> faults(Type<ops::RelativeAttention> /*op*/) {
  return {{"k [3, 1, 4]",
           [](auto& op) {
             op.k = floats({3, 1, 4});
           }},
          {"last row", [](auto& op) {
             op.out = op.q = op.k = op.v = floats({2, 2, 4});
           }}};
}

// ----- experts.h

inline ops::RouteExperts example(Type<ops::RouteExperts> /*op*/) {
  static std::array<int32_t, 4> ids{};
  return {.ids = ids,
          .weights = floats({2, 2}),
          .logits = floats({2, 6}),
          .params = {.num_experts_per_tok = 2, .num_groups = 3, .topk_group = 1}};
}
inline std::vector<Fault<ops::RouteExperts>> faults(Type<ops::RouteExperts> /*op*/) {
  return {{"3 chosen", [](auto& op) { op.params.num_experts_per_tok = 3; }},
          {"4 groups", [](auto& op) { op.params.num_groups = 4; }},
          {"weights [2, 3]",
           [](auto& op) {
             op.weights = floats({2, 3});
           }},
          {"ids [3]", [](auto& op) { op.ids = op.ids.first(3); }}};
}

inline ops::PermuteByExpert example(Type<ops::PermuteByExpert> /*op*/) {
  static std::array<int32_t, 7> offsets{};
  static std::array<int32_t, 4> rows{};
  static std::array<int32_t, 6> positions{};
  return {.ids = ids({5, 0, 1, 5}),
          .weights = floats({2, 3}),
          .expert_scale = floats({6}),
          .input_weights = floats({4, 1}),
          .offsets = offsets,
          .permuted_rows = rows,
          .positions = positions};
}
inline std::vector<Fault<ops::PermuteByExpert>> faults(Type<ops::PermuteByExpert> /*op*/) {
  return {{"weights [2, 4]",
           [](auto& op) {
             op.weights = floats({2, 4});
           }},
          {"6 of 6",
           [](auto& op) {
             op.ids = ids({5, 0, 1, 6});
           }},
          {"expert_scale [5]", [](auto& op) { op.expert_scale = floats({5}); }},
          {"input_weights [3, 1]",
           [](auto& op) {
             op.input_weights = floats({3, 1});
           }},
          {"positions [5]", [](auto& op) { op.positions = op.positions.first(5); }}};
}

inline ops::CombineRows example(Type<ops::CombineRows> /*op*/) {
  return {.out = floats({2, 8}), .y = floats({3, 8}), .rows = ids({0, 1, 2, 0}), .weights = floats({2, 2})};
}
inline std::vector<Fault<ops::CombineRows>> faults(Type<ops::CombineRows> /*op*/) {
  return {{"y [3, 7]",
           [](auto& op) {
             op.y = floats({3, 7});
           }},
          {"3 of 3",
           [](auto& op) {
             op.rows = ids({0, 3, 2, 0});
           }},
          {"rows [3]", [](auto& op) { op.rows = op.rows.first(3); }},
          {"residual [2, 7]", [](auto& op) {
             op.residual = floats({2, 7});
           }}};
}

inline ops::OrderHeads example(Type<ops::OrderHeads> /*op*/) {
  return {.rows = floats({2, 6, 4}), .terms = floats({4, 3, 4}), .positions = ids({3, 0, 1, 2})};
}
inline std::vector<Fault<ops::OrderHeads>> faults(Type<ops::OrderHeads> /*op*/) {
  return {{"terms [4, 2, 4]",
           [](auto& op) {
             op.terms = floats({4, 2, 4});
           }},
          {"terms [4, 4, 3]",
           [](auto& op) {
             op.terms = floats({4, 4, 3});
           }},
          {"positions [3]", [](auto& op) { op.positions = op.positions.first(3); }},
          {"4 of 4", [](auto& op) {
             op.positions = ids({3, 0, 1, 4});
           }}};
}

// ----- recurrent.h

// Three rows of two sequences, each with two state blocks.
inline const StateBatch& three_rows() {
  static const StateBatch batch = {.num_seqs = 2,
                                   .cu_rows = ids({0, 1, 3}),
                                   .positions = ids({0, 4}),
                                   .blocks = ids({5, 6, 7, 8}),
                                   .blocks_each = 2};
  return batch;
}
inline StateView state_of(size_t parts) {
  static const std::array<StatePlace, 4> kPlaces = {{{0, 64}, {1, 0}, {1, 64}, {0, 128}}};
  return {.base = reinterpret_cast<std::byte*>(floats({8192}).data),
          .block_stride = 1024,
          .parts = std::span(kPlaces).first(parts)};
}

inline ops::DecayGates example(Type<ops::DecayGates> /*op*/) {
  return {.decay = floats({3, 4}), .dt = floats({3, 4}), .dt_bias = floats({4}), .A = floats({4})};
}
inline std::vector<Fault<ops::DecayGates>> faults(Type<ops::DecayGates> /*op*/) {
  return {{"decay [3, 5]",
           [](auto& op) {
             op.decay = floats({3, 5});
           }},
          {"dt_bias [3]", [](auto& op) { op.dt_bias = floats({3}); }},
          {"A [5]", [](auto& op) { op.A = floats({5}); }}};
}

inline ops::CausalConv example(Type<ops::CausalConv> /*op*/) {
  return {.x = floats({3, 8}), .weight = floats({4, 8}), .batch = three_rows(), .state = state_of(1)};
}
inline std::vector<Fault<ops::CausalConv>> faults(Type<ops::CausalConv> /*op*/) {
  return {{"weight [4, 7]",
           [](auto& op) {
             op.weight = floats({4, 7});
           }},
          {"weight [9, 8]",
           [](auto& op) {
             op.weight = floats({9, 8});
           }},
          {"bias [7]", [](auto& op) { op.bias = floats({7}); }},
          {"4 of 1", [](auto& op) { op.state = state_of(4); }}};
}

inline ops::SsmScan example(Type<ops::SsmScan> /*op*/) {
  return {.out = floats({3, 4, 8}),
          .x = floats({3, 4, 8}),
          .B = floats({3, 2, 5}),
          .C = floats({3, 2, 5}),
          .decay = floats({3, 4}),
          .dt = floats({3, 4}),
          .D = floats({4}),
          .batch = three_rows(),
          .state = state_of(4)};
}
inline std::vector<Fault<ops::SsmScan>> faults(Type<ops::SsmScan> /*op*/) {
  return {{"B [3, 3, 5]",
           [](auto& op) {
             op.B = op.C = floats({3, 3, 5});
           }},
          {"D [3]", [](auto& op) { op.D = floats({3}); }},
          {"1 of 4", [](auto& op) { op.state = state_of(1); }}};
}

inline ops::SelectiveScan example(Type<ops::SelectiveScan> /*op*/) {
  return {.out = floats({3, 100}),
          .x = floats({3, 100}),
          .dt = floats({3, 100}),
          .B = floats({3, 5}),
          .C = floats({3, 5}),
          .A = floats({5, 100}),
          .D = floats({100}),
          .batch = three_rows(),
          .state = state_of(2)};
}
inline std::vector<Fault<ops::SelectiveScan>> faults(Type<ops::SelectiveScan> /*op*/) {
  return {{"B [3, 4]",
           [](auto& op) {
             op.B = op.C = floats({3, 4});
           }},
          {"A [5, 99]",
           [](auto& op) {
             op.A = floats({5, 99});
           }},
          {"1 of 2", [](auto& op) { op.state = state_of(1); }}};
}

inline ops::DeltaRule example(Type<ops::DeltaRule> /*op*/) {
  return {.out = floats({3, 4, 8}),
          .q = floats({3, 2, 5}),
          .k = floats({3, 2, 5}),
          .v = floats({3, 4, 8}),
          .decay = floats({3, 4}),
          .beta = floats({3, 4}),
          .batch = three_rows(),
          .state = state_of(4)};
}
inline std::vector<Fault<ops::DeltaRule>> faults(Type<ops::DeltaRule> /*op*/) {
  return {{"q [2, 2, 5]",
           [](auto& op) {
             op.q = op.k = floats({2, 2, 5});
           }},
          {"q [3, 3, 5]",
           [](auto& op) {
             op.q = op.k = floats({3, 3, 5});
           }},
          {"decay [3, 8]",
           [](auto& op) {
             op.decay = floats({3, 8});
           }},
          {"3 of 4", [](auto& op) { op.state = state_of(3); }}};
}

// ----- compressed_keys.h

inline ops::CompressKeys example(Type<ops::CompressKeys> /*op*/) {
  return {.out = floats({3, 8}),
          .values = floats({3, 16}),
          .gates = floats({3, 16}),
          .bias = floats({4, 16}),
          .batch = three_rows(),
          .state = state_of(1)};
}
inline std::vector<Fault<ops::CompressKeys>> faults(Type<ops::CompressKeys> /*op*/) {
  return {{"values [3, 12]",
           [](auto& op) {
             op.values = floats({3, 12});
           }},
          {"gates [2, 16]",
           [](auto& op) {
             op.gates = floats({2, 16});
           }},
          {"bias [4, 8]", [](auto& op) {
             op.bias = floats({4, 8});
           }}};
}

inline ops::MarkCompressed example(Type<ops::MarkCompressed> /*op*/) {
  return {.mask = {mask_words(), 1, 1},
          .batch = two_rows(),
          .keys = {.tokens = 4, .block = 4, .slots = 1},
          .window = 6,
          .selected = {mask_words() + 2, 1, 1}};
}
inline std::vector<Fault<ops::MarkCompressed>> faults(Type<ops::MarkCompressed> /*op*/) {
  return {{"0 words, 9 tokens", [](auto& op) { op.mask.stride = 0; }},
          {"block 0", [](auto& op) { op.keys.block = 0; }},
          {"last compressed key", [](auto& op) { op.selected.stride = 0; }}};
}

// ----- streams.h

inline ops::HyperConnection example(Type<ops::HyperConnection> /*op*/) {
  return {.pre = floats({2, 4}),
          .post = floats({2, 20}),
          .scores = floats({2, 24}),
          .base = floats({24}),
          .scale = floats({3})};
}
inline std::vector<Fault<ops::HyperConnection>> faults(Type<ops::HyperConnection> /*op*/) {
  return {{"post [2, 16]",
           [](auto& op) {
             op.post = floats({2, 16});
           }},
          {"scores [2, 4]",
           [](auto& op) {
             op.scores = floats({2, 4});
           }},
          {"scale [1]", [](auto& op) { op.scale = floats({1}); }}};
}

}  // namespace quire::test
