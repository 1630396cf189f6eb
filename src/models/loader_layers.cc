// What a layer is made of, taken out of a checkpoint.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numbers>
#include <numeric>

#include "base/error.h"
#include "base/strings.h"
#include "models/loader.h"
#include "ops/softplus.h"
#include "quant/codec.h"

namespace quire {
namespace {

// How many deviations above the mean that share of a normal distribution ends.
double normal_quantile(double share) {
  double low = -40.0;
  double high = 40.0;
  constexpr int kSteps = 100;
  for (int i = 0; i < kSteps; ++i) {
    const double middle = 0.5 * (low + high);
    const double below = 0.5 * std::erfc(-middle / std::numbers::sqrt2);
    (below < share ? low : high) = middle;
  }
  return low;
}

}  // namespace

std::optional<Norm> ModelLoader::norm_if(bool wanted, Role role, int32_t layer) {
  if (!wanted) return std::nullopt;
  return norm(role, layer, spec_.hidden_size);
}

Join ModelLoader::join(Role norm_role, int32_t layer) {
  const bool post_norms = spec_.post_norms && spec_.layers[static_cast<size_t>(layer)].post_norms;
  return {.norm = norm_if(post_norms || spec_.sum_norms, norm_role, layer),
          .multiplier = spec_.residual_multiplier,
          .norm_sum = spec_.sum_norms};
}

Attention ModelLoader::attention(int32_t layer) {
  const LayerSpec& own = spec_.layers[static_cast<size_t>(layer)];
  const int64_t num_heads = num_heads_of(spec_, own);
  Attention out;
  // Checkpoints have either three matrices or one.
  out.qkv = own.keys_as_values
                ? linear({Role::kQuery, Role::kKey, Role::kKey}, layer)
                : linear({Role::kQuery, Role::kQueryGate, Role::kKey, Role::kValue, Role::kQkv}, layer);
  out.out = linear({Role::kAttentionOut}, layer);
  out.qk_norm = spec_.qk_norm;
  out.norm_turned = spec_.qk_norm_turned;
  if (!own.qk_norm) out.qk_norm = QkNorm::kNone;
  if (out.qk_norm != QkNorm::kNone) {
    const bool whole = spec_.qk_norm == QkNorm::kWhole;
    const int64_t head_dim = head_dim_of(spec_, own);
    const int64_t num_kv_heads = num_kv_heads_of(spec_, own);
    out.q_norm = norm(Role::kQueryNorm, layer, whole ? num_heads * head_dim : head_dim);
    if (own.kv_source < 0)
      out.k_norm = norm(Role::kKeyNorm, layer, whole ? num_kv_heads * head_dim : head_dim);
  }
  if (spec_.sub_norms)
    out.sub_norm = norm(Role::kAttentionSubNorm, layer, num_heads * head_dim_of(spec_, own));
  out.shares_cache = own.kv_source >= 0;
  out.gates = num_gates_of(spec_, own);
  out.gate_activation = spec_.gate_activation;
  if (spec_.value_norm && !out.shares_cache) {
    Norm& values = out.v_norm.emplace();
    values.eps = spec_.norm_eps;
    values.size = head_dim_of(spec_, own);
    values.weight = Buffer(static_cast<size_t>(values.size) * sizeof(float));
    std::fill_n(values.weight.as<float>(), values.size, 1.0F);
  }
  out.params.scale = own.attention_scale;
  out.params.window = own.window;
  out.params.chunk = own.chunk;
  out.params.bidirectional = spec_.bidirectional;
  if (const ExpectedTensor* sinks = plan_.weight(Role::kSinks, layer)) {
    out.sinks = Buffer(static_cast<size_t>(num_heads) * sizeof(float));
    read_vector(*sinks, -1, out.sinks.as<float>());
    out.params.sinks = out.sinks.as<float>();
    model_->weight_bytes_ += bytes_of(out.sinks);
    done(*sinks);
  }
  out.params.logit_softcap = spec_.attention_softcap;
  if (!model_->alibi_slopes_.empty()) out.params.alibi_slopes = model_->alibi_slopes_.data();
  if (spec_.relative) relate(out, layer);
  out.kv_scales = kv_scales(own.kv_source >= 0 ? own.kv_source : layer);
  out.num_heads = static_cast<int32_t>(num_heads);
  out.num_kv_heads = num_kv_heads_of(spec_, own);
  out.head_dim = head_dim_of(spec_, own);
  out.value_dim = value_dim_of(spec_, own);
  return out;
}

std::vector<float> ModelLoader::floats(const ExpectedTensor& tensor) {
  std::vector<float> all(static_cast<size_t>(numel(tensor.shape)));
  if (checkpoint_.coded(tensor.name) != nullptr) {
    const std::array<const ExpectedTensor*, 1> tensors = {&tensor};
    const PackedLinear packed = pack_codes(tensors, -1);
    std::vector<int32_t> rows(static_cast<size_t>(packed.n));
    std::iota(rows.begin(), rows.end(), 0);
    ops_.embedding_packed(ctx_, make_view(all.data(), DType::kF32, Shape{packed.n, packed.k}), packed, rows);
  } else {
    Buffer copy;
    const TensorView stored = matrix(tensor, -1, copy);
    decode_f32(stored.dtype, stored.data, all.data(), static_cast<int64_t>(all.size()));
  }
  return all;
}

std::vector<float> ModelLoader::latent_heads(const MlaSizes& sizes, int32_t layer) {
  const int64_t still = sizes.still;
  const int64_t latent = sizes.latent;
  const int64_t keys = still * latent;
  const int64_t values = sizes.value * latent;
  std::vector<float> all(static_cast<size_t>(spec_.num_heads * (keys + values)));
  if (const ExpectedTensor* together = plan_.weight(Role::kLatentUp, layer)) {
    all = floats(*together);
    std::vector<float> turned(static_cast<size_t>(keys));
    for (int64_t h = 0; h < spec_.num_heads; ++h) {
      float* own = all.data() + h * (keys + values);
      for (int64_t i = 0; i < still; ++i) {
        for (int64_t j = 0; j < latent; ++j) turned[static_cast<size_t>(j * still + i)] = own[i * latent + j];
      }
      std::ranges::copy(turned, own);
    }
    return all;
  }
  const ExpectedTensor& of_keys = *plan_.weight(Role::kLatentKeys, layer);
  const ExpectedTensor& of_values = *plan_.weight(Role::kLatentValues, layer);
  const auto all_keys = floats(of_keys);
  const auto all_values = floats(of_values);
  for (int64_t h = 0; h < spec_.num_heads; ++h) {
    float* own = all.data() + h * (keys + values);
    std::copy_n(all_keys.data() + h * keys, keys, own);
    std::copy_n(all_values.data() + h * values, values, own + keys);
  }
  return all;
}

std::optional<KvScales> ModelLoader::kv_scales(int32_t layer) const {
  const std::string stem = attention_module(plan_, layer);
  // Beside the projections, or inside of them, under either name.
  const auto read = [&](std::string_view own, std::string_view inside) -> std::optional<float> {
    for (const std::string& name :
         {cat(stem, own), cat(stem, inside, own), cat(stem, inside, ".output_scale")}) {
      const TensorInfo* info = checkpoint_.find(name);
      if (info == nullptr) continue;
      if (!is_storage_dtype(info->dtype) || numel(info->shape) != 1)
        throw Error(cat(name, ": must be one number"));
      Buffer aligned(info->bytes);
      std::memcpy(aligned.data(), checkpoint_.bytes(name).data(), aligned.size());
      const float scale = load_f32(info->dtype, aligned.data(), 0);
      if (!(scale > 0.0F)) throw Error(cat(name, ": is ", scale, ", which is no scale"));
      return scale;
    }
    return std::nullopt;
  };
  const auto keys = read(".k_scale", ".k_proj");
  const auto values = read(".v_scale", ".v_proj");
  if (!keys && !values) return std::nullopt;
  return KvScales{keys.value_or(1.0F), values.value_or(1.0F)};
}

void ModelLoader::split_latent(Mla& mla, int32_t layer) {
  const MlaSizes& at = mla.sizes;
  const int64_t keys = at.still * at.latent;
  std::vector<float> heads;
  // What head h makes its keys of, then its values. Read only where a matrix has to be made.
  const auto head = [&](int64_t h) {
    if (heads.empty()) heads = latent_heads(at, layer);
    return heads.data() + h * (keys + at.value * at.latent);
  };
  const auto pack = [&](const std::string& name, int64_t rows, int64_t columns, const auto& fill) {
    PackedLinear packed{.format = {latent_type(layer)}, .n = rows, .k = columns};
    packed.label = "latent heads";
    packed.data = kept(name, packed, [&] {
      std::vector<float> values(static_cast<size_t>(rows * columns));
      fill(values.data());
      const std::array<TensorView, 1> parts = {make_view(values.data(), DType::kF32, Shape{rows, columns})};
      return std::move(ops_.pack_linear(ctx_, parts, packed.format).data);
    });
    model_->weight_bytes_ += bytes_of(packed);
    return Linear{std::move(packed)};
  };
  const std::string module = attention_module(plan_, layer);
  for (int64_t h = 0; h < spec_.num_heads; ++h) {
    // What turns is taken over, what does not goes through the transpose of what would make keys.
    mla.absorb.push_back(pack(cat(module, ".absorb.", h), at.cached(), at.query_dim(), [&](float* absorb) {
      const float* next = head(h);
      const auto row = [&](int64_t r) { return absorb + r * at.query_dim(); };
      for (int64_t i = 0; i < at.turning; ++i) row(i)[at.still + i] = 1.0F;
      for (int64_t j = 0; j < at.latent; ++j, next += at.still)
        std::copy_n(next, at.still, row(at.turning + j));
    }));
    mla.expand.push_back(pack(cat(module, ".expand.", h), at.value, at.latent, [&](float* expand) {
      std::copy_n(head(h) + keys, at.value * at.latent, expand);
    }));
  }
  for (const Role role : {Role::kLatentUp, Role::kLatentKeys, Role::kLatentValues}) {
    if (const ExpectedTensor* tensor = plan_.weight(role, layer)) done(*tensor);
  }
}

Mla ModelLoader::mla(int32_t layer) {
  Mla out;
  out.sizes = *spec_.mla;
  const auto short_norm = [&](Role role, int64_t size) {
    Norm made = norm(role, layer, size);
    made.eps = spec_.mla_norm_eps;
    return made;
  };
  if (out.sizes.query_rank > 0) {
    out.query_down = linear({Role::kQueryDown}, layer);
    out.query_norm = short_norm(Role::kQueryDownNorm, out.sizes.query_rank);
  }
  if (spec_.query_growth != kNoRope) out.growth = &model_->ropes_[static_cast<size_t>(spec_.query_growth)];
  out.query = linear({Role::kQuery}, layer);
  out.latent = linear({Role::kLatent}, layer);
  out.latent_norm = short_norm(Role::kLatentNorm, out.sizes.latent);
  for (int64_t i = 0; i < out.sizes.latent; ++i)
    out.latent_norm.weight.as<float>()[i] *= spec_.mla_latent_multiplier;
  split_latent(out, layer);
  if (out.sizes.gated) out.gate = linear({Role::kQueryGate}, layer);
  out.out = linear({Role::kAttentionOut}, layer);
  out.choice = spec_.indexer;
  if (spec_.layers[static_cast<size_t>(layer)].indexer) out.indexer = indexer(layer);
  out.params.scale = spec_.layers[static_cast<size_t>(layer)].attention_scale;
  return out;
}

Indexer ModelLoader::indexer(int32_t layer) {
  Indexer out;
  out.sizes = spec_.indexer;
  out.query = linear({Role::kIndexQuery}, layer);
  out.key = linear({Role::kIndexKey}, layer);
  out.key_norm = norm(Role::kIndexKeyNorm, layer, out.sizes.dim);
  out.rope = &model_->ropes_[static_cast<size_t>(spec_.index_rope)];
  if (out.sizes.block > 0) {
    out.query_norm = norm(Role::kIndexQueryNorm, layer, out.sizes.dim);
    return out;
  }
  out.key_norm.kind = NormKind::kLayer;
  constexpr float kEps = 1e-6F;  // whatever the other norms have
  out.key_norm.eps = kEps;
  out.weights = linear({Role::kIndexWeights}, layer);
  return out;
}

Moe ModelLoader::moe(int32_t layer) {
  const MoeSpec& own = *spec_.moe;
  const LayerSpec& of_layer = spec_.layers[static_cast<size_t>(layer)];
  const auto mlp = [&](std::initializer_list<Role> up, Role down, int32_t expert, int64_t size) {
    Mlp out{linear(up, layer, expert), linear({down}, layer, expert), spec_.activation, own.gated, size};
    out.limit = expert < 0 ? of_layer.mlp_limit : of_layer.expert_limit;
    out.limit_first = own.limit_first;
    fuse_gate(out);
    return out;
  };
  Moe out;
  out.router = linear({Role::kRouter}, layer);
  out.params = own.router;
  out.weigh_input = own.weigh_input;
  if (const ExpectedTensor* correction = plan_.weight(Role::kRouterCorrection, layer)) {
    out.correction = Buffer(static_cast<size_t>(own.routed()) * sizeof(float));
    read_vector(*correction, 0, out.correction.as<float>());
    out.params.correction = out.correction.as<float>();
    model_->weight_bytes_ += bytes_of(out.correction);
    done(*correction);
  }
  if (const ExpectedTensor* scale = plan_.weight(Role::kExpertScale, layer)) {
    out.expert_scale = Buffer(static_cast<size_t>(own.num_experts) * sizeof(float));
    read_vector(*scale, -1, out.expert_scale.as<float>());
    model_->weight_bytes_ += bytes_of(out.expert_scale);
    done(*scale);
  }
  if (spec_.layers[static_cast<size_t>(layer)].hashed_experts) {
    out.by_token = expert_table(layer);
    out.params.given = true;
  }
  out.experts.reserve(static_cast<size_t>(own.num_experts));
  for (int32_t e = 0; e < own.num_experts; ++e)
    out.experts.push_back(mlp({Role::kExpertGate, Role::kExpertUp, Role::kExpertGateUp}, Role::kExpertDown, e,
                              own.intermediate_size));
  if (own.shared_intermediate_size > 0) {
    out.shared = mlp({Role::kSharedExpertGate, Role::kSharedExpertUp, Role::kSharedExpertGateUp},
                     Role::kSharedExpertDown, -1, own.shared_intermediate_size);
    if (own.shared_gate) out.shared_gate = linear({Role::kSharedExpertRouter}, layer);
  }
  return out;
}

Model::Beside ModelLoader::beside(int32_t layer) {
  const int64_t hidden = spec_.hidden_size;
  Model::Beside out{norm(Role::kBesideRouter, layer, hidden), norm(Role::kBesideExperts, layer, hidden),
                    norm(Role::kBesideOut, layer, hidden), norm(Role::kBesideMlp, layer, hidden)};
  // The router reads directions: what it is given has length one where the scale is one.
  const auto share = static_cast<float>(1.0 / std::sqrt(static_cast<double>(hidden)));
  for (int64_t i = 0; i < hidden; ++i) out.router.weight.as<float>()[i] *= share;
  return out;
}

SharedBlock ModelLoader::shared_block(int32_t layer) {
  SharedBlock out;
  out.input_norm = norm(Role::kBlockNorm, layer, 2 * spec_.hidden_size);
  out.attention = attention(layer);
  out.mlp_norm = norm(Role::kMlpNorm, layer, spec_.hidden_size);
  out.mlp = mlp(layer);
  return out;
}

BlockUse ModelLoader::block_use(int32_t layer) {
  BlockUse out;
  if (spec_.shared_block->attention_adapters) {
    Adapter& qkv = out.qkv.emplace();
    qkv.down = linear({Role::kQueryAdapterDown, Role::kKeyAdapterDown, Role::kValueAdapterDown}, layer);
    for (const Role role : {Role::kQueryAdapterUp, Role::kKeyAdapterUp, Role::kValueAdapterUp})
      qkv.up.push_back(linear({role}, layer));
  }
  out.up.down = linear({Role::kGateUpAdapterDown}, layer);
  out.up.up.push_back(linear({Role::kGateUpAdapterUp}, layer));
  out.out = linear({Role::kBlockOut}, layer);
  return out;
}

Mlp ModelLoader::mlp(int32_t layer) {
  const LayerSpec& own = spec_.layers[static_cast<size_t>(layer)];
  Mlp out;
  out.up = linear({Role::kGate, Role::kUp, Role::kGateUp}, layer);
  out.down = linear({Role::kDown}, layer);
  out.activation = spec_.activation;
  out.gated = spec_.gated_mlp;
  out.intermediate = intermediate_size_of(spec_, own);
  if (spec_.sub_norms) out.sub_norm = norm(Role::kMlpSubNorm, layer, out.intermediate);
  out.gate_multiplier = spec_.gate_multiplier;
  out.limit = own.mlp_limit;
  if (own.sparse_gates > 0.0) out.gate_deviations = static_cast<float>(normal_quantile(own.sparse_gates));
  if (spec_.xielu) out.xielu = xielu(layer);
  return out;
}

std::optional<LayerInputs> ModelLoader::layer_inputs() {
  if (spec_.layer_input_size == 0) return std::nullopt;
  LayerInputs out;
  out.table = embedding(Role::kLayerInputTable);
  out.project = linear({Role::kLayerInputsProject}, -1);
  out.norm = norm(Role::kLayerInputsNorm, -1, spec_.layer_input_size);
  out.size = spec_.layer_input_size;
  out.num_layers = spec_.num_layers;
  out.table_scale = std::sqrt(static_cast<float>(out.size));
  out.project_scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(spec_.hidden_size)));
  return out;
}

