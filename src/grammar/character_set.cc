#include "grammar/character_set.h"

#include <algorithm>

#include "text/unicode/unicode.h"

namespace quire::grammar {
namespace {

using unicode::CategorySet;

constexpr char32_t kMaxCharacter = 0x10FFFF;

struct PropertyName {
  std::string_view name;
  CategorySet categories;
};

constexpr CategorySet kCasedLetter =
    unicode::set_of(unicode::kLl) | unicode::set_of(unicode::kLt) | unicode::set_of(unicode::kLu);
constexpr CategorySet kSeparator =
    unicode::set_of(unicode::kZl) | unicode::set_of(unicode::kZp) | unicode::set_of(unicode::kZs);
constexpr CategorySet kOther = unicode::set_of(unicode::kCc) | unicode::set_of(unicode::kCf) |
                               unicode::set_of(unicode::kCn) | unicode::set_of(unicode::kCo) |
                               unicode::set_of(unicode::kCs);
constexpr CategorySet kAllCategories = (CategorySet{1} << 30) - 1;

// Short and long names of PropertyValueAliases.txt.
constexpr PropertyName kCategoryNames[] = {
    {"C", kOther},
    {"Other", kOther},
    {"Cc", unicode::set_of(unicode::kCc)},
    {"Control", unicode::set_of(unicode::kCc)},
    {"cntrl", unicode::set_of(unicode::kCc)},
    {"Cf", unicode::set_of(unicode::kCf)},
    {"Format", unicode::set_of(unicode::kCf)},
    {"Cn", unicode::set_of(unicode::kCn)},
    {"Unassigned", unicode::set_of(unicode::kCn)},
    {"Co", unicode::set_of(unicode::kCo)},
    {"Private_Use", unicode::set_of(unicode::kCo)},
    {"Cs", unicode::set_of(unicode::kCs)},
    {"Surrogate", unicode::set_of(unicode::kCs)},
    {"L", unicode::kLetter},
    {"Letter", unicode::kLetter},
    {"LC", kCasedLetter},
    {"Cased_Letter", kCasedLetter},
    {"Ll", unicode::set_of(unicode::kLl)},
    {"Lowercase_Letter", unicode::set_of(unicode::kLl)},
    {"Lm", unicode::set_of(unicode::kLm)},
    {"Modifier_Letter", unicode::set_of(unicode::kLm)},
    {"Lo", unicode::set_of(unicode::kLo)},
    {"Other_Letter", unicode::set_of(unicode::kLo)},
    {"Lt", unicode::set_of(unicode::kLt)},
    {"Titlecase_Letter", unicode::set_of(unicode::kLt)},
    {"Lu", unicode::set_of(unicode::kLu)},
    {"Uppercase_Letter", unicode::set_of(unicode::kLu)},
    {"M", unicode::kMark},
    {"Mark", unicode::kMark},
    {"Combining_Mark", unicode::kMark},
    {"Mc", unicode::set_of(unicode::kMc)},
    {"Spacing_Mark", unicode::set_of(unicode::kMc)},
    {"Me", unicode::set_of(unicode::kMe)},
    {"Enclosing_Mark", unicode::set_of(unicode::kMe)},
    {"Mn", unicode::set_of(unicode::kMn)},
    {"Nonspacing_Mark", unicode::set_of(unicode::kMn)},
    {"N", unicode::kNumber},
    {"Number", unicode::kNumber},
    {"Nd", unicode::set_of(unicode::kNd)},
    {"Decimal_Number", unicode::set_of(unicode::kNd)},
    {"digit", unicode::set_of(unicode::kNd)},
    {"Nl", unicode::set_of(unicode::kNl)},
    {"Letter_Number", unicode::set_of(unicode::kNl)},
    {"No", unicode::set_of(unicode::kNo)},
    {"Other_Number", unicode::set_of(unicode::kNo)},
    {"P", unicode::kPunctuation},
    {"Punctuation", unicode::kPunctuation},
    {"punct", unicode::kPunctuation},
    {"Pc", unicode::set_of(unicode::kPc)},
    {"Connector_Punctuation", unicode::set_of(unicode::kPc)},
    {"Pd", unicode::set_of(unicode::kPd)},
    {"Dash_Punctuation", unicode::set_of(unicode::kPd)},
    {"Pe", unicode::set_of(unicode::kPe)},
    {"Close_Punctuation", unicode::set_of(unicode::kPe)},
    {"Pf", unicode::set_of(unicode::kPf)},
    {"Final_Punctuation", unicode::set_of(unicode::kPf)},
    {"Pi", unicode::set_of(unicode::kPi)},
    {"Initial_Punctuation", unicode::set_of(unicode::kPi)},
    {"Po", unicode::set_of(unicode::kPo)},
    {"Other_Punctuation", unicode::set_of(unicode::kPo)},
    {"Ps", unicode::set_of(unicode::kPs)},
    {"Open_Punctuation", unicode::set_of(unicode::kPs)},
    {"S", unicode::kSymbol},
    {"Symbol", unicode::kSymbol},
    {"Sc", unicode::set_of(unicode::kSc)},
    {"Currency_Symbol", unicode::set_of(unicode::kSc)},
    {"Sk", unicode::set_of(unicode::kSk)},
    {"Modifier_Symbol", unicode::set_of(unicode::kSk)},
    {"Sm", unicode::set_of(unicode::kSm)},
    {"Math_Symbol", unicode::set_of(unicode::kSm)},
    {"So", unicode::set_of(unicode::kSo)},
    {"Other_Symbol", unicode::set_of(unicode::kSo)},
    {"Z", kSeparator},
    {"Separator", kSeparator},
    {"Zl", unicode::set_of(unicode::kZl)},
    {"Line_Separator", unicode::set_of(unicode::kZl)},
    {"Zp", unicode::set_of(unicode::kZp)},
    {"Paragraph_Separator", unicode::set_of(unicode::kZp)},
    {"Zs", unicode::set_of(unicode::kZs)},
    {"Space_Separator", unicode::set_of(unicode::kZs)},
};

// Properties that are not categories, as sets of unicode::sets_of.
constexpr PropertyName kBinaryNames[] = {
    {"Any", kAllCategories},
    {"Assigned", kAllCategories & ~unicode::set_of(unicode::kCn)},
    {"White_Space", unicode::kSpace},
    {"space", unicode::kSpace},
};

// A run of characters with the same category and White_Space.
struct CategoryRun {
  CharacterRange range;
  CategorySet sets;
};

// About 3,300 runs. Computed once, because a look at every character takes milliseconds.
const std::vector<CategoryRun>& category_runs() {
  static const std::vector<CategoryRun> kRuns = [] {
    std::vector<CategoryRun> runs;
    for (char32_t c = 0; c <= kMaxCharacter; ++c) {
      const CategorySet sets = unicode::sets_of(c);
      if (runs.empty() || runs.back().sets != sets) {
        runs.push_back({{c, c}, sets});
      } else {
        runs.back().range.last = c;
      }
    }
    return runs;
  }();
  return kRuns;
}

CharacterSet characters_with(CategorySet categories) {
  CharacterSet set;
  for (const CategoryRun& run : category_runs()) {
    if ((run.sets & categories) == 0) continue;
    if (!set.empty() && set.back().last + 1 == run.range.first) {
      set.back().last = run.range.last;
    } else {
      set.push_back(run.range);
    }
  }
  return set;
}

CharacterSet space_characters(ClassStyle style) {
  if (style == ClassStyle::kAscii) return {{'\t', '\r'}, {' ', ' '}};
  CharacterSet set = characters_with(unicode::set_of(unicode::kZs));
  append_set(set, {{'\t', '\r'}, {0x2028, 0x2029}});
  if (style == ClassStyle::kEcmaScript) {
    set.push_back({0xFEFF, 0xFEFF});
  } else {
    append_set(set, {{0x1C, 0x1F}, {0x85, 0x85}});
  }
  return set;
}

}  // namespace

void append_set(CharacterSet& set, const CharacterSet& other) {
  set.insert(set.end(), other.begin(), other.end());
}

CharacterSet complement_set(CharacterSet set) {
  std::sort(set.begin(), set.end(),
            [](const CharacterRange& a, const CharacterRange& b) { return a.first < b.first; });
  CharacterSet rest;
  char32_t next = 0;
  for (const CharacterRange& range : set) {
    if (range.first > next) rest.push_back({next, range.first - 1});
    next = std::max<char32_t>(next, range.last + 1);
  }
  if (next <= kMaxCharacter) rest.push_back({next, kMaxCharacter});
  return rest;
}

CharacterSet class_escape(char letter, ClassStyle style) {
  const bool unicode_style = style == ClassStyle::kUnicode;
  switch (letter) {
    case 'd':
      return unicode_style ? characters_with(unicode::set_of(unicode::kNd)) : CharacterSet{{'0', '9'}};
    case 'w': {
      CharacterSet set = unicode_style ? characters_with(unicode::kLetter | unicode::kNumber)
                                       : CharacterSet{{'0', '9'}, {'A', 'Z'}, {'a', 'z'}};
      set.push_back({'_', '_'});
      return set;
    }
    case 's':
      return space_characters(style);
    default:
      return complement_set(class_escape(static_cast<char>(letter - 'A' + 'a'), style));
  }
}

std::optional<CharacterSet> property_set(std::string_view name) {
  bool category = false;
  for (const std::string_view prefix : {"General_Category=", "gc="}) {
    if (name.substr(0, prefix.size()) != prefix) continue;
    name.remove_prefix(prefix.size());
    category = true;
    break;
  }
  for (const PropertyName& property : kCategoryNames)
    if (property.name == name) return characters_with(property.categories);
  if (category) return std::nullopt;
  if (name == "ASCII") return CharacterSet{{0, 0x7F}};
  for (const PropertyName& property : kBinaryNames)
    if (property.name == name) return characters_with(property.categories);
  return std::nullopt;
}

void fold_ascii_case(CharacterSet& set) {
  const size_t size = set.size();
  for (size_t i = 0; i < size; ++i) {
    const CharacterRange range = set[i];
    const auto add = [&](char32_t first, char32_t last, char32_t other) {
      const char32_t low = std::max(range.first, first);
      const char32_t high = std::min(range.last, last);
      if (low <= high) set.push_back({low - first + other, high - first + other});
    };
    add('A', 'Z', 'a');
    add('a', 'z', 'A');
  }
}

Regular CharacterLanguages::of(const CharacterSet& set) {
  std::vector<std::pair<char32_t, char32_t>> key;
  key.reserve(set.size());
  for (const CharacterRange& range : set) key.emplace_back(range.first, range.last);
  const auto found = languages_.find(key);
  if (found != languages_.end()) return found->second;
  // A range of characters with several bytes is a few sequences of sets.
  for (const CharacterRange& range : set) budget_.charge(range.last < 0x80 ? 1 : 64);
  if (budget_.exceeded()) return nothing();
  Regular language = encode_ ? encode_(set) : characters(set);
  languages_.emplace(std::move(key), language);
  return language;
}

}  // namespace quire::grammar
