// Gemma 3n (its text): streams of hidden states (nn/alt_up.h), windows in most layers, values normed, a
// vector of the token for each layer, gates of which few count; the last layers read the keys and values of
// earlier ones.
#include <algorithm>
#include <cmath>

#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {
namespace {

constexpr std::array<ModuleName, 12> kOwn = {{
    {Role::kInputNorm, "layers.{}.input_layernorm"},
    {Role::kMlpNorm, "layers.{}.pre_feedforward_layernorm"},
    {Role::kStreamIn, "altup_projections.{}"},
    {Role::kStreamOut, "altup_unembed_projections.{}"},
    {Role::kStreamRouterNorm, "layers.{}.altup.router_norm"},
    {Role::kStreamRouter, "layers.{}.altup.modality_router"},
    {Role::kStreamPredict, "layers.{}.altup.prediction_coefs"},
    {Role::kStreamCorrect, "layers.{}.altup.correction_coefs"},
    {.role = Role::kStreamScale, .module = "layers.{}.altup.correct_output_scale", .bare = true},
    {Role::kLaurelDown, "layers.{}.laurel.linear_left"},
    {Role::kLaurelUp, "layers.{}.laurel.linear_right"},
    {Role::kLaurelNorm, "layers.{}.laurel.post_laurel_norm"},
}};
constexpr auto kModules = joined(kLlamaMatrices, kPostNorms, kQkNorms, kLayerInputs, kOwn);

// The scales are there where they are not used too.
constexpr auto kUnread = [] {
  std::array<std::string_view, kBorrowedKeys.size() + 1> names{};
  std::ranges::copy(kBorrowedKeys, names.begin());
  names.back() = "layers.{}.altup.correct_output_scale";
  return names;
}();

bool is_list(const ConfigReader& config, std::string_view field) {
  return config.has(field) && config.find(field)->is_array();
}
void expect_entries(const ConfigReader& config, std::string_view field, size_t count, const ArchSpec& spec) {
  if (count != spec.layers.size()) config.fail(field, "has not as many entries as there are layers");
}

void read_mlp_sizes(const ConfigReader& config, ArchSpec& spec) {
  if (!is_list(config, "intermediate_size")) return;
  const auto sizes = config.integers("intermediate_size", 1, kMaxSize);
  expect_entries(config, "intermediate_size", sizes.size(), spec);
  for (size_t i = 0; i < sizes.size(); ++i) spec.layers[i].intermediate_size = sizes[i];
  spec.intermediate_size = std::ranges::max(sizes);
}

void read_sparse_gates(const ConfigReader& config, ArchSpec& spec) {
  constexpr std::string_view kField = "activation_sparsity_pattern";
  constexpr double kMost = 0.999999;
  if (is_list(config, kField)) {
    const auto shares = config.numbers(kField, 0.0, kMost);
    expect_entries(config, kField, shares.size(), spec);
    for (size_t i = 0; i < shares.size(); ++i) spec.layers[i].sparse_gates = shares[i];
    return;
  }
  constexpr size_t kSparse = 10;  // the first so many, of models that have more
  for (size_t i = 0; spec.layers.size() > kSparse && i < kSparse; ++i) spec.layers[i].sparse_gates = 0.95;
}

}  // namespace

ArchSpec parse_gemma3n(const ConfigReader& config) {
  const bool sizes_by_layer = is_list(config, "intermediate_size");
  ArchSpec spec = parse_llama_family(config, {.head_dim = 256,
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
    local.rotary_dim = spec.head_dim;
    spec.ropes.push_back(local);
  }
  assign_layers(spec, 1.0);
  const auto window = static_cast<int32_t>(config.integer("sliding_window", 1, kMaxPositions, 512));
  assign_windows(spec, sliding_layers(config, spec, 5), window, 1, 0);
  read_shared_caches(config, spec, std::min(15, spec.num_layers - 1));
  read_mlp_sizes(config, spec);
  read_sparse_gates(config, spec);

  AltUpSpec& streams = spec.alt_up.emplace();
  streams.sizes.streams = static_cast<int32_t>(config.integer("altup_num_inputs", 1, 64, 4));
  streams.sizes.hidden = spec.hidden_size;
  streams.sizes.rank = config.integer("laurel_rank", 1, kMaxSize, 64);
  streams.scaled = config.boolean("altup_correct_scale", true);
  if (config.integer("altup_active_idx", 0, 64, 0) != 0)
    config.fail("altup_active_idx", "other than 0 is not supported");

  spec.qkv_bias = spec.out_bias = config.boolean("attention_bias", false);
  spec.embedding_multiplier = static_cast<float>(std::sqrt(static_cast<double>(spec.hidden_size)));
  spec.post_norms = true;
  spec.qk_norm = QkNorm::kHeads;
  spec.value_norm = true;
  spec.logit_softcap = static_cast<float>(config.number("final_logit_softcapping", 0.0, 1e9, 30.0));
  spec.layer_input_size = config.integer("hidden_size_per_layer_input", 1, kMaxSize, 256);
  spec.layer_input_vocab = config.integer("vocab_size_per_layer_input", 1, kMaxSize, 262144);
  spec.max_model_len = spec.max_position_embeddings;
  return spec;
}

WeightNames gemma3n_weight_names() {
  return {kModelPrefixes, kModules, kUnread};
}

}  // namespace quire
