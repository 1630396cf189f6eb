#include "lora/name_patterns.h"

#include <pcre2.h>

#include <algorithm>
#include <array>
#include <new>
#include <utility>

#include "base/error.h"
#include "base/strings.h"
#include "lora/problems.h"

namespace quire::lora {
namespace {

constexpr size_t kMaxPatternBytes = 4096;
constexpr size_t kMaxRegexes = 256;
constexpr uint32_t kMaxSteps = 10'000;
// For all names of an adapter: 256 regular expressions for 1,000 modules, or 16,000 keys for 60,000.
constexpr int64_t kMaxMatches = int64_t{1} << 18;
constexpr int64_t kMaxComparisons = int64_t{1} << 30;
constexpr uint32_t kMaxHeapKib = 1024;

struct Free {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
  void operator()(pcre2_match_data* match) const { pcre2_match_data_free(match); }
  void operator()(pcre2_compile_context* context) const { pcre2_compile_context_free(context); }
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
};
template <class T>
std::unique_ptr<T, Free> owned(T* object) {
  if (object == nullptr) throw std::bad_alloc();
  return std::unique_ptr<T, Free>(object);
}

std::string reason(int error) {
  std::array<PCRE2_UCHAR, 200> text{};
  pcre2_get_error_message(error, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

bool is_plain(std::string_view pattern) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";
  return pattern.find_first_not_of(kPlain) == std::string_view::npos;
}

// A pattern in which "." is any character matches the end of the name, after a dot or as a whole.
bool matches_plain(std::string_view pattern, std::string_view name) {
  if (name.size() < pattern.size()) return false;
  const size_t begin = name.size() - pattern.size();
  if (begin > 0 && name[begin - 1] != '.') return false;
  return std::equal(pattern.begin(), pattern.end(), name.begin() + static_cast<ptrdiff_t>(begin),
                    [](char want, char have) { return want == '.' || want == have; });
}

}  // namespace

struct NamePatterns::Compiled {
  std::unique_ptr<pcre2_code, Free> code;
  std::unique_ptr<pcre2_match_data, Free> match;
  std::unique_ptr<pcre2_match_context, Free> limits;
};

NamePatterns::NamePatterns(std::string_view key, std::vector<std::string> patterns) : key_(key) {
  size_t regexes = 0;
  for (std::string& pattern : patterns) {
    Entry entry{.text = std::move(pattern)};
    if (!is_plain(entry.text)) {
      const auto fail = [&](std::string_view problem) {
        throw Error(cat(key_, ": the regular expression '", shown(entry.text), "' ", problem));
      };
      if (entry.text.size() > kMaxPatternBytes) fail(cat("is longer than ", kMaxPatternBytes, " bytes"));
      if (++regexes > kMaxRegexes)
        throw Error(cat(key_, ": has more than ", kMaxRegexes, " regular expressions"));
      const std::string whole = cat("(?:.*\\.)?(?:", entry.text, ")");
      const auto options = owned(pcre2_compile_context_create(nullptr));
      pcre2_set_parens_nest_limit(options.get(), 50);
      int error = 0;
      PCRE2_SIZE offset = 0;
      pcre2_code* code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(whole.data()), whole.size(),
                                       PCRE2_UTF | PCRE2_UCP | PCRE2_ANCHORED | PCRE2_ENDANCHORED, &error,
                                       &offset, options.get());
      if (code == nullptr && error == PCRE2_ERROR_HEAP_FAILED) throw std::bad_alloc();
      if (code == nullptr) fail(cat("is not valid: ", reason(error)));
      auto compiled = std::make_unique<Compiled>();
      compiled->code.reset(code);
      compiled->match = owned(pcre2_match_data_create(1, nullptr));
      compiled->limits = owned(pcre2_match_context_create(nullptr));
      pcre2_set_match_limit(compiled->limits.get(), kMaxSteps);
      pcre2_set_heap_limit(compiled->limits.get(), kMaxHeapKib);
      entry.regex = std::move(compiled);
    }
    entries_.push_back(std::move(entry));
  }
}

NamePatterns::NamePatterns(NamePatterns&&) noexcept = default;
NamePatterns& NamePatterns::operator=(NamePatterns&&) noexcept = default;
NamePatterns::~NamePatterns() = default;

std::optional<size_t> NamePatterns::find(std::string_view name) {
  for (size_t i = 0; i < entries_.size(); ++i) {
    const Entry& entry = entries_[i];
    if (++comparisons_ > kMaxComparisons)
      throw Error(cat(key_, ": has too many keys for the number of modules"));
    if (entry.regex == nullptr) {
      if (matches_plain(entry.text, name)) return i;
      continue;
    }
    if (++matches_ > kMaxMatches)
      throw Error(cat(key_, ": has too many regular expressions for the number of modules"));
    const int rc = pcre2_match(entry.regex->code.get(), reinterpret_cast<PCRE2_SPTR>(name.data()),
                               name.size(), 0, 0, entry.regex->match.get(), entry.regex->limits.get());
    if (rc >= 0) return i;
    if (rc == PCRE2_ERROR_NOMATCH) continue;
    if (rc == PCRE2_ERROR_NOMEMORY) throw std::bad_alloc();
    throw Error(cat(key_, ": the regular expression '", shown(entry.text), "' fails on '", shown(name),
                    "': ", reason(rc)));
  }
  return std::nullopt;
}

}  // namespace quire::lora
