#include "sample/sampler_chain.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "base/strings.h"

namespace quire {
namespace {

struct Name {
  std::string_view name;
  SamplerStep step;
};

// Names of llama.cpp, and the names of our fields where they differ.
constexpr Name kNames[] = {
    {"penalties", SamplerStep::kPenalties},
    {"dry", SamplerStep::kDry},
    {"top_n_sigma", SamplerStep::kTopNSigma},
    {"top-n-sigma", SamplerStep::kTopNSigma},
    {"temperature", SamplerStep::kTemperature},
    {"temp", SamplerStep::kTemperature},
    {"min_p", SamplerStep::kMinP},
    {"min-p", SamplerStep::kMinP},
    {"top_k", SamplerStep::kTopK},
    {"top-k", SamplerStep::kTopK},
    {"typ_p", SamplerStep::kTypicalP},
    {"typ-p", SamplerStep::kTypicalP},
    {"typical_p", SamplerStep::kTypicalP},
    {"typical", SamplerStep::kTypicalP},
    {"top_p", SamplerStep::kTopP},
    {"top-p", SamplerStep::kTopP},
    {"xtc", SamplerStep::kXtc},
};

std::optional<SamplerStep> step_of(std::string_view name) {
  for (const Name& row : kNames) {
    if (row.name == name) return row.step;
  }
  return std::nullopt;
}

SamplerChain default_chain() {
  using enum SamplerStep;
  return {.penalties = true,
          .dry = true,
          .steps = {kTopNSigma, kTemperature, kMinP, kTopK, kTypicalP, kTopP, kXtc}};
}

Failure wrong(std::string message) {
  return invalid_argument(std::move(message), "samplers");
}

}  // namespace

bool SamplerChain::contains(SamplerStep step) const {
  if (step == SamplerStep::kPenalties) return penalties;
  if (step == SamplerStep::kDry) return dry;
  return std::find(steps.begin(), steps.end(), step) != steps.end();
}

Result<SamplerChain> read_samplers(std::span<const std::string> samplers) {
  if (samplers.empty()) return default_chain();
  SamplerChain chain{.penalties = false, .dry = false, .steps = {}};
  for (const std::string& name : samplers) {
    const std::optional<SamplerStep> step = step_of(name);
    if (!step) {
      return wrong(
          cat("samplers must name penalties, dry, top_n_sigma, top_k, typ_p, top_p, min_p, xtc or "
              "temperature, not '",
              name.substr(0, 40), "'."));
    }
    if (chain.contains(*step)) return wrong(cat("samplers names ", name, " twice."));
    const bool edits = *step == SamplerStep::kPenalties || *step == SamplerStep::kDry;
    if (edits && (!chain.steps.empty() || (chain.dry && *step == SamplerStep::kPenalties))) {
      return wrong("samplers must name penalties first, then dry, and then the other samplers.");
    }
    if (*step == SamplerStep::kPenalties) {
      chain.penalties = true;
    } else if (*step == SamplerStep::kDry) {
      chain.dry = true;
    } else {
      chain.steps.push_back(*step);
    }
  }
  return chain;
}

}  // namespace quire
