// The part of op_examples.h for the ops of LoRA adapters.
#pragma once

#include <array>
#include <list>
#include <memory>
#include <vector>

#include "unit/ops/op_example_parts.h"

namespace quire::test {

// ----- low_rank.h

// Rank 2 on outputs 1 to 3 of 5, with 3 inputs.
inline const LowRank& low_rank() {
  static const LowRank change = [] {
    LowRank made{.k = 3, .pieces = {{.out_begin = 1, .n = 3, .rank = 2}}};
    made.a = Buffer(6 * sizeof(float));
    made.b = Buffer(6 * sizeof(float));
    return made;
  }();
  return change;
}
template <size_t N>
std::span<const LowRankGroup> low_rank_groups(const int32_t (&rows)[N]) {
  static std::list<std::array<LowRankGroup, 1>> kept;
  return kept.emplace_back(std::array<LowRankGroup, 1>{{{&low_rank(), ids(rows)}}});
}
inline ops::AddLowRank example(Type<ops::AddLowRank> /*op*/) {
  return {.out = floats({2, 5}), .x = floats({2, 3}), .groups = low_rank_groups({4, 5}), .first_row = 4};
}
inline std::vector<Fault<ops::AddLowRank>> faults(Type<ops::AddLowRank> /*op*/) {
  return {{"x [2, 4]",
           [](auto& op) {
             op.x = floats({2, 4});
           }},
          {"out [3, 5]",
           [](auto& op) {
             op.out = floats({3, 5});
           }},
          {"out [2, 3]",
           [](auto& op) {
             op.out = floats({2, 3});
           }},
          {"ascend",
           [](auto& op) {
             op.groups = low_rank_groups({5, 4});
           }},
          {"ascend", [](auto& op) { op.first_row = 5; }}};
}

// ----- low_rank_experts.h

// Three experts, the first and the last of which have the change low_rank().
inline std::span<const std::unique_ptr<const LowRank>> expert_changes() {
  static const std::vector<std::unique_ptr<const LowRank>> changes = [] {
    std::vector<std::unique_ptr<const LowRank>> made(3);
    for (const size_t site : {0, 2}) {
      auto change = std::make_unique<LowRank>();
      change->k = 3;
      change->pieces = low_rank().pieces;
      change->a = Buffer(6 * sizeof(float));
      change->b = Buffer(6 * sizeof(float));
      made[site] = std::move(change);
    }
    return made;
  }();
  return changes;
}
template <size_t N>
std::span<const LowRankExpertsGroup> expert_groups(const int32_t (&rows)[N]) {
  static std::list<std::array<LowRankExpertsGroup, 1>> kept;
  return kept.emplace_back(std::array<LowRankExpertsGroup, 1>{{{expert_changes(), ids(rows)}}});
}
inline ops::AddLowRankExperts example(Type<ops::AddLowRankExperts> /*op*/) {
  return {.out = floats({4, 5}),
          .x = floats({2, 3}),
          .groups = expert_groups({4, 5}),
          .sites = ids({0, 1, 2}),
          .offsets = ids({0, 1, 1, 4}),
          .rows = ids({0, 0, 1, 1}),
          .num_rows = 2,
          .first_row = 4,
          .by_row = true};
}
inline std::vector<Fault<ops::AddLowRankExperts>> faults(Type<ops::AddLowRankExperts> /*op*/) {
  return {{"x [2, 4]",
           [](auto& op) {
             op.x = floats({2, 4});
           }},
          {"out [3, 5]",
           [](auto& op) {
             op.out = floats({3, 5});
           }},
          {"out [4, 3]",
           [](auto& op) {
             op.out = floats({4, 3});
           }},
          {"x must have all rows", [](auto& op) { op.by_row = false; }},
          {"2 of 2",
           [](auto& op) {
             op.rows = ids({0, 0, 1, 2});
           }},
          {"offsets [3]",
           [](auto& op) {
             op.offsets = ids({0, 1, 4});
           }},
          {"the offsets must ascend",
           [](auto& op) {
             op.offsets = ids({0, 2, 1, 4});
           }},
          {"ascend within",
           [](auto& op) {
             op.groups = expert_groups({5, 4});
           }},
          {"ascend within", [](auto& op) { op.first_row = 5; }}};
}

// ----- embedding_change.h

// Rank 2 on an embedding [10, 4].
inline const EmbeddingChange& embedding_change() {
  static const EmbeddingChange change = [] {
    EmbeddingChange made{.vocab_size = 10, .size = 4, .rank = 2};
    made.a = Buffer(20 * sizeof(float));
    made.b = Buffer(8 * sizeof(float));
    return made;
  }();
  return change;
}
template <size_t N>
std::span<const EmbeddingGroup> embedding_groups(const int32_t (&rows)[N]) {
  static std::list<std::array<EmbeddingGroup, 1>> kept;
  return kept.emplace_back(std::array<EmbeddingGroup, 1>{{{&embedding_change(), ids(rows)}}});
}
inline ops::AddEmbeddingChanges example(Type<ops::AddEmbeddingChanges> /*op*/) {
  return {.out = floats({2, 4}), .ids = ids({0, 9}), .groups = embedding_groups({4, 5}), .first_row = 4};
}
inline std::vector<Fault<ops::AddEmbeddingChanges>> faults(Type<ops::AddEmbeddingChanges> /*op*/) {
  return {{"10 of 10",
           [](auto& op) {
             op.ids = ids({0, 10});
           }},
          {"out [3, 4]",
           [](auto& op) {
             op.out = floats({3, 4});
           }},
          {"out [2, 5]",
           [](auto& op) {
             op.out = floats({2, 5});
           }},
          {"ascend", [](auto& op) { op.first_row = 5; }}};
}

// ----- trained_tokens.h

// Tokens 1 and 3 of an embedding with rows of 4.
inline const TrainedTokens& trained_tokens() {
  static const TrainedTokens tokens = [] {
    TrainedTokens made{.size = 4, .dtype = DType::kF32, .ids = {1, 3}, .values = {}};
    made.values = Buffer(8 * sizeof(float));
    return made;
  }();
  return tokens;
}
template <size_t N>
std::span<const TrainedTokensGroup> token_groups(const int32_t (&rows)[N]) {
  static std::list<std::array<TrainedTokensGroup, 1>> kept;
  return kept.emplace_back(std::array<TrainedTokensGroup, 1>{{{&trained_tokens(), ids(rows)}}});
}
inline ops::ReplaceEmbeddings example(Type<ops::ReplaceEmbeddings> /*op*/) {
  return {.out = floats({2, 4}), .ids = ids({1, 2}), .groups = token_groups({4, 5}), .first_row = 4};
}
inline std::vector<Fault<ops::ReplaceEmbeddings>> faults(Type<ops::ReplaceEmbeddings> /*op*/) {
  return {{"out [3, 4]",
           [](auto& op) {
             op.out = floats({3, 4});
           }},
          {"out [2, 5]",
           [](auto& op) {
             op.out = floats({2, 5});
           }},
          {"ascend", [](auto& op) { op.first_row = 5; }}};
}
inline ops::ReplaceOutputs example(Type<ops::ReplaceOutputs> /*op*/) {
  return {.out = floats({2, 5}), .x = floats({2, 4}), .groups = token_groups({4, 5}), .first_row = 4};
}
inline std::vector<Fault<ops::ReplaceOutputs>> faults(Type<ops::ReplaceOutputs> /*op*/) {
  return {{"x [2, 3]",
           [](auto& op) {
             op.x = floats({2, 3});
           }},
          {"columns of out",
           [](auto& op) {
             op.out = floats({2, 3});
           }},
          {"ascend", [](auto& op) {
             op.groups = token_groups({5, 4});
           }}};
}

}  // namespace quire::test
