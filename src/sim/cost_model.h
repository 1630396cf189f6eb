// The duration of a step: a linear model fitted to measured steps, or a roofline. Plain data.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "contract/step_plan.h"

namespace quire::sim {

// The work of a step.
struct StepLoad {
  int64_t tokens = 0;     // computed tokens
  int64_t sequences = 0;  // sequences with computed tokens
  int64_t context = 0;    // tokens whose keys and values are read: each sequence's length after the step
  int64_t pairs = 0;      // pairs of a query token and a token it attends to
  int64_t pauses = 0;     // 1 = the first step after an idle period: caches are cold and threads are parked

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

// A piecewise linear model with non-negative coefficients in seconds. Beyond the knots, further sequences and
// context cost more, because they no longer fit in the caches.
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

// A term of the model: its name in files and errors, the amount it multiplies, and its knot.
struct CostTerm {
  const char* key;
  const char* label;
  double LinearCost::*coefficient;
  int64_t StepLoad::*amount;  // null = constant term
  int64_t beyond;
};
// The first kNumNeededTerms are required in files.
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
  double flops = 0.0;            // operations per second
  double bandwidth = 0.0;        // bytes per second
  double overhead = 0.0;         // seconds per step
  double flops_per_token = 0.0;  // 2 * active parameters
  double flops_per_pair = 0.0;   // 4 * layers * heads * head_dim: q.k and p.v
  double weight_bytes = 0.0;     // read in every step
  double kv_bytes_per_token = 0.0;
  double state_bytes = 0.0;  // recurrent state read and written per sequence and step
};

// A measured step, or the mean of `count` similar ones.
struct MeasuredStep {
  StepLoad load;
  double seconds = 0.0;
  int64_t count = 1;
};

// Merges steps whose loads differ by less than about 20 % into their mean. Sorted by tokens, then by context.
std::vector<MeasuredStep> merge_alike(std::span<const MeasuredStep> steps);

// Error of a fit on its own data.
struct FitError {
  double mean = 0.0;  // mean of |fitted - measured| / measured
  double worst = 0.0;
};

class CostModel {
 public:
  // Throws Error for negative or infinite coefficients.
  explicit CostModel(const LinearCost& cost);
  // Throws Error for rates that are not positive.
  explicit CostModel(const RooflineCost& cost);

  double seconds(const StepLoad& load) const;
  const std::optional<LinearCost>& linear() const { return linear_; }
  const std::optional<RooflineCost>& roofline() const { return roofline_; }

 private:
  std::optional<LinearCost> linear_;
  std::optional<RooflineCost> roofline_;
};

// Fits non-negative coefficients by least squares, with errors relative to the fitted time. Errors relative
// to the measured time would bias the total of many steps downwards. A merged step is weighted by the square
// root of its count. Throws Error for fewer than five steps or a step with no duration.
LinearCost fit_linear(std::span<const MeasuredStep> steps);
FitError fit_error(const CostModel& model, std::span<const MeasuredStep> steps);

// Minimizes |A x - b| over x >= 0 with the active set method of Lawson and Hanson. rows: A, row-major
// [num_rows, num_columns].
std::vector<double> non_negative_least_squares(std::span<const double> rows, size_t num_columns,
                                               std::span<const double> targets);

// Reads the file of `quire bench steps --json`: {"cost_model": {"base_s", ...}, "steps": [...]}. Without
// "cost_model", fits one to "steps". Throws Error with file and field.
CostModel read_cost_model(const std::string& path);

}  // namespace quire::sim
