// What a model will take before it is loaded, out of names and shapes alone.
#include <initializer_list>
#include <span>
#include <vector>

#include "models/loader.h"

namespace quire {
namespace {

// Of n rows with so many outliers.
int64_t outlier_bytes(int64_t outliers, int64_t n) {
  if (outliers == 0) return 0;
  return outliers * static_cast<int64_t>(sizeof(Outlier)) + (n + 1) * static_cast<int64_t>(sizeof(int64_t));
}

}  // namespace

int64_t ModelLoader::planned_bytes() const {
  plan_.check(checkpoint_);
  constexpr auto kFloat = static_cast<int64_t>(sizeof(float));
  int64_t sum = 0;
  const auto add_vector = [&](const ExpectedTensor* tensor) {
    if (tensor != nullptr) sum += elements(*tensor) * kFloat;
  };
  const auto add_packed = [&](std::span<const ExpectedTensor* const> tensors, Role role) {
    const PackedLinear matrix = outline(tensors, role);
    sum += packed_bytes(matrix.format, matrix.n, matrix.k) + bytes_of(matrix.column_order);
    sum += outlier_bytes(num_outliers(tensors), matrix.n);
  };
  const auto add_table = [&](Role role) {
    const ExpectedTensor* tensor = plan_.weight(role);
    if (checkpoint_.coded(tensor->name) == nullptr) {
      sum += static_cast<int64_t>(checkpoint_.find(tensor->name)->bytes);
    } else {
      add_packed(std::span(&tensor, 1), role);
    }
  };
  const auto add_matrix = [&](std::initializer_list<Role> roles, int32_t layer, int32_t expert = -1) {
    std::vector<const ExpectedTensor*> all;
    bool has_bias = false;
    for (const Role role : roles) {
      const ExpectedTensor* tensor = plan_.weight(role, layer, expert);
      if (tensor == nullptr) continue;
      all.push_back(tensor);
      has_bias = has_bias || plan_.bias(role, layer, expert) != nullptr;
    }
    // One for all of them, zeros where the checkpoint has none.
    for (const ExpectedTensor* tensor : all) sum += has_bias ? out_features(*tensor) * kFloat : 0;
    for (std::span<const ExpectedTensor* const> rest = all; !rest.empty();) {
      const auto run = rest.first(alike(rest));
      rest = rest.subspan(run.size());
      add_packed(run, *roles.begin());
    }
  };
  if (spec_.task != ModelTask::kGenerate) {
    add_table(Role::kEmbedding);
    sum += planned_pooler_bytes();
  } else if (spec_.tie_word_embeddings) {
    add_matrix({Role::kEmbedding}, -1);
  } else {
    add_table(Role::kEmbedding);
    add_matrix({Role::kLmHead}, -1);
  }
  if (spec_.task_types > 0) {
    add_vector(plan_.weight(Role::kTokenTypes));
  } else if (spec_.token_types > 0) {
    add_table(Role::kTokenTypes);
  }
  add_matrix({Role::kEmbeddingIn}, -1);
  add_matrix({Role::kEmbeddingOut}, -1);
  add_matrix({Role::kClassifierDense}, -1);
  add_vector(plan_.weight(Role::kClassifierNorm));
  add_vector(plan_.bias(Role::kClassifierNorm));
  if (spec_.classifier && spec_.classifier->difference) {
    sum += packed_bytes({DType::kF32}, 1, spec_.hidden_size);
  } else {
    add_matrix({Role::kClassifier}, -1);
  }
  if (spec_.position == PositionKind::kLearned && spec_.sinusoid_steps > 0) {
    sum += (spec_.max_position_embeddings + spec_.position_offset) * spec_.hidden_size * kFloat;
  } else if (spec_.position == PositionKind::kLearned) {
    add_table(Role::kPositionEmbedding);
  }
  if (spec_.layer_input_size > 0) {
    add_table(Role::kLayerInputTable);
    add_matrix({Role::kLayerInputsProject}, -1);
    add_vector(plan_.weight(Role::kLayerInputsNorm));
  }
  for (int32_t i = 0; spec_.alt_up && i + 1 < spec_.alt_up->sizes.streams; ++i) {
    add_matrix({Role::kStreamIn}, i);
    add_matrix({Role::kStreamOut}, i);
  }
  add_vector(plan_.weight(Role::kEmbeddingNorm));
  add_vector(plan_.bias(Role::kEmbeddingNorm));
  for (int32_t i = 0; i < spec_.num_layers; ++i) {
    for (const Role role :
         {Role::kInputNorm,     Role::kPostAttentionNorm, Role::kMlpNorm,        Role::kPostMlpNorm,
          Role::kQueryNorm,     Role::kKeyNorm,           Role::kSinks,          Role::kQueryDownNorm,
          Role::kLatentNorm,    Role::kAttentionSubNorm,  Role::kMlpSubNorm,     Role::kExpertScale,
          Role::kBesideRouter,  Role::kBesideExperts,     Role::kBesideOut,      Role::kBesideMlp,
          Role::kStateConv,     Role::kStepBias,          Role::kRate,           Role::kSkip,
          Role::kStateNorm,     Role::kStepNorm,          Role::kWriteNorm,      Role::kReadNorm,
          Role::kLaurelNorm,    Role::kStreamRouterNorm,  Role::kStreamScale,    Role::kBlockNorm,
          Role::kIndexKeyNorm,  Role::kIndexQueryNorm,    Role::kStateConvQuery, Role::kStateConvKey,
          Role::kStateConvValue}) {
      add_vector(plan_.weight(role, i));
      add_vector(plan_.bias(role, i));
      for (int32_t h = 0; plan_.weight(role, i) == nullptr && plan_.weight(role, i, h) != nullptr; ++h)
        add_vector(plan_.weight(role, i, h));
    }
    for (const Role role :
         {Role::kIndexBias, Role::kCompressBias, Role::kCompressNorm, Role::kRouterTable,
          Role::kAttentionMixBase, Role::kAttentionMixScale, Role::kMlpMixBase, Role::kMlpMixScale})
      add_vector(plan_.weight(role, i));
    const LayerSpec& own = spec_.layers[static_cast<size_t>(i)];
    if (own.keys_as_values) {
      add_matrix({Role::kQuery, Role::kKey, Role::kKey}, i);
    } else if (spec_.mla || spec_.compressed) {
      add_matrix({Role::kQuery}, i);
      add_matrix({Role::kQueryGate}, i);
      add_matrix({Role::kKey}, i);
    } else {
      add_matrix({Role::kQuery, Role::kQueryGate, Role::kKey, Role::kValue, Role::kQkv}, i);
    }
    if (own.recurrence == Recurrence::kKimiDelta) {
      if (spec_.kimi_delta->sizes.rank > 0) {
        add_matrix({Role::kDeltaQuery, Role::kDeltaKey, Role::kDeltaValue}, i);
        add_matrix({Role::kDeltaGate}, i);
        add_matrix({Role::kDeltaStep}, i);
      } else {
        add_matrix(
            {Role::kDeltaQuery, Role::kDeltaKey, Role::kDeltaValue, Role::kDeltaGate, Role::kDeltaStep}, i);
      }
      add_matrix({Role::kDeltaShareStep, Role::kDeltaShare, Role::kDeltaGateDown, Role::kDeltaStepDown}, i);
    } else {
      add_matrix({Role::kStateIn, Role::kDeltaInGate, Role::kDeltaQuery, Role::kDeltaKey, Role::kDeltaValue,
                  Role::kDeltaIn, Role::kDeltaGate},
                 i);
      add_matrix({Role::kDeltaShareStep, Role::kDeltaShare, Role::kDeltaStep}, i);
    }
    add_matrix({Role::kStateSelect}, i);
    add_matrix({Role::kStateStep}, i);
    add_matrix({Role::kStateOut}, i);
    add_matrix({Role::kLayerInputGate}, i);
    add_matrix({Role::kLayerInputProject}, i);
    add_vector(plan_.weight(Role::kLayerInputNorm, i));
    add_matrix({Role::kStreamRouter}, i);
    add_matrix({Role::kStreamPredict}, i);
    add_matrix({Role::kStreamCorrect}, i);
    add_matrix({Role::kLaurelDown}, i);
    add_matrix({Role::kLaurelUp}, i);
    add_matrix({Role::kBlockOut}, i);
    add_matrix({Role::kQueryAdapterDown, Role::kKeyAdapterDown, Role::kValueAdapterDown}, i);
    for (const Role role : {Role::kQueryAdapterUp, Role::kKeyAdapterUp, Role::kValueAdapterUp,
                            Role::kGateUpAdapterDown, Role::kGateUpAdapterUp})
      add_matrix({role}, i);
    add_matrix({Role::kQueryDown}, i);
    add_matrix({Role::kLatent}, i);
    for (const Role role : {Role::kIndexQuery, Role::kIndexWeights, Role::kAttentionMix, Role::kMlpMix})
      add_matrix({role}, i);
    add_matrix({Role::kIndexKey, Role::kIndexGate}, i);
    add_matrix({Role::kCompressKey, Role::kCompressGate}, i);
    for (int32_t g = 0; spec_.compressed && g < spec_.compressed->groups; ++g)
      add_matrix({Role::kOutDown}, i, g);
    if (spec_.mla && own.attention) {
      const WeightFormat kept = {latent_type(i)};
      sum += spec_.num_heads * (packed_bytes(kept, spec_.mla->cached(), spec_.mla->query_dim()) +
                                packed_bytes(kept, spec_.mla->value, spec_.mla->latent));
    }
    add_matrix({Role::kAttentionOut}, i);
    add_matrix({Role::kGate, Role::kUp, Role::kGateUp}, i);
    add_matrix({Role::kDown}, i);
    if (!own.experts) continue;
    add_matrix({Role::kRouter}, i);
    add_vector(plan_.weight(Role::kRouterCorrection, i));
    for (int32_t e = 0; e < spec_.moe->num_experts; ++e) {
      add_matrix({Role::kExpertGate, Role::kExpertUp, Role::kExpertGateUp}, i, e);
      add_matrix({Role::kExpertDown}, i, e);
    }
    add_matrix({Role::kSharedExpertGate, Role::kSharedExpertUp, Role::kSharedExpertGateUp}, i);
    add_matrix({Role::kSharedExpertDown}, i);
    add_matrix({Role::kSharedExpertRouter}, i);
  }
  if (spec_.relative) {
    const int64_t size = spec_.relative->num_buckets * kFloat;
    const int64_t of_layers = 2 * int64_t{spec_.num_layers} * spec_.hidden_size;
    sum += size * (spec_.relative->vectors ? of_layers : spec_.num_heads);
  }
  for (const Role role : {Role::kFinalNorm, Role::kHeadNorm, Role::kLmHeadBias}) {
    add_vector(plan_.weight(role));
    add_vector(plan_.bias(role));
  }
  add_matrix({Role::kHeadDense}, -1);
  add_matrix({Role::kFinalMix}, -1);
  add_vector(plan_.weight(Role::kFinalMixBase));
  add_vector(plan_.weight(Role::kFinalMixScale));
  return sum;
}

}  // namespace quire
