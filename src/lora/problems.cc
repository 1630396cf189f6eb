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

std::string Problems::text() const {
  constexpr size_t kInOneLine = 3;
  if (count_ <= kInOneLine) return join(first_, "; ");
  std::string lines = "\n  " + join(first_, "\n  ");
  if (count_ > kShown) lines += cat("\n  and ", count_ - kShown, " more");
  return lines;
}

}  // namespace quire::lora
