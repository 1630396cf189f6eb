#include "lora/problems.h"

#include <utility>

#include "base/strings.h"

namespace quire::lora {

std::string shown(std::string_view name) {
  constexpr size_t kLongest = 200;
  std::string text;
  for (const char c : name.substr(0, kLongest))
    text += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
  return name.size() > kLongest ? text + "..." : text;
}

void Problems::add(std::string problem) {
  if (count_++ < kShown) first_.push_back(std::move(problem));
}

std::string Problems::text(const std::string& note) const {
  constexpr size_t kInOneLine = 3;
  std::vector<std::string> parts = first_;
  if (count_ > kShown) parts.push_back(cat("and ", count_ - kShown, " more"));
  if (!note.empty()) parts.push_back(note);
  return count_ <= kInOneLine ? " " + join(parts, "; ") : "\n  " + join(parts, "\n  ");
}

}  // namespace quire::lora
