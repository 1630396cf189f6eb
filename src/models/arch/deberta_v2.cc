// Encoders with attention scores that depend on the distance of two tokens. MPNet: RoBERTa with a bias per
// head and bucket of distances. DeBERTa 2 and 3: no position embeddings; each bucket has a vector, which is
// multiplied by queries and keys.
#include <algorithm>
#include <cmath>

#include "base/strings.h"
#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {
namespace {

constexpr std::array<std::string_view, 3> kDebertaV2Prefixes = {"mpnet.", "deberta.", ""};
constexpr std::array<TensorName, 6> kDebertaV2Shared = {{
    {model::kEmbedTokens, "embeddings.word_embeddings"},
    {model::kEmbedNorm, "embeddings.LayerNorm"},
    {model::kTokenTypeEmbeddings, "embeddings.token_type_embeddings"},
    {mlp::kUpProj, "encoder.layer.{}.intermediate.dense"},
    {mlp::kDownProj, "encoder.layer.{}.output.dense"},
    {layer::kPostMlpNorm, "encoder.layer.{}.output.LayerNorm"},
}};
constexpr std::array<TensorName, 7> kMpnetRest = {{
    {model::kPositionEmbeddings, "embeddings.position_embeddings"},
    {attention::kRelativeEmbeddings, "encoder.relative_attention_bias"},
    {attention::kQProj, "encoder.layer.{}.attention.attn.q"},
    {attention::kKProj, "encoder.layer.{}.attention.attn.k"},
    {attention::kVProj, "encoder.layer.{}.attention.attn.v"},
    {attention::kOProj, "encoder.layer.{}.attention.attn.o"},
    {layer::kPostAttentionNorm, "encoder.layer.{}.attention.LayerNorm"},
}};
constexpr std::array<TensorName, 7> kDebertaRest = {{
    {attention::kRelativeEmbeddings, "encoder.rel_embeddings"},
    {attention::kRelativeNorm, "encoder.LayerNorm"},
    {attention::kQProj, "encoder.layer.{}.attention.self.query_proj"},
    {attention::kKProj, "encoder.layer.{}.attention.self.key_proj"},
    {attention::kVProj, "encoder.layer.{}.attention.self.value_proj"},
    {attention::kOProj, "encoder.layer.{}.attention.output.dense"},
    {layer::kPostAttentionNorm, "encoder.layer.{}.attention.output.LayerNorm"},
}};
constexpr auto kMpnetModules = joined(kDebertaV2Shared, kMpnetRest);
constexpr auto kDebertaModules = joined(kDebertaV2Shared, kDebertaRest);
constexpr std::array<std::string_view, 4> kDebertaV2Ignored = {
    "embeddings.position_ids", "embeddings.position_embeddings.*", "lm_predictions.*", "mask_predictions.*"};

// Buckets as in T5, half of them per direction: one per distance for short distances, logarithmic up to 128
// for long ones.
int32_t mpnet_bucket(int64_t distance) {
  constexpr int32_t kSide = 16;
  constexpr int32_t kSingle = kSide / 2;
  const int32_t side = distance > 0 ? kSide : 0;
  const auto n = static_cast<int32_t>(std::abs(distance));
  if (n < kSingle) return side + n;
  const float wide =
      std::log(static_cast<float>(n) / kSingle) / std::log(128.0F / kSingle) * (kSide - kSingle);
  return side + std::min(kSide - 1, kSingle + static_cast<int32_t>(wide));
}

// Bucket of the distance from key to query: one per distance up to half of `buckets`, logarithmic up to
// `longest` after that.
int64_t deberta_bucket(int64_t distance, int64_t buckets, int64_t longest) {
  const int64_t middle = buckets / 2;
  const int64_t size = std::abs(distance);
  if (buckets <= 0 || size <= middle) return -distance;
  const auto m = static_cast<float>(middle);
  const float wide = std::ceil(std::log(static_cast<float>(size) / m) /
                               std::log(static_cast<float>(longest - 1) / m) * (m - 1.0F));
  const int64_t bucket = static_cast<int64_t>(wide) + middle;
  return distance > 0 ? -bucket : bucket;
}

void set_relative(ModelSpec& spec, const RelativeSpec& relative) {
  spec.relative = relative;
  set_all(spec, &AttentionSpec::relative, relative);
}

void deberta_v2_make_encoder(const ConfigReader& config, ModelSpec& spec) {
  spec.task = ModelTask::kEmbed;
  set_bidirectional(spec);
  place_norms(spec, NormPlace::kAfterAdd);
  spec.final_norm.reset();
  spec.embedding_norm = true;
  set_biases(spec, true);
  set_all(spec, &MlpSpec::gated, false);
  spec.pooling = {PoolKind::kFirst};
  spec.tie_word_embeddings = true;
  set_activation(spec, read_activation(config, "hidden_act", "gelu"));
  if (first_attention(spec).head_dim > kMaxRelativeHead)
    config.fail("num_attention_heads", cat("gives heads of more than ", kMaxRelativeHead, " dimensions"));
}

ModelSpec parse_mpnet(const ConfigReader& config) {
  ModelSpec spec = read_sizes(config, {.default_positions = 512});
  deberta_v2_make_encoder(config, spec);
  read_norm_eps(config, spec, "layer_norm_eps", 1e-12);
  spec.position = PositionKind::kLearned;
  spec.position_offset = 2;  // after the padding token
  spec.max_position_embeddings -= spec.position_offset;
  if (spec.max_position_embeddings < 1)
    config.fail("max_position_embeddings", "leaves no position for a token");
  spec.max_model_len = spec.max_position_embeddings;
  constexpr int32_t kBuckets = 32;
  if (config.integer("relative_attention_num_buckets", 1, 1 << 16, kBuckets) != kBuckets)
    config.fail("relative_attention_num_buckets", cat("other than ", kBuckets, " is not supported"));
  RelativeSpec relative;
  relative.num_buckets = kBuckets;
  constexpr int64_t kReach = 256;  // all larger distances are in the last bucket
  for (int64_t d = -kReach; d <= kReach; ++d) relative.buckets.push_back(mpnet_bucket(d));
  set_relative(spec, relative);
  spec.classifier =
      ClassifierSpec{.name = "classifier.out_proj", .dense = "classifier.dense", .tanh = true, .bias = true};
  return spec;
}

ModelSpec parse_deberta_v2(const ConfigReader& config) {
  ModelSpec spec = read_sizes(config, {.default_positions = 512});
  deberta_v2_make_encoder(config, spec);
  read_norm_eps(config, spec, "layer_norm_eps", 1e-7);
  spec.token_types = static_cast<int32_t>(config.integer("type_vocab_size", 0, 1024, 0));
  const auto want = [&](std::string_view field, bool fallback, bool wanted) {
    if (config.boolean(field, fallback) != wanted)
      config.fail(field, cat(wanted ? "false" : "true", " is not supported"));
  };
  want("relative_attention", false, true);
  want("share_att_key", false, true);
  want("position_biased_input", true, false);
  if (config.integer("conv_kernel_size", 0, 1 << 16, 0) > 0)
    config.fail("conv_kernel_size", "is not supported: layers without convolutions are");
  if (config.integer("embedding_size", 1, kMaxSize, spec.hidden_size) != spec.hidden_size)
    config.fail("embedding_size", "other than hidden_size is not supported");
  // A list, or a string with its entries separated by "|".
  const nlohmann::json* types = config.find("pos_att_type");
  const std::string kinds = types == nullptr ? "" : types->dump();
  if (kinds.find("c2p") == std::string::npos || kinds.find("p2c") == std::string::npos)
    config.fail("pos_att_type", "other than c2p and p2c together is not supported");
  set_score_divisor(spec, std::sqrt(3.0 * first_attention(spec).head_dim));

  const int64_t asked = config.integer("max_relative_positions", -1, kMaxPositions, -1);
  const int64_t longest = asked < 1 ? spec.max_position_embeddings : asked;
  const int64_t buckets = config.integer("position_buckets", -1, 1 << 16, -1);
  const int64_t span = buckets > 0 ? buckets : longest;
  RelativeSpec relative;
  relative.vectors = true;
  relative.num_buckets = static_cast<int32_t>(2 * span);
  const int64_t reach = spec.max_model_len;
  for (int64_t d = -reach; d <= reach; ++d) {
    const int64_t bucket = deberta_bucket(d, buckets, longest) + span;
    relative.buckets.push_back(static_cast<int32_t>(std::clamp<int64_t>(bucket, 0, 2 * span - 1)));
  }
  const std::string norm = config.text("norm_rel_ebd", "none");
  if (norm != "none" && norm != "layer_norm") config.fail("norm_rel_ebd", "is neither none nor layer_norm");
  if (norm == "layer_norm") relative.norm = spec.norm;
  set_relative(spec, relative);
  spec.classifier = ClassifierSpec{.name = "classifier",
                                   .dense = "pooler.dense",
                                   .activation = read_activation(config, "pooler_hidden_act", "gelu"),
                                   .bias = true};
  return spec;
}

WeightNames mpnet_weight_names() {
  return {kDebertaV2Prefixes, kMpnetModules, kDebertaV2Ignored};
}
WeightNames deberta_v2_weight_names() {
  return {kDebertaV2Prefixes, kDebertaModules, kDebertaV2Ignored};
}

}  // namespace

std::span<const Architecture> deberta_v2_architectures() {
  static constexpr std::array kRows = {
      Architecture{"DebertaV2Model", "deberta-v2", parse_deberta_v2, deberta_v2_weight_names},
      Architecture{"MPNetModel", "mpnet", parse_mpnet, mpnet_weight_names},
  };
  return kRows;
}

}  // namespace quire
