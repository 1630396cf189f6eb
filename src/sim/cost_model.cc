#include "sim/cost_model.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/strings.h"

namespace quire::sim {

namespace {

using nlohmann::json;

// The amount that a term's coefficient is multiplied by.
double amount(const CostTerm& term, const StepLoad& load) {
  if (term.amount == nullptr) return 1.0;
  return static_cast<double>(std::max<int64_t>(0, load.*term.amount - term.beyond));
}

void require_positive(double value, const char* what) {
  if (!(value > 0.0) || !std::isfinite(value)) throw Error(cat(what, " is ", value, "; it must be positive"));
}

void require_not_negative(double value, const char* what) {
  if (!(value >= 0.0) || !std::isfinite(value))
    throw Error(cat(what, " is ", value, "; it must not be negative"));
}

// Solves M x = v for a symmetric positive definite M [n, n] by Gaussian elimination with pivoting. Returns
// false if M is singular.
bool solve(std::vector<double> m, std::vector<double> v, size_t n, std::vector<double>& x) {
  for (size_t k = 0; k < n; ++k) {
    size_t pivot = k;
    for (size_t i = k + 1; i < n; ++i) {
      if (std::abs(m[i * n + k]) > std::abs(m[pivot * n + k])) pivot = i;
    }
    if (std::abs(m[pivot * n + k]) < 1e-14) return false;
    for (size_t j = 0; j < n; ++j) std::swap(m[k * n + j], m[pivot * n + j]);
    std::swap(v[k], v[pivot]);
    for (size_t i = k + 1; i < n; ++i) {
      const double factor = m[i * n + k] / m[k * n + k];
      for (size_t j = k; j < n; ++j) m[i * n + j] -= factor * m[k * n + j];
      v[i] -= factor * v[k];
    }
  }
  x.assign(n, 0.0);
  for (size_t k = n; k-- > 0;) {
    double sum = v[k];
    for (size_t j = k + 1; j < n; ++j) sum -= m[k * n + j] * x[j];
    x[k] = sum / m[k * n + k];
  }
  return true;
}

// The normal equations of a least squares problem with columns scaled to unit norm.
struct Normal {
  size_t n = 0;
  std::vector<double> gram;    // [n, n] A^T A
  std::vector<double> moment;  // [n] A^T b
  std::vector<double> scale;   // [n] norms of the original columns

  Normal(std::span<const double> rows, size_t num_columns, std::span<const double> targets)
      : n(num_columns), gram(n * n, 0.0), moment(n, 0.0), scale(n, 0.0) {
    for (size_t r = 0; r < targets.size(); ++r) {
      for (size_t j = 0; j < n; ++j) scale[j] += rows[r * n + j] * rows[r * n + j];
    }
    for (double& length : scale) length = length > 0.0 ? std::sqrt(length) : 1.0;
    for (size_t r = 0; r < targets.size(); ++r) {
      for (size_t i = 0; i < n; ++i) {
        const double a = rows[r * n + i] / scale[i];
        moment[i] += a * targets[r];
        for (size_t j = 0; j < n; ++j) gram[i * n + j] += a * rows[r * n + j] / scale[j];
      }
    }
  }

  double gradient(const std::vector<double>& x, size_t i) const {
    double sum = moment[i];
    for (size_t j = 0; j < n; ++j) sum -= gram[i * n + j] * x[j];
    return sum;
  }