std::optional<LayerInput> ModelLoader::layer_input(int32_t layer) {
  if (spec_.layer_input_size == 0) return std::nullopt;
  return LayerInput{linear({Role::kLayerInputGate}, layer), linear({Role::kLayerInputProject}, layer),
                    norm(Role::kLayerInputNorm, layer, spec_.hidden_size), spec_.activation};
}

std::optional<AltUpEnds> ModelLoader::alt_up_ends() {
  if (!spec_.alt_up) return std::nullopt;
  AltUpEnds out;
  for (int32_t i = 0; i + 1 < spec_.alt_up->sizes.streams; ++i) {
    out.in.push_back(linear({Role::kStreamIn}, i));
    out.out.push_back(linear({Role::kStreamOut}, i));
  }
  return out;
}

AltUp ModelLoader::alt_up(int32_t layer) {
  AltUp out;
  out.router_norm = norm(Role::kStreamRouterNorm, layer, spec_.hidden_size);
  // What the router reads is divided by how many numbers it reads.
  for (int64_t i = 0; i < spec_.hidden_size; ++i)
    out.router_norm.weight.as<float>()[i] /= static_cast<float>(spec_.hidden_size);
  out.router = linear({Role::kStreamRouter}, layer);
  out.predict = linear({Role::kStreamPredict}, layer);
  out.correct = linear({Role::kStreamCorrect}, layer);
  Buffer& ones = out.correct.weight.bias;
  ones = Buffer(static_cast<size_t>(spec_.alt_up->sizes.streams) * sizeof(float));
  std::fill_n(ones.as<float>(), spec_.alt_up->sizes.streams, 1.0F);
  if (spec_.alt_up->scaled) out.scale = vector(Role::kStreamScale, layer);
  return out;
}

