#include "sample/truncate.h"

#include <algorithm>
#include <cmath>

#include "base/rng.h"

namespace quire {
namespace {

constexpr float kSmallestTemperature = 0.01F;
constexpr uint64_t kXtcStream = 0x5854430000000000;  // "XTC"; streams of draws are numbered from 0

// The temperature that the entropy of the row, relative to the largest possible one, selects.
float temperature_of(const Row& row, const SamplingParams& params) {
  if (params.dynatemp_range <= 0.0F) return params.temperature;
  const size_t count = count_from(row.values, row.max, 1.0F, std::numeric_limits<float>::lowest());
  if (count <= 1) return params.temperature;
  const RowWeights weights = describe_weights(row.values, row.max, 1.0F);
  const double share = std::min(1.0, weights.entropy / std::log(static_cast<double>(count)));
  const double lowest = std::max(0.0, double{params.temperature} - double{params.dynatemp_range});
  const double highest = double{params.temperature} + double{params.dynatemp_range};
  return static_cast<float>(lowest + (highest - lowest) * std::pow(share, double{params.dynatemp_exponent}));
}

void set_temperature(Row& row, const SamplingParams& params) {
  row.scale = 1.0F / std::max(temperature_of(row, params), kSmallestTemperature);
}

bool xtc_applies(const SamplingState& state, int64_t position) {
  const SamplingParams& params = state.params();
  if (params.xtc_probability <= 0.0F || params.xtc_threshold > 0.5F) return false;
  const auto sample = static_cast<uint64_t>(state.sample_index());
  const uint32_t word =
      random_words(state.seed(), kXtcStream + sample, static_cast<uint64_t>(position)).front();
  return word * 0x1p-32 < double{params.xtc_probability};
}

void apply(SamplerStep step, Row& row, const SamplingState& state, int64_t position,
           SamplerBuffers& buffers) {
  const SamplingParams& params = state.params();
  switch (step) {
    case SamplerStep::kTopNSigma:
      if (params.top_n_sigma > 0.0F) keep_top_n_sigma(row, params.top_n_sigma, buffers);
      break;
    case SamplerStep::kTemperature:
      set_temperature(row, params);
      break;
    case SamplerStep::kMinP:
      if (params.min_p > 0.0F) keep_min_p(row, params.min_p, params.min_keep, buffers);
      break;
    case SamplerStep::kTopK:
      if (params.top_k > 0) keep_top_k(row, params.top_k, buffers);
      break;
    case SamplerStep::kTypicalP:
      if (params.typical_p < 1.0F) keep_typical(row, params.typical_p, params.min_keep, buffers);
      break;
    case SamplerStep::kTopP:
      if (params.top_p < 1.0F) keep_top_p(row, params.top_p, params.min_keep, buffers);
      break;
    case SamplerStep::kXtc:
      if (xtc_applies(state, position)) {
        exclude_top_choices(row, params.xtc_threshold, params.min_keep, buffers);
      }
      break;
    case SamplerStep::kPenalties:
    case SamplerStep::kDry:
      break;  // LogitEdits has applied them
  }
}

}  // namespace

void truncate(Row& row, const SamplingState& state, int64_t position, SamplerBuffers& buffers) {
  const SamplingParams& params = state.params();
  if (params.greedy()) return;
  if (params.mirostat_mode != 0) {
    set_temperature(row, params);
    keep_surprise(row, state.max_surprise(), buffers);
    return;
  }
  for (const SamplerStep step : state.rules().chain.steps) apply(step, row, state, position, buffers);
}

float surprise_of(const Row& row, size_t index, SamplerBuffers& buffers) {
  constexpr double kLog2 = 0.693147180559945309;
  const double total = sum_exp(row.values, row.max, row.scale, buffers.block_sum.data());
  const double log_weight = double{row.values[index] - row.max} * double{row.scale};
  return static_cast<float>((std::log(total) - log_weight) / kLog2);
}

}  // namespace quire
