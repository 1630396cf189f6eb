// Zamba 2: Mamba 2 in all layers, and before some of them one of a few shared transformer blocks, in
// alternation.
#include <algorithm>
#include <cmath>

#include "base/strings.h"
#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {
namespace {

// Mamba 2 in a layer with a shared block before it.
constexpr std::array<TensorName, 8> kMambaBehindBlock = {{
    {layer::kInputNorm, "layers.{}.mamba_decoder.input_layernorm"},
    {recurrent::kInProj, "layers.{}.mamba_decoder.mamba.in_proj"},
    {recurrent::kConv1d, "layers.{}.mamba_decoder.mamba.conv1d"},
    {.params = recurrent::kDtBias, .module = "layers.{}.mamba_decoder.mamba.dt_bias", .bare = true},
    {.params = recurrent::kALog, .module = "layers.{}.mamba_decoder.mamba.A_log", .bare = true},
    {.params = recurrent::kD, .module = "layers.{}.mamba_decoder.mamba.D", .bare = true},
    {recurrent::kNorm, "layers.{}.mamba_decoder.mamba.norm"},
    {recurrent::kOutProj, "layers.{}.mamba_decoder.mamba.out_proj"},
}};
constexpr std::array<TensorName, 21> kZamba2Rest = {{
    {model::kEmbedTokens, "embed_tokens"},
    {layer::kInputNorm, "layers.{}.input_layernorm"},
    {shared_block::kInputNorm, "layers.{}.shared_transformer.input_layernorm"},
    {attention::kQProj, "layers.{}.shared_transformer.self_attn.q_proj"},
    {attention::kKProj, "layers.{}.shared_transformer.self_attn.k_proj"},
    {attention::kVProj, "layers.{}.shared_transformer.self_attn.v_proj"},
    {attention::kOProj, "layers.{}.shared_transformer.self_attn.o_proj"},
    {shared_block::kQLoraA, "layers.{}.shared_transformer.self_attn.linear_q_adapter_list.{}.0"},
    {shared_block::kQLoraB, "layers.{}.shared_transformer.self_attn.linear_q_adapter_list.{}.1"},
    {shared_block::kKLoraA, "layers.{}.shared_transformer.self_attn.linear_k_adapter_list.{}.0"},
    {shared_block::kKLoraB, "layers.{}.shared_transformer.self_attn.linear_k_adapter_list.{}.1"},
    {shared_block::kVLoraA, "layers.{}.shared_transformer.self_attn.linear_v_adapter_list.{}.0"},
    {shared_block::kVLoraB, "layers.{}.shared_transformer.self_attn.linear_v_adapter_list.{}.1"},
    {layer::kMlpNorm, "layers.{}.shared_transformer.pre_ff_layernorm"},
    {kGateUpParams, "layers.{}.shared_transformer.feed_forward.gate_up_proj"},
    {mlp::kDownProj, "layers.{}.shared_transformer.feed_forward.down_proj"},
    {shared_block::kGateUpLoraA, "layers.{}.shared_transformer.feed_forward.gate_up_proj_adapter_list.{}.0"},
    {shared_block::kGateUpLoraB, "layers.{}.shared_transformer.feed_forward.gate_up_proj_adapter_list.{}.1"},
    {shared_block::kLinear, "layers.{}.linear"},
    {model::kFinalNorm, "final_layernorm"},
    {model::kLmHead, "lm_head"},
}};
constexpr auto kZamba2Modules = joined(kZamba2Rest, kMambaInLayer, kMambaBehindBlock);

constexpr int64_t kLongContext = 16384;

// Replaces attention and MLP by Mamba 2, and in some layers by a shared block before it.
void assign_blocks(const ConfigReader& config, ModelSpec& spec, const MambaSpec& mamba,
                   const SharedBlockSpec& adapters) {
  const auto field = config.has("layers_block_type") ? "layers_block_type" : "layer_types";
  const auto kinds = config.texts(field);
  if (kinds.size() != spec.layers.size())
    config.fail(field, cat("has ", kinds.size(), " entries for ", spec.num_layers(), " layers"));
  const auto num_blocks = static_cast<size_t>(config.integer("num_mem_blocks", 1, kMaxLayers, 1));
  const bool turns = config.boolean("use_mem_rope", false);
  std::vector<int32_t> owners;
  int32_t use = 0;
  for (size_t i = 0; i < kinds.size(); ++i) {
    LayerSpec& layer = spec.layers[i];
    if (!turns) layer.rope = kNoRope;
    const bool hybrid = kinds[i] == "hybrid";
    if (!hybrid && kinds[i] != "mamba" && kinds[i] != "linear_attention")
      config.fail(field,
                  cat("contains '", kinds[i], "', which is not one of mamba, linear_attention and hybrid"));
    if (hybrid) {
      if (owners.size() < num_blocks) owners.push_back(static_cast<int32_t>(i));
      layer.shared_block = SharedBlockUseSpec{.adapters = adapters,
                                              .owner = owners[static_cast<size_t>(use) % num_blocks],
                                              .use = use,
                                              .attention = *attention_of(layer),
                                              .mlp = *layer.feed_forward.mlp};
      ++use;
    }
    layer.mixer = mamba;
    remove_feed_forward(layer);
  }
  if (!turns) spec.ropes.clear();
}

ModelSpec parse_zamba2(const ConfigReader& config) {
  const int64_t hidden = config.integer("hidden_size", 1, kMaxSize);
  const int64_t heads = config.integer("num_attention_heads", 1, 1 << 16);
  // The input of attention is the hidden states concatenated with the token embeddings; it has the same
  // width.
  if (2 * hidden % heads != 0)
    config.fail("num_attention_heads",
                cat("is ", heads, ", which does not divide twice hidden_size (", hidden, ")"));
  const auto head_dim = static_cast<int32_t>(2 * hidden / heads);
  if (config.integer("attention_head_dim", 1, kMaxSize, head_dim) != head_dim)
    config.fail("attention_head_dim",
                cat("other than twice hidden_size by num_attention_heads (", head_dim, ") is not supported"));
  ModelSpec spec = parse_llama_family(config, {.head_dim = head_dim,
                                               .max_position_embeddings = 4096,
                                               .tie_word_embeddings = true,
                                               .activation = "gelu",
                                               .intermediate_size = 4 * hidden,
                                               .norm_eps = 1e-5});
  // transformers ties the weights of the blocks together with the embeddings; otherwise each use has its own.
  if (!spec.tie_word_embeddings) config.fail("tie_word_embeddings", "must be true: blocks are shared");
  set_all(spec, &MlpSpec::bias, config.boolean("add_bias_linear", false));
  if (config.boolean("use_long_context", false)) {
    if (spec.ropes.front().scaling != RopeScaling::kNone)
      config.fail("use_long_context", "with scaled positions is not supported");
    spec.max_position_embeddings = spec.max_model_len = kLongContext;
  }
  set_score_divisor(spec, std::sqrt(static_cast<double>(head_dim) / 2.0));

  MambaSpec mamba = read_mamba(config, spec,
                               {.heads = "n_mamba_heads",
                                .head_dim = "mamba_headdim",
                                .groups = "mamba_ngroups",
                                .bias = "add_bias_linear",
                                .default_heads = 8,
                                .default_state = 64});
  // Regardless of hidden_act, use_conv_bias and rms_norm_eps, as in transformers.
  mamba.activation = Activation::kSilu;
  mamba.conv_bias = true;
  mamba.norm_eps = 1e-5F;
  mamba.min_dt = static_cast<float>(config.number("time_step_min", 0.0, 1e9, 1e-3));
  mamba.max_dt = std::numeric_limits<float>::infinity();

  SharedBlockSpec block;
  block.rank = config.integer("adapter_rank", 1, kMaxSize, 128);
  block.attention_adapters = config.boolean("use_shared_attention_adapter", false);
  if (block.attention_adapters && first_attention(spec).num_kv_heads != first_attention(spec).num_heads)
    config.fail("num_key_value_heads",
                "other than num_attention_heads with use_shared_attention_adapter is not supported");
  assign_blocks(config, spec, mamba, block);
  return spec;
}

WeightNames zamba2_weight_names() {
  return {kModelPrefixes, kZamba2Modules, kSavedAngles};
}

}  // namespace

std::span<const Architecture> zamba2_architectures() {
  static constexpr std::array kRows = {
      Architecture{"Zamba2ForCausalLM", "zamba2", parse_zamba2, zamba2_weight_names},
  };
  return kRows;
}

}  // namespace quire
