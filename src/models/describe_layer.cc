// The part of ModelTraversal that describes layers.
#include <memory>
#include <type_traits>

#include "models/model_param_ids.h"
#include "models/model_traversal.h"

namespace quire {

ResidualAdd ModelTraversal::join(const BranchSpec& spec, ParamId norm_id) {
  ResidualAdd out{
      .multiplier = spec.multiplier, .residual = spec.residual_multiplier, .norm_sum = spec.norm_sum};
  if (spec.post_norm) visit_norm(visitor_, norm_id, *spec.post_norm, spec_.hidden_size, out.norm.emplace());
  return out;
}

void ModelTraversal::layers() {
  model_.layers.resize(static_cast<size_t>(spec_.num_layers()));
  visitor_.for_each(Axis::kLayers, spec_.num_layers(), [&](int64_t i) {
    const auto index = static_cast<int32_t>(i);
    if (is_wanted(index)) layer(index, model_.layers[static_cast<size_t>(i)]);
  });
}

void ModelTraversal::layer(int32_t index, DecoderLayer& out) {
  const LayerSpec& own = spec_.layers[static_cast<size_t>(index)];
  // Scales cannot be moved into a norm whose output a router, a parallel branch or the residual also reads.
  const bool compressed = std::holds_alternative<CompressedAttentionSpec>(own.mixer);
  const bool movable = !spec_.parallel_residual && !spec_.postnorm && !compressed;
  const bool into_mixer = movable && !own.shared_block && !std::holds_alternative<MlaSpec>(own.mixer);
  const bool into_mlp = movable && !own.feed_forward.moe;
  InputSpec x{.size = spec_.hidden_size, .layer = index, .num_layers = spec_.num_layers()};

  if (own.mixer_branch.pre_norm) norm(layer::kInputNorm, spec_.hidden_size, out.mixer_norm.emplace());
  if (own.shared_block) shared_block(index, out);
  std::visit(
      [&](const auto& spec) {
        using Spec = std::remove_cvref_t<decltype(spec)>;
        if constexpr (!std::is_same_v<Spec, std::monostate>) out.mixer = make_mixer(spec);
      },
      own.mixer);
  x.norm = into_mixer ? layer::kInputNorm : ParamId{};
  if (out.mixer) out.mixer->visit(x, visitor_);
  out.mixer_join = join(own.mixer_branch, layer::kPostAttentionNorm);
  if (own.feed_forward_branch.pre_norm)
    norm(layer::kMlpNorm, spec_.hidden_size, out.feed_forward_norm.emplace());
  x.norm = into_mlp ? layer::kMlpNorm : ParamId{};
  out.feed_forward = make_feed_forward(own.feed_forward);
  if (out.feed_forward) out.feed_forward->visit(spec_.norm, x, visitor_);
  out.feed_forward_join = join(own.feed_forward_branch, layer::kPostMlpNorm);
  if (spec_.per_layer_input)
    quire::visit(*spec_.per_layer_input, spec_.hidden_size, spec_.norm, visitor_, out.input.emplace());
  if (spec_.alt_up) {
    quire::visit(*spec_.alt_up, spec_.norm, visitor_, out.alt_up.emplace());
    quire::visit(*spec_.alt_up, spec_.norm, visitor_, out.laurel.emplace());
  }
  if (spec_.streams) {
    quire::visit(*spec_.streams, hyper_connection::kAttention, spec_.norm.eps, visitor_,
                 out.mixer_streams.emplace());
    quire::visit(*spec_.streams, hyper_connection::kMlp, spec_.norm.eps, visitor_,
                 out.feed_forward_streams.emplace());
  }
  if (spec_.layer_scalars) visitor_.scalar(replicated(layer::kScalar, 1), out.scalar);
}

void ModelTraversal::shared_block(int32_t index, DecoderLayer& out) {
  const SharedBlockUseSpec& own = *spec_.layers[static_cast<size_t>(index)].shared_block;
  SharedBlockLayer& layer = out.shared_block.emplace();
  if (own.owner == index) {
    const auto block = make_shared_block(own.attention);
    quire::visit(own, spec_.norm, layer::kMlpNorm, spec_.hidden_size, index, visitor_, *block);
    layer.block = block;
  } else {
    layer.block = model_.layers[static_cast<size_t>(own.owner)].shared_block->block;
  }
  quire::visit(own, spec_.hidden_size, visitor_, layer.use);
}

}  // namespace quire
