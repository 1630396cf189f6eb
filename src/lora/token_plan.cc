#include "lora/token_plan.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/strings.h"
#include "lora/tensor_checks.h"

namespace quire::lora {
namespace {

constexpr const char* kPart = "trainable_tokens_delta";

}  // namespace

void TokenPlanner::fail(const std::string& module, std::string_view problem) {
  problems_.add(cat(shown(module), ": ", problem));
}

bool TokenPlanner::take(const TensorInfo& tensor, const AdapterTensorName& name) {
  if (name.role != TensorRole::kTrainedTokens) return false;
  take_slot(problems_, name.module, modules_[name.module], tensor);
  return true;
}

bool TokenPlanner::has_valid_ids(const PlannedTokens& tokens) {
  if (static_cast<int64_t>(tokens.ids.size()) != tokens.values.shape[0]) {
    fail(tokens.name, cat(kPart, " is ", tokens.values.shape_text(), ", but trainable_token_indices lists ",
                          tokens.ids.size(), " tokens"));
    return false;
  }
  if (std::set<int64_t>(tokens.ids.begin(), tokens.ids.end()).size() == tokens.ids.size()) return true;
  fail(tokens.name, "trainable_token_indices lists a token twice");
  return false;
}

bool TokenPlanner::resolve(PlannedTokens& tokens) {
  const AdapterTarget target = find_target(*targets_, tokens.name);
  if (target.module != nullptr && (target.ranges.empty() || !target.ranges.front().whole)) {
    fail(tokens.name, "trained tokens are supported for token embeddings and output layers only");
    return false;
  }
  const AdapterRange* range = find_range(*targets_, tokens.name, problems_);
  if (range == nullptr) return false;
  tokens.site = range->site;
  const bool embedding = target.module->kind == AdapterModuleKind::kEmbedding;
  tokens.embedding = embedding || range->whole->tied;
  tokens.output = !embedding || range->whole->tied;
  if (tokens.output && range->whole->bias) {
    fail(tokens.name, "trained tokens of an output layer with a bias are not supported");
    return false;
  }
  if (!has_shape(problems_, tokens.name, kPart, tokens.values, {tokens.values.shape[0], range->in}))
    return false;
  const auto outside =
      std::ranges::find_if(tokens.ids, [&](int64_t id) { return id < 0 || id >= range->rows; });
  if (outside == tokens.ids.end()) return true;
  fail(tokens.name, cat("trainable_token_indices has token ", *outside, ", this model has ", range->rows));
  return false;
}

std::vector<PlannedTokens> TokenPlanner::plan(const PeftConfig& config) {
  std::vector<PlannedTokens> planned;
  for (const auto& [name, tensor] : modules_) {
    if (!has_form(problems_, name, kPart, *tensor, 2)) continue;
    PlannedTokens tokens{.name = name, .values = *tensor, .ids = {}};
    const auto listed = std::ranges::find_if(config.trained_tokens, [&name = name](const auto& entry) {
      return entry.first.empty() || is_end_of_name(entry.first, name);
    });
    if (listed != config.trained_tokens.end()) tokens.ids = listed->second;
    if (has_valid_ids(tokens) && (targets_ == nullptr || resolve(tokens)))
      planned.push_back(std::move(tokens));
  }
  return planned;
}

}  // namespace quire::lora