Laurel ModelLoader::laurel(int32_t layer) {
  return {linear({Role::kLaurelDown}, layer), linear({Role::kLaurelUp}, layer),
          norm(Role::kLaurelNorm, layer, spec_.hidden_size)};
}

float ModelLoader::number(Role role, int32_t layer, float fallback) {
  const ExpectedTensor* tensor = plan_.weight(role, layer);
  if (tensor == nullptr) return fallback;
  float value = 0.0F;
  read_vector(*tensor, -1, &value);
  done(*tensor);
  return value;
}

// The factors are stored as what softplus makes them of.
XieluParams ModelLoader::xielu(int32_t layer) {
  XieluParams out;
  out.slope = number(Role::kXieluSlope, layer, out.slope);
  out.limit = number(Role::kXieluLimit, layer, out.limit);
  out.positive = softplus(number(Role::kXieluPositive, layer, 0.0F));
  out.negative = out.slope + softplus(number(Role::kXieluNegative, layer, 0.0F));
  return out;
}

Model::Layer ModelLoader::layer(int32_t index) {
  const LayerSpec& own = spec_.layers[static_cast<size_t>(index)];
  Model::Layer out;
  out.input_norm = norm_if(spec_.input_norm && own.input_norm && own.mixes(), Role::kInputNorm, index);
  if (own.block_source >= 0) {
    if (own.block_source == index) {
      out.block = model_->blocks_.emplace_back(std::make_unique<SharedBlock>(shared_block(index))).get();
    } else {
      out.block = model_->layers_[static_cast<size_t>(own.block_source)].block;
    }
    out.block_use = block_use(index);
  } else if (own.attention && spec_.mla) {
    out.mla = mla(index);
  } else if (own.attention && spec_.compressed) {
    out.compressed = compressed_attention(index);
  } else if (own.attention) {
    out.attention = attention(index);
    if (own.indexer) out.indexer = indexer(index);
  }
  if (own.recurrence == Recurrence::kMamba) out.mamba = mamba(index);
  if (own.recurrence == Recurrence::kMamba1) out.mamba1 = mamba1(index);
  if (own.recurrence == Recurrence::kDeltaNet) out.delta_net = delta_net(index);
  if (own.recurrence == Recurrence::kShortConv) out.short_conv = short_conv(index);
  if (own.recurrence == Recurrence::kLightning) out.lightning = lightning(index);
  if (own.recurrence == Recurrence::kKimiDelta) out.kimi_delta = kimi_delta(index);
  if (own.rope != kNoRope && !model_->ropes_.empty())
    out.rope = &model_->ropes_[static_cast<size_t>(own.rope)];
  if (own.mixes()) {
    out.attention_join = join(Role::kPostAttentionNorm, index);
    out.attention_join.multiplier *= own.mix_multiplier;
    out.attention_join.residual = own.mix_residual;
  }
  out.has_mlp = own.mlp && own.block_source < 0;
  out.shortcut = own.shortcut;
  out.mlp_norm = norm_if(spec_.mlp_norm && own.mlp_norm && out.has_mlp, Role::kMlpNorm, index);
  if (own.experts) out.moe = moe(index);
  if (own.experts && spec_.moe->beside) out.beside = beside(index);
  if (out.has_mlp && (!own.experts || spec_.moe->beside || own.shortcut)) {
    out.mlp = mlp(index);
    fuse_gate(out.mlp);
  }
  if (out.has_mlp) {
    out.mlp_join = join(Role::kPostMlpNorm, index);
    out.mlp_join.multiplier *= spec_.mlp_multiplier;
    if (own.experts) out.mlp_join.multiplier *= spec_.moe->multiplier;
    out.mlp_join.residual = spec_.mlp_residual;
  }
  out.input = layer_input(index);
  if (spec_.alt_up) {
    out.alt_up = alt_up(index);
    out.laurel = laurel(index);
  }
  if (spec_.streams) {
    out.attention_mix =
        stream_mix(Role::kAttentionMix, Role::kAttentionMixBase, Role::kAttentionMixScale, index);
    out.mlp_mix = stream_mix(Role::kMlpMix, Role::kMlpMixBase, Role::kMlpMixScale, index);
  }
  if (spec_.layer_scalars) out.scalar = number(Role::kLayerScalar, index, 1.0F);
  return out;
}

}  // namespace quire
