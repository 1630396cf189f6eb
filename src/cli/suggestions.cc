#include "cli/suggestions.h"

#include <algorithm>
#include <iterator>

#include "base/strings.h"

namespace quire::cli {
namespace {

constexpr size_t kMaxNames = 3;

std::string_view without_dashes(std::string_view word) {
  return word.substr(std::min(word.find_first_not_of('-'), word.size()));
}

}  // namespace

std::vector<std::string> closest_names(std::string_view word, const std::vector<std::string>& candidates) {
  const std::string_view typed = without_dashes(word);
  std::vector<std::string> found;
  if (typed.empty()) return found;
  for (const std::string& candidate : candidates) {
    if (without_dashes(candidate).starts_with(typed)) found.push_back(candidate);
  }
  if (!found.empty() && found.size() <= kMaxNames) return found;
  found.clear();
  for (const std::string& candidate : candidates) {
    const std::string_view name = without_dashes(candidate);
    if (typed.ends_with(name) && typed.size() > name.size() && typed[typed.size() - name.size() - 1] == '-')
      return {candidate};
  }
  size_t min_distance = typed.size() + 1;
  for (const std::string& candidate : candidates) {
    const std::string_view name = without_dashes(candidate);
    const size_t distance = edit_distance(typed, name);
    if (2 * distance > std::max(typed.size(), name.size()) || distance > min_distance) continue;
    if (distance < min_distance) found.clear();
    min_distance = distance;
    found.push_back(candidate);
  }
  if (found.size() > kMaxNames) found.resize(kMaxNames);
  return found;
}

std::string enumerate(const std::vector<std::string>& names, std::string_view conjunction) {
  std::string out;
  for (size_t i = 0; i < names.size(); ++i) {
    if (i > 0) out += i + 1 == names.size() ? cat(" ", conjunction, " ") : ", ";
    out += names[i];
  }
  return out;
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates,
                         const std::vector<std::string>& others) {
  const auto is_other = [&](const std::string& name) {
    return std::ranges::find(candidates, name) == candidates.end();
  };
  std::vector<std::string> all = candidates;
  std::ranges::copy_if(others, std::back_inserter(all), is_other);
  std::vector<std::string> names = closest_names(word, all);
  if (!std::ranges::all_of(names, is_other)) std::erase_if(names, is_other);
  return names.empty() ? std::string() : cat("; did you mean ", enumerate(names, "or"), "?");
}

}  // namespace quire::cli
