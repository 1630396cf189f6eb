#include "models/decoder/feed_forward.h"

#include <algorithm>
#include <type_traits>

#include "nn/scratch.h"

namespace quire {
namespace {

// Scratch of an MLP, or of the widest one of several.
struct MlpScratch {
  TensorView up;   // [rows, up_size]
  TensorView act;  // [rows, intermediate]; empty if no MLP is gated
};

struct MlpWidth {
  int64_t up = 0;
  int64_t act = 0;

  void include(const Mlp& mlp) {
    up = std::max(up, mlp.up_size());
    if (mlp.gated) act = std::max(act, mlp.intermediate);
  }
  void include(const Moe& moe) {
    if (!moe.experts.empty()) include(moe.experts.front());
    if (moe.shared) include(*moe.shared);
  }
};

struct FeedForwardScratch {
  MlpScratch mlp;
  MoeScratch moe;
  TensorView router_x;   // [rows, hidden_size]; for a ParallelMoe
  TensorView experts_x;  // [rows, hidden_size]; for a ParallelMoe
};

template <class Weights>
FeedForwardScratch lay_out(const Weights& weights, int64_t hidden_size, ScratchLayout& layout) {
  FeedForwardScratch out;
  MlpWidth width;
  const Moe* moe = nullptr;
  if constexpr (std::is_same_v<Weights, Mlp>) {
    width.include(weights);
  } else if constexpr (std::is_same_v<Weights, Moe>) {
    moe = &weights;
  } else {
    width.include(weights.mlp);
    moe = &weights.moe;
  }
  if (moe != nullptr) width.include(*moe);
  out.mlp = {layout.matrix(width.up), layout.matrix(width.act)};
  if (moe != nullptr) out.moe = make_scratch(*moe, hidden_size, layout);
  if constexpr (std::is_same_v<Weights, ParallelMoe>) {
    out.router_x = layout.matrix(hidden_size);
    out.experts_x = layout.matrix(hidden_size);
  }
  return out;
}

void run_mlp(const OpRunner& run, const Mlp& mlp, const TensorView& out, const TensorView& x,
             const TensorView& residual, const MlpScratch& at) {
  apply(run, mlp, out, x, residual, part(at.up, x.rows(), mlp.up_size()),
        mlp.gated ? part(at.act, x.rows(), mlp.intermediate) : TensorView{});
}

void run_one(const OpRunner& run, const Mlp& mlp, const FeedForwardArgs& args, const FeedForwardScratch& at) {
  run_mlp(run, mlp, args.out, args.x, args.residual, at.mlp);
}

void run_one(const OpRunner& run, const Moe& moe, const FeedForwardArgs& args, const FeedForwardScratch& at) {
  apply(run, moe, args.out, args.x, args.residual, at.moe, at.mlp.up, at.mlp.act, args.tokens);
}

void run_one(const OpRunner& run, const ShortcutMoe& both, const FeedForwardArgs& args,
             const FeedForwardScratch& at) {
  apply(run, both.moe, args.shortcut, args.x, {}, at.moe, at.mlp.up, at.mlp.act, args.tokens);
  run_mlp(run, both.mlp, args.out, args.x, args.residual, at.mlp);
}

void run_one(const OpRunner& run, const ParallelMoe& both, const FeedForwardArgs& args,
             const FeedForwardScratch& at) {
  apply(run, both.router_norm, at.router_x, args.hidden);
  apply(run, both.experts_norm, at.experts_x, args.hidden);
  run_mlp(run, both.mlp, args.out, args.x, {}, at.mlp);
  apply(run, both.mlp_output_norm, args.out, args.out);
  apply(run, both.moe, at.experts_x, at.experts_x, {}, at.moe, at.mlp.up, at.mlp.act, args.tokens,
        at.router_x);
  apply(run, both.experts_output_norm, at.experts_x, at.experts_x);
  run(ops::Add{.x = args.out, .y = at.experts_x});
}

}  // namespace

void run_feed_forward(const OpRunner& run, const DecoderLayer& layer, const FeedForwardArgs& args) {
  std::visit(
      [&](const auto& weights) {
        using Weights = std::remove_cvref_t<decltype(weights)>;
        if constexpr (!std::is_same_v<Weights, std::monostate>) {
          ScratchLayout layout(args.x.rows(), args.work);
          run_one(run, weights, args, lay_out(weights, args.x.row_size(), layout));
        }
      },
      layer.feed_forward);
}

int64_t feed_forward_scratch_size(const DecoderLayer& layer, int64_t hidden_size, int64_t rows) {
  ScratchLayout layout(rows, nullptr);
  std::visit(
      [&](const auto& weights) {
        using Weights = std::remove_cvref_t<decltype(weights)>;
        if constexpr (!std::is_same_v<Weights, std::monostate>) lay_out(weights, hidden_size, layout);
      },
      layer.feed_forward);
  return layout.size();
}

}  // namespace quire
