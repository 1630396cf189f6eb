#include "nn/adapter_targets.h"

#include <algorithm>
#include <charconv>
#include <utility>

namespace quire {
namespace {

constexpr std::string_view kLayers = "layers.{}.";

// Calls use(rest) for the name without each prefix that it has, until use returns true.
template <typename Use>
bool any_rest(const AdapterTargets& targets, std::string_view name, const Use& use) {
  return std::ranges::any_of(targets.prefixes, [&](const std::string& prefix) {
    return name.starts_with(prefix) && use(name.substr(prefix.size()));
  });
}

bool is_listed(const AdapterTargets& targets, std::string_view pattern) {
  return std::ranges::any_of(targets.unused, [&](const std::string& unused) {
    if (!unused.ends_with('*')) return pattern == unused;
    return pattern.starts_with(std::string_view(unused).substr(0, unused.size() - 1));
  });
}

// The name with "{}" for each component of digits only, which take(digits) gets.
template <typename Take>
std::string pattern_of(std::string_view name, const Take& take) {
  std::string pattern;
  while (true) {
    const size_t dot = name.find('.');
    const std::string_view part = name.substr(0, dot);
    const bool digits = !part.empty() && part.find_first_not_of("0123456789") == std::string_view::npos;
    if (digits) take(part);
    pattern += digits ? "{}" : part;
    if (dot == std::string_view::npos) return pattern;
    pattern += '.';
    name.remove_prefix(dot + 1);
  }
}

}  // namespace

std::string without_numbers(std::string_view name) {
  return pattern_of(name, [](std::string_view) {});
}

std::optional<NumberedName> numbered_name(std::string_view name) {
  NumberedName out;
  bool fits = true;
  out.pattern = pattern_of(name, [&](std::string_view digits) {
    fits = fits && out.count < NumberedName::kMaxNumbers;
    if (!fits) return;
    int32_t& number = out.numbers[out.count++];
    fits = std::from_chars(digits.data(), digits.data() + digits.size(), number).ec == std::errc();
  });
  return fits ? std::optional(std::move(out)) : std::nullopt;
}

ModuleShape module_shape(std::span<const AdapterRange> ranges) {
  const AdapterRange& first = ranges.front();
  if (!first.part) return {first.rows, first.in};
  ModuleShape shape{0, first.part->transposed ? first.rows : first.in};
  for (const AdapterRange& range : ranges)
    shape.out = std::max(shape.out, range.part->begin + range.part->count);
  return shape;
}

AdapterTarget find_target(const AdapterTargets& targets, std::string_view name) {
  AdapterTarget found;
  any_rest(targets, name, [&](std::string_view rest) {
    const auto numbered = numbered_name(rest);
    if (!numbered) return false;
    const auto module = targets.modules.find(numbered->pattern);
    if (module == targets.modules.end()) return false;
    found.module = &module->second;
    const std::vector<AdapterRange>& all = module->second.ranges;
    const auto first = std::ranges::lower_bound(all, numbered->numbers, {}, &AdapterRange::numbers);
    const auto last = std::ranges::upper_bound(all, numbered->numbers, {}, &AdapterRange::numbers);
    found.ranges = {first, last};
    return true;
  });
  return found;
}

bool is_unused(const AdapterTargets& targets, std::string_view name) {
  bool own = targets.own_components.empty();
  const bool unused = any_rest(targets, name, [&](std::string_view rest) {
    const std::string_view first = rest.substr(0, rest.find('.'));
    own = own || std::ranges::find(targets.own_components, first) != targets.own_components.end();
    const auto numbered = numbered_name(rest);
    if (!numbered) return false;
    if (is_listed(targets, numbered->pattern)) return true;
    if (!numbered->pattern.starts_with(kLayers)) return false;
    const int32_t layer = numbered->numbers[0];
    if (layer >= targets.num_layers) return targets.later_layers;
    return std::ranges::find(targets.idle_layers, layer) != targets.idle_layers.end();
  });
  return unused || !own;
}

}  // namespace quire
