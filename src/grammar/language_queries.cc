#include "grammar/language_queries.h"

#include <unordered_set>
#include <utility>

namespace quire::grammar {

LanguageQueries::Entry& LanguageQueries::entry(const Regular& language) {
  const auto [found, added] = entries_.try_emplace(language.get());
  if (added) {
    found->second.keep_alive = language;
    found->second.id = expressions_.add(language);
  }
  return found->second;
}

LanguageQueries::Entry& LanguageQueries::use(const Regular& language) {
  Entry& result = entry(language);
  if (result.classes.size() == 0) result.classes = expressions_.classes(result.id);
  if (used_ != &result) expressions_.use_classes(result.classes);
  used_ = &result;
  return result;
}

bool LanguageQueries::contains(const Regular& language, std::string_view text) {
  const Entry& e = use(language);
  ExpressionId state = e.id;
  for (const char c : text) {
    if (failed() || state == Expressions::kNothing) return false;
    state = expressions_.derivative(state, e.classes.of[static_cast<uint8_t>(c)]);
  }
  return expressions_.nullable(state);
}

bool LanguageQueries::is_empty(const Regular& language) {
  if (language->kind == RegularNode::Kind::kNothing) return true;
  if (language->nullable) return false;
  Entry& e = entry(language);
  if (e.empty) return *e.empty;
  if (expressions_.node(e.id).has_string) return *(e.empty = false);
  use(language);
  std::unordered_set<ExpressionId> seen = {e.id};
  std::vector<ExpressionId> pending = {e.id};
  while (!pending.empty() && !failed()) {
    const ExpressionId state = pending.back();
    pending.pop_back();
    for (size_t i = 0; i < e.classes.size(); ++i) {
      const ExpressionId next = expressions_.derivative(state, static_cast<uint8_t>(i));
      if (expressions_.node(next).has_string) return *(e.empty = false);
      if (next != Expressions::kNothing && seen.insert(next).second) pending.push_back(next);
    }
  }
  e.empty = !failed();
  return *e.empty;
}

std::optional<std::vector<std::string>> LanguageQueries::texts(const Regular& language, size_t limit) {
  const Entry& e = use(language);
  // An endless language has beginnings longer than any finite one of so few texts is likely to have.
  constexpr size_t kMaxLength = 4096;
  std::vector<std::string> result;
  std::vector<std::pair<ExpressionId, std::string>> pending = {{e.id, ""}};
  size_t visited = 0;
  while (!pending.empty()) {
    if (failed() || ++visited > kMaxLength * 4) return std::nullopt;
    const auto [state, text] = std::move(pending.back());
    pending.pop_back();
    if (expressions_.nullable(state)) result.push_back(text);
    if (result.size() > limit || text.size() > kMaxLength) return std::nullopt;
    for (int byte = 255; byte >= 0; --byte) {
      const ExpressionId next = expressions_.derivative(state, e.classes.of[static_cast<size_t>(byte)]);
      if (next != Expressions::kNothing) pending.emplace_back(next, text + static_cast<char>(byte));
    }
    if (pending.size() > 4 * limit + 1024) return std::nullopt;
  }
  return result;
}

}  // namespace quire::grammar
