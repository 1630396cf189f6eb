// Grouped-query attention: parameter names and what differs between models. Plain data.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "nn/indexer_spec.h"
#include "nn/kv_shape.h"
#include "nn/mixer_traits.h"
#include "nn/norm_spec.h"
#include "nn/param_id.h"
#include "ops/op_table.h"

namespace quire {

class ParamVisitor;  // nn/params.h

namespace attention {
inline constexpr ParamId kQProj{"attention.q_proj"};
inline constexpr ParamId kOutputGate{
    "attention.output_gate"};  // gates of the result, one per feature or one per head
inline constexpr ParamId kKProj{"attention.k_proj"};
inline constexpr ParamId kVProj{"attention.v_proj"};
inline constexpr ParamId kOProj{"attention.o_proj"};
inline constexpr ParamId kQNorm{"attention.q_norm"};
inline constexpr ParamId kKNorm{"attention.k_norm"};
inline constexpr ParamId kBesideKvScales = kKProj;  // checkpoints store the scales of a KV cache next to it
inline constexpr ParamId kSinks{"attention.sinks"};
inline constexpr ParamId kSubNorm{"attention.attn_sub_norm"};  // before o_proj (BitNet)
inline constexpr ParamId kRelativeEmbeddings{"relative_embeddings"};
inline constexpr ParamId kRelativeNorm{"relative_norm"};
}  // namespace attention

// Attention scores of encoders that depend on the distance between two tokens.
struct RelativeSpec {
  int32_t num_buckets = 0;
  std::vector<int32_t> buckets;  // bucket by distance (RelativeParams::buckets)
  // Each bucket has a vector of the hidden size, which goes through the projections of queries and keys
  // (DeBERTa); otherwise one number per head (MPNet), in a table that all layers share.
  bool vectors = false;
  std::optional<NormSpec> norm;  // norm of the vectors
};

// One attention layer.
struct AttentionSpec {
  int32_t num_heads = 0;
  int32_t num_kv_heads = 0;
  int32_t head_dim = 0;
  int32_t value_dim = 0;          // size of a value head; at most head_dim
  int32_t kv_sharing_layer = -1;  // the earlier layer whose keys and values are read; -1 = its own
  bool k_eq_v = false;            // attention_k_eq_v: values are the output of k_proj too
  bool qkv_bias = false;
  bool o_bias = false;
  int64_t num_gates = 0;  // output gates: num_heads, or num_heads * head_dim; 0 = none
  Activation gate_activation = Activation::kSigmoid;
  QkNorm qk_norm = QkNorm::kNone;
  NormSpec qk_norm_spec = {};
  bool qk_norm_weights = true;  // otherwise it only divides
  bool qk_norm_after_rope = false;
  std::optional<float> v_norm_eps;   // RMS norm without weights over each value head
  std::optional<NormSpec> sub_norm;  // before o_proj
  float clip_qkv = 0.0F;             // queries, keys and values are clamped to [-clip_qkv, clip_qkv]; 0 = not
  bool sinks = false;
  AttentionParams params = {};           // without pointers
  std::optional<IndexerSizes> indexer;   // selects blocks of keys (MiniMax-M3)
  int32_t index_rope = -1;               // index of the rotary embedding of the indexer
  std::optional<RelativeSpec> relative;  // the KV cache is not used then

  bool shares_cache() const { return kv_sharing_layer >= 0; }
  int64_t q_size() const { return int64_t{num_heads} * head_dim; }
  int64_t kv_size() const { return int64_t{num_kv_heads} * head_dim; }
  // Columns of the fused projection: queries, output gates, keys, values. Without keys and values if it
  // shares the cache of another layer.
  int64_t keys_begin() const { return q_size() + num_gates; }
  int64_t values_begin() const { return keys_begin() + kv_size(); }
  int64_t qkv_size() const {
    return shares_cache() ? keys_begin() : values_begin() + int64_t{num_kv_heads} * value_dim;
  }
  int64_t result_size() const { return int64_t{num_heads} * value_dim; }
};

KvShape kv_shape(const AttentionSpec& spec);
int64_t kv_bytes(const AttentionSpec& spec, DType dtype, int32_t block_size);
MixerTraits mixer_traits(const AttentionSpec& spec);
inline const AttentionSpec* grouped_attention(const AttentionSpec& spec) {
  return &spec;
}
std::unique_ptr<Mixer> make_mixer(const AttentionSpec& spec);

// The table of relative scores that all layers share, SharedTables::relative_bias.
void visit_relative_bias(const RelativeSpec& spec, int64_t num_heads, ParamVisitor& visitor, Buffer& bias);

// Attention with linear biases (ALiBi, arXiv 2108.12409): one slope per head, multiplied by `scale`. With n
// heads, n a power of two, head i = 1, 2, … has 2^(-max_bias * i / n). Otherwise the heads after the largest
// power of two p <= n have every second slope of 2p heads.
std::vector<float> alibi_slopes(int32_t num_heads, double max_bias, double scale);

}  // namespace quire
