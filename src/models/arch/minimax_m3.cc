// MiniMax-M3, the text part: MiniMax-M2's experts with a shared one, gates as gpt-oss has them, and in some
// layers attention to chosen blocks of keys (nn/indexer.h).
#include <algorithm>

#include "base/strings.h"
#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {
namespace {

// Published names, and those under which transformers saves: gates and ups in one matrix.
constexpr std::array<ModuleName, 14> kRest = {{
    {Role::kGateUp, "layers.{}.mlp.gate_up_proj"},
    {.role = Role::kRouterCorrection,
     .module = "layers.{}.block_sparse_moe.e_score_correction_bias",
     .bare = true},
    {Role::kSharedExpertGate, "layers.{}.block_sparse_moe.shared_experts.gate_proj"},
    {Role::kSharedExpertUp, "layers.{}.block_sparse_moe.shared_experts.up_proj"},
    {Role::kSharedExpertDown, "layers.{}.block_sparse_moe.shared_experts.down_proj"},
    {Role::kSharedExpertGateUp, "layers.{}.mlp.shared_experts.gate_up_proj"},
    {Role::kIndexQuery, "layers.{}.self_attn.index_q_proj"},
    {Role::kIndexQuery, "layers.{}.self_attn.indexer.q_proj"},
    {Role::kIndexKey, "layers.{}.self_attn.index_k_proj"},
    {Role::kIndexKey, "layers.{}.self_attn.indexer.k_proj"},
    {Role::kIndexQueryNorm, "layers.{}.self_attn.index_q_norm"},
    {Role::kIndexQueryNorm, "layers.{}.self_attn.indexer.q_norm"},
    {Role::kIndexKeyNorm, "layers.{}.self_attn.index_k_norm"},
    {Role::kIndexKeyNorm, "layers.{}.self_attn.indexer.k_norm"},
}};
constexpr auto kModules =
    joined(kLlamaMatrices, kLlamaNorms, kQkNorms, kMixtralExperts, kDeepseekShared, kRest);

RopeDefaults usual_rope(const ConfigReader& config) {
  const int64_t head_dim = config.integer("head_dim", 1, kMaxSize, 128);
  const int64_t turning = config.integer("rotary_dim", 2, kMaxSize, 64);
  const double part =
      turning <= head_dim ? static_cast<double>(turning) / static_cast<double>(head_dim) : 1.0;
  return {.theta = 5e6, .partial = true, .part = part};
}

// Ones and zeros by layer of published files as the names that transformers writes; empty: there is no such
// field.
std::vector<std::string> kinds_of(const ConfigReader& config, std::string_view field, std::string_view one,
                                  std::string_view zero) {
  std::vector<std::string> kinds;
  for (const int64_t value : config.integers(field, 0, 1)) kinds.emplace_back(value == 1 ? one : zero);
  return kinds;
}

void read_indexers(const ConfigReader& config, ArchSpec& spec) {
  const ConfigReader published =
      config.has("sparse_attention_config") ? config.object("sparse_attention_config") : config;
  std::vector<std::string> kinds = config.texts("layer_types");
  if (kinds.empty())
    kinds = kinds_of(published, "sparse_attention_freq", "minimax_m3_sparse", "full_attention");
  if (kinds.empty()) return;
  if (kinds.size() != spec.layers.size())
    config.fail("layer_types", cat("has ", kinds.size(), " entries for ", spec.num_layers, " layers"));
  for (size_t i = 0; i < kinds.size(); ++i) {
    if (kinds[i] != "minimax_m3_sparse" && kinds[i] != "full_attention") {
      config.fail("layer_types",
                  cat("holds '", kinds[i], "', which is neither minimax_m3_sparse nor full_attention"));
    }
    spec.layers[i].indexer = kinds[i] == "minimax_m3_sparse";
  }
  if (std::ranges::none_of(spec.layers, &LayerSpec::indexer)) return;
  const auto size = [&](std::string_view field, std::string_view published_field, int64_t low, int64_t high,
                        int64_t fallback) {
    const int64_t own = config.integer(field, low, high, fallback);
    return static_cast<int32_t>(published.integer(published_field, low, high, own));
  };
  spec.indexer = {
      .heads = size("index_n_heads", "sparse_num_index_heads", 1, 1 << 10, 4),
      .dim = size("index_head_dim", "sparse_index_dim", 2, kMaxChoosingHead, 128),
      .count = size("index_topk_blocks", "sparse_topk_blocks", 1, kMaxPositions, 16),
      .block = size("index_block_size", "sparse_block_size", 1, kMaxPositions, 128),
      .local = size("index_local_blocks", "sparse_local_block", 0, kMaxPositions, 1),
  };
  spec.index_rope = 0;
  if (spec.indexer.heads != spec.num_kv_heads)
    config.fail("index_n_heads", "other than num_key_value_heads is not supported");
  if (spec.indexer.dim < spec.ropes.front().rotary_dim)
    config.fail("index_head_dim", "is less than the dimensions that turn");
  if (spec.indexer.block % 16 != 0) config.fail("index_block_size", "is supported in multiples of 16 only");
  if (spec.indexer.local > spec.indexer.count)
    config.fail("index_local_blocks", "is more than index_topk_blocks");
}

}  // namespace

ArchSpec parse_minimax_m3(const ConfigReader& config) {
  ArchSpec spec = parse_llama_family(config, {.head_dim = 128,
                                              .max_position_embeddings = 524288,
                                              .rope = usual_rope(config),
                                              .activation_field = "",
                                              .activation = "silu"});
  spec.norm_weight_offset = 1.0F;
  spec.qk_norm = QkNorm::kHeads;
  // Whatever the field for it says; the activation has no other numbers.
  spec.activation = Activation::kClampedSwish;
  if (config.number("swiglu_limit", 0.0, 1e9, 7.0) != 7.0)
    config.fail("swiglu_limit", "other than 7 is not supported");
  if (config.number("swiglu_alpha", 0.0, 1e9, 1.702) != 1.702)
    config.fail("swiglu_alpha", "other than 1.702 is not supported");
  MoeSpec& moe = read_experts(config, spec,
                              {.experts = "num_local_experts",
                               .intermediate = "intermediate_size",
                               .default_experts = 128,
                               .default_chosen = 4});
  moe.router.scores = RouterScores::kSigmoid;
  moe.router.normalize = true;
  moe.router.scale = static_cast<float>(config.number("routed_scaling_factor", -1e6, 1e6, 2.0));
  moe.correction = true;
  moe.shared_intermediate_size = config.integer("shared_intermediate_size", 1, kMaxSize, 3072);
  spec.intermediate_size = config.integer("dense_intermediate_size", 1, kMaxSize, 12288);
  assign_experts(config, spec, 0);
  const auto kinds = kinds_of(config, "moe_layer_freq", "sparse", "dense");
  if (!kinds.empty() && !config.has("mlp_layer_types")) {
    if (kinds.size() != spec.layers.size())
      config.fail("moe_layer_freq", cat("has ", kinds.size(), " entries for ", spec.num_layers, " layers"));
    for (size_t i = 0; i < kinds.size(); ++i) spec.layers[i].experts = kinds[i] == "sparse";
  }
  read_indexers(config, spec);
  return spec;
}

WeightNames minimax_m3_weight_names() {
  return {kModelPrefixes, kModules, {}, true};
}

}  // namespace quire