  // Solves for the columns of `active` only. Returns false if they are linearly dependent.
  bool solve_active(const std::vector<size_t>& active, std::vector<double>& x) const {
    const size_t k = active.size();
    std::vector<double> m(k * k);
    std::vector<double> v(k);
    for (size_t i = 0; i < k; ++i) {
      v[i] = moment[active[i]];
      for (size_t j = 0; j < k; ++j) m[i * k + j] = gram[active[i] * n + active[j]];
    }
    std::vector<double> part;
    if (!solve(std::move(m), std::move(v), k, part)) return false;
    x.assign(n, 0.0);
    for (size_t i = 0; i < k; ++i) x[active[i]] = part[i];
    return true;
  }
};

double field(const json& object, const char* key, const std::string& path) {
  const auto it = object.find(key);
  if (it == object.end() || !it->is_number())
    throw Error(cat(path, ": 'cost_model' needs the number '", key, "'"));
  return it->get<double>();
}

std::vector<MeasuredStep> read_steps(const json& list, const std::string& path) {
  if (!list.is_array()) throw Error(cat(path, ": 'steps' must be a list"));
  std::vector<MeasuredStep> steps;
  for (const json& entry : list) {
    const auto number = [&](const char* key) {
      const auto it = entry.is_object() ? entry.find(key) : entry.end();
      if (!entry.is_object() || it == entry.end() || !it->is_number())
        throw Error(cat(path, ": step ", steps.size(), " needs the number '", key, "'"));
      return it->get<double>();
    };
    const auto count = [&](const char* key) {
      const double value = number(key);
      if (!(value >= 0.0) || value > 1e15)
        throw Error(cat(path, ": step ", steps.size(), ": ", value, " is not a valid count"));
      return static_cast<int64_t>(value);
    };
    const auto count_or = [&](const char* key, int64_t value) {
      return entry.is_object() && entry.contains(key) ? count(key) : value;
    };
    steps.push_back(
        {{count("tokens"), count("sequences"), count("context"), count("pairs"), count_or("pauses", 0)},
         number("seconds"),
         std::max<int64_t>(1, count_or("count", 1))});
  }
  return steps;
}

}  // namespace

CostModel::CostModel(const LinearCost& cost) : linear_(cost) {
  for (const CostTerm& term : kCostTerms) require_not_negative(cost.*term.coefficient, term.key);
  if (cost.base + cost.per_token + cost.per_sequence <= 0.0)
    throw Error("the cost model gives a step a duration of 0");
}

CostModel::CostModel(const RooflineCost& cost) : roofline_(cost) {
  require_positive(cost.flops, "--flops");
  require_positive(cost.bandwidth, "--bandwidth");
  require_not_negative(cost.overhead, "--step-overhead-ms");
  require_positive(cost.flops_per_token, "The number of operations per token");
  require_not_negative(cost.flops_per_pair, "The number of operations of a pair of tokens");
  require_positive(cost.weight_bytes, "--weight-bytes");
  require_not_negative(cost.kv_bytes_per_token, "--kv-bytes-per-token");
  require_not_negative(cost.state_bytes, "The number of bytes of a sequence's states");
}

double CostModel::seconds(const StepLoad& load) const {
  if (linear_) {
    double sum = 0.0;
    for (const CostTerm& term : kCostTerms) sum += (*linear_).*term.coefficient * amount(term, load);
    return sum;
  }
  const RooflineCost& c = *roofline_;
  const double tokens = static_cast<double>(load.tokens);
  const double context = static_cast<double>(load.context);
  const double pairs = static_cast<double>(load.pairs);
  const double compute = (c.flops_per_token * tokens + c.flops_per_pair * pairs) / c.flops;
  const double states = c.state_bytes * static_cast<double>(load.sequences);
  const double memory = (c.weight_bytes + c.kv_bytes_per_token * context + states) / c.bandwidth;
  return c.overhead + std::max(compute, memory);
}

std::vector<double> non_negative_least_squares(std::span<const double> rows, size_t num_columns,
                                               std::span<const double> targets) {
  const Normal normal(rows, num_columns, targets);
  std::vector<double> x(num_columns, 0.0);
  std::vector<double> trial;
  std::vector<size_t> active;
  const auto is_active = [&](size_t i) { return std::find(active.begin(), active.end(), i) != active.end(); };
  // Each round activates the column with the largest gradient.
  for (size_t round = 0; round < 10 * num_columns; ++round) {
    size_t best = num_columns;
    double max_gain = 1e-10;
    for (size_t i = 0; i < num_columns; ++i) {
      const double gain = is_active(i) ? 0.0 : normal.gradient(x, i);
      if (gain > max_gain) {
        max_gain = gain;
        best = i;
      }
    }
    if (best == num_columns) break;
    active.push_back(best);
    // Move from x towards the solution until a coefficient reaches 0, and deactivate that one.
    while (!active.empty()) {
      if (!normal.solve_active(active, trial)) {
        std::erase(active, best);
        break;
      }
      double step = 1.0;
      for (const size_t i : active) {
        if (trial[i] <= 0.0) step = std::min(step, x[i] / (x[i] - trial[i]));
      }
      for (const size_t i : active) x[i] += step * (trial[i] - x[i]);
      if (step >= 1.0) break;
      std::erase_if(active, [&](size_t i) {
        if (x[i] > 1e-15) return false;
        x[i] = 0.0;
        return true;
      });
    }
  }
  for (size_t i = 0; i < num_columns; ++i) x[i] /= normal.scale[i];
  return x;
}

LinearCost fit_linear(std::span<const MeasuredStep> steps) {
  if (steps.size() < kNumNeededTerms)
    throw Error(
        cat("a cost model needs at least ", kNumNeededTerms, " measured steps, found ", steps.size(), "."));
  std::vector<double> scale;  // [num_steps] divisor of each row
  for (const MeasuredStep& step : steps) {
    if (!(step.seconds > 0.0) || !std::isfinite(step.seconds))
      throw Error("a measured step has a duration of 0");
    scale.push_back(step.seconds);
  }
  // The errors are relative to the fitted times, so the fit is repeated with the times of the previous one.
  constexpr int kRounds = 5;
  LinearCost cost;
  for (int round = 0; round < kRounds; ++round) {
    std::vector<double> rows;
    std::vector<double> targets;
    for (size_t s = 0; s < steps.size(); ++s) {
      const double weight = std::sqrt(static_cast<double>(steps[s].count)) / scale[s];
      for (const CostTerm& term : kCostTerms) rows.push_back(weight * amount(term, steps[s].load));
      targets.push_back(weight * steps[s].seconds);
    }
    const std::vector<double> x = non_negative_least_squares(rows, kCostTerms.size(), targets);
    for (size_t i = 0; i < kCostTerms.size(); ++i) cost.*kCostTerms[i].coefficient = x[i];
    const CostModel model(cost);
    for (size_t s = 0; s < steps.size(); ++s)
      scale[s] = std::max(model.seconds(steps[s].load), 0.1 * steps[s].seconds);
  }
  return cost;
}

std::vector<MeasuredStep> merge_alike(std::span<const MeasuredStep> steps) {
  const auto coarse = [](int64_t value) {
    return static_cast<int32_t>(std::lround(4.0 * std::log2(static_cast<double>(value + 1))));
  };
  struct Sum {
    int64_t count = 0;
    StepLoad load;
    double seconds = 0.0;
  };
  std::map<std::array<int32_t, 5>, Sum> sums;
  for (const auto& [load, seconds, count] : steps) {
    Sum& sum = sums[{coarse(load.tokens), coarse(load.context), coarse(load.sequences), coarse(load.pairs),
                     static_cast<int32_t>(load.pauses)}];
    sum.count += count;
    sum.load.tokens += count * load.tokens;
    sum.load.sequences += count * load.sequences;
    sum.load.context += count * load.context;
    sum.load.pairs += count * load.pairs;
    sum.load.pauses += count * load.pauses;
    sum.seconds += static_cast<double>(count) * seconds;
  }
  std::vector<MeasuredStep> merged;
  for (const auto& [key, sum] : sums) {
    const int64_t half = sum.count / 2;
    const auto mean = [half, count = sum.count](int64_t total) { return (total + half) / count; };
    merged.push_back({{mean(sum.load.tokens), mean(sum.load.sequences), mean(sum.load.context),
                       mean(sum.load.pairs), mean(sum.load.pauses)},
                      sum.seconds / static_cast<double>(sum.count),
                      sum.count});
  }
  return merged;
}

FitError fit_error(const CostModel& model, std::span<const MeasuredStep> steps) {
  FitError error;
  int64_t num_steps = 0;
  for (const MeasuredStep& step : steps) num_steps += step.count;
  for (const MeasuredStep& step : steps) {
    const double off = std::abs(model.seconds(step.load) - step.seconds) / step.seconds;
    error.mean += off * static_cast<double>(step.count) / static_cast<double>(num_steps);
    error.worst = std::max(error.worst, off);
  }
  return error;
}

CostModel read_cost_model(const std::string& path) {
  std::ifstream in(path);
  if (!in) throw Error(cat("cannot read ", path));
  const json root = json::parse(in, nullptr, false);
  if (root.is_discarded() || !root.is_object()) throw Error(cat(path, ": not a JSON object"));
  const auto model = root.find("cost_model");
  if (model == root.end()) {
    const auto steps = root.find("steps");
    if (steps == root.end())
      throw Error(
          cat(path, ": has neither 'cost_model' nor 'steps'; `quire bench steps --json FILE` writes both"));
    return CostModel(fit_linear(read_steps(*steps, path)));
  }
  if (!model->is_object()) throw Error(cat(path, ": 'cost_model' must be an object"));
  LinearCost cost;
  for (size_t i = 0; i < kCostTerms.size(); ++i) {
    const char* key = kCostTerms[i].key;
    if (i < kNumNeededTerms || model->contains(key))
      cost.*kCostTerms[i].coefficient = field(*model, key, path);
  }
  return CostModel(cost);
}

}  // namespace quire::sim
