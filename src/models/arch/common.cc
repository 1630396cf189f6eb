#include <algorithm>
#include <array>
#include <cmath>

#include "base/strings.h"
#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {
namespace {

struct NamedActivation {
  std::string_view name;
  Activation activation;
};

constexpr std::array<NamedActivation, 8> kActivations = {{
    {"silu", Activation::kSilu},
    {"swish", Activation::kSilu},
    {"gelu", Activation::kGelu},
    {"gelu_new", Activation::kGeluTanh},
    {"gelu_fast", Activation::kGeluTanh},
    {"gelu_pytorch_tanh", Activation::kGeluTanh},
    {"relu", Activation::kRelu},
    {"relu2", Activation::kReluSquared},
}};

struct NamedScaling {
  std::string_view name;
  RopeScaling scaling;
};

constexpr std::array<NamedScaling, 10> kScalings = {{
    {"default", RopeScaling::kNone},
    {"linear", RopeScaling::kLinear},
    {"llama3", RopeScaling::kLlama3},
    {"yarn", RopeScaling::kYarn},
    {"longrope", RopeScaling::kLongRope},
    {"su", RopeScaling::kLongRope},
    {"dynamic", RopeScaling::kDynamic},
    {"proportional", RopeScaling::kProportional},
    {"mrope", RopeScaling::kNone},      // all sections have the same position in text
    {"xdrope", RopeScaling::kDynamic},  // likewise, with alpha
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

// The default attention factor of YaRN (modeling_rope_utils of transformers).
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

// Reads the factors on wavelengths for short and for long sequences.
void read_long_rope(const ConfigReader& rope, RopeSpec& spec) {
  const auto factors = [&](std::string_view field) {
    auto values = rope.numbers(field, 1e-6, 1e6);
    if (values.size() != static_cast<size_t>(spec.rotary_dim / 2)) {
      rope.fail(field, cat("has ", values.size(), " numbers for ", spec.rotary_dim / 2,
                           " pairs of rotary dimensions"));
    }
    return values;
  };
  spec.short_factors = factors("short_factor");
  spec.long_factors = factors("long_factor");
  const double default_factor =
      spec.factor <= 1.0 ? 1.0
                         : std::sqrt(1.0 + std::log(spec.factor) / std::log(spec.original_max_position));
  const double factor = rope.number("attention_factor", 1e-6, 1e6, default_factor);
  spec.attention_factor = rope.number("short_mscale", 1e-6, 1e6, factor);
  spec.long_attention_factor = rope.number("long_mscale", 1e-6, 1e6, factor);
}

// Dynamic NTK scaling. With a field `alpha`, the frequencies do not depend on the length.
void read_dynamic(const ConfigReader& rope, RopeSpec& spec) {
  if (spec.rotary_dim <= 2) rope.fail("rope_type", "dynamic needs more than two rotary dimensions");
  const double alpha = rope.number("alpha", 0.0, 1e9, 0.0);
  if (alpha == 0.0) {
    spec.factor = rope.number("factor", 1.0, 1e6);
    return;
  }
  spec.scaling = RopeScaling::kNone;
  const double dim = spec.rotary_dim;
  spec.theta *= std::pow(alpha, dim / (dim - 2.0));
}

RopeSpec read_rope_spec(const ConfigReader& config, const ConfigReader& rope, const ModelSpec& spec,
                        const RopeDefaults& defaults) {
  RopeSpec out;
  const int32_t head_dim = first_attention(spec).head_dim;
  out.style = defaults.style;
  const double outer_theta = config.number("rope_theta", 1.0001, 1e15, defaults.theta);
  out.theta = rope.number("rope_theta", 1.0001, 1e15, outer_theta);
  const double outer_part = config.number("partial_rotary_factor", 0.0, 1.0, defaults.part);
  const double part = rope.number("partial_rotary_factor", 0.0, 1.0, outer_part);
  if (part != 1.0 && !defaults.partial)
    config.fail("partial_rotary_factor", "other than 1 is not supported for this architecture");
  out.scaling = read_scaling(rope);
  // Proportional: the table has all pairs, but only some have a frequency other than 0.
  const bool proportional = out.scaling == RopeScaling::kProportional;
  if (proportional) out.partial_rotary_factor = part;
  out.rotary_dim = static_cast<int32_t>(proportional ? head_dim : head_dim * part);
  if (out.rotary_dim % 2 != 0 || out.rotary_dim == 0)
    config.fail("head_dim",
                cat("gives rotary positions ", out.rotary_dim, " dimensions, they need an even number"));

  const double max_positions = static_cast<double>(spec.max_position_embeddings);
  if (out.scaling == RopeScaling::kDynamic) out.original_max_position = max_positions;
  if (out.scaling == RopeScaling::kLlama3 || out.scaling == RopeScaling::kYarn ||
      out.scaling == RopeScaling::kLongRope) {
    const double inner = rope.number("original_max_position_embeddings", 1.0,
                                     static_cast<double>(kMaxPositions), max_positions);
    out.original_max_position =
        config.number("original_max_position_embeddings", 1.0, static_cast<double>(kMaxPositions), inner);
  }
  switch (out.scaling) {
    case RopeScaling::kNone:
      break;
    case RopeScaling::kLinear:
      out.factor = rope.number("factor", 1e-3, 1e6);
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
      break;
    case RopeScaling::kLongRope:
      out.factor = rope.number("factor", 1e-3, 1e6, max_positions / out.original_max_position);
      read_long_rope(rope, out);
      break;
    case RopeScaling::kDynamic:
      read_dynamic(rope, out);
      break;
    case RopeScaling::kProportional:
      out.factor = rope.number("factor", 1e-3, 1e6, 1.0);
      break;
    case RopeScaling::kQueryScaleOnly:
      break;
  }
  return out;
}

// The longest sequence that the model supports with RoPE scaling.
int64_t stretched_length(const RopeSpec& rope, int64_t max_position_embeddings) {
  double made_for = static_cast<double>(max_position_embeddings);
  if (rope.scaling == RopeScaling::kLinear || rope.scaling == RopeScaling::kDynamic) made_for *= rope.factor;
  if (rope.scaling == RopeScaling::kYarn)
    made_for = std::max(made_for, rope.original_max_position * rope.factor);
  return std::max(int64_t{1}, static_cast<int64_t>(std::min(made_for, static_cast<double>(kMaxPositions))));
}

}  // namespace

Activation read_activation(const ConfigReader& config, std::string_view field, std::string_view fallback) {
  const std::string name = config.text(field, fallback);
  for (const auto& row : kActivations) {
    if (row.name == name) return row.activation;
  }
  config.fail(field, cat("is '", name, "', which is not supported; supported: ", names_of(kActivations)));
}

void read_rope(const ConfigReader& config, ModelSpec& spec, const RopeDefaults& defaults) {
  // Old configurations have rope_theta and rope_scaling, those of transformers 5 one object rope_parameters.
  const bool old_style = config.has("rope_scaling") && !config.find("rope_scaling")->empty();
  const ConfigReader rope = config.object(old_style ? "rope_scaling" : "rope_parameters");
  spec.position = PositionKind::kRope;
  if (rope.has("full_attention") || rope.has("sliding_attention")) {
    if (defaults.window_theta == 0.0) {
      rope.fail(rope.has("full_attention") ? "full_attention" : "sliding_attention",
                "gives a kind of layer its own positions, which is not supported");
    }
    RopeDefaults window = defaults;
    window.theta = defaults.window_theta;
    spec.ropes = {read_rope_spec(config, rope.object("full_attention"), spec, defaults),
                  read_rope_spec(config, rope.object("sliding_attention"), spec, window)};
  } else {
    spec.ropes = {read_rope_spec(config, rope, spec, defaults)};
  }
  set_rope(spec, 0);
  spec.max_model_len = stretched_length(spec.ropes.front(), spec.max_position_embeddings);
}

float read_clip_qkv(const ConfigReader& config) {
  return config.has("clip_qkv") ? static_cast<float>(config.number("clip_qkv", 1e-6, 1e9)) : 0.0F;
}

void read_token_ids(const ConfigReader& config, ModelSpec& spec) {
  spec.eos_token_ids = config.token_ids("eos_token_id", spec.vocab_size);
  const auto bos = config.token_ids("bos_token_id", spec.vocab_size);
  if (!bos.empty()) spec.bos_token_id = bos.front();
}

void read_norm_eps(const ConfigReader& config, ModelSpec& spec, std::string_view field, double fallback) {
  NormSpec norm = spec.norm;
  norm.eps = static_cast<float>(config.number(field, 0.0, 1.0, fallback));
  set_norm(spec, norm);
}

void read_layer_norm(const ConfigReader& config, ModelSpec& spec, std::string_view field) {
  set_norm(spec, {.kind = NormKind::kLayer, .bias = true});
  read_norm_eps(config, spec, field, 1e-5);
}

ModelSpec parse_llama_family(const ConfigReader& config, const LlamaDefaults& defaults) {
  ModelSpec spec;
  AttentionSpec attention;
  MlpSpec mlp;
  spec.vocab_size = config.integer("vocab_size", 1, kMaxSize);
  spec.hidden_size = config.integer("hidden_size", 1, kMaxSize);
  const auto or_default = [&](std::string_view field, int64_t high, int64_t fallback) {
    return fallback == 0 ? config.integer(field, 1, high) : config.integer(field, 1, high, fallback);
  };
  mlp.intermediate_size = or_default(defaults.intermediate_field, kMaxSize, defaults.intermediate_size);
  const int64_t num_layers = or_default(defaults.layers_field, kMaxLayers, defaults.num_layers);
  attention.num_heads = static_cast<int32_t>(config.integer("num_attention_heads", 1, 1 << 16));
  attention.num_kv_heads =
      static_cast<int32_t>(config.integer("num_key_value_heads", 1, 1 << 16, attention.num_heads));
  if (attention.num_heads % attention.num_kv_heads != 0) {
    config.fail("num_key_value_heads",
                cat("is ", attention.num_kv_heads, ", which does not divide num_attention_heads (",
                    attention.num_heads, ")"));
  }
  if (!config.has("head_dim") && defaults.head_dim == 0 && spec.hidden_size % attention.num_heads != 0) {
    config.fail("num_attention_heads", cat("is ", attention.num_heads,
                                           ", which does not divide hidden_size (", spec.hidden_size, ")"));
  }
  const int64_t head_dim =
      defaults.head_dim != 0 ? defaults.head_dim : spec.hidden_size / attention.num_heads;
  attention.head_dim = static_cast<int32_t>(config.integer("head_dim", 1, 1 << 13, head_dim));
  spec.max_position_embeddings =
      config.integer("max_position_embeddings", 1, kMaxPositions, defaults.max_position_embeddings);
  spec.norm.eps = static_cast<float>(config.number("rms_norm_eps", 0.0, 1.0, defaults.norm_eps));
  mlp.activation = read_activation(config, defaults.activation_field, defaults.activation);
  add_layers(spec, num_layers, attention, mlp);
  read_rope(config, spec, defaults.rope);
  set_score_divisor(spec, std::sqrt(static_cast<double>(attention.head_dim)));

  spec.tie_word_embeddings = config.boolean("tie_word_embeddings", defaults.tie_word_embeddings);
  read_token_ids(config, spec);
  return spec;
}

ModelSpec read_sizes(const ConfigReader& config, const SizeFields& fields) {
  ModelSpec spec;
  AttentionSpec attention;
  MlpSpec mlp;
  spec.vocab_size = config.integer("vocab_size", 1, kMaxSize);
  spec.hidden_size = config.integer(fields.hidden, 1, kMaxSize);
  mlp.intermediate_size = config.integer(fields.intermediate, 1, kMaxSize, 4 * spec.hidden_size);
  const int64_t num_layers = config.integer(fields.layers, 1, kMaxLayers);
  attention.num_heads = static_cast<int32_t>(config.integer(fields.heads, 1, 1 << 16));
  attention.num_kv_heads = attention.num_heads;
  if (spec.hidden_size % attention.num_heads != 0) {
    config.fail(fields.heads, cat("is ", attention.num_heads, ", which does not divide ", fields.hidden, " (",
                                  spec.hidden_size, ")"));
  }
  attention.head_dim = static_cast<int32_t>(spec.hidden_size / attention.num_heads);
  spec.max_position_embeddings = config.integer(fields.positions, 1, kMaxPositions, fields.default_positions);
  spec.max_model_len = spec.max_position_embeddings;
  spec.norm = {.kind = NormKind::kLayer, .bias = true};
  add_layers(spec, num_layers, attention, mlp);
  set_score_divisor(spec, std::sqrt(static_cast<double>(attention.head_dim)));
  read_token_ids(config, spec);
  return spec;
}

std::vector<bool> sliding_layers(const ConfigReader& config, const ModelSpec& spec, int64_t pattern,
                                 int64_t full) {
  const auto types = config.texts("layer_types");
  if (!types.empty() && types.size() != spec.layers.size()) {
    config.fail("layer_types", cat("has ", types.size(), " entries for ", spec.num_layers(), " layers"));
  }
  std::vector<bool> sliding;
  for (size_t i = 0; i < spec.layers.size(); ++i) {
    if (types.empty()) {
      sliding.push_back(static_cast<int64_t>(i) % pattern != (full < 0 ? pattern - 1 : full));
    } else if (types[i] == "sliding_attention" || types[i] == "full_attention") {
      sliding.push_back(types[i] == "sliding_attention");
    } else {
      config.fail("layer_types",
                  cat("contains '", types[i], "', which is neither full_attention nor sliding_attention"));
    }
  }
  return sliding;
}

void assign_windows(ModelSpec& spec, const std::vector<bool>& sliding, int32_t window, int32_t window_rope,
                    int32_t full_rope) {
  for (size_t i = 0; i < sliding.size(); ++i) {
    if (AttentionSpec* own = attention_of(spec.layers[i])) own->params.window = sliding[i] ? window : 0;
    spec.layers[i].rope = sliding[i] ? window_rope : full_rope;
  }
}

void read_window(const ConfigReader& config, ModelSpec& spec, int64_t fallback) {
  const auto window = static_cast<int32_t>(
      config.integer("sliding_window", 1, kMaxPositions, config.mentions("sliding_window") ? 0 : fallback));
  assign_windows(spec, std::vector<bool>(spec.layers.size(), true), window, 0, 0);
}

void read_qwen_windows(const ConfigReader& config, ModelSpec& spec) {
  if (!config.boolean("use_sliding_window", false)) return;
  const auto window = static_cast<int32_t>(config.integer("sliding_window", 1, kMaxPositions, 4096));
  const int64_t first = config.integer("max_window_layers", 0, kMaxLayers, 28);
  const auto by_type = sliding_layers(config, spec, 1);
  for (size_t i = 0; i < spec.layers.size(); ++i) {
    const bool sliding = config.has("layer_types") ? by_type[i] : static_cast<int64_t>(i) >= first;
    if (sliding) attention_of(spec.layers[i])->params.window = window;
  }
}

std::string_view experts_field(const ConfigReader& config, std::string_view field) {
  if (config.has(field)) return field;
  for (const std::string_view other : {"num_experts", "num_local_experts", "n_routed_experts"}) {
    if (config.has(other)) return other;
  }
  return field;
}

void read_clamped_swish(const ConfigReader& config, ModelSpec& spec) {
  if (config.number("swiglu_alpha", 0.0, 1e9, 1.702) != 1.702)
    config.fail("swiglu_alpha", "other than 1.702 is not supported");
  const double limit = config.number("swiglu_limit", 1e-6, 1e9, 7.0);
  if (limit == 7.0) return set_activation(spec, Activation::kClampedSwish);
  set_activation(spec, Activation::kUnclampedSwish);
  set_all(spec, &MlpSpec::limit_first, true);
  set_all(spec, &MoeSpec::limit_first, true);
  for (LayerSpec& layer : spec.layers)
    set_limits(layer, static_cast<float>(limit), static_cast<float>(limit));
}

MoeSpec read_experts(const ConfigReader& config, const ExpertFields& fields) {
  const std::string_view experts = experts_field(config, fields.experts);
  const auto count = [&](std::string_view field, int64_t high, int64_t fallback) {
    return static_cast<int32_t>(fallback == 0 ? config.integer(field, 1, high)
                                              : config.integer(field, 1, high, fallback));
  };
  MoeSpec moe;
  moe.num_experts = count(experts, kMaxExperts, fields.default_experts);
  moe.router.num_experts_per_tok = count(fields.chosen, kMaxExperts, fields.default_chosen);
  if (moe.router.num_experts_per_tok > moe.num_experts) {
    config.fail(fields.chosen, cat("is ", moe.router.num_experts_per_tok, ", more than the ", moe.num_experts,
                                   " experts of ", experts));
  }
  moe.intermediate_size = config.integer(fields.intermediate, 1, kMaxSize);
  return moe;
}

MoeSpec read_mixtral_experts(const ConfigReader& config) {
  MoeSpec moe = read_experts(config, {.experts = "num_local_experts",
                                      .intermediate = "intermediate_size",
                                      .default_experts = 8,
                                      .default_chosen = 2});
  moe.router.norm_topk_prob = true;
  return moe;
}

MoeSpec read_sigmoid_experts(const ConfigReader& config, const ExpertFields& fields, std::string_view scale,
                             double default_scale, int64_t default_shared) {
  MoeSpec moe = read_experts(config, fields);
  moe.router.scoring_func = ScoringFunc::kSigmoid;
  moe.router.norm_topk_prob = config.boolean("route_norm", true);
  moe.router.routed_scaling_factor = static_cast<float>(config.number(scale, -1e6, 1e6, default_scale));
  moe.e_score_correction_bias = true;
  moe.shared_intermediate_size =
      config.integer("num_shared_experts", 0, 1024, default_shared) * moe.intermediate_size;
  return moe;
}

std::vector<bool> layers_from(const ModelSpec& spec, int64_t first) {
  std::vector<bool> chosen;
  for (int64_t i = 0; i < spec.num_layers(); ++i) chosen.push_back(i >= first);
  return chosen;
}

std::vector<bool> sparse_layers(const ConfigReader& config, const ModelSpec& spec, int64_t dense) {
  const auto types = config.texts("mlp_layer_types");
  if (types.empty()) return layers_from(spec, dense);
  if (types.size() != spec.layers.size())
    config.fail("mlp_layer_types", cat("has ", types.size(), " entries for ", spec.num_layers(), " layers"));
  std::vector<bool> sparse;
  for (const std::string& type : types) {
    if (type != "sparse" && type != "dense")
      config.fail("mlp_layer_types", cat("contains '", type, "', which is neither sparse nor dense"));
    sparse.push_back(type == "sparse");
  }
  return sparse;
}

MoeSpec read_deepseek_experts(const ConfigReader& config, const ExpertFields& fields,
                              std::string_view shared) {
  MoeSpec moe = read_experts(config, fields);
  RouterParams& router = moe.router;
  router.scoring_func = ScoringFunc::kSigmoid;
  router.norm_topk_prob = config.boolean(fields.normalize, true);
  router.routed_scaling_factor = static_cast<float>(config.number("routed_scaling_factor", -1e6, 1e6, 1.0));
  router.num_groups =
      static_cast<int32_t>(config.integer(fields.groups, 1, kMaxExperts, fields.default_groups));
  router.topk_group =
      static_cast<int32_t>(config.integer("topk_group", 1, router.num_groups, fields.default_topk_group));
  router.group_score_top2 = true;
  if (moe.num_experts % router.num_groups != 0)
    config.fail(fields.groups, cat("does not divide ", fields.experts));
  if (moe.num_experts / router.num_groups * router.topk_group < router.num_experts_per_tok)
    config.fail("topk_group", "gives groups with fewer experts than num_experts_per_tok");
  moe.e_score_correction_bias = true;
  moe.shared_intermediate_size = config.integer(shared, 0, 1024, 1) * moe.intermediate_size;
  return moe;
}

}  // namespace quire
