// The language model of MiniMax-M3: MiniMax-M2's experts and a shared one, gates as in gpt-oss, and in some
// layers sparse attention to blocks of keys that an indexer selects (nn/indexer.h).
#include <algorithm>

#include "base/strings.h"
#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {
namespace {

// Names in published checkpoints, and those that transformers writes (with gate and up in one matrix).
constexpr std::array<TensorName, 14> kMinimaxM3Rest = {{
    {kGateUpParams, "layers.{}.mlp.gate_up_proj"},
    {.params = moe::kCorrectionBias,
     .module = "layers.{}.block_sparse_moe.e_score_correction_bias",
     .bare = true},
    {moe::kSharedGateProj, "layers.{}.block_sparse_moe.shared_experts.gate_proj"},
    {moe::kSharedUpProj, "layers.{}.block_sparse_moe.shared_experts.up_proj"},
    {moe::kSharedDownProj, "layers.{}.block_sparse_moe.shared_experts.down_proj"},
    {kSharedGateUpParams, "layers.{}.mlp.shared_experts.gate_up_proj"},
    {indexer::kQProj, "layers.{}.self_attn.index_q_proj"},
    {indexer::kQProj, "layers.{}.self_attn.indexer.q_proj"},
    {indexer::kKProj, "layers.{}.self_attn.index_k_proj"},
    {indexer::kKProj, "layers.{}.self_attn.indexer.k_proj"},
    {indexer::kQNorm, "layers.{}.self_attn.index_q_norm"},
    {indexer::kQNorm, "layers.{}.self_attn.indexer.q_norm"},
    {indexer::kKNorm, "layers.{}.self_attn.index_k_norm"},
    {indexer::kKNorm, "layers.{}.self_attn.indexer.k_norm"},
}};
constexpr auto kMinimaxM3Modules =
    joined(kLlamaMatrices, kLlamaNorms, kQkNorms, kMixtralExperts, kDeepseekShared, kMinimaxM3Rest);

RopeDefaults minimax_m3_default_rope(const ConfigReader& config) {
  const int64_t head_dim = config.integer("head_dim", 1, kMaxSize, 128);
  const int64_t rotary_dim = config.integer("rotary_dim", 2, kMaxSize, 64);
  const double part =
      rotary_dim <= head_dim ? static_cast<double>(rotary_dim) / static_cast<double>(head_dim) : 1.0;
  return {.theta = 5e6, .partial = true, .part = part};
}

// Converts a published list of 0 and 1 by layer to the names that transformers writes; empty if the field is
// absent.
std::vector<std::string> kMinimaxM3inds_of(const ConfigReader& config, std::string_view field,
                                           std::string_view one, std::string_view zero) {
  std::vector<std::string> kinds;
  for (const int64_t value : config.integers(field, 0, 1)) kinds.emplace_back(value == 1 ? one : zero);
  return kinds;
}

void read_indexers(const ConfigReader& config, ModelSpec& spec) {
  const ConfigReader published =
      config.has("sparse_attention_config") ? config.object("sparse_attention_config") : config;
  std::vector<std::string> kinds = config.texts("layer_types");
  if (kinds.empty())
    kinds = kMinimaxM3inds_of(published, "sparse_attention_freq", "minimax_m3_sparse", "full_attention");
  if (kinds.empty()) return;
  if (kinds.size() != spec.layers.size())
    config.fail("layer_types", cat("has ", kinds.size(), " entries for ", spec.num_layers(), " layers"));
  for (size_t i = 0; i < kinds.size(); ++i) {
    if (kinds[i] != "minimax_m3_sparse" && kinds[i] != "full_attention") {
      config.fail("layer_types",
                  cat("contains '", kinds[i], "', which is neither minimax_m3_sparse nor full_attention"));
    }
  }
  if (std::ranges::find(kinds, "minimax_m3_sparse") == kinds.end()) return;
  const auto size = [&](std::string_view field, std::string_view published_field, int64_t low, int64_t high,
                        int64_t fallback) {
    const int64_t own = config.integer(field, low, high, fallback);
    return static_cast<int32_t>(published.integer(published_field, low, high, own));
  };
  const IndexerSizes indexer = {
      .heads = size("index_n_heads", "sparse_num_index_heads", 1, 1 << 10, 4),
      .dim = size("index_head_dim", "sparse_index_dim", 2, kMaxChoosingHead, 128),
      .count = size("index_topk_blocks", "sparse_topk_blocks", 1, kMaxPositions, 16),
      .block = size("index_block_size", "sparse_block_size", 1, kMaxPositions, 128),
      .local = size("index_local_blocks", "sparse_local_block", 0, kMaxPositions, 1),
  };
  set_all(spec, &AttentionSpec::index_rope, 0);
  if (indexer.heads != first_attention(spec).num_kv_heads)
    config.fail("index_n_heads", "other than num_key_value_heads is not supported");
  if (indexer.dim < spec.ropes.front().rotary_dim) config.fail("index_head_dim", "is less than rotary_dim");
  if (indexer.block % 16 != 0) config.fail("index_block_size", "is supported in multiples of 16 only");
  if (indexer.local > indexer.count) config.fail("index_local_blocks", "is more than index_topk_blocks");
  for (size_t i = 0; i < kinds.size(); ++i) {
    if (kinds[i] == "minimax_m3_sparse") attention_of(spec.layers[i])->indexer = indexer;
  }
}

ModelSpec parse_minimax_m3(const ConfigReader& config) {
  ModelSpec spec = parse_llama_family(config, {.head_dim = 128,
                                               .max_position_embeddings = 524288,
                                               .rope = minimax_m3_default_rope(config),
                                               .activation_field = "",
                                               .activation = "silu"});
  set_norm_offset(spec, 1.0F);
  set_qk_norm(spec, QkNorm::kHeads);
  MoeSpec moe = read_experts(config, {.experts = "num_local_experts",
                                      .intermediate = "intermediate_size",
                                      .default_experts = 128,
                                      .default_chosen = 4});
  moe.router.scoring_func = ScoringFunc::kSigmoid;
  moe.router.norm_topk_prob = true;
  moe.router.routed_scaling_factor =
      static_cast<float>(config.number("routed_scaling_factor", -1e6, 1e6, 2.0));
  moe.e_score_correction_bias = true;
  moe.shared_intermediate_size = config.integer("shared_intermediate_size", 1, kMaxSize, 3072);
  set_all(spec, &MlpSpec::intermediate_size, config.integer("dense_intermediate_size", 1, kMaxSize, 12288));
  std::vector<bool> sparse = sparse_layers(config, spec, 0);
  const auto kinds = kMinimaxM3inds_of(config, "moe_layer_freq", "sparse", "dense");
  if (!kinds.empty() && !config.has("mlp_layer_types")) {
    if (kinds.size() != spec.layers.size())
      config.fail("moe_layer_freq", cat("has ", kinds.size(), " entries for ", spec.num_layers(), " layers"));
    for (size_t i = 0; i < kinds.size(); ++i) sparse[i] = kinds[i] == "sparse";
  }
  use_experts(spec, moe, sparse);
  read_indexers(config, spec);
  read_clamped_swish(config, spec);  // regardless of hidden_act
  return spec;
}

WeightNames minimax_m3_weight_names() {
  return {kModelPrefixes, kMinimaxM3Modules, {}, true};
}

}  // namespace

std::span<const Architecture> minimax_m3_architectures() {
  static constexpr std::array kRows = {
      Architecture{"MiniMaxM3VLForCausalLM", "minimax_m3_vl_text", parse_minimax_m3, minimax_m3_weight_names},
  };
  return kRows;
}

}  // namespace quire
