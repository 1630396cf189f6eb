#include <algorithm>
#include <array>
#include <cmath>

#include "base/strings.h"
#include "models/arch/arch.h"

namespace quire {
namespace {

struct NamedActivation {
  std::string_view name;
  Activation activation;
};

constexpr std::array<NamedActivation, 7> kActivations = {{
    {"silu", Activation::kSilu},
    {"swish", Activation::kSilu},
    {"gelu", Activation::kGelu},
    {"gelu_new", Activation::kGeluTanh},
    {"gelu_fast", Activation::kGeluTanh},
    {"gelu_pytorch_tanh", Activation::kGeluTanh},
    {"relu", Activation::kRelu},
}};

struct NamedScaling {
  std::string_view name;
  RopeScaling scaling;
};

constexpr std::array<NamedScaling, 4> kScalings = {{
    {"default", RopeScaling::kNone},
    {"linear", RopeScaling::kLinear},
    {"llama3", RopeScaling::kLlama3},
    {"yarn", RopeScaling::kYarn},
}};

template <typename Table>
std::string names_of(const Table& table) {
  std::vector<std::string> names;
  for (const auto& row : table) names.emplace_back(row.name);
  return join(names, ", ");
}

RopeScaling read_scaling(const ConfigReader& rope) {
  const char* field = rope.has("rope_type") || !rope.has("type") ? "rope_type" : "type";
  const std::string name = rope.text(field, "default");
  for (const auto& row : kScalings) {
    if (row.name == name) return row.scaling;
  }
  rope.fail(field, cat("is '", name, "', which is not supported; supported: ", names_of(kScalings)));
}

// transformers, modeling_rope_utils: what YaRN's attention factor is where the configuration does not say it.
double yarn_attention_factor(const ConfigReader& rope, double factor) {
  const auto magnitude = [](double scale, double m) {
    return scale <= 1.0 ? 1.0 : 0.1 * m * std::log(scale) + 1.0;
  };
  const double mscale = rope.number("mscale", -1e6, 1e6, 0.0);
  const double mscale_all_dim = rope.number("mscale_all_dim", -1e6, 1e6, 0.0);
  if (mscale == 0.0 || mscale_all_dim == 0.0) return magnitude(factor, 1.0);
  return magnitude(factor, mscale) / magnitude(factor, mscale_all_dim);
}

// An optional positive number; zero and null count as absent.
double positive_or(const ConfigReader& rope, const char* field, double fallback) {
  const double value = rope.number(field, 0.0, 1e9, fallback);
  return value == 0.0 ? fallback : value;
}

void read_yarn(const ConfigReader& rope, RopeSpec& spec) {
  spec.beta_fast = positive_or(rope, "beta_fast", 32.0);
  spec.beta_slow = positive_or(rope, "beta_slow", 1.0);
  spec.truncate = rope.boolean("truncate", true);
  spec.attention_factor = rope.has("attention_factor") ? rope.number("attention_factor", 1e-6, 1e6)
                                                       : yarn_attention_factor(rope, spec.factor);
}

}  // namespace

Activation read_activation(const ConfigReader& config, std::string_view field, std::string_view fallback) {
  const std::string name = config.text(field, fallback);
  for (const auto& row : kActivations) {
    if (row.name == name) return row.activation;
  }
  config.fail(field, cat("is '", name, "', which is not supported; supported: ", names_of(kActivations)));
}

void read_rope(const ConfigReader& config, ArchSpec& spec) {
  // Old configurations write rope_theta and rope_scaling, those of transformers 5 one object rope_parameters.
  const bool old_style = config.has("rope_scaling") && !config.find("rope_scaling")->empty();
  const char* field = old_style ? "rope_scaling" : "rope_parameters";
  const ConfigReader rope = config.object(field);
  for (const char* layer_type : {"full_attention", "sliding_attention"}) {
    if (rope.has(layer_type))
      rope.fail(layer_type, "gives a kind of layer its own positions, which is not supported");
  }

  RopeSpec& out = spec.rope;
  const double outer_theta = config.number("rope_theta", 1.0001, 1e15, 10000.0);
  out.theta = rope.number("rope_theta", 1.0001, 1e15, outer_theta);
  const double outer_part = config.number("partial_rotary_factor", 0.0, 1.0, 1.0);
  if (rope.number("partial_rotary_factor", 0.0, 1.0, outer_part) != 1.0) {
    config.fail("partial_rotary_factor", "other than 1 is not supported for this architecture");
  }
  if (spec.head_dim % 2 != 0)
    config.fail("head_dim", cat("is ", spec.head_dim, ", but rotary positions need an even one"));
  out.rotary_dim = spec.head_dim;
  out.scaling = read_scaling(rope);

  const double max_positions = static_cast<double>(spec.max_position_embeddings);
  if (out.scaling == RopeScaling::kLlama3 || out.scaling == RopeScaling::kYarn) {
    const double inner = rope.number("original_max_position_embeddings", 1.0,
                                     static_cast<double>(kMaxPositions), max_positions);
    out.original_max_position =
        config.number("original_max_position_embeddings", 1.0, static_cast<double>(kMaxPositions), inner);
  }
  double made_for = max_positions;
  switch (out.scaling) {
    case RopeScaling::kNone:
      break;
    case RopeScaling::kLinear:
      out.factor = rope.number("factor", 1e-3, 1e6);
      made_for = max_positions * out.factor;
      break;
    case RopeScaling::kLlama3:
      out.factor = rope.number("factor", 1e-3, 1e6);
      out.low_freq_factor = rope.number("low_freq_factor", 1e-6, 1e6);
      out.high_freq_factor = rope.number("high_freq_factor", 1e-6, 1e6);
      if (out.high_freq_factor <= out.low_freq_factor)
        rope.fail("high_freq_factor", "must be greater than low_freq_factor");
      break;
    case RopeScaling::kYarn:
      out.factor = rope.number("factor", 1e-3, 1e6, max_positions / out.original_max_position);
      read_yarn(rope, out);
      made_for = std::max(max_positions, out.original_max_position * out.factor);
      break;
  }
  spec.max_model_len = static_cast<int64_t>(std::min(made_for, static_cast<double>(kMaxPositions)));
  if (spec.max_model_len < 1) spec.max_model_len = 1;
}

ArchSpec parse_llama_family(const ConfigReader& config, const LlamaDefaults& defaults) {
  ArchSpec spec;
  spec.vocab_size = config.integer("vocab_size", 1, kMaxSize);
  spec.hidden_size = config.integer("hidden_size", 1, kMaxSize);
  spec.intermediate_size = config.integer("intermediate_size", 1, kMaxSize);
  spec.num_layers = static_cast<int32_t>(config.integer("num_hidden_layers", 1, kMaxLayers));
  spec.num_heads = static_cast<int32_t>(config.integer("num_attention_heads", 1, 1 << 16));
  spec.num_kv_heads = static_cast<int32_t>(config.integer("num_key_value_heads", 1, 1 << 16, spec.num_heads));
  if (spec.num_heads % spec.num_kv_heads != 0) {
    config.fail(
        "num_key_value_heads",
        cat("is ", spec.num_kv_heads, ", which does not divide num_attention_heads (", spec.num_heads, ")"));
  }
  if (!config.has("head_dim") && defaults.head_dim == 0 && spec.hidden_size % spec.num_heads != 0) {
    config.fail("num_attention_heads",
                cat("is ", spec.num_heads, ", which does not divide hidden_size (", spec.hidden_size, ")"));
  }
  const int64_t head_dim = defaults.head_dim != 0 ? defaults.head_dim : spec.hidden_size / spec.num_heads;
  spec.head_dim = static_cast<int32_t>(config.integer("head_dim", 1, 1 << 13, head_dim));
  spec.max_position_embeddings =
      config.integer("max_position_embeddings", 1, kMaxPositions, defaults.max_position_embeddings);

  spec.norm = NormKind::kRms;
  spec.norm_eps = static_cast<float>(config.number("rms_norm_eps", 0.0, 1.0, 1e-6));
  spec.activation = read_activation(config, "hidden_act", "silu");
  spec.gated_mlp = true;
  spec.position = PositionKind::kRope;
  read_rope(config, spec);
  spec.layers.assign(static_cast<size_t>(spec.num_layers),
                     LayerSpec{0, static_cast<float>(1.0 / std::sqrt(static_cast<double>(spec.head_dim)))});

  spec.tie_word_embeddings = config.boolean("tie_word_embeddings", false);
  spec.eos_token_ids = config.token_ids("eos_token_id", spec.vocab_size);
  const auto bos = config.token_ids("bos_token_id", spec.vocab_size);
  if (!bos.empty()) spec.bos_token_id = bos.front();
  return spec;
}

void read_qwen_windows(const ConfigReader& config, ArchSpec& spec) {
  if (!config.boolean("use_sliding_window", false)) return;
  const auto window = static_cast<int32_t>(config.integer("sliding_window", 1, kMaxPositions, 4096));
  const auto types = config.texts("layer_types");
  if (!types.empty() && types.size() != spec.layers.size()) {
    config.fail("layer_types", cat("has ", types.size(), " entries for ", spec.num_layers, " layers"));
  }
  const int64_t first = config.integer("max_window_layers", 0, kMaxLayers, 28);
  for (size_t i = 0; i < spec.layers.size(); ++i) {
    bool sliding = static_cast<int64_t>(i) >= first;
    if (!types.empty()) {
      sliding = types[i] == "sliding_attention";
      if (!sliding && types[i] != "full_attention") {
        config.fail("layer_types",
                    cat("holds '", types[i], "', which is neither full_attention nor sliding_attention"));
      }
    }
    if (sliding) spec.layers[i].window = window;
  }
}

}  // namespace quire
