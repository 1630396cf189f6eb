#include "models/decoder/feed_forward.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace quire {
namespace {

// The largest size of the layer's MLPs.
template <class Size>
int64_t widest(const FeedForward& layer, Size size) {
  int64_t widest = layer.mlp ? size(layer.mlp->spec) : 0;
  if (!layer.moe) return widest;
  if (!layer.moe->experts.empty()) widest = std::max(widest, size(layer.moe->experts.front().spec));
  return layer.moe->shared ? std::max(widest, size(layer.moe->shared->spec)) : widest;
}

struct FeedForwardScratch {
  const FeedForward& layer;
  int64_t hidden_size;
  ScratchLayout layout;
  TensorView up = layout.matrix(widest(layer, [](const MlpSpec& mlp) { return mlp.up_size(); }));
  // Empty if no MLP is gated.
  TensorView act =
      layout.matrix(widest(layer, [](const MlpSpec& mlp) { return mlp.gated ? mlp.intermediate_size : 0; }));
  TensorView router_x = layout.matrix(layer.norms ? hidden_size : 0);
  TensorView experts_x = layout.matrix(layer.norms ? hidden_size : 0);
};

void apply_mlp(const OpRunner& run, const FeedForwardScratch& at, const FeedForwardArgs& args,
               const TensorView& residual) {
  const Mlp& mlp = *at.layer.mlp;
  apply(run, mlp, args.out, args.x, residual, part(at.up, args.x.rows(), mlp.spec.up_size()),
        mlp.spec.gated ? part(at.act, args.x.rows(), mlp.spec.intermediate_size) : TensorView{});
}

}  // namespace

void apply(const OpRunner& run, const FeedForward& layer, const FeedForwardArgs& args) {
  FeedForwardScratch at{layer, args.x.row_size(), ScratchLayout(args.x.rows(), args.work)};
  if (!layer.moe) return apply_mlp(run, at, args, args.residual);
  const MoeScratch moe{layer.moe->spec, args.x.row_size(), at.layout};
  if (!layer.mlp)
    return apply(run, *layer.moe, args.out, args.x, args.residual, moe, at.up, at.act, args.tokens);
  if (!layer.norms) {
    apply(run, *layer.moe, args.shortcut, args.x, {}, moe, at.up, at.act, args.tokens);
    return apply_mlp(run, at, args, args.residual);
  }
  const FeedForward::ParallelNorms& norms = *layer.norms;
  apply(run, norms.router, at.router_x, args.hidden);
  apply(run, norms.experts, at.experts_x, args.hidden);
  apply_mlp(run, at, args, {});
  apply(run, norms.mlp_output, args.out, args.out);
  apply(run, *layer.moe, at.experts_x, at.experts_x, {}, moe, at.up, at.act, args.tokens, at.router_x);
  apply(run, norms.experts_output, at.experts_x, at.experts_x);
  run(ops::Add{.x = args.out, .y = at.experts_x});
}

int64_t feed_forward_scratch_size(const FeedForward& layer, int64_t hidden_size, int64_t rows) {
  FeedForwardScratch at{layer, hidden_size, ScratchLayout(rows, nullptr)};
  if (layer.moe) MoeScratch{layer.moe->spec, hidden_size, at.layout};
  return at.layout.size();
}

void visit(const FeedForwardSpec& spec, const NormSpec& norm, const InputSpec& x, ParamVisitor& visitor,
           FeedForward& layer) {
  if (spec.moe) visit(*spec.moe, x, visitor, layer.moe.emplace());
  if (spec.mlp && spec.moe && !spec.shortcut()) {
    FeedForward::ParallelNorms& norms = layer.norms.emplace();
    // The router's input is divided by the square root of the hidden size.
    norms.router = make_norm(norm, x.size);
    const auto factor = static_cast<float>(1.0 / std::sqrt(static_cast<double>(x.size)));
    visit_vector(visitor, replicated(moe::kRouterNorm, x.size), norms.router.weight,
                 each([factor](float weight) { return weight * factor; }));
    visit_norm(visitor, moe::kExpertsNorm, norm, x.size, norms.experts);
    visit_norm(visitor, moe::kExpertsOutputNorm, norm, x.size, norms.experts_output);
    visit_norm(visitor, moe::kMlpOutputNorm, norm, x.size, norms.mlp_output);
  }
  if (spec.mlp) visit(*spec.mlp, MlpParams{.move_scales = !spec.moe}, x, visitor, layer.mlp.emplace());
}

}  // namespace quire
