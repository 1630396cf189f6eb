#include "nn/moe.h"

#include <algorithm>
#include <numeric>

#include "nn/scratch.h"

namespace quire {
namespace {

// An expert's MLP, in as much of the scratch as its rows need.
void apply_expert(const OpTable& ops, const OpContext& ctx, const Mlp& mlp, const TensorView& out,
                  const TensorView& x, const TensorView& up, const TensorView& act) {
  apply(ops, ctx, mlp, out, x, {}, part(up, x.rows(), mlp.up_size()),
        act.data == nullptr ? act : part(act, x.rows(), mlp.intermediate));
}

// Sorts the pairs of rows and experts by expert, rows ascending: begins, rows and places.
void sort_by_expert(const Moe& moe, const MoeScratch& at, int64_t rows) {
  const int64_t chosen = moe.params.num_chosen;
  const int64_t ranks = moe.ranks();
  std::fill(at.begins.begin(), at.begins.end(), 0);
  const auto ids = at.ids.first(static_cast<size_t>(rows * chosen));
  if (moe.expert_scale.size() > 0) {
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t j = 0; j < chosen; ++j)
        at.weights.row<float>(r)[j] *= moe.expert_scale.as<float>()[ids[static_cast<size_t>(r * chosen + j)]];
    }
  }
  for (const int32_t e : ids) ++at.begins[static_cast<size_t>(e) + 1];
  std::partial_sum(at.begins.begin(), at.begins.end(), at.begins.begin());
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t j = 0; j < chosen; ++j) {
      int32_t& next = at.begins[static_cast<size_t>(ids[static_cast<size_t>(r * chosen + j)])];
      const int32_t place = next++;
      at.rows[static_cast<size_t>(place)] = static_cast<int32_t>(r);
      at.places[static_cast<size_t>(r * ranks + j)] = place;
      if (moe.weigh_input) {
        *at.input_weights.row<float>(place) = at.weights.row<float>(r)[j];
        at.weights.row<float>(r)[j] = 1.0F;
      }
    }
    if (moe.shared)
      at.places[static_cast<size_t>(r * ranks + chosen)] = static_cast<int32_t>(rows * chosen + r);
  }
  // Each begin has moved to its expert's end, which is where the next one begins.
  std::copy_backward(at.begins.begin(), at.begins.end() - 1, at.begins.end());
  at.begins[0] = 0;
}

// What all rows do: y's last rows, and their weights.
void apply_shared(const OpTable& ops, const OpContext& ctx, const Moe& moe, const TensorView& x,
                  const MoeScratch& at, const TensorView& up, const TensorView& act) {
  const int64_t n = x.rows();
  const int64_t chosen = moe.params.num_chosen;
  apply_expert(ops, ctx, *moe.shared, row_slice(at.y, n * chosen, n * (chosen + 1)), x, up, act);
  const TensorView weight = column_slice(row_slice(at.weights, 0, n), chosen, chosen + 1);
  if (!moe.shared_gate) {
    for (int64_t r = 0; r < n; ++r) *weight.row<float>(r) = 1.0F;
    return;
  }
  // A sigmoid of one logit is a router's score of the only expert there is.
  const TensorView logits = row_slice(at.shared_logits, 0, n);
  apply(ops, ctx, *moe.shared_gate, logits, x);
  ops.route_experts(ctx, at.ids.first(static_cast<size_t>(n)), weight, logits,
                    {.scores = RouterScores::kSigmoid});
}

