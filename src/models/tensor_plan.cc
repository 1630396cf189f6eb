#include <algorithm>
#include <array>
#include <charconv>
#include <set>

#include "base/error.h"
#include "base/strings.h"
#include "models/loader.h"
#include "quant/codec.h"

namespace quire {
namespace {

// What a role's tensors look like: a matrix [out, in], or a vector [out] where in is 0.
struct RoleShape {
  Role role;
  int64_t out;
  int64_t in;
  bool bias;
  bool wanted = true;  // the spec has such a module
};

// What checkpoints have in one matrix or in several.
struct JoinedRole {
  Role whole;
  std::array<Role, 3> parts;

  bool has_part(Role role) const { return std::ranges::find(parts, role) != parts.end(); }
};
constexpr std::array<JoinedRole, 9> kJoinedRoles = {{
    {Role::kQkv, {Role::kQuery, Role::kKey, Role::kValue}},
    {Role::kGateUp, {Role::kGate, Role::kUp, Role::kUp}},
    {Role::kExpertGateUp, {Role::kExpertGate, Role::kExpertUp, Role::kExpertUp}},
    {Role::kSharedExpertGateUp, {Role::kSharedExpertGate, Role::kSharedExpertUp, Role::kSharedExpertUp}},
    {Role::kDeltaInGate, {Role::kDeltaIn, Role::kDeltaGate, Role::kDeltaGate}},
    {Role::kDeltaIn, {Role::kDeltaQuery, Role::kDeltaKey, Role::kDeltaValue}},
    {Role::kDeltaShareStep, {Role::kDeltaShare, Role::kDeltaStep, Role::kDeltaStep}},
    {Role::kStateConv, {Role::kStateConvQuery, Role::kStateConvKey, Role::kStateConvValue}},
    {Role::kLatentUp, {Role::kLatentKeys, Role::kLatentValues, Role::kLatentValues}},
}};

constexpr bool is_of_expert(Role role) {
  return role == Role::kExpertGate || role == Role::kExpertUp || role == Role::kExpertGateUp ||
         role == Role::kExpertDown;
}

constexpr bool is_convolution(Role role) {
  return role >= Role::kStateConv && role <= Role::kStateConvValue;
}

constexpr bool is_of_use(Role role) {
  return role >= Role::kQueryAdapterDown && role <= Role::kGateUpAdapterUp;
}

constexpr bool is_whole_numbers(Role role) {
  return role == Role::kRouterTable;
}

constexpr bool is_of_stream(Role role) {
  return role == Role::kStreamIn || role == Role::kStreamOut;
}

// layer: -1 for what is not of a layer; of what is of a stream its number.
std::array<RoleShape, 138> role_shapes(const ArchSpec& spec, int32_t layer) {
  const int64_t hidden = spec.hidden_size;
  const LayerSpec own =
      layer >= 0 && layer < spec.num_layers ? spec.layers[static_cast<size_t>(layer)] : LayerSpec{};
  const int64_t inter = intermediate_size_of(spec, own);
  const int64_t head_dim = head_dim_of(spec, own);
  const int64_t heads = num_heads_of(spec, own);
  const int64_t q = heads * head_dim;
  const int64_t kv = int64_t{num_kv_heads_of(spec, own)} * head_dim;
  const int64_t values = int64_t{num_kv_heads_of(spec, own)} * value_dim_of(spec, own);
  const bool own_kv = own.kv_source < 0;
  const int64_t input = spec.layer_input_size;
  const int64_t inputs = spec.num_layers * input;
  const int64_t positions = spec.max_position_embeddings + spec.position_offset;
  const bool whole = spec.qk_norm == QkNorm::kWhole;
  const bool qk_norm = spec.qk_norm != QkNorm::kNone && spec.qk_norm_weights;
  const MlaSizes mla = spec.mla.value_or(MlaSizes{});
  const CompressedSizes compressed = spec.compressed.value_or(CompressedSizes{});
  const IndexerSizes& index = spec.compressed ? compressed.index : spec.indexer;
  const bool compresses = own.compressed_tokens > 0;
  const int64_t overlap = own.compressed_overlap ? 2 : 1;
  const int64_t mla_query = heads * mla.query_dim();
  const bool uses_block = own.block_source >= 0;
  const bool own_block = !uses_block || own.block_source == layer;
  const int64_t attention_in = uses_block ? 2 * hidden : hidden;
  const int64_t query_rank = spec.compressed ? compressed.query_rank : mla.query_rank;
  const int64_t query_in = query_rank > 0 ? query_rank : attention_in;
  const int64_t grouped = compressed.groups * compressed.rank;
  const int64_t result = spec.compressed ? grouped : heads * (spec.mla ? mla.value : value_dim_of(spec, own));
  const bool experts = own.experts;
  const MoeSpec moe = spec.moe.value_or(MoeSpec{});
  const int64_t part = moe.intermediate_size;
  const int64_t shared = moe.shared_intermediate_size;
  const bool has_shared = experts && shared > 0;
  const int64_t word = embedding_size_of(spec);
  const bool projected = word != hidden;
  const bool narrow = spec.narrow_embeddings;
  const int64_t summed = narrow ? word : hidden;
  const bool after = (spec.post_norms && own.post_norms) || spec.sum_norms;
  const bool head = spec.task == ModelTask::kGenerate || (spec.task == ModelTask::kScore && !spec.classifier);
  const ClassifierSpec classifier = spec.classifier.value_or(ClassifierSpec{});
  const bool classifies = spec.task == ModelTask::kScore && spec.classifier;
  const int64_t pooled = static_cast<int64_t>(spec.pooling.size()) * hidden;
  const bool attention = own.attention && own_block;
  const bool latent = attention && spec.mla;
  const bool plain = attention && !spec.mla;
  const bool has_mlp = own.mlp && own_block;
  const bool mlp = has_mlp && (!experts || moe.beside || own.shortcut);
  const SharedBlockSpec block = spec.shared_block.value_or(SharedBlockSpec{});
  const bool adapts = uses_block && block.attention_adapters;
  const RecurrentSizes state = recurrent_sizes(spec, own);
  const bool mamba = own.recurrence == Recurrence::kMamba;
  const bool mamba1 = own.recurrence == Recurrence::kMamba1;
  const Mamba1Spec of_mamba1 = spec.mamba1.value_or(Mamba1Spec{});
  const Mamba1Sizes& select = of_mamba1.sizes;
  const bool kimi = own.recurrence == Recurrence::kKimiDelta;
  const bool delta = kimi || own.recurrence == Recurrence::kDeltaNet;
  const bool conv = own.recurrence == Recurrence::kShortConv;
  const bool lightning = own.recurrence == Recurrence::kLightning;
  const MambaSpec of_mamba = spec.mamba.value_or(MambaSpec{});
  const DeltaNetSizes of_delta = spec.delta_net.value_or(DeltaNetSpec{}).sizes;
  const KimiDeltaSizes of_kimi = spec.kimi_delta.value_or(KimiDeltaSpec{}).sizes;
  const int64_t delta_keys = kimi ? of_kimi.inner() : of_delta.keys();
  const int64_t delta_values = kimi ? of_kimi.inner() : of_delta.values();
  const int64_t short_in = kimi && of_kimi.rank > 0 ? of_kimi.rank : hidden;  // of what makes gates and steps
  const bool plain_bias = mamba1 ? of_mamba1.bias : conv && spec.short_conv->bias;
  const bool conv_bias = mamba    ? of_mamba.conv_bias
                         : mamba1 ? of_mamba1.conv_bias
                                  : conv && spec.short_conv->bias;
  const bool in_bias = mamba ? of_mamba.in_bias : plain_bias;
  const bool state_out_bias = mamba ? of_mamba.out_bias : plain_bias;
  const bool select_norms = mamba1 && of_mamba1.norms && of_mamba1.norm_weights;
  const int64_t state_in = mamba1 ? 2 * select.inner : lightning ? 3 * state.result : state.projected;
  const int64_t state_norm = kimi ? of_kimi.head_dim : delta ? of_delta.value_dim : state.result;
  const bool gates_apart = spec.attention_gate && (spec.attention_gate_apart || spec.attention_gate_heads);
  const int64_t gates = gates_apart ? 0 : num_gates_of(spec, own);
  const AltUpSizes alt_up = spec.alt_up ? spec.alt_up->sizes : AltUpSizes{};
  const int64_t streams = alt_up.streams;
  const StreamSizes mixed = spec.streams ? spec.streams->sizes : StreamSizes{};
  const int64_t all_streams = mixed.streams * hidden;
  const bool mixes = mixed.streams > 0;
  const RelativeSpec relative = spec.relative.value_or(RelativeSpec{});
  return {{
      {Role::kStateIn, state_in, hidden, in_bias, mamba || mamba1 || conv || lightning},
      {Role::kStateConv, state.channels, state.taps, conv_bias, mamba || mamba1 || delta || conv},
      {Role::kStateConvQuery, delta_keys, state.taps, false, delta},
      {Role::kStateConvKey, delta_keys, state.taps, false, delta},
      {Role::kStateConvValue, delta_values, state.taps, false, delta},
      {Role::kStateSelect, select.selected(), select.inner, false, mamba1},
      {Role::kStateStep, select.inner, select.rank, true, mamba1},
      {Role::kStepNorm, select.rank, 0, false, select_norms},
      {Role::kWriteNorm, select.state, 0, false, select_norms},
      {Role::kReadNorm, select.state, 0, false, select_norms},
      {Role::kStepBias, state.decay_columns(), 0, false, mamba || delta},
      {Role::kRate, mamba1 ? select.inner : state.heads, mamba1 ? select.state : 0, false,
       mamba || mamba1 || delta},
      {Role::kSkip, mamba1 ? select.inner : state.heads, 0, false, mamba || mamba1},
      {Role::kStateNorm, state_norm, 0, false, (mamba && of_mamba.norm) || delta || lightning},
      {Role::kStateOut, hidden, state.result, state_out_bias, own.recurrence != Recurrence::kNone},
      {Role::kDeltaIn, state.channels, hidden, false, delta},
      {Role::kDeltaQuery, delta_keys, hidden, false, delta},
      {Role::kDeltaKey, delta_keys, hidden, false, delta},
      {Role::kDeltaValue, delta_values, hidden, false, delta},
      {Role::kDeltaGate, state.result, short_in, false, delta || lightning},
      {Role::kDeltaInGate, state.channels + state.result, hidden, false, delta},
      {Role::kDeltaShare, state.heads, hidden, false, delta},
      {Role::kDeltaStep, state.decay_columns(), short_in, false, delta},
      {Role::kDeltaGateDown, of_kimi.rank, hidden, false, kimi && of_kimi.rank > 0},
      {Role::kDeltaStepDown, of_kimi.rank, hidden, false, kimi && of_kimi.rank > 0},
      {Role::kDeltaShareStep, 2 * state.heads, hidden, false, delta},
      {Role::kEmbedding, spec.vocab_size + spec.embedding_rest, word, false},
      {Role::kTokenTypes, spec.token_types, summed, false, spec.token_types > 0},
      {Role::kTaskTypes, spec.task_types, summed, false, spec.task_types > 0},
      {Role::kEmbeddingIn, hidden, word, narrow, projected || narrow},
      {Role::kEmbeddingOut, word, hidden, false, projected && !narrow},
      {Role::kClassifierDense, hidden, pooled, classifier.dense_bias, classifies},
      {Role::kClassifierNorm, hidden, 0, spec.norm_bias, classifies},
      {Role::kClassifier, classifier.difference ? 2 : classifier.num_labels,
       classifier.dense.empty() ? pooled : hidden, classifier.bias, classifies},
      {Role::kEmbeddingNorm, summed, 0, spec.norm_bias, spec.embedding_norm},
      {Role::kPositionEmbedding, positions, summed, false,
       spec.position == PositionKind::kLearned && spec.sinusoid_steps == 0},
      {Role::kRelativeTable, relative.num_buckets, relative.vectors ? hidden : heads, false,
       relative.num_buckets > 0},
      {Role::kRelativeNorm, hidden, 0, spec.norm_bias, relative.norm},
      {Role::kInputNorm, hidden, 0, spec.norm_bias, spec.input_norm && own.input_norm && own.mixes()},
      {Role::kQuery, spec.mla ? mla_query : q + gates, query_in, spec.qkv_bias, attention},
      {Role::kQueryGate, spec.mla ? heads : num_gates_of(spec, own), hidden, false,
       attention && (gates_apart || mla.gated)},
      {Role::kQueryDown, query_rank, hidden, spec.qkv_bias, attention && query_rank > 0},
      {Role::kQueryDownNorm, query_rank, 0, false, attention && query_rank > 0},
      {Role::kLatent, mla.cached(), hidden, spec.qkv_bias, latent},
      {Role::kLatentNorm, mla.latent, 0, false, latent},
      {Role::kLatentUp, heads * (mla.still + mla.value), mla.latent, false, latent},
      {Role::kLatentKeys, heads * mla.latent, mla.still, false, latent},
      {Role::kLatentValues, heads * mla.value, mla.latent, false, latent},
      {Role::kIndexQuery, int64_t{index.heads} * index.dim, query_in, false, own.indexer},
      {Role::kIndexQueryNorm, index.dim, 0, false, own.indexer && index.block > 0},
      {Role::kIndexKey, overlap * index.dim, hidden, false, own.indexer},
      {Role::kIndexKeyNorm, index.dim, 0, index.block == 0 && !compresses, own.indexer},
      {Role::kIndexGate, overlap * index.dim, hidden, false, own.indexer && compresses},
      {Role::kIndexBias, own.compressed_tokens, overlap * index.dim, false, own.indexer && compresses},
      {Role::kCompressKey, overlap * head_dim, hidden, false, compresses},
      {Role::kCompressGate, overlap * head_dim, hidden, false, compresses},
      {Role::kCompressBias, own.compressed_tokens, overlap * head_dim, false, compresses},
      {Role::kCompressNorm, head_dim, 0, false, compresses},
      {Role::kOutDown, compressed.rank, q / std::max(1, compressed.groups), false,
       attention && spec.compressed.has_value()},
      {Role::kIndexWeights, index.heads, hidden, false, own.indexer && index.block == 0},
      {Role::kKey, kv, attention_in, spec.qkv_bias, plain && own_kv},
      {Role::kValue, values, attention_in, spec.qkv_bias, plain && own_kv && !own.keys_as_values},
      {Role::kQkv, q + kv + values, attention_in, spec.qkv_bias, plain},
      {Role::kAttentionOut, hidden, result, spec.out_bias, attention},
      {Role::kQueryNorm, whole ? q : head_dim, 0, spec.qk_norm_bias, attention && qk_norm},
      {Role::kKeyNorm, whole ? kv : head_dim, 0, spec.qk_norm_bias,
       attention && (qk_norm || spec.compressed) && own_kv},
      {Role::kLayerScalar, 1, 0, false, spec.layer_scalars},
      {Role::kLayerInputTable, spec.layer_input_vocab, inputs, false, input > 0},
      {Role::kLayerInputsProject, inputs, hidden, false, input > 0},
      {Role::kLayerInputsNorm, input, 0, false, input > 0},
      {Role::kLayerInputGate, input, hidden, false, input > 0},
      {Role::kLayerInputProject, hidden, input, false, input > 0},
      {Role::kLayerInputNorm, hidden, 0, false, input > 0},
      {Role::kStreamIn, hidden, hidden, false, streams > 0},
      {Role::kStreamOut, hidden, hidden, false, streams > 0},
      {Role::kStreamRouterNorm, hidden, 0, false, streams > 0},
      {Role::kStreamRouter, streams, hidden, false, streams > 0},
      {Role::kStreamPredict, streams * streams, streams, false, streams > 0},
      {Role::kStreamCorrect, streams, streams, false, streams > 0},
      {Role::kStreamScale, hidden, 0, false, spec.alt_up && spec.alt_up->scaled},
      {Role::kLaurelDown, alt_up.rank, hidden, false, streams > 0},
      {Role::kLaurelUp, hidden, alt_up.rank, false, streams > 0},
      {Role::kLaurelNorm, hidden, 0, false, streams > 0},
      {Role::kAttentionMix, mixed.scores(), all_streams, false, mixes},
      {Role::kAttentionMixBase, mixed.scores(), 0, false, mixes},
      {Role::kAttentionMixScale, 3, 0, false, mixes},
      {Role::kMlpMix, mixed.scores(), all_streams, false, mixes},
      {Role::kMlpMixBase, mixed.scores(), 0, false, mixes},
      {Role::kMlpMixScale, 3, 0, false, mixes},
      {Role::kFinalMix, mixed.streams, all_streams, false, mixes},
      {Role::kFinalMixBase, mixed.streams, 0, false, mixes},
      {Role::kFinalMixScale, 1, 0, false, mixes},
      {Role::kBlockNorm, 2 * hidden, 0, spec.norm_bias, uses_block && own_block},
      {Role::kBlockOut, hidden, hidden, false, uses_block},
      {Role::kQueryAdapterDown, block.rank, attention_in, false, adapts},
      {Role::kQueryAdapterUp, q, block.rank, false, adapts},
      {Role::kKeyAdapterDown, block.rank, attention_in, false, adapts},
      {Role::kKeyAdapterUp, kv, block.rank, false, adapts},
      {Role::kValueAdapterDown, block.rank, attention_in, false, adapts},
      {Role::kValueAdapterUp, kv, block.rank, false, adapts},
      {Role::kGateUpAdapterDown, block.rank, hidden, false, uses_block},
      {Role::kGateUpAdapterUp, 2 * inter, block.rank, false, uses_block},
      {Role::kSinks, heads, 0, false, attention && spec.attention_sinks && own.sinks},
      {Role::kPostAttentionNorm, hidden, 0, spec.norm_bias, after && own.mixes()},
      {Role::kMlpNorm, hidden, 0, spec.norm_bias, spec.mlp_norm && own.mlp_norm && has_mlp},
      {Role::kPostMlpNorm, hidden, 0, spec.norm_bias, after && own.mlp},
      {Role::kGate, inter, hidden, spec.mlp_bias, mlp},
      {Role::kUp, inter, hidden, spec.mlp_bias, mlp},
      {Role::kGateUp, 2 * inter, hidden, spec.mlp_bias, mlp},
      {Role::kDown, hidden, inter, spec.mlp_bias || spec.down_bias, mlp},
      {Role::kXieluPositive, 1, 0, false, mlp && spec.xielu},
      {Role::kXieluNegative, 1, 0, false, mlp && spec.xielu},
      {Role::kXieluSlope, 1, 0, false, mlp && spec.xielu},
      {Role::kXieluLimit, 1, 0, false, mlp && spec.xielu},
      {Role::kAttentionSubNorm, q, 0, spec.norm_bias, attention && spec.sub_norms},
      {Role::kMlpSubNorm, inter, 0, spec.norm_bias, mlp && spec.sub_norms},
      {Role::kExpertScale, moe.num_experts, 0, false, experts && moe.expert_scale},
      {Role::kBesideRouter, hidden, 0, false, experts && moe.beside},
      {Role::kBesideExperts, hidden, 0, false, experts && moe.beside},
      {Role::kBesideOut, hidden, 0, false, experts && moe.beside},
      {Role::kBesideMlp, hidden, 0, false, experts && moe.beside},
      {Role::kRouter, moe.routed(), hidden, moe.router_bias, experts},
      {Role::kRouterCorrection, moe.routed(), 0, false, experts && moe.correction && !own.hashed_experts},
      {Role::kRouterTable, spec.vocab_size, moe.router.num_chosen, false, experts && own.hashed_experts},
      {Role::kExpertGate, part, hidden, moe.expert_bias, experts && moe.gated},
      {Role::kExpertUp, part, hidden, moe.expert_bias, experts},
      {Role::kExpertGateUp, 2 * part, hidden, moe.expert_bias, experts},
      {Role::kExpertDown, hidden, part, moe.expert_bias, experts},
      {Role::kSharedExpertGate, shared, hidden, spec.mlp_bias, has_shared && moe.gated},
      {Role::kSharedExpertUp, shared, hidden, spec.mlp_bias, has_shared},
      {Role::kSharedExpertGateUp, 2 * shared, hidden, spec.mlp_bias, has_shared},
      {Role::kSharedExpertDown, hidden, shared, spec.mlp_bias, has_shared},
      {Role::kSharedExpertRouter, 1, hidden, false, has_shared && moe.shared_gate},
      {Role::kFinalNorm, hidden, 0, spec.norm_bias, spec.final_norm},
      {Role::kLmHead, spec.vocab_size, word, spec.lm_head_bias, head},
      {Role::kLmHeadBias, spec.vocab_size, 0, false, head && spec.lm_head_bias && spec.tie_word_embeddings},
      {Role::kHeadDense, hidden, hidden, spec.output_head && spec.output_head->bias,
       head && spec.output_head},
      {Role::kHeadNorm, hidden, 0, spec.norm_bias, head && spec.output_head},
  }};
}

constexpr std::string_view kPlace = "{}";

int places_in(std::string_view pattern) {
  int count = 0;
  for (size_t at = pattern.find(kPlace); at != pattern.npos; at = pattern.find(kPlace, at + 1)) ++count;
  return count;
}

std::string shape_text(const std::vector<int64_t>& shape) {
  TensorInfo info;
  info.shape = shape;
  return info.shape_text();
}

// Codes of experts lie [experts, out, in], whichever way round their floats would.
std::vector<int64_t> stored_shape(const ExpectedTensor& tensor, bool coded) {
  std::vector<int64_t> shape = tensor.shape;
  if (coded && tensor.stacked && tensor.transposed) std::swap(shape[1], shape[2]);
  if (tensor.flat) shape = {shape[0] * shape[1], shape[2]};
  return shape;
}

// transformers writes the convolution of a gated delta net in three parts of one size, whatever they are of.
std::vector<int64_t> third_of_conv(const ArchSpec& spec, Role role) {
  if (role == Role::kStateConv || !spec.delta_net) return {};
  const RecurrentSizes sizes = spec.delta_net->sizes.recurrent();
  const int64_t third = (sizes.channels + 2) / 3;
  return {role == Role::kStateConvValue ? sizes.channels - 2 * third : third, 1, sizes.taps};
}

// The number that follows the first `label` in a name; -1: there is none.
int32_t number_behind(std::string_view name, std::string_view label) {
  int32_t number = -1;
  if (const size_t at = name.find(label); at != name.npos)
    std::from_chars(name.data() + at + label.size(), name.data() + name.size(), number);
  return number;
}

std::string choose_prefix(const WeightNames& names, const Checkpoint& checkpoint) {
  for (const auto& module : names.modules) {
    if (module.role != Role::kEmbedding) continue;
    for (const auto prefix : names.prefixes) {
      if (checkpoint.find(cat(prefix, module.module, ".weight")) != nullptr) return std::string(prefix);
    }
  }
  return std::string(names.prefixes.front());
}

}  // namespace

int64_t numel(std::span<const int64_t> shape) {
  int64_t n = 1;
  for (const int64_t dim : shape) n *= dim;
  return n;
}

TensorPlan::TensorPlan(const ArchSpec& spec, const WeightNames& names, const Checkpoint& checkpoint)
    : architecture_(spec.architecture),
      prefix_(choose_prefix(names, checkpoint)),
      names_(names),
      tied_(spec.tie_word_embeddings),
      headless_(spec.task != ModelTask::kGenerate),
      num_layers_(spec.num_layers),
      num_experts_(spec.moe ? spec.moe->num_experts : 0) {
  for (const LayerSpec& layer : spec.layers) idle_.push_back(!layer.mixes() && !layer.mlp);
  // The text part of a larger model may be a whole model inside it.
  for (const std::string_view inner : {"language_model.", "text_model.", "thinker."}) {
    if (names.composite && prefix_.starts_with(inner)) head_prefix_ = inner;
  }
  const bool stacked = stacks_experts(spec, checkpoint);
  for (const auto& module : names.modules) {
    if (module.role == Role::kLmHead && tied_) continue;
    if (is_otherwise_there(module, stacked, checkpoint)) continue;
    if (places_in(module.module) == 0) {
      add(spec, module, -1, -1, checkpoint);
    } else if (is_of_stream(module.role)) {
      const int32_t streams = spec.alt_up ? spec.alt_up->sizes.streams : 1;
      for (int32_t i = 0; i + 1 < streams; ++i) add(spec, module, i, -1, checkpoint);
    } else {
      for (int32_t layer = 0; layer < spec.num_layers; ++layer) {
        if (spec.layers[static_cast<size_t>(layer)].weight_source < 0)
          add_layer(spec, module, layer, stacked, checkpoint);
      }
    }
  }
  if (spec.task == ModelTask::kScore && spec.classifier) {
    const ClassifierSpec& own = *spec.classifier;
    add(spec, {Role::kClassifier, own.name}, -1, -1, checkpoint);
    if (!own.dense.empty()) add(spec, {Role::kClassifierDense, own.dense}, -1, -1, checkpoint);
    if (!own.norm.empty()) add(spec, {Role::kClassifierNorm, own.norm}, -1, -1, checkpoint);
  }
}

bool TensorPlan::is_otherwise_there(const ModuleName& module, bool stacked,
                                    const Checkpoint& checkpoint) const {
  const auto joined = std::ranges::find_if(kJoinedRoles, [&](const JoinedRole& row) {
    return row.whole == module.role || row.has_part(module.role);
  });
  if (joined == kJoinedRoles.end()) return false;
  const auto counts = [&](const ModuleName& other) {
    return !is_of_expert(other.role) || (places_in(other.module) == 1) == stacked;
  };
  const auto is_there = [&](const ModuleName& other) {
    if (other.role != joined->whole || !counts(other)) return false;
    for (int32_t layer = 0; layer < num_layers_; ++layer) {
      const std::string name = with_number(with_number(other.module, layer), 0);
      if (checkpoint.find(cat(prefix_, name, other.bare ? "" : ".weight")) != nullptr) return true;
    }
    return false;
  };
  const bool has_parts = std::ranges::any_of(
      names_.modules, [&](const ModuleName& other) { return joined->has_part(other.role) && counts(other); });
  const bool whole = !has_parts || std::ranges::any_of(names_.modules, is_there);
  return whole != (module.role == joined->whole);
}

bool TensorPlan::stacks_experts(const ArchSpec& spec, const Checkpoint& checkpoint) const {
  const auto first = std::ranges::find_if(spec.layers, &LayerSpec::experts);
  if (first == spec.layers.end()) return false;
  const auto layer = static_cast<int32_t>(first - spec.layers.begin());
  bool only = true;  // there are no other names
  for (const auto& module : names_.modules) {
    if (!is_of_expert(module.role)) continue;
    if (places_in(module.module) == 2) {
      only = false;
      continue;
    }
    const std::string name = cat(prefix_, with_number(module.module, layer), module.bare ? "" : ".weight");
    if (checkpoint.find(name) != nullptr) return true;
  }
  return only;
}

void TensorPlan::add_layer(const ArchSpec& spec, const ModuleName& module, int32_t layer, bool stacked,
                           const Checkpoint& checkpoint) {
  const bool whole = places_in(module.module) == 1 || names_.sublayers > 1;
  if (is_of_use(module.role) || (!is_of_expert(module.role) && whole))
    return add(spec, module, layer, -1, checkpoint);
  if (!is_of_expert(module.role)) {
    // A tensor for each head.
    const int32_t heads = module.role == Role::kQueryNorm ? spec.num_heads : spec.num_kv_heads;
    for (int32_t head = 0; head < heads; ++head) add(spec, module, layer, head, checkpoint);
    return;
  }
  if ((places_in(module.module) == 1) != stacked) return;
  if (stacked) return add(spec, module, layer, -1, checkpoint);
  const int32_t experts = spec.moe ? spec.moe->num_experts : 0;
  for (int32_t expert = 0; expert < experts; ++expert) add(spec, module, layer, expert, checkpoint);
}

void TensorPlan::add(const ArchSpec& spec, const ModuleName& module, int32_t layer, int32_t expert,
                     const Checkpoint& checkpoint) {
  const auto shapes = role_shapes(spec, layer);
  const RoleShape& shape =
      *std::find_if(shapes.begin(), shapes.end(), [&](const auto& s) { return s.role == module.role; });
  if (!shape.wanted) return;
  const bool has_default = module.role == Role::kXieluSlope || module.role == Role::kXieluLimit;
  std::string_view prefix = prefix_;
  const bool of_head =
      module.role == Role::kLmHead || (module.role >= Role::kHeadDense && module.role <= Role::kLmHeadBias);
  if (of_head) prefix = head_prefix_;
  const bool of_classifier = module.role >= Role::kClassifierDense;
  if (of_classifier && checkpoint.find(cat(prefix_, module.module, ".weight")) == nullptr) prefix = "";
  std::array<int32_t, 2> numbers = {layer, expert};
  if (names_.sublayers > 1 && layer >= 0)
    numbers = {layer / names_.sublayers, is_of_expert(module.role) ? expert : layer % names_.sublayers};
  if (is_of_use(module.role)) {
    const LayerSpec& own = spec.layers[static_cast<size_t>(layer)];
    numbers = {own.block_source, own.block_use};
  }
  const std::string name = cat(prefix, with_number(with_number(module.module, numbers[0]), numbers[1]));
  const std::string weight_name = module.bare ? name : name + ".weight";
  if (has_default && checkpoint.find(weight_name) == nullptr) return;
  const Key key(module.role, layer, expert);
  const auto known = modules_.find(key);
  if (known != modules_.end()) {
    // Another name of the same module: it counts where the checkpoint knows this one alone.
    if (checkpoint.find(known->second.weight.name) != nullptr || checkpoint.find(weight_name) == nullptr)
      return;
    modules_.erase(known);
  }
  const bool of_groups = module.role == Role::kOutDown;
  const bool stacked = (is_of_expert(module.role) && expert < 0) || of_groups;
  Module entry;
  entry.weight = {weight_name, {shape.out}, module.transposed, module.order, stacked, of_groups};
  if (shape.in > 0) {
    entry.weight.shape.push_back(shape.in);
    if (module.transposed) std::reverse(entry.weight.shape.begin(), entry.weight.shape.end());
  }
  if (shape.bias) {
    entry.bias =
        ExpectedTensor{name + (module.bare ? "_bias" : ".bias"), {shape.out}, false, module.order, stacked};
  }
  if (spec.qk_norm == QkNorm::kEachHead && expert < 0 &&
      (module.role == Role::kQueryNorm || module.role == Role::kKeyNorm)) {
    const int64_t heads = module.role == Role::kQueryNorm ? spec.num_heads : spec.num_kv_heads;
    entry.weight.shape = {heads, spec.head_dim};
  }
  // Convolutions are stored with a dimension for the inputs of a channel, of which there is one.
  if (is_convolution(module.role)) entry.weight.shape.insert(entry.weight.shape.begin() + 1, 1);
  const TensorInfo* found = checkpoint.find(weight_name);
  if (found != nullptr && is_convolution(module.role) && found->shape == third_of_conv(spec, module.role))
    entry.weight.shape = found->shape;
  // Kimi's rates have dimensions of one around the heads'.
  if (found != nullptr && module.role == Role::kRate && found->shape.size() == 4 &&
      numel(found->shape) == numel(entry.weight.shape))
    entry.weight.shape = found->shape;
  // One number may be stored as a vector of one, or as a number.
  if (found != nullptr && found->shape.empty() && entry.weight.shape == std::vector<int64_t>{1})
    entry.weight.shape.clear();
  // ERNIE stores the vector as a matrix of one row, or of one for each kind of experts.
  if (module.role == Role::kRouterCorrection && found != nullptr && found->shape.size() == 2 &&
      (found->shape[0] == 1 || (names_.other_experts && found->shape[0] == 2))) {
    entry.weight.shape.insert(entry.weight.shape.begin(), found->shape[0]);
    entry.weight.stacked = true;
  }
  if (stacked) {
    const int64_t experts = of_groups ? spec.compressed->groups : spec.moe->num_experts;
    entry.weight.shape.insert(entry.weight.shape.begin(), experts);
    if (entry.bias) entry.bias->shape.insert(entry.bias->shape.begin(), experts);
    // Some files have the matrices of one model's experts as [experts, in, out].
    std::vector<int64_t> turned = entry.weight.shape;
    if (!module.transposed && !of_groups && turned.size() == 3) std::swap(turned[1], turned[2]);
    if (found != nullptr && !found->coded && found->shape == turned && turned != entry.weight.shape) {
      entry.weight.shape = turned;
      entry.weight.transposed = true;
    }
  }
  modules_.emplace(key, std::move(entry));
}

const TensorPlan::Module* TensorPlan::find(Role role, int32_t layer, int32_t expert) const {
  auto it = modules_.find(Key(role, layer, expert));
  if (it == modules_.end() && expert >= 0) it = modules_.find(Key(role, layer, -1));
  return it == modules_.end() ? nullptr : &it->second;
}

const ExpectedTensor* TensorPlan::weight(Role role, int32_t layer, int32_t expert) const {
  const Module* module = find(role, layer, expert);
  return module == nullptr ? nullptr : &module->weight;
}

const ExpectedTensor* TensorPlan::bias(Role role, int32_t layer, int32_t expert) const {
  const Module* module = find(role, layer, expert);
  return module == nullptr || !module->bias ? nullptr : &*module->bias;
}

std::string attention_module(const TensorPlan& plan, int32_t layer) {
  const ExpectedTensor* keys = plan.weight(Role::kKey, layer);
  if (keys == nullptr) keys = plan.weight(Role::kQkv, layer);
  if (keys == nullptr) return "";
  const std::string& name = keys->name;  // ends in ".k_proj.weight"
  return name.substr(0, name.rfind('.', name.rfind('.') - 1));
}

int64_t TensorPlan::num_parameters() const {
  int64_t sum = 0;
  for (const auto& [key, module] : modules_) {
    sum += numel(module.weight.shape);
    if (module.bias) sum += numel(module.bias->shape);
  }
  return sum;
}

int64_t TensorPlan::stored_bytes(const Checkpoint& checkpoint) const {
  int64_t sum = 0;
  for (const auto& [key, module] : modules_) {
    sum += static_cast<int64_t>(checkpoint.find(module.weight.name)->bytes);
    if (module.bias) sum += static_cast<int64_t>(checkpoint.find(module.bias->name)->bytes);
  }
  return sum;
}

bool TensorPlan::is_ignored(const std::string& name) const {
  // A tied checkpoint may store the output embedding again; it is the same one. Without a use for it, heads
  // are those of the training.
  if (headless_ && is_of_head(name)) return true;
  if (tied_ && name == head_prefix_ + "lm_head.weight") return true;
  // ModelLoader::kv_scales looks for them.
  constexpr std::array<std::string_view, 4> kKvScales = {".k_scale", ".v_scale", ".k_proj.output_scale",
                                                         ".v_proj.output_scale"};
  if (std::ranges::any_of(kKvScales, [&](std::string_view suffix) { return name.ends_with(suffix); }))
    return true;
  std::string_view rest = name;
  // Vision and audio lie beside the text, under names that are not its own.
  if (names_.composite && !is_of_text(name)) return true;
  if (rest.starts_with(prefix_)) rest.remove_prefix(prefix_.size());
  const int32_t layer = rest.starts_with("layers.") ? number_behind(rest, "layers.") : -1;
  if (layer >= num_layers_ ? names_.later_layers : layer >= 0 && idle_[static_cast<size_t>(layer)])
    return true;
  if (names_.other_experts && number_behind(rest, ".experts.") >= num_experts_) return true;
  return std::ranges::any_of(names_.ignored, [&](std::string_view pattern) {
    return matches_pattern(rest, pattern) || matches_pattern(name, pattern);
  });
}

bool TensorPlan::is_of_head(std::string_view name) const {
  static constexpr std::array<std::string_view, 5> kHeads = {"lm_head.", "cls.", "pooler.", "head.",
                                                             "decoder."};
  const auto is_head = [](std::string_view rest) {
    return std::ranges::any_of(kHeads, [&](std::string_view head) { return rest.starts_with(head); });
  };
  if (is_head(name)) return true;
  return name.starts_with(prefix_) && is_head(name.substr(prefix_.size()));
}

bool TensorPlan::is_of_text(std::string_view name) const {
  constexpr std::array<std::string_view, 2> kParts = {"layers.", "lm_head."};
  if (name.starts_with(prefix_)) name.remove_prefix(prefix_.size());
  return std::ranges::any_of(kParts, [&](std::string_view part) { return name.starts_with(part); });
}

void TensorPlan::check(const Checkpoint& checkpoint) const {
  std::vector<std::string> problems;
  std::set<std::string, std::less<>> expected;
  const auto examine = [&](const ExpectedTensor& tensor, bool may_be_coded, bool whole_numbers = false) {
    expected.insert(tensor.name);
    const TensorInfo* found = checkpoint.find(tensor.name);
    if (found == nullptr) {
      problems.push_back(cat("missing: ", tensor.name, " ", shape_text(stored_shape(tensor, false))));
    } else if (found->shape != stored_shape(tensor, found->coded)) {
      problems.push_back(cat("wrong shape: ", tensor.name, " is ", found->shape_text(), ", expected ",
                             shape_text(stored_shape(tensor, false))));
    } else if (whole_numbers) {
      if (found->dtype != DType::kI64 && found->dtype != DType::kI32) {
        problems.push_back(
            cat("wrong type: ", tensor.name, " is ", dtype_name(found->dtype), ", expected int64 or int32"));
      }
    } else if (found->coded) {
      const bool transposed = tensor.transposed && !tensor.stacked;
      if (tensor.shape.size() < 2 || transposed || !may_be_coded) {
        problems.push_back(cat("wrong type: ", tensor.name, " is quantized, expected ",
                               tensor.transposed ? "a matrix [in, out] of " : "", "floats"));
      }
    } else if (!is_storage_dtype(found->dtype)) {
      problems.push_back(cat("wrong type: ", tensor.name, " is ", dtype_name(found->dtype),
                             ", expected float32, bfloat16 or float16"));
    }
  };
  for (const auto& [key, module] : modules_) {
    const Role role = std::get<Role>(key);
    examine(module.weight, role != Role::kPositionEmbedding, is_whole_numbers(role));
    if (module.bias) examine(*module.bias, false);
  }
  for (const auto& name : checkpoint.names()) {
    if (expected.contains(name) || is_ignored(name)) continue;
    problems.push_back(cat("surplus: ", name, " ", checkpoint.find(name)->shape_text()));
  }
  if (problems.empty()) return;
  constexpr size_t kShown = 20;
  std::string text = cat(checkpoint.path().string(), ": the tensors are not those of the ", architecture_,
                         " that config.json describes:");
  for (size_t i = 0; i < std::min(kShown, problems.size()); ++i) text += cat("\n  ", problems[i]);
  if (problems.size() > kShown) text += cat("\n  and ", problems.size() - kShown, " more");
  throw Error(text);
}

}  // namespace quire
