#include "models/weight_names.h"

namespace quire {
namespace {

constexpr std::string_view kPlace = "{}";

}  // namespace

std::string with_number(std::string_view pattern, int32_t number) {
  std::string text(pattern);
  const size_t at = text.find(kPlace);
  if (at != std::string::npos) text.replace(at, kPlace.size(), std::to_string(number));
  return text;
}

bool matches_pattern(std::string_view text, std::string_view pattern) {
  if (pattern.ends_with('*')) return text.starts_with(pattern.substr(0, pattern.size() - 1));
  const size_t at = pattern.find(kPlace);
  if (at == std::string_view::npos) return text == pattern;
  const std::string_view head = pattern.substr(0, at);
  const std::string_view tail = pattern.substr(at + kPlace.size());
  if (text.size() <= head.size() + tail.size() || !text.starts_with(head) || !text.ends_with(tail))
    return false;
  const std::string_view digits = text.substr(head.size(), text.size() - head.size() - tail.size());
  return digits.find_first_not_of("0123456789") == std::string_view::npos;
}

}  // namespace quire