// Lays the scratch out from `memory` on; null: only counts. Returns its end.
int64_t place(const MoeSizes& sizes, int64_t rows, float* memory, MoeScratch* out) {
  constexpr int64_t kLine = 16;  // floats in a cache line
  int64_t end = 0;
  const auto take = [&](int64_t count) {
    float* at = memory == nullptr ? nullptr : memory + end;
    end += (count + kLine - 1) / kLine * kLine;
    return at;
  };
  const auto matrix = [&](int64_t n, int64_t columns) {
    float* at = take(n * columns);
    return at == nullptr ? TensorView{} : make_view(at, DType::kF32, Shape{n, columns});
  };
  const auto numbers = [&](int64_t count) {
    auto* at = reinterpret_cast<int32_t*>(take(count));
    return at == nullptr ? std::span<int32_t>() : std::span<int32_t>(at, static_cast<size_t>(count));
  };
  MoeScratch all;
  all.logits = matrix(rows, sizes.num_experts);
  all.weights = matrix(rows, sizes.ranks());
  if (sizes.shared) all.shared_logits = matrix(rows, 1);
  if (sizes.weigh_input) all.input_weights = matrix(rows * sizes.num_chosen, 1);
  all.x = matrix(rows, sizes.hidden);
  all.y = matrix(rows * sizes.ranks(), sizes.hidden);
  all.ids = numbers(rows * sizes.num_chosen);
  all.rows = numbers(rows * sizes.num_chosen);
  all.places = numbers(rows * sizes.ranks());
  all.begins = numbers(sizes.num_experts + 1);
  if (out != nullptr) *out = all;
  return end;
}

}  // namespace

int64_t moe_scratch_size(const MoeSizes& sizes, int64_t rows) {
  return place(sizes, rows, nullptr, nullptr);
}

MoeScratch make_moe_scratch(const MoeSizes& sizes, int64_t rows, float* memory) {
  MoeScratch out;
  place(sizes, rows, memory, &out);
  return out;
}

void apply(const OpTable& ops, const OpContext& ctx, const Moe& moe, const TensorView& out,
           const TensorView& x, const TensorView& residual, const MoeScratch& at, const TensorView& up,
           const TensorView& act, std::span<const int32_t> tokens, const TensorView& router_x) {
  const int64_t n = x.rows();
  const int64_t chosen = moe.params.num_chosen;
  const TensorView logits = row_slice(at.logits, 0, n);
  const TensorView weights = row_slice(at.weights, 0, n);
  apply(ops, ctx, moe.router, logits, router_x.data == nullptr ? x : router_x);
  if (moe.params.given) {
    for (int64_t r = 0; r < n; ++r) {
      const auto token = int64_t{tokens[static_cast<size_t>(r)]};
      std::copy_n(moe.by_token.as<int32_t>() + token * chosen, chosen, at.ids.begin() + r * chosen);
    }
  }
  ops.route_experts(ctx, at.ids.first(static_cast<size_t>(n * chosen)), column_slice(weights, 0, chosen),
                    logits, moe.params);
  sort_by_expert(moe, at, n);
  if (moe.shared) apply_shared(ops, ctx, moe, x, at, up, act);
  for (size_t e = 0; e < moe.experts.size(); ++e) {
    const int64_t begin = at.begins[e];
    const int64_t end = at.begins[e + 1];
    if (begin == end) continue;
    const auto rows = std::span<const int32_t>(at.rows).subspan(static_cast<size_t>(begin),
                                                                static_cast<size_t>(end - begin));
    TensorView in = row_slice(at.x, 0, end - begin);
    if (moe.weigh_input) {
      ops.combine_rows(ctx, in, x, rows, row_slice(at.input_weights, begin, end), {});
    } else if (rows.size() == 1) {
      in = row_slice(x, rows.front(), rows.front() + 1);
    } else {
      ops.gather_rows(ctx, in, x, rows);
    }
    apply_expert(ops, ctx, moe.experts[e], row_slice(at.y, begin, end), in, up, act);
  }
  const int64_t computed = at.begins[moe.experts.size()];
  if (const int64_t all = at.begins.back(); computed < all) {
    ops.gather_rows(ctx, row_slice(at.y, computed, all), x,
                    std::span<const int32_t>(at.rows).subspan(static_cast<size_t>(computed),
                                                              static_cast<size_t>(all - computed)));
  }
  ops.combine_rows(ctx, out, at.y, at.places.first(static_cast<size_t>(n * moe.ranks())), weights, residual);
}

}  // namespace quire
