// Grouped-query attention with its projections. With an indexer, each query attends to the blocks of keys
// that the indexer selects. Encoders may have scores that depend on the distance between tokens.
#pragma once

#include <optional>
#include <utility>

#include "nn/attention_spec.h"
#include "nn/indexer.h"
#include "nn/layers.h"
#include "nn/mixer.h"

namespace quire {

// Weights are read-only after load.
struct Attention final : Mixer {
  AttentionSpec spec;
  Linear qkv_proj;             // [qkv_size, hidden]: queries, output gates, keys, values
  Linear o_proj;               // [hidden, num_heads value_dim]
  std::optional<Norm> q_norm;  // as spec.qk_norm says
  std::optional<Norm> k_norm;
  std::optional<Norm> v_norm;    // over each value head
  std::optional<Norm> sub_norm;  // over the concatenated heads, before the output projection
  Buffer sinks;                  // float32 [num_heads] or empty
  Buffer relative_buckets;       // int32: RelativeParams::buckets, or empty
  Buffer relative;  // float32 [2, num_buckets, hidden] or empty: keys and queries of the relative positions
  std::optional<KvScales> kv_scales;
  std::optional<Indexer> indexer;

  explicit Attention(AttentionSpec settings) : spec(std::move(settings)) {}
  void visit(const InputSpec& x, ParamVisitor& visitor) override;
  void forward(const OpRunner& run, const MixerArgs& args) const override;
  void count_scratch(ScratchLayout& layout) const override;

  // The part after the projection, whose output is qkv [rows, qkv_size]. heads [rows, result_size] is
  // scratch. chosen: AttentionParams::chosen.
  void attend(const OpRunner& run, const MixerArgs& args, const TensorView& qkv, const TensorView& heads,
              const SparseMask& chosen = {}) const;

 private:
  void visit_qk_norms(ParamVisitor& visitor);
  void visit_relative(int64_t hidden_size, ParamVisitor& visitor);
};

}  // namespace quire
