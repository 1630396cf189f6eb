// The part of ModelDescription that describes layers.
#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "models/decoder/layer.h"
#include "models/model_description.h"
#include "models/model_param_ids.h"
#include "nn/attention_params.h"

namespace quire {

namespace {

Buffer buffer_of(const std::vector<float>& values) {
  Buffer buffer(values.size() * sizeof(float));
  std::ranges::copy(values, buffer.as<float>());
  return buffer;
}

}  // namespace

const Rope* ModelDescription::rope(int32_t index) const {
  return index == kNoRope || model_.ropes.empty() ? nullptr : &model_.ropes[static_cast<size_t>(index)];
}

void ModelDescription::branch_norm(const BranchSpec& spec, ParamId id, std::optional<Norm>& out) {
  if (spec.pre_norm) norm(id, spec_.hidden_size, out.emplace());
}

ResidualAdd ModelDescription::join(const BranchSpec& spec, ParamId norm_id) {
  ResidualAdd out{
      .multiplier = spec.multiplier, .residual = spec.residual_multiplier, .norm_sum = spec.norm_sum};
  if (spec.post_norm) {
    visit_norm(visitor_, norm_id, *spec.post_norm, spec_.hidden_size, out.norm.emplace());
  }
  return out;
}

void ModelDescription::layers() {
  model_.layers.resize(static_cast<size_t>(spec_.num_layers()));
  visitor_.for_each(Axis::kLayers, spec_.num_layers(), [&](int64_t i) {
    const auto index = static_cast<int32_t>(i);
    if (is_wanted(index)) layer(index, model_.layers[static_cast<size_t>(i)]);
  });
}

void ModelDescription::layer(int32_t index, DecoderLayer& out) {
  const LayerSpec& own = spec_.layers[static_cast<size_t>(index)];
  branch_norm(own.mixer_branch, layer::kInputNorm, out.mixer_norm);
  if (own.shared_block) shared_block(index, out);
  mixer(index, out);
  out.rope = rope(own.rope);
  out.mixer_join = join(own.mixer_branch, layer::kPostAttentionNorm);
  feed_forward(index, out);
  if (spec_.per_layer_input) {
    PerLayerInput& input = out.input.emplace();
    input.activation = spec_.per_layer_input->activation;
    quire::visit(spec_.per_layer_input->size, spec_.hidden_size, spec_.norm, visitor_, input);
  }
  if (spec_.alt_up) {
    quire::visit(*spec_.alt_up, spec_.norm, visitor_, out.alt_up.emplace());
    quire::visit(spec_.alt_up->sizes, spec_.norm, visitor_, out.laurel.emplace());
  }
  if (spec_.streams) streams(out);
  if (spec_.layer_scalars) visitor_.scalar(replicated(layer::kScalar, 1), out.scalar);
}

void ModelDescription::shared_block(int32_t index, DecoderLayer& out) {
  const SharedBlockUseSpec& own = *spec_.layers[static_cast<size_t>(index)].shared_block;
  SharedBlockLayer& layer = out.shared_block.emplace();
  if (own.owner == index) {
    SharedBlock& block = *model_.blocks.emplace_back(std::make_unique<SharedBlock>());
    quire::visit({spec_.norm, own.attention, own.mlp, layer::kMlpNorm}, spec_.hidden_size, index, visitor_,
                 block);
    layer.block = &block;
  } else {
    layer.block = model_.layers[static_cast<size_t>(own.owner)].shared_block->block;
  }
  quire::visit(own.adapters, own.attention, own.mlp, {own.owner, own.use}, spec_.hidden_size, visitor_,
               layer.use);
}

void ModelDescription::mixer(int32_t index, DecoderLayer& out) {
  const LayerSpec& own = spec_.layers[static_cast<size_t>(index)];
  // Scales cannot be moved into a norm whose output the feed-forward layer or the residual also reads.
  const bool movable = !spec_.parallel_residual && !spec_.postnorm && !own.shared_block &&
                       !std::holds_alternative<MlaSpec>(own.mixer) &&
                       !std::holds_alternative<CompressedAttentionSpec>(own.mixer);
  const InputSpec x{.size = spec_.hidden_size,
                    .norm = movable ? layer::kInputNorm : ParamId{},
                    .layer = index,
                    .num_layers = spec_.num_layers()};
  std::visit(
      [&](const auto& spec) {
        using Spec = std::remove_cvref_t<decltype(spec)>;
        auto& weights = out.mixer.emplace<typename WeightsOf<Spec>::Type>();
        if constexpr (std::is_same_v<Spec, AttentionSpec>) {
          attention(spec, x, weights);
          if (spec.indexer) indexer(*spec.indexer, spec.index_rope, x, x, out.indexer.emplace());
        } else if constexpr (std::is_same_v<Spec, ParallelMixerSpec>) {
          attention(spec.attention, x, weights.attention);
          quire::visit(spec.mamba, x, visitor_, weights.mamba);
          weights.attention_multiplier = spec.attention_multiplier;
          weights.mamba_multiplier = spec.mamba_multiplier;
        } else if constexpr (!std::is_same_v<Spec, std::monostate>) {
          quire::visit(spec, x, visitor_, weights);
        }
        if constexpr (std::is_same_v<Spec, CompressedAttentionSpec>)
          weights.inverse_rope = rope(spec.inverse_rope);
        if constexpr (std::is_same_v<Spec, MlaSpec>) {
          weights.attn_scale = rope(spec.query_scale_rope);
          const InputSpec queries = spec.sizes.q_lora_rank > 0 ? InputSpec{spec.sizes.q_lora_rank} : x;
          if (spec.has_indexer) indexer(spec.index, spec.index_rope, x, queries, weights.indexer.emplace());
        }
      },
      own.mixer);
}

void ModelDescription::indexer(const IndexerSizes& sizes, int32_t rope_index, const InputSpec& x,
                               const InputSpec& queries, Indexer& out) {
  quire::visit(sizes, spec_.norm, x, queries, visitor_, out);
  out.rope = rope(rope_index);
}

void ModelDescription::attention(const AttentionSpec& spec, const InputSpec& x, Attention& out) {
  quire::visit(spec, x, visitor_, out);
  if (!model_.alibi_slopes.empty()) out.params.alibi_slopes = model_.alibi_slopes.data();
  if (spec_.relative) relative_attention(spec, out);
}

// Scores of encoders that depend on the distance between tokens, as a bias per head (T5, MPNet) or as vectors
// that go through the layer's projections of keys and queries (DeBERTa).
void ModelDescription::relative_attention(const AttentionSpec& spec, Attention& attention) {
  const RelativeSpec& own = *spec_.relative;
  RelativeParams& params = attention.relative.emplace();
  params.scale = spec.params.scale;
  params.buckets = own.buckets;
  params.num_buckets = own.num_buckets;
  if (!own.vectors) {
    params.bias = model_.relative_bias.as<float>();
    return;
  }
  const int64_t hidden = spec_.hidden_size;
  const int64_t count = own.num_buckets * hidden;
  const auto projection = [&](ParamId id) {
    return with_bias(replicated(id, hidden, hidden), spec.qkv_bias);
  };
  const ParamSpec k = projection(attention::kKProj);
  const ParamSpec q = projection(attention::kQProj);
  ParamSpec rows = replicated(model::kRelativeEmbeddings, own.num_buckets, hidden);
  ParamSpec scale = with_bias(replicated(model::kRelativeNorm, hidden), spec_.norm.bias);
  rows.quantizable = scale.quantizable = false;
  DerivedTable table{.name = "relative", .sources = {k, q, rows}, .count = 2 * count};
  if (own.norm) table.sources.push_back(scale);
  table.compute = [=, with_norm = own.norm, buckets = own.num_buckets, norm_spec = spec_.norm](
                      ParamReader& reader, std::span<float> out) {
    std::vector<float> vectors = reader.read(rows);
    const TensorView x = make_view(vectors.data(), DType::kF32, Shape{buckets, hidden});
    if (with_norm) {
      const std::vector<float> weight = reader.read(scale);
      const std::vector<float> bias = reader.read_bias(scale);
      Norm norm = make_norm(norm_spec, hidden);
      norm.weight = buffer_of(weight);
      norm.bias = buffer_of(bias);
      apply(OpRunner{reader.ops(), reader.context()}, norm, x, x);
    }
    float* result = out.data();
    for (const ParamSpec& param : {k, q}) {
      std::vector<float> weights = reader.read(param);
      const std::array<TensorView, 1> parts = {make_view(weights.data(), DType::kF32, Shape{hidden, hidden})};
      PackedLinear packed = reader.ops().pack_linear(reader.context(), parts, {DType::kF32});
      if (const std::vector<float> bias = reader.read_bias(param); !bias.empty()) {
        packed.bias = buffer_of(bias);
      }
      reader.ops().run(
          reader.context(),
          ops::Linear{.out = make_view(result, DType::kF32, Shape{buckets, hidden}), .x = x, .w = packed});
      result += count;
    }
  };
  visitor_.derived(table, attention.relative_data);
  const auto* data = attention.relative_data.as<float>();
  params.keys = data;
  params.queries = data + count;
}

void ModelDescription::feed_forward(int32_t index, DecoderLayer& out) {
  const LayerSpec& own = spec_.layers[static_cast<size_t>(index)];
  branch_norm(own.feed_forward_branch, layer::kMlpNorm, out.feed_forward_norm);
  // Scales cannot be moved into a norm whose output a router, a parallel mixer or the residual also reads.
  const bool movable = !spec_.parallel_residual && !spec_.postnorm && moe_of(own) == nullptr &&
                       !std::holds_alternative<CompressedAttentionSpec>(own.mixer);
  const InputSpec x{.size = spec_.hidden_size, .norm = movable ? layer::kMlpNorm : ParamId{}, .layer = index};
  const auto dense = [&](const MlpSpec& spec, Mlp& mlp) {
    MlpParams params;
    params.move_scales = moe_of(own) == nullptr;
    quire::visit(spec, params, x, visitor_, mlp);
    fuse_gate(mlp);
  };
  std::visit(
      [&](const auto& spec) {
        using Spec = std::remove_cvref_t<decltype(spec)>;
        auto& weights = out.feed_forward.emplace<typename WeightsOf<Spec>::Type>();
        if constexpr (std::is_same_v<Spec, MlpSpec>) {
          dense(spec, weights);
        } else if constexpr (std::is_same_v<Spec, MoeSpec>) {
          quire::visit(spec, x, visitor_, weights);
        } else if constexpr (!std::is_same_v<Spec, std::monostate>) {
          quire::visit(spec.moe, x, visitor_, weights.moe);
          if constexpr (std::is_same_v<Spec, ParallelMoeSpec>) parallel_moe_norms(weights);
          dense(spec.mlp, weights.mlp);
        }
      },
      own.feed_forward);
  out.feed_forward_join = join(own.feed_forward_branch, layer::kPostMlpNorm);
}

void ModelDescription::parallel_moe_norms(ParallelMoe& out) {
  // The router's input is divided by the square root of the hidden size.
  out.router_norm = make_norm(spec_.norm, spec_.hidden_size);
  const auto factor = static_cast<float>(1.0 / std::sqrt(static_cast<double>(spec_.hidden_size)));
  visit_vector(visitor_, replicated(moe::kRouterNorm, spec_.hidden_size), out.router_norm.weight,
               [factor, count = spec_.hidden_size](Buffer stored) {
                 for (int64_t i = 0; i < count; ++i) stored.as<float>()[i] *= factor;
                 return stored;
               });
  for (const auto& [id, norm] : {std::pair(moe::kExpertsNorm, &out.experts_norm),
                                 std::pair(moe::kExpertsOutputNorm, &out.experts_output_norm),
                                 std::pair(moe::kMlpOutputNorm, &out.mlp_output_norm)})
    visit_norm(visitor_, id, spec_.norm, spec_.hidden_size, *norm);
}

void ModelDescription::streams(DecoderLayer& out) {
  const int64_t scores = spec_.streams->sizes.scores();
  constexpr int64_t kScales = 3;
  quire::visit(*spec_.streams,
               {hyper_connection::kAttentionFn, hyper_connection::kAttentionBase,
                hyper_connection::kAttentionScale, scores, kScales},
               spec_.norm.eps, visitor_, out.mixer_streams.emplace());
  quire::visit(
      *spec_.streams,
      {hyper_connection::kMlpFn, hyper_connection::kMlpBase, hyper_connection::kMlpScale, scores, kScales},
      spec_.norm.eps, visitor_, out.feed_forward_streams.emplace());
}

}  // namespace quire
