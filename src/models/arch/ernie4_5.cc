// ERNIE 4.5: Llama with interleaved RoPE; the larger models have experts. Multimodal models have additional
// experts for other modalities, which are not read.
#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {
namespace {

constexpr std::array<TensorName, 2> kErnie45Correction = {{
    {.params = moe::kCorrectionBias,
     .module = "layers.{}.mlp.moe_statics.e_score_correction_bias",
     .bare = true},
    {.params = moe::kCorrectionBias,
     .module = "layers.{}.mlp.gate.moe_statics.e_score_correction_bias",
     .bare = true},
}};
constexpr std::array<TensorName, 3> kErnie45Shared = {{
    {moe::kSharedGateProj, "layers.{}.mlp.shared_experts.gate_proj"},
    {moe::kSharedUpProj, "layers.{}.mlp.shared_experts.up_proj"},
    {moe::kSharedDownProj, "layers.{}.mlp.shared_experts.down_proj"},
}};
constexpr auto kErnie45MoeModules =
    joined(kLlamaMatrices, kLlamaNorms, kMoeExperts, kErnie45Correction, kErnie45Shared);
// Names of multimodal models in published checkpoints, and those that transformers writes.
constexpr std::array<TensorName, 9> kTextExperts = {{
    {moe::kRouter, "layers.{}.mlp.gate", true},
    {moe::kRouter, "layers.{}.mlp.text_moe.gate"},
    {.params = moe::kCorrectionBias,
     .module = "layers.{}.mlp.text_moe.gate.moe_statics.e_score_correction_bias",
     .bare = true},
    {.params = moe::kCorrectionBias,
     .module = "layers.{}.mlp.moe_statics.e_score_correction_bias",
     .bare = true},
    {moe::kExpertGateProj, "layers.{}.mlp.experts.{}.gate_proj"},
    {moe::kExpertUpProj, "layers.{}.mlp.experts.{}.up_proj"},
    {moe::kExpertDownProj, "layers.{}.mlp.experts.{}.down_proj"},
    {.params = kExpertGateUpParams, .module = "layers.{}.mlp.text_moe.experts.gate_up_proj", .bare = true},
    {.params = moe::kExpertDownProj, .module = "layers.{}.mlp.text_moe.experts.down_proj", .bare = true},
}};
constexpr auto kVlModules = joined(kLlamaMatrices, kLlamaNorms, kTextExperts, kErnie45Shared);
constexpr std::array<std::string_view, 3> kVlIgnored = {"mtp_*", "layers.{}.mlp.gate.weight_1",
                                                        "layers.{}.mlp.vision_moe.*"};
// Multi-token prediction.
constexpr std::array<std::string_view, 1> kMoeIgnored = {"mtp_*"};

ModelSpec parse_ernie4_5_family(const ConfigReader& config, int32_t head_dim) {
  ModelSpec spec = parse_llama_family(config, {.head_dim = head_dim,
                                               .max_position_embeddings = 131072,
                                               .rope = {.theta = 500000.0, .style = RopeStyle::kInterleaved},
                                               .tie_word_embeddings = true,
                                               .norm_eps = 1e-5});
  set_biases(spec, config.boolean("use_bias", false));
  return spec;
}

// A number, or the first element of a list: the value for the experts of text.
int64_t of_text(const ConfigReader& config, std::string_view field, int64_t low, int64_t fallback) {
  if (!config.has(field) || !config.find(field)->is_array())
    return config.integer(field, low, kMaxSize, fallback);
  const auto values = config.integers(field, low, kMaxSize);
  if (values.empty()) config.fail(field, "is empty");
  return values.front();
}

ModelSpec parse_ernie4_5_vl_moe(const ConfigReader& config) {
  ModelSpec spec = parse_ernie4_5_family(config, 0);
  spec.lm_head_bias = first_mlp(spec).bias;
  MoeSpec moe;
  const int64_t experts = of_text(config, "moe_num_experts", 1, 64);
  if (experts > kMaxExperts) config.fail("moe_num_experts", "is too large");
  moe.num_experts = static_cast<int32_t>(experts);
  moe.router.num_experts_per_tok = static_cast<int32_t>(config.integer("moe_k", 1, experts, 6));
  moe.router.norm_topk_prob = true;
  moe.e_score_correction_bias = true;
  moe.intermediate_size = of_text(config, "moe_intermediate_size", 1, 1536);
  moe.shared_intermediate_size = config.integer("moe_num_shared_experts", 0, 1024, 2) * moe.intermediate_size;
  use_experts(spec, moe, sparse_layers(config, spec, of_text(config, "moe_layer_start_index", 0, 1)));
  return spec;
}

ModelSpec parse_ernie4_5(const ConfigReader& config) {
  return parse_ernie4_5_family(config, 128);
}

// The language model of PaddleOCR-VL: ERNIE 4.5 with NeoX-style RoPE.
ModelSpec parse_paddleocr_vl(const ConfigReader& config) {
  ModelSpec spec = parse_ernie4_5(config);
  spec.ropes.front().style = RopeStyle::kNeox;
  return spec;
}

ModelSpec parse_ernie4_5_moe(const ConfigReader& config) {
  ModelSpec spec = parse_ernie4_5_family(config, 0);
  spec.lm_head_bias = first_mlp(spec).bias;
  MoeSpec moe = read_experts(
      config, {.experts = "moe_num_experts", .chosen = "moe_k", .default_experts = 64, .default_chosen = 6});
  moe.router.norm_topk_prob = true;
  moe.e_score_correction_bias = true;
  moe.shared_intermediate_size = config.integer("moe_num_shared_experts", 0, 1024, 2) * moe.intermediate_size;
  const int64_t first = config.integer("moe_layer_start_index", 0, kMaxLayers, 1);
  const int64_t last = config.integer("moe_layer_end_index", -1, kMaxLayers, -1);
  const int64_t interval = config.integer("moe_layer_interval", 1, kMaxLayers, 1);
  std::vector<bool> sparse;
  for (int64_t i = 0; i < spec.num_layers(); ++i)
    sparse.push_back((i + 1) % interval == 0 && i >= first && (last < 0 || i <= last));
  use_experts(spec, moe, sparse);
  return spec;
}

WeightNames ernie4_5_vl_moe_weight_names() {
  WeightNames names = {kModelPrefixes, kVlModules, kVlIgnored, true};
  names.other_experts = true;
  return names;
}
WeightNames ernie4_5_moe_weight_names() {
  return {kModelPrefixes, kErnie45MoeModules, kMoeIgnored, true};
}

}  // namespace

std::span<const Architecture> ernie4_5_architectures() {
  static constexpr std::array kRows = {
      Architecture{"Ernie4_5_MoeForCausalLM", "ernie4_5_moe", parse_ernie4_5_moe, ernie4_5_moe_weight_names},
      Architecture{"Ernie4_5_VLMoeForCausalLM", "ernie4_5_vl_moe_text", parse_ernie4_5_vl_moe,
                   ernie4_5_vl_moe_weight_names},
      Architecture{"Ernie4_5ForCausalLM", "ernie4_5", parse_ernie4_5, llama_weight_names},
      Architecture{"PaddleOCRVLForCausalLM", "paddleocr_vl_text", parse_paddleocr_vl, llama_weight_names},
  };
  return kRows;
}

}  // namespace quire
