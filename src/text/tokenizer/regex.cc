#include "text/tokenizer/regex.h"

#include <pcre2.h>

#include <array>
#include <cstdio>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/strings.h"
#include "text/unicode/unicode.h"

namespace quire::tokenizer {

namespace {

namespace u = quire::unicode;

constexpr std::string_view kSpaceRanges =
    "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{"
    "3000}";

// Names of properties whose members differ between PCRE2's Unicode version and ours, with our sets.
struct NamedSet {
  std::string_view name;
  u::CategorySet set;
};
constexpr std::array<NamedSet, 28> kSets = {{
    {"L", u::kLetter},         {"Ll", u::set_of(u::kLl)},
    {"Lm", u::set_of(u::kLm)}, {"Lo", u::set_of(u::kLo)},
    {"Lt", u::set_of(u::kLt)}, {"Lu", u::set_of(u::kLu)},
    {"M", u::kMark},           {"Mc", u::set_of(u::kMc)},
    {"Me", u::set_of(u::kMe)}, {"Mn", u::set_of(u::kMn)},
    {"N", u::kNumber},         {"Nd", u::set_of(u::kNd)},
    {"Nl", u::set_of(u::kNl)}, {"No", u::set_of(u::kNo)},
    {"P", u::kPunctuation},    {"Pc", u::set_of(u::kPc)},
    {"Pd", u::set_of(u::kPd)}, {"Pe", u::set_of(u::kPe)},
    {"Pf", u::set_of(u::kPf)}, {"Pi", u::set_of(u::kPi)},
    {"Po", u::set_of(u::kPo)}, {"Ps", u::set_of(u::kPs)},
    {"S", u::kSymbol},         {"Sc", u::set_of(u::kSc)},
    {"Sk", u::set_of(u::kSk)}, {"Sm", u::set_of(u::kSm)},
    {"So", u::set_of(u::kSo)}, {"Z", u::set_of(u::kZl) | u::set_of(u::kZp) | u::set_of(u::kZs)},
}};

struct Free {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
  void operator()(pcre2_match_data* match) const { pcre2_match_data_free(match); }
  void operator()(pcre2_compile_context* context) const { pcre2_compile_context_free(context); }
};

// Takes ownership of an object of PCRE2, which returns null if memory runs out.
template <class T>
std::unique_ptr<T, Free> own(T* object) {
  if (object == nullptr) throw std::bad_alloc();
  return std::unique_ptr<T, Free>(object);
}

// Code points in `set` that are unassigned in PCRE2's library, as ranges of a character class. Its Unicode
// version is older than our tables, so adding characters is sufficient.
std::string newer_members(u::CategorySet set) {
  static constexpr std::string_view kUnassigned = "\\p{Cn}";
  int error = 0;
  PCRE2_SIZE offset = 0;
  const auto code = own(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(kUnassigned.data()), kUnassigned.size(),
                                      PCRE2_UTF | PCRE2_UCP, &error, &offset, nullptr));
  pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE);
  const auto match = own(pcre2_match_data_create_from_pattern(code.get(), nullptr));
  std::string ranges;
  uint32_t first = 0;
  bool open = false;
  const auto close = [&](uint32_t last) {
    char buffer[48];
    std::snprintf(buffer, sizeof buffer, "\\x{%x}-\\x{%x}", first, last);
    ranges += buffer;
    open = false;
  };
  std::string character;
  for (uint32_t cp = 0x80; cp <= 0x10FFFF; ++cp) {
    bool member = (u::sets_of(cp) & set) != 0 && (cp < 0xD800 || cp > 0xDFFF);
    if (member) {
      character.clear();
      u::append(character, cp);
      const int rc = pcre2_match(code.get(), reinterpret_cast<PCRE2_SPTR>(character.data()), character.size(),
                                 0, PCRE2_NO_UTF_CHECK, match.get(), nullptr);
      if (rc < 0 && rc != PCRE2_ERROR_NOMATCH) throw std::bad_alloc();
      member = rc > 0;
    }
    if (member && !open) first = cp, open = true;
    if (!member && open) close(cp - 1);
  }
  if (open) close(0x10FFFF);
  return ranges;
}

