#include "models/decoder/feed_forward.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "nn/mlp.h"
#include "nn/moe.h"

namespace quire {
namespace {

// Norms of an MLP and experts in parallel, all over [hidden_size].
struct ParallelNorms {
  Norm router;          // input of the router
  Norm experts;         // input of the experts
  Norm experts_output;  // output of the experts
  Norm mlp_output;      // output of the MLP
};

struct MlpAndMoe final : FeedForward {
  FeedForwardSpec spec;
  std::optional<Mlp> mlp;
  std::optional<Moe> moe;
  std::optional<ParallelNorms> norms;

  explicit MlpAndMoe(const FeedForwardSpec& settings) : spec(settings) {}
  void visit(const NormSpec& norm, const InputSpec& x, ParamVisitor& visitor) override;
  void forward(const OpRunner& run, const FeedForwardArgs& args) const override;
  void count_scratch(int64_t hidden_size, ScratchLayout& layout) const override;
};

// The largest size of the layer's MLPs other than routed experts.
template <class Size>
int64_t widest(const MlpAndMoe& layer, Size size) {
  int64_t widest = layer.mlp ? size(layer.mlp->spec) : 0;
  if (!layer.moe) return widest;
  return layer.moe->shared ? std::max(widest, size(layer.moe->shared->spec)) : widest;
}

struct FeedForwardScratch {
  const MlpAndMoe& layer;
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

void MlpAndMoe::forward(const OpRunner& run, const FeedForwardArgs& args) const {
  FeedForwardScratch at{*this, args.x.row_size(), ScratchLayout(args.x.rows(), args.work)};
  if (!moe) return apply_mlp(run, at, args, args.residual);
  const MoeScratch moe_scratch{*moe, args.x.row_size(), at.layout};
  if (!mlp) return apply(run, *moe, args.out, args.x, args.residual, moe_scratch, at.up, at.act, args.tokens);
  if (!norms) {
    apply(run, *moe, args.shortcut, args.x, {}, moe_scratch, at.up, at.act, args.tokens);
    return apply_mlp(run, at, args, args.residual);
  }
  apply(run, norms->router, at.router_x, args.hidden);
  apply(run, norms->experts, at.experts_x, args.hidden);
  apply_mlp(run, at, args, {});
  apply(run, norms->mlp_output, args.out, args.out);
  apply(run, *moe, at.experts_x, at.experts_x, {}, moe_scratch, at.up, at.act, args.tokens, at.router_x);
  apply(run, norms->experts_output, at.experts_x, at.experts_x);
  run(ops::Add{.x = args.out, .y = at.experts_x});
}

void MlpAndMoe::count_scratch(int64_t hidden_size, ScratchLayout& layout) const {
  FeedForwardScratch at{*this, hidden_size, layout};
  if (moe) MoeScratch{*moe, hidden_size, at.layout};
  layout = at.layout;
}

void MlpAndMoe::visit(const NormSpec& norm, const InputSpec& x, ParamVisitor& visitor) {
  if (spec.moe) quire::visit(*spec.moe, x, visitor, moe.emplace());
  if (spec.mlp && spec.moe && !spec.shortcut()) {
    ParallelNorms& parallel = norms.emplace();
    // The router's input is divided by the square root of the hidden size.
    parallel.router = make_norm(norm, x.size);
    const auto factor = static_cast<float>(1.0 / std::sqrt(static_cast<double>(x.size)));
    visit_vector(visitor, replicated(moe::kRouterNorm, x.size), parallel.router.weight,
                 each([factor](float weight) { return weight * factor; }));
    visit_norm(visitor, moe::kExpertsNorm, norm, x.size, parallel.experts);
    visit_norm(visitor, moe::kExpertsOutputNorm, norm, x.size, parallel.experts_output);
    visit_norm(visitor, moe::kMlpOutputNorm, norm, x.size, parallel.mlp_output);
  }
  if (spec.mlp) quire::visit(*spec.mlp, MlpParams{.move_scales = !spec.moe}, x, visitor, mlp.emplace());
}

}  // namespace

std::unique_ptr<FeedForward> make_feed_forward(const FeedForwardSpec& spec) {
  return spec.empty() ? nullptr : std::make_unique<MlpAndMoe>(spec);
}

}  // namespace quire
