// Gemma 3n (text): AltUp and Laurel (nn/alt_up.h), per-layer embeddings, sliding windows in most layers,
// value norms, Gaussian top-k in the first MLPs. The last layers share the KV cache of earlier ones.
#include <algorithm>
#include <cmath>

#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {
namespace {

constexpr std::array<TensorName, 12> kGemma3nOwn = {{
    {layer::kInputNorm, "layers.{}.input_layernorm"},
    {layer::kMlpNorm, "layers.{}.pre_feedforward_layernorm"},
    {alt_up::kProjection, "altup_projections.{}"},
    {alt_up::kUnembedProjection, "altup_unembed_projections.{}"},
    {alt_up::kRouterNorm, "layers.{}.altup.router_norm"},
    {alt_up::kModalityRouter, "layers.{}.altup.modality_router"},
    {alt_up::kPredictionCoefs, "layers.{}.altup.prediction_coefs"},
    {alt_up::kCorrectionCoefs, "layers.{}.altup.correction_coefs"},
    {.params = alt_up::kCorrectOutputScale, .module = "layers.{}.altup.correct_output_scale", .bare = true},
    {alt_up::kLaurelLeft, "layers.{}.laurel.linear_left"},
    {alt_up::kLaurelRight, "layers.{}.laurel.linear_right"},
    {alt_up::kLaurelNorm, "layers.{}.laurel.post_laurel_norm"},
}};
constexpr auto kGemma3nModules = joined(kLlamaMatrices, kPostNorms, kQkNorms, kLayerInputs, kGemma3nOwn);

// Checkpoints have the scales even if altup_correct_scale is false.
constexpr auto kGemma3nUnread = [] {
  std::array<std::string_view, kBorrowedKeys.size() + 1> names{};
  std::ranges::copy(kBorrowedKeys, names.begin());
  names.back() = "layers.{}.altup.correct_output_scale";
  return names;
}();

bool is_list(const ConfigReader& config, std::string_view field) {
  return config.has(field) && config.find(field)->is_array();
}
void expect_entries(const ConfigReader& config, std::string_view field, size_t count, const ModelSpec& spec) {
  if (count != spec.layers.size()) config.fail(field, "has not as many entries as there are layers");
}

void read_mlp_sizes(const ConfigReader& config, ModelSpec& spec) {
  if (!is_list(config, "intermediate_size")) return;
  const auto sizes = config.integers("intermediate_size", 1, kMaxSize);
  expect_entries(config, "intermediate_size", sizes.size(), spec);
  for (size_t i = 0; i < sizes.size(); ++i) spec.layers[i].feed_forward.mlp->intermediate_size = sizes[i];
}

void read_activation_sparsity(const ConfigReader& config, ModelSpec& spec) {
  constexpr std::string_view kField = "activation_sparsity_pattern";
  constexpr double kMost = 0.999999;
  if (is_list(config, kField)) {
    const auto shares = config.numbers(kField, 0.0, kMost);
    expect_entries(config, kField, shares.size(), spec);
    for (size_t i = 0; i < shares.size(); ++i)
      spec.layers[i].feed_forward.mlp->activation_sparsity = shares[i];
    return;
  }
  constexpr size_t kSparse = 10;  // number of sparse layers, in models with more layers than that
  for (size_t i = 0; spec.layers.size() > kSparse && i < kSparse; ++i)
    spec.layers[i].feed_forward.mlp->activation_sparsity = 0.95;
}

ModelSpec parse_gemma3n(const ConfigReader& config) {
  const bool sizes_by_layer = is_list(config, "intermediate_size");
  ModelSpec spec =
      parse_llama_family(config, {.head_dim = 256,
                                  .max_position_embeddings = 32768,
                                  .rope = {.theta = 1e6, .window_theta = 1e4},
                                  .tie_word_embeddings = true,
                                  .activation_field = "hidden_activation",
                                  .activation = "gelu_pytorch_tanh",
                                  .intermediate_field = sizes_by_layer ? "" : "intermediate_size",
                                  .intermediate_size = 16384});
  if (spec.ropes.size() == 1) {
    RopeSpec local;
    local.theta = config.number("rope_local_base_freq", 1.0001, 1e15, 1e4);
    local.rotary_dim = first_attention(spec).head_dim;
    spec.ropes.push_back(local);
  }
  set_score_divisor(spec, 1.0);
  const auto window = static_cast<int32_t>(config.integer("sliding_window", 1, kMaxPositions, 512));
  assign_windows(spec, sliding_layers(config, spec, 5), window, 1, 0);
  read_shared_caches(config, spec, std::min(15, spec.num_layers() - 1));
  read_mlp_sizes(config, spec);
  read_activation_sparsity(config, spec);

  AltUpSpec& streams = spec.alt_up.emplace();
  streams.streams = static_cast<int32_t>(config.integer("altup_num_inputs", 1, 64, 4));
  streams.hidden = spec.hidden_size;
  streams.rank = config.integer("laurel_rank", 1, kMaxSize, 64);
  streams.scaled = config.boolean("altup_correct_scale", true);
  if (config.integer("altup_active_idx", 0, 64, 0) != 0)
    config.fail("altup_active_idx", "other than 0 is not supported");

  set_attention_bias(spec, config.boolean("attention_bias", false));
  spec.embedding_multiplier = static_cast<float>(std::sqrt(static_cast<double>(spec.hidden_size)));
  place_norms(spec, NormPlace::kBoth);
  set_qk_norm(spec, QkNorm::kHeads);
  set_all(spec, &AttentionSpec::v_norm_eps, spec.norm.eps);
  spec.logit_softcap = static_cast<float>(config.number("final_logit_softcapping", 0.0, 1e9, 30.0));
  spec.per_layer_input = {.size = config.integer("hidden_size_per_layer_input", 1, kMaxSize, 256),
                          .vocab_size = config.integer("vocab_size_per_layer_input", 1, kMaxSize, 262144),
                          .activation = first_mlp(spec).activation};
  spec.max_model_len = spec.max_position_embeddings;
  return spec;
}

WeightNames gemma3n_weight_names() {
  return {kModelPrefixes, kGemma3nModules, kGemma3nUnread};
}

}  // namespace

std::span<const Architecture> gemma3n_architectures() {
  static constexpr std::array kRows = {
      Architecture{"Gemma3nForCausalLM", "gemma3n_text", parse_gemma3n, gemma3n_weight_names},
  };
  return kRows;
}

}  // namespace quire