// The members of \w, with circled letters. Outside of a class, Oniguruma also includes the superscripts and
// fractions of Latin-1.
std::string word_members(bool in_class) {
  constexpr u::CategorySet kWord =
      u::kLetter | u::kMark | u::set_of(u::kNd) | u::set_of(u::kNl) | u::set_of(u::kPc);
  return "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{24b6}-\\x{24e9}\\x{1f130}-\\x{1f149}"
         "\\x{1f150}-\\x{1f169}\\x{1f170}-\\x{1f189}" +
         std::string(in_class ? "" : "\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}") + newer_members(kWord);
}

// Reads \p{Name}, \p{^Name} or \P{Name} at pattern[i], the backslash. Returns false for anything else.
bool read_property(std::string_view pattern, size_t i, std::string_view* name, bool* negated, size_t* end) {
  if (i + 3 >= pattern.size() || (pattern[i + 1] != 'p' && pattern[i + 1] != 'P') || pattern[i + 2] != '{')
    return false;
  const size_t close = pattern.find('}', i);
  if (close == std::string_view::npos) return false;
  *name = pattern.substr(i + 3, close - i - 3);
  *negated = pattern[i + 1] == 'P';
  if (!name->empty() && name->front() == '^') {
    *negated = !*negated;
    name->remove_prefix(1);
  }
  *end = close + 1;
  return true;
}

class Translator {
 public:
  explicit Translator(std::string_view pattern) : pattern_(pattern) {}

  std::string run() {
    while (i_ < pattern_.size()) {
      const char c = pattern_[i_];
      if (c == '\\' && i_ + 1 < pattern_.size()) {
        escape();
      } else {
        if (c == '[') ++depth_;
        if (c == ']' && depth_ > 0) --depth_;
        // Nested classes are unions in Ruby. PCRE2 does not support them, and their brackets can be omitted.
        if (!(c == '[' && depth_ > 1 && !posix_class()) && !(c == ']' && depth_ > 0 && !posix_)) out_ += c;
        if (c == ']') posix_ = false;
        ++i_;
      }
    }
    return std::move(out_);
  }

 private:
  bool posix_class() {
    posix_ = i_ + 1 < pattern_.size() && pattern_[i_ + 1] == ':';
    return posix_;
  }

  void emit_set(std::string_view members, bool negated) {
    if (depth_ > 0) {
      out_ += members;
    } else {
      out_ += negated ? "[^" : "[";
      out_ += members;
      out_ += ']';
    }
  }

  void escape() {
    const char c = pattern_[i_ + 1];
    std::string_view name;
    bool negated = false;
    size_t end = i_ + 2;
    if (c == 's' || (c == 'S' && depth_ == 0)) {
      emit_set(kSpaceRanges, c == 'S');
    } else if (c == 'd' || (c == 'D' && depth_ == 0)) {
      emit_set("\\p{Nd}" + newer_members(u::set_of(u::kNd)), c == 'D');
    } else if (c == 'w' || (c == 'W' && depth_ == 0)) {
      emit_set(word_members(depth_ > 0), c == 'W');
    } else if (c == 'h' || (c == 'H' && depth_ == 0)) {
      emit_set("0-9a-fA-F", c == 'H');
    } else if (read_property(pattern_, i_, &name, &negated, &end)) {
      property(name, negated, pattern_.substr(i_, end - i_));
    } else {
      out_ += '\\';
      out_ += c;
    }
    i_ = end;
  }

  void property(std::string_view name, bool negated, std::string_view whole) {
    for (const NamedSet& known : kSets) {
      if (known.name != name || (negated && depth_ > 0)) continue;
      emit_set("\\p{" + std::string(name) + "}" + newer_members(known.set), negated);
      return;
    }
    out_ += whole;
  }

  std::string_view pattern_;
  std::string out_;
  size_t i_ = 0;
  int depth_ = 0;       // nesting of character classes
  bool posix_ = false;  // within [:name:]
};

}  // namespace

std::string translate_regex(std::string_view pattern) {
  return Translator(pattern).run();
}

struct Regex::Code {
  pcre2_code* code = nullptr;
  Code() = default;
  Code(const Code&) = delete;
  Code& operator=(const Code&) = delete;
  ~Code() { pcre2_code_free(code); }
};

