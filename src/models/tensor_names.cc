#include "models/tensor_names.h"

#include <algorithm>

namespace quire {
namespace {

constexpr std::string_view kPlaceholder = "{}";

}  // namespace

std::string with_number(std::string_view pattern, int32_t number) {
  std::string text(pattern);
  const size_t at = text.find(kPlaceholder);
  if (at != std::string::npos) text.replace(at, kPlaceholder.size(), std::to_string(number));
  return text;
}

int num_placeholders(std::string_view pattern) {
  int count = 0;
  for (size_t at = pattern.find(kPlaceholder); at != pattern.npos; at = pattern.find(kPlaceholder, at + 1))
    ++count;
  return count;
}

bool matches_pattern(std::string_view text, std::string_view pattern) {
  const size_t at = pattern.find(kPlaceholder);
  if (at != std::string_view::npos) {
    const std::string_view head = pattern.substr(0, at);
    if (!text.starts_with(head)) return false;
    text.remove_prefix(head.size());
    pattern.remove_prefix(head.size() + kPlaceholder.size());
    const size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
    if (digits == 0) return false;
    text.remove_prefix(digits);
  }
  if (pattern.ends_with('*')) return text.starts_with(pattern.substr(0, pattern.size() - 1));
  return text == pattern;
}

}  // namespace quire
