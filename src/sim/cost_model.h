// How long a step takes: either a sum fitted to measured steps, or a roofline. Plain data; any thread.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "contract/step_plan.h"

namespace quire::sim {

// What a step computes.
struct StepLoad {
  int64_t tokens = 0;     // computed
  int64_t sequences = 0;  // that have some of them
  int64_t context = 0;    // tokens whose keys and values are read: what each sequence has after the step
  int64_t pairs = 0;      // of a token and one it attends to
  int64_t pauses = 0;     // 1: the step ends a pause, what it needs has left the caches and threads sleep

  // Adds a sequence that computes tokens [num_computed, num_computed + num_new).
  void add(int64_t num_computed, int64_t num_new) {
    tokens += num_new;
    ++sequences;
    context += num_computed + num_new;
    pairs += num_new * num_computed + num_new * (num_new + 1) / 2;
  }
  void add(const StepPlan& plan) {
    for (const ScheduledSequence& seq : plan.scheduled) add(seq.num_computed_tokens, seq.num_new_tokens);
  }
};

// A sum of amounts of the load times these seconds, none of them negative. Many sequences and much context
// cost more each, because they leave the caches: what lies beyond a knot counts once more.
struct LinearCost {
  double base = 0.0;
  double per_token = 0.0;
  double per_sequence = 0.0;
  double per_context = 0.0;
  double per_pair = 0.0;
  double per_sequence_beyond_8 = 0.0;
  double per_sequence_beyond_64 = 0.0;
  double per_context_beyond_1024 = 0.0;
  double per_context_beyond_4096 = 0.0;
  double per_pause = 0.0;
};

// A term of the sum: how files and errors call it, what it counts, from where on.
struct CostTerm {
  const char* key;
  const char* label;
  double LinearCost::*coefficient;
  int64_t StepLoad::*amount;  // null: 1
  int64_t beyond;
};
// Files need the first five.
inline constexpr std::array<CostTerm, 10> kCostTerms = {{
    {"base_s", "A step", &LinearCost::base, nullptr, 0},
    {"per_token_s", "A token", &LinearCost::per_token, &StepLoad::tokens, 0},
    {"per_sequence_s", "A sequence", &LinearCost::per_sequence, &StepLoad::sequences, 0},
    {"per_context_token_s", "A token of context", &LinearCost::per_context, &StepLoad::context, 0},
    {"per_pair_s", "A pair of tokens", &LinearCost::per_pair, &StepLoad::pairs, 0},
    {"per_sequence_beyond_8_s", "A sequence beyond 8, more", &LinearCost::per_sequence_beyond_8,
     &StepLoad::sequences, 8},
    {"per_sequence_beyond_64_s", "A sequence beyond 64, more", &LinearCost::per_sequence_beyond_64,
     &StepLoad::sequences, 64},
    {"per_context_token_beyond_1024_s", "A token of context beyond 1024, more",
     &LinearCost::per_context_beyond_1024, &StepLoad::context, 1024},
    {"per_context_token_beyond_4096_s", "A token of context beyond 4096, more",
     &LinearCost::per_context_beyond_4096, &StepLoad::context, 4096},
    {"per_pause_s", "A step after a pause, more", &LinearCost::per_pause, &StepLoad::pauses, 0},
}};
inline constexpr size_t kNumNeededTerms = 5;

// seconds = overhead + max(operations / flops, bytes / bandwidth).
struct RooflineCost {
  double flops = 0.0;            // a second
  double bandwidth = 0.0;        // bytes a second
  double overhead = 0.0;         // seconds a step
  double flops_per_token = 0.0;  // twice the parameters that a token meets
  double flops_per_pair = 0.0;   // 4 * layers * heads * head_dim: q.k and p.v
  double weight_bytes = 0.0;     // read in every step
  double kv_bytes_per_token = 0.0;
  double state_bytes = 0.0;  // read and written for each sequence of a step
};

// A step that was measured, or the mean of `count` that were much alike.
struct MeasuredStep {
  StepLoad load;
  double seconds = 0.0;
  int64_t count = 1;
};

// Steps whose amounts differ by less than about a fifth become one, with the means of all. Ordered by tokens,
// then by context.
std::vector<MeasuredStep> merge_alike(std::span<const MeasuredStep> steps);

// How well a fit meets what it was fitted to.
struct FitError {
  double mean = 0.0;  // of |fitted - measured| / measured
  double worst = 0.0;
};

class CostModel {
 public:
  // Throws Error for negative or infinite coefficients.
  explicit CostModel(const LinearCost& cost);
  // Throws Error for rates that are not above 0.
  explicit CostModel(const RooflineCost& cost);

  double seconds(const StepLoad& load) const;
  const std::optional<LinearCost>& linear() const { return linear_; }
  const std::optional<RooflineCost>& roofline() const { return roofline_; }

 private:
  std::optional<LinearCost> linear_;
  std::optional<RooflineCost> roofline_;
};

// The non-negative sum with the least squared error relative to the fitted time: relative to the measured
// one, long steps would count less than short ones and sums of many steps come out too short. A step counts
// as the square root of its count. Throws Error for fewer than five steps and for steps that took no time.
LinearCost fit_linear(std::span<const MeasuredStep> steps);
FitError fit_error(const CostModel& model, std::span<const MeasuredStep> steps);

// Minimises |A x - b| over x >= 0 (Lawson and Hanson's active set method). rows: [num_rows, num_columns] of
// A, row after row.
std::vector<double> non_negative_least_squares(std::span<const double> rows, size_t num_columns,
                                               std::span<const double> targets);

// The JSON of `quire bench steps --json`: {"cost_model": {"base_s", ...}, "steps": [...]}, of which the
// simulator reads "cost_model", or fits one to "steps". Throws Error that names file and field.
CostModel read_cost_model(const std::string& path);

}  // namespace quire::sim