Regex Regex::compile(std::string_view pattern, const std::string& where) {
  constexpr size_t kLongestPattern = 64 * 1024;
  if (pattern.size() > kLongestPattern) throw Error(where + ": the regular expression is longer than 64 KiB");
  const std::string translated = translate_regex(pattern);
  auto code = std::make_shared<Code>();
  int error = 0;
  PCRE2_SIZE offset = 0;
  const auto context = own(pcre2_compile_context_create(nullptr));
  pcre2_set_parens_nest_limit(context.get(), 200);
  // In Ruby, ^ and $ always match at lines.
  code->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
                             PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE, &error, &offset, context.get());
  if (code->code == nullptr) {
    if (error == PCRE2_ERROR_HEAP_FAILED) throw std::bad_alloc();
    PCRE2_UCHAR message[256] = {};
    pcre2_get_error_message(error, message, sizeof message);
    throw Error(where + ": the regular expression \"" + std::string(pattern.substr(0, 200)) +
                "\" is not valid: " + reinterpret_cast<const char*>(message));
  }
  pcre2_jit_compile(code->code, PCRE2_JIT_COMPLETE);  // without JIT support, the interpreter is used
  Regex regex;
  regex.code_ = std::move(code);
  return regex;
}

struct Regex::Search::State {
  std::shared_ptr<const Code> code;
  std::string_view text;
  size_t position = 0;
  bool last_was_empty = false;
  pcre2_match_data* match = nullptr;
  pcre2_match_context* context = nullptr;
  pcre2_jit_stack* stack = nullptr;
  ~State() {
    pcre2_match_data_free(match);
    pcre2_match_context_free(context);
    pcre2_jit_stack_free(stack);
  }
};

Regex::Search::Search(const Regex& regex, std::string_view text) : state_(std::make_unique<State>()) {
  constexpr uint32_t kMatchLimit = 5'000'000;
  constexpr size_t kJitStackStart = 32 * 1024, kJitStackLimit = 4 * 1024 * 1024;
  state_->code = regex.code_;
  state_->text = text;
  state_->match = pcre2_match_data_create(1, nullptr);
  state_->context = pcre2_match_context_create(nullptr);
  state_->stack = pcre2_jit_stack_create(kJitStackStart, kJitStackLimit, nullptr);
  if (state_->match == nullptr || state_->context == nullptr) throw std::bad_alloc();
  pcre2_set_match_limit(state_->context, kMatchLimit);
  pcre2_set_heap_limit(state_->context, 64 * 1024);
  if (state_->stack != nullptr) pcre2_jit_stack_assign(state_->context, nullptr, state_->stack);
}

Regex::Search::~Search() = default;

bool Regex::Search::next(size_t* begin, size_t* end) {
  State& s = *state_;
  while (s.position <= s.text.size()) {
    // After an empty match, the next one must not be empty at the same position.
    const uint32_t options = PCRE2_NO_UTF_CHECK | (s.last_was_empty ? PCRE2_NOTEMPTY_ATSTART : 0);
    static constexpr char kNothing[1] = {};
    const char* data = s.text.empty() ? kNothing : s.text.data();
    const int rc = pcre2_match(s.code->code, reinterpret_cast<PCRE2_SPTR>(data), s.text.size(), s.position,
                               options, s.match, s.context);
    if (rc == PCRE2_ERROR_NOMATCH) return false;
    if (rc < 0) {
      std::array<PCRE2_UCHAR, 120> reason{};
      pcre2_get_error_message(rc, reason.data(), reason.size());
      throw Error(
          cat("the text cannot be tokenized: a regular expression of the tokenizer failed after byte ",
              s.position, ": ", reinterpret_cast<const char*>(reason.data())));
    }
    const PCRE2_SIZE* found = pcre2_get_ovector_pointer(s.match);
    // With \K in a lookahead, a match can end before it begins; such matches are ignored.
    if (found[1] < found[0] || found[0] < s.position) return false;
    *begin = found[0];
    *end = found[1];
    s.position = found[1];
    s.last_was_empty = found[0] == found[1];
    return true;
  }
  return false;
}

}  // namespace quire::tokenizer
