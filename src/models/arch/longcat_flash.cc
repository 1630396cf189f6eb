// LongCat-Flash: each layer of the checkpoint is two layers here, each with latent attention and an MLP. The
// experts are parallel to the MLP of the first and are added after that of the second (shortcut-connected
// MoE). Some are zero-computation experts.
#include <cmath>

#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {
namespace {

constexpr std::array<TensorName, 17> kSublayers = {{
    {layer::kInputNorm, "layers.{}.input_layernorm.{}"},
    {layer::kMlpNorm, "layers.{}.post_attention_layernorm.{}"},
    {mla::kQAProj, "layers.{}.self_attn.{}.q_a_proj"},
    {mla::kQANorm, "layers.{}.self_attn.{}.q_a_layernorm"},
    {mla::kQProj, "layers.{}.self_attn.{}.q_b_proj"},
    {.params = mla::kKvAProj,
     .module = "layers.{}.self_attn.{}.kv_a_proj_with_mqa",
     .row_layout = rope_after_latent},
    {mla::kKvANorm, "layers.{}.self_attn.{}.kv_a_layernorm"},
    {mla::kKvBProj, "layers.{}.self_attn.{}.kv_b_proj"},
    {mla::kOProj, "layers.{}.self_attn.{}.o_proj"},
    {mlp::kGateProj, "layers.{}.mlps.{}.gate_proj"},
    {mlp::kUpProj, "layers.{}.mlps.{}.up_proj"},
    {mlp::kDownProj, "layers.{}.mlps.{}.down_proj"},
    {moe::kRouter, "layers.{}.mlp.router.classifier"},
    {.params = moe::kCorrectionBias, .module = "layers.{}.mlp.router.e_score_correction_bias", .bare = true},
    {moe::kExpertGateProj, "layers.{}.mlp.experts.{}.gate_proj"},
    {moe::kExpertUpProj, "layers.{}.mlp.experts.{}.up_proj"},
    {moe::kExpertDownProj, "layers.{}.mlp.experts.{}.down_proj"},
}};
constexpr auto kLongcatFlashModules = joined(kWords, kFinalNorm, kSublayers);
// Multi-token prediction, and matrices that transformers writes for zero-computation experts.
constexpr std::array<std::string_view, 2> kLongcatFlashUnread = {"mtp.*", "layers.{}.mlp.experts.*"};

ModelSpec parse_longcat_flash(const ConfigReader& config) {
  ModelSpec spec = parse_latent_family(config, {.max_position_embeddings = 131072,
                                                .theta = 1e7,
                                                .intermediate_field = "ffn_hidden_size",
                                                .layers_field = "num_layers",
                                                .norm_eps = 1e-5});
  MlaSpec& mla = *part_of<MlaSpec>(spec.layers.front());
  if (mla.q_lora_rank == 0) config.fail("q_lora_rank", "is missing");
  // Low-rank projections are scaled by sqrt(hidden_size / rank).
  const auto hidden = static_cast<double>(spec.hidden_size);
  mla.latent_multiplier = static_cast<float>(std::sqrt(hidden / mla.kv_lora_rank));
  mla.attention_scale *= static_cast<float>(std::sqrt(hidden / mla.q_lora_rank));
  spec.layers.assign(2 * spec.layers.size(), LayerSpec(spec.layers.front()));
  MoeSpec moe = read_experts(config, {.experts = "n_routed_experts",
                                      .chosen = "moe_topk",
                                      .intermediate = "expert_ffn_hidden_size",
                                      .default_experts = 512,
                                      .default_chosen = 12});
  moe.zero_expert_num = static_cast<int32_t>(config.integer("zero_expert_num", 0, kMaxExperts, 256));
  if (config.text("zero_expert_type", "identity") != "identity")
    config.fail("zero_expert_type", "other than identity is not supported");
  moe.router_bias = config.boolean("router_bias", false);
  moe.router.norm_topk_prob = config.boolean("norm_topk_prob", false);
  moe.router.routed_scaling_factor =
      static_cast<float>(config.number("routed_scaling_factor", -1e6, 1e6, 6.0));
  moe.e_score_correction_bias = true;
  for (size_t i = 0; i < spec.layers.size(); i += 2)
    add_experts(spec.layers[i], moe, FeedForwardSpec::Experts::kShortcut);
  return spec;
}

WeightNames longcat_flash_weight_names() {
  return {.prefixes = kModelPrefixes,
          .tensors = kLongcatFlashModules,
          .ignored = kLongcatFlashUnread,
          .sublayers = 2};
}

}  // namespace

std::span<const Architecture> longcat_flash_architectures() {
  static constexpr std::array kRows = {
      Architecture{"LongcatFlashForCausalLM", "longcat_flash", parse_longcat_flash,
                   longcat_flash_weight_names},
  };
  return kRows;
}

}  // namespace quire
