// DeepSeek-V4: attention to a window and to compressed keys (nn/compressed_attention.cc), hyper-connections
// (nn/streams.h), experts in all layers, with hash routing in the first ones.
#include <cmath>

#include "base/strings.h"
#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {
namespace {

// Names in published checkpoints, and those that transformers writes.
constexpr std::array<TensorName, 28> kPublished = {{
    {model::kEmbedTokens, "embed"},
    {model::kLmHead, "head"},
    {.params = hyper_connection::kHead.fn, .module = "hc_head_fn", .bare = true},
    {.params = hyper_connection::kHead.base, .module = "hc_head_base", .bare = true},
    {.params = hyper_connection::kHead.scale, .module = "hc_head_scale", .bare = true},
    {layer::kInputNorm, "layers.{}.attn_norm"},
    {layer::kMlpNorm, "layers.{}.ffn_norm"},
    {compressed::kQAProj, "layers.{}.attn.wq_a"},
    {compressed::kQANorm, "layers.{}.attn.q_norm"},
    {compressed::kQProj, "layers.{}.attn.wq_b"},
    {compressed::kKProj, "layers.{}.attn.wkv"},
    {compressed::kKNorm, "layers.{}.attn.kv_norm"},
    {compressed::kKNorm, "layers.{}.attn.norm"},
    {compressed::kOAProj, "layers.{}.attn.wo_a"},
    {compressed::kOBProj, "layers.{}.attn.wo_b"},
    {.params = compressed::kSinks, .module = "layers.{}.attn.attn_sink", .bare = true},
    {compressed::kKvProj, "layers.{}.attn.compressor.wkv"},
    {compressed::kGateProj, "layers.{}.attn.compressor.wgate"},
    {.params = compressed::kPositionBias, .module = "layers.{}.attn.compressor.ape", .bare = true},
    {compressed::kNorm, "layers.{}.attn.compressor.norm"},
    {compressed::kIndexQProj, "layers.{}.attn.indexer.wq_b"},
    {compressed::kIndexWeightsProj, "layers.{}.attn.indexer.weights_proj"},
    {compressed::kIndexKProj, "layers.{}.attn.indexer.compressor.wkv"},
    {compressed::kIndexKGate, "layers.{}.attn.indexer.compressor.wgate"},
    {.params = compressed::kIndexKPositionBias,
     .module = "layers.{}.attn.indexer.compressor.ape",
     .bare = true},
    {compressed::kIndexKNorm, "layers.{}.attn.indexer.compressor.norm"},
    {.params = moe::kTokenExperts, .module = "layers.{}.ffn.gate.tid2eid", .bare = true},
    {.params = moe::kCorrectionBias, .module = "layers.{}.ffn.gate.bias", .bare = true},
}};
constexpr std::array<TensorName, 13> kPublishedParts = {{
    {moe::kRouter, "layers.{}.ffn.gate"},
    {moe::kExpertGateProj, "layers.{}.ffn.experts.{}.w1"},
    {moe::kExpertUpProj, "layers.{}.ffn.experts.{}.w3"},
    {moe::kExpertDownProj, "layers.{}.ffn.experts.{}.w2"},
    {moe::kSharedGateProj, "layers.{}.ffn.shared_experts.w1"},
    {moe::kSharedUpProj, "layers.{}.ffn.shared_experts.w3"},
    {moe::kSharedDownProj, "layers.{}.ffn.shared_experts.w2"},
    {.params = hyper_connection::kAttention.fn, .module = "layers.{}.hc_attn_fn", .bare = true},
    {.params = hyper_connection::kAttention.base, .module = "layers.{}.hc_attn_base", .bare = true},
    {.params = hyper_connection::kAttention.scale, .module = "layers.{}.hc_attn_scale", .bare = true},
    {.params = hyper_connection::kMlp.fn, .module = "layers.{}.hc_ffn_fn", .bare = true},
    {.params = hyper_connection::kMlp.base, .module = "layers.{}.hc_ffn_base", .bare = true},
    {.params = hyper_connection::kMlp.scale, .module = "layers.{}.hc_ffn_scale", .bare = true},
}};
constexpr std::array<TensorName, 21> kSaved = {{
    {.params = hyper_connection::kHead.fn, .module = "hc_head.hc_fn", .bare = true},
    {.params = hyper_connection::kHead.base, .module = "hc_head.hc_base", .bare = true},
    {.params = hyper_connection::kHead.scale, .module = "hc_head.hc_scale", .bare = true},
    {compressed::kQAProj, "layers.{}.self_attn.q_a_proj"},
    {compressed::kQANorm, "layers.{}.self_attn.q_a_norm"},
    {compressed::kQProj, "layers.{}.self_attn.q_b_proj"},
    {compressed::kKProj, "layers.{}.self_attn.kv_proj"},
    {compressed::kKNorm, "layers.{}.self_attn.kv_norm"},
    {compressed::kOAProj, "layers.{}.self_attn.o_a_proj"},
    {compressed::kOBProj, "layers.{}.self_attn.o_b_proj"},
    {.params = compressed::kSinks, .module = "layers.{}.self_attn.sinks", .bare = true},
    {compressed::kKvProj, "layers.{}.self_attn.compressor.kv_proj"},
    {compressed::kGateProj, "layers.{}.self_attn.compressor.gate_proj"},
    {.params = compressed::kPositionBias,
     .module = "layers.{}.self_attn.compressor.position_bias",
     .bare = true},
    {compressed::kNorm, "layers.{}.self_attn.compressor.kv_norm"},
    {compressed::kIndexQProj, "layers.{}.self_attn.compressor.indexer.q_b_proj"},
    {compressed::kIndexWeightsProj, "layers.{}.self_attn.compressor.indexer.scorer.weights_proj"},
    {compressed::kIndexKProj, "layers.{}.self_attn.compressor.indexer.kv_proj"},
    {compressed::kIndexKGate, "layers.{}.self_attn.compressor.indexer.gate_proj"},
    {.params = compressed::kIndexKPositionBias,
     .module = "layers.{}.self_attn.compressor.indexer.position_bias",
     .bare = true},
    {compressed::kIndexKNorm, "layers.{}.self_attn.compressor.indexer.kv_norm"},
}};
constexpr std::array<TensorName, 7> kSavedParts = {{
    {.params = moe::kTokenExperts, .module = "layers.{}.mlp.gate.tid2eid", .bare = true},
    {.params = hyper_connection::kAttention.fn, .module = "layers.{}.attn_hc.fn", .bare = true},
    {.params = hyper_connection::kAttention.base, .module = "layers.{}.attn_hc.base", .bare = true},
    {.params = hyper_connection::kAttention.scale, .module = "layers.{}.attn_hc.scale", .bare = true},
    {.params = hyper_connection::kMlp.fn, .module = "layers.{}.ffn_hc.fn", .bare = true},
    {.params = hyper_connection::kMlp.base, .module = "layers.{}.ffn_hc.base", .bare = true},
    {.params = hyper_connection::kMlp.scale, .module = "layers.{}.ffn_hc.scale", .bare = true},
}};
constexpr auto kDeepseekV4Modules = joined(kWords, kFinalNorm, kLlamaNorms, kMoeExperts, kDeepseekShared,
                                           kSaved, kSavedParts, kPublished, kPublishedParts);

constexpr std::string_view kWindows = "sliding_attention";
constexpr std::string_view kSparse = "compressed_sparse_attention";
constexpr std::string_view kHeavy = "heavily_compressed_attention";

// The type of each layer, with the names of transformers. Published configurations have compress_ratios
// instead, the tokens per compressed key (0 = none); the list also has the multi-token prediction layers.
std::vector<std::string> deepseek_v4_layer_kinds(const ConfigReader& config, int32_t num_layers) {
  std::vector<std::string> kinds = config.texts("layer_types");
  std::string_view field = "layer_types";
  const auto ratios = config.integers("compress_ratios", 0, kMaxPositions);
  if (kinds.empty() && !ratios.empty()) {
    field = "compress_ratios";
    for (const int64_t ratio : ratios) {
      if (ratio != 0 && ratio != 4 && ratio != 128)
        config.fail(field, cat("contains ", ratio, ", which is neither 0, 4 nor 128"));
      kinds.emplace_back(ratio == 0 ? kWindows : ratio == 4 ? kSparse : kHeavy);
    }
  }
  if (kinds.empty()) {
    for (int32_t i = 0; i < num_layers; ++i) kinds.emplace_back(i < 2 || i % 2 == 0 ? kHeavy : kSparse);
  }
  const auto layers = static_cast<size_t>(num_layers);
  if (kinds.size() < layers)
    config.fail(field, cat("has ", kinds.size(), " entries for ", layers, " layers"));
  kinds.resize(layers);
  for (const std::string& kind : kinds) {
    if (kind != kWindows && kind != kSparse && kind != kHeavy)
      config.fail(field,
                  cat("contains '", kind, "', which is none of ", kWindows, ", ", kSparse, ", ", kHeavy));
  }
  return kinds;
}

void read_layers(const ConfigReader& config, ModelSpec& spec, const CompressedAttentionSpec& sizes) {
  const ConfigReader rates = config.object("compress_rates");
  const auto rate = [&](std::string_view name, std::string_view old_field, int64_t default_value) {
    return static_cast<int32_t>(
        config.integer(old_field, 1, 1 << 12, rates.integer(name, 1, 1 << 12, default_value)));
  };
  const int32_t sparse = rate(kSparse, "compress_rate_csa", 4);
  const int32_t heavy = rate(kHeavy, "compress_rate_hca", 128);
  CompressedAttentionSpec own = sizes;
  own.window = static_cast<int32_t>(config.integer("sliding_window", 1, kMaxPositions, 128));
  const auto kinds = deepseek_v4_layer_kinds(config, spec.num_layers());
  for (size_t i = 0; i < kinds.size(); ++i) {
    LayerSpec& layer = spec.layers[i];
    layer.rope = kinds[i] == kWindows ? 0 : 1;
    own.compressed_tokens = kinds[i] == kSparse ? sparse : kinds[i] == kHeavy ? heavy : 0;
    own.overlap = own.indexer = kinds[i] == kSparse;
    own.inverse_rope = static_cast<int32_t>(spec.ropes.size()) / 2 + layer.rope;
    layer.mixer = own;
  }
}

// The rotary embedding of such a rope_parameters object.
RopeSpec read_rotation(const ModelSpec& spec, nlohmann::json fields, double theta, double part) {
  // YaRN changes the frequencies but not the magnitude of cosines and sines here.
  if (fields.value("rope_type", fields.value("type", "default")) == "yarn" &&
      !fields.contains("attention_factor"))
    fields["attention_factor"] = 1.0;
  if (theta > 0.0) fields["rope_theta"] = theta;
  if (!fields.contains("partial_rotary_factor")) fields["partial_rotary_factor"] = part;
  const nlohmann::json object = {{"rope_parameters", fields}};
  ModelSpec made = spec;
  read_rope(ConfigReader(object), made, {.style = RopeStyle::kInterleaved, .partial = true});
  return made.ropes.front();
}

void read_rotations(const ConfigReader& config, ModelSpec& spec) {
  const double default_value =
      static_cast<double>(config.integer("qk_rope_head_dim", 2, first_attention(spec).head_dim,
                                         std::max(2, first_attention(spec).head_dim / 8))) /
      first_attention(spec).head_dim;
  const double part = config.number("partial_rotary_factor", 0.0, 1.0, default_value);
  const double theta = config.number("rope_theta", 1.0001, 1e15, 10000.0);
  const double compressed = config.number("compress_rope_theta", 1.0001, 1e15, 160000.0);
  const bool old_style = config.has("rope_scaling") && !config.find("rope_scaling")->empty();
  const nlohmann::json* found = config.find(old_style ? "rope_scaling" : "rope_parameters");
  const nlohmann::json fields = found != nullptr && found->is_object() ? *found : nlohmann::json::object();
  if (fields.contains("main") && fields.contains("compress")) {
    spec.ropes = {read_rotation(spec, fields["main"], 0.0, part),
                  read_rotation(spec, fields["compress"], 0.0, part)};
  } else {
    spec.ropes = {read_rotation(spec, nlohmann::json::object(), theta, part),
                  read_rotation(spec, fields, compressed, part)};
  }
  const size_t count = spec.ropes.size();
  for (size_t i = 0; i < count; ++i) {
    RopeSpec turned = spec.ropes[i];
    turned.inverse = true;
    spec.ropes.push_back(turned);
  }
  // It includes the RoPE scaling.
  spec.max_model_len = spec.max_position_embeddings;
}

void read_experts_of_v4(const ConfigReader& config, ModelSpec& spec) {
  MoeSpec moe =
      read_experts(config, {.experts = "n_routed_experts", .default_experts = 256, .default_chosen = 6});
  const std::string scores = config.text("scoring_func", "sqrtsoftplus");
  if (scores != "sqrtsoftplus" && scores != "sigmoid")
    config.fail("scoring_func", cat("is '", scores, "', which is neither sqrtsoftplus nor sigmoid"));
  moe.router.scoring_func = scores == "sigmoid" ? ScoringFunc::kSigmoid : ScoringFunc::kSqrtSoftplus;
  moe.router.norm_topk_prob = true;
  moe.router.routed_scaling_factor =
      static_cast<float>(config.number("routed_scaling_factor", -1e6, 1e6, 1.5));
  moe.e_score_correction_bias = true;
  moe.shared_intermediate_size = moe.intermediate_size;
  moe.limit_first = true;
  const auto limit = static_cast<float>(config.number("swiglu_limit", 1e-6, 1e9, 10.0));
  moe.shared_limit = moe.expert_limit = limit;
  if (config.integer("n_shared_experts", 0, 1024, 1) != 1)
    config.fail("n_shared_experts", "other than 1 is not supported for this architecture");
  const auto kinds = config.texts("mlp_layer_types");
  if (!kinds.empty() && kinds.size() != spec.layers.size())
    config.fail("mlp_layer_types", cat("has ", kinds.size(), " entries for ", spec.num_layers(), " layers"));
  use_experts(spec, moe);
  const int64_t hashed = config.integer("num_hash_layers", 0, kMaxLayers, 3);
  for (size_t i = 0; i < spec.layers.size(); ++i) {
    if (!kinds.empty() && kinds[i] != "hash_moe" && kinds[i] != "moe")
      config.fail("mlp_layer_types", cat("contains '", kinds[i], "', which is neither hash_moe nor moe"));
    const bool hashes = kinds.empty() ? static_cast<int64_t>(i) < hashed : kinds[i] == "hash_moe";
    if (hashes) spec.layers[i].feed_forward.moe->hash_vocab_size = spec.vocab_size;
  }
}

void read_streams(const ConfigReader& config, ModelSpec& spec) {
  StreamSpec& streams = spec.streams.emplace();
  streams.hidden = spec.hidden_size;
  streams.streams = static_cast<int32_t>(config.integer("hc_mult", 1, kMaxStreams, 4));
  streams.params.sinkhorn_iters = static_cast<int32_t>(config.integer("hc_sinkhorn_iters", 1, 1 << 10, 20));
  streams.params.eps = static_cast<float>(config.number("hc_eps", 0.0, 1.0, 1e-6));
}

ModelSpec parse_deepseek_v4(const ConfigReader& config) {
  ModelSpec spec = parse_llama_family(config, {.head_dim = 512,
                                               .max_position_embeddings = 1048576,
                                               .rope = {.style = RopeStyle::kInterleaved, .partial = true},
                                               .intermediate_field = "moe_intermediate_size"});
  if (first_attention(spec).num_kv_heads != 1)
    config.fail("num_key_value_heads", "other than 1 is not supported");
  for (const std::string_view field : {"attention_bias", "mlp_bias"}) {
    if (config.boolean(field, false)) config.fail(field, "is not supported for this architecture");
  }
  read_rotations(config, spec);
  const AttentionSpec& attention = first_attention(spec);
  CompressedAttentionSpec sizes;
  const auto size = [&](std::string_view field, int64_t low, int64_t high, int64_t fallback) {
    return static_cast<int32_t>(config.integer(field, low, high, fallback));
  };
  sizes.q_lora_rank = size("q_lora_rank", 1, 1 << 16, 1024);
  sizes.heads = attention.num_heads;
  sizes.head_dim = attention.head_dim;
  sizes.groups = size("o_groups", 1, attention.num_heads, 8);
  sizes.rank = config.integer("o_lora_rank", 1, 1 << 16, 1024);
  if (attention.num_heads % sizes.groups != 0) config.fail("o_groups", "does not divide num_attention_heads");
  sizes.index.heads = size("index_n_heads", 1, 1 << 10, 64);
  sizes.index.dim = size("index_head_dim", spec.ropes[1].rotary_dim, kMaxChoosingHead, 128);
  sizes.index.count = size("index_topk", 1, kMaxPositions, 512);
  sizes.hidden_size = spec.hidden_size;
  sizes.norm = spec.norm;
  sizes.scale = attention.params.scale;
  read_layers(config, spec, sizes);
  read_experts_of_v4(config, spec);
  read_streams(config, spec);
  return spec;
}

WeightNames deepseek_v4_weight_names() {
  return {kModelPrefixes, kDeepseekV4Modules, kDrafts, true};
}

}  // namespace

std::span<const Architecture> deepseek_v4_architectures() {
  static constexpr std::array kRows = {
      Architecture{"DeepseekV4ForCausalLM", "deepseek_v4", parse_deepseek_v4, deepseek_v4_weight_names},
  };
  return kRows;
}

}  // namespace quire
