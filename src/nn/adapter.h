// LoRA adapters in a forward pass: what an adapter changes in the weights of a model, and which rows of a
// step use it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ops/embedding_change.h"
#include "ops/low_rank.h"
#include "ops/low_rank_experts.h"
#include "ops/op_table.h"
#include "ops/trained_tokens.h"

namespace quire {

// A matrix that an adapter has instead of the model's.
struct ReplacedMatrix {
  PackedLinear weight;  // without data if the adapter was loaded without an op table
  std::string content;  // a hash of the values
  // Only of an adapter that is loaded to be merged, instead of `weight`.
  std::vector<float> values;  // [n, k]
  std::vector<float> bias;    // [n] or empty
};

// Weights and a bias that an adapter has instead of a norm's.
struct ReplacedNorm {
  Buffer weight;  // float32 [size]; empty = the model's
  Buffer bias;    // the same
};

using MatricesBySite = std::map<int32_t, std::shared_ptr<const ReplacedMatrix>>;
using NormsBySite = std::map<int32_t, std::shared_ptr<const ReplacedNorm>>;
using TokensBySite = std::map<int32_t, std::shared_ptr<const TrainedTokens>>;

// The entry of a map by site; null if there is none.
template <typename Map>
const typename Map::mapped_type::element_type* at_site(const Map& by_site, int32_t site) {
  const auto found = by_site.find(site);
  return found == by_site.end() ? nullptr : found->second.get();
}

// The weights of one adapter for one loaded model. A site is a weight in memory that an adapter can change;
// sites are numbered in the order in which the description of the model visits them (Linear::site). Shared by
// the requests that use it; immutable, so that any number of steps may read it.
struct AdapterWeights {
  std::vector<std::unique_ptr<const LowRank>> sites;  // by number; null or beyond the end = unchanged
  // The same for embeddings, of which a model has few. A tied embedding has the number of the output layer.
  std::map<int32_t, std::unique_ptr<const EmbeddingChange>> embeddings;
  // Matrices that replace those of linear layers, and those of embeddings.
  MatricesBySite matrices;
  MatricesBySite tables;
  // Rows of embeddings, and of linear layers, that are replaced.
  TokensBySite input_tokens;
  TokensBySite output_tokens;
  // By Norm::site: norms are numbered on their own.
  NormsBySite norms;

  const LowRank* at(int32_t site) const {
    const auto index = static_cast<size_t>(site);
    return site < 0 || index >= sites.size() ? nullptr : sites[index].get();
  }
};

// A hash of everything that the adapter changes, as 32 hexadecimal digits. Equal contents have equal digests.
std::string digest_of(const AdapterWeights& adapter);

// The rows of a step that use one adapter.
struct AdapterUse {
  const AdapterWeights* adapter = nullptr;
  std::span<const int32_t> rows;  // rows of the step, ascending
};

// The adapters of the rows that one call of a layer computes: rows [first_row, first_row + num_rows) of the
// step. Views only; the executor owns the arrays for the time of a step.
struct AdapterRows {
  std::span<const AdapterUse> uses;
  // Scratch, as many as uses.
  std::span<LowRankGroup> groups;
  std::span<LowRankExpertsGroup> expert_groups;
  std::span<EmbeddingGroup> embedding_groups;
  std::span<TrainedTokensGroup> token_groups;
  int64_t first_row = 0;
  int64_t num_rows = 0;

  // Rows [begin, end) of these.
  AdapterRows slice(int64_t begin, int64_t end) const {
    AdapterRows out = *this;
    out.first_row += begin;
    out.num_rows = end - begin;
    return out;
  }
};

// The runner for layers that compute rows [begin, end) of those of another runner, which outlives it.
class RunnerOfRows {
 public:
  RunnerOfRows(const OpRunner& run, int64_t begin, int64_t end)
      : rows_(run.adapters == nullptr ? AdapterRows{} : run.adapters->slice(begin, end)),
        run_{run.table, run.ctx, run.adapters == nullptr ? nullptr : &rows_} {}
  RunnerOfRows(const RunnerOfRows&) = delete;  // run_ points to rows_
  RunnerOfRows& operator=(const RunnerOfRows&) = delete;

  const OpRunner& get() const { return run_; }

 private:
  AdapterRows rows_;
  OpRunner run_;
};

// Throws Error if the layer computes another number of rows.
void check_rows(const AdapterRows& rows, int64_t num_rows);

// The rows of `rows` whose adapters change the site, as groups for ops::AddLowRank, in `rows.groups`. Throws
// Error if the layer computes another number of rows: whatever selects rows must pass AdapterRows of them.
std::span<const LowRankGroup> groups_at(const AdapterRows& rows, int32_t site, int64_t num_rows);
// The same for an embedding, in `rows.embedding_groups`.
std::span<const EmbeddingGroup> embedding_groups_at(const AdapterRows& rows, int32_t site, int64_t num_rows);
// The same for trained tokens, in `rows.token_groups`. tokens: AdapterWeights::input_tokens or output_tokens.
std::span<const TrainedTokensGroup> token_groups_at(const AdapterRows& rows,
                                                    TokensBySite AdapterWeights::*tokens, int32_t site,
                                                    int64_t num_rows);

// The same for the sites of experts, as groups for ops::AddLowRankExperts, in `rows.expert_groups`: the rows
// whose adapters change one of them. Which rows an expert has is not known here.
std::span<const LowRankExpertsGroup> groups_at(const AdapterRows& rows, std::span<const int32_t> sites,
                                               int64_t num_rows);

}  // namespace quire
