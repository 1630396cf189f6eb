#include "grammar/free_text.h"

#include <utility>

namespace quire::grammar {
namespace {

Regular any_of_texts(const std::vector<std::string>& texts) {
  std::vector<Regular> parts;
  parts.reserve(texts.size());
  for (const std::string& value : texts) parts.push_back(text(value));
  return any_of(std::move(parts));
}

// Texts of at least `min` characters.
Regular all_texts(uint32_t min) {
  return repeat(any_character(), min);
}

}  // namespace

FreeText::FreeText(const std::vector<std::string>& stops) : any_stop_(any_of_texts(stops)) {}

Regular FreeText::without_stops() const {
  if (any_stop_->kind == RegularNode::Kind::kNothing) return all_texts(0);
  return minus(all_texts(0), concat({all_texts(0), any_stop_, all_texts(0)}));
}

Regular FreeText::until(const std::vector<std::string>& ends) const {
  return minus(concat({all_texts(0), any_of_texts(ends)}), concat({all_texts(0), any_stop_, all_texts(1)}));
}

}  // namespace quire::grammar
