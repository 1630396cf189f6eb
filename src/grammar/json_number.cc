#include "grammar/json_number.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <vector>

#include "grammar/json_text.h"

namespace quire::grammar {
namespace {

constexpr size_t kMaxDecimalDigits = 400;
constexpr uint32_t kMaxDigits = 64;
// Divisors whose residues are few enough for a language.
constexpr uint32_t kMaxResidues = 10'000;

Regular digits(char first, char last) {
  ByteSet set;
  for (char c = first; c <= last; ++c) set.set(static_cast<uint8_t>(c));
  return bytes(set);
}
Regular digit() {
  static const Regular node = digits('0', '9');
  return node;
}
Regular any_digits() {
  static const Regular node = repeat(digit(), 0);
  return node;
}
Regular minus_sign() {
  static const Regular node = text("-");
  return node;
}
Regular zeros() {
  static const Regular node = repeat(text("0"), 0);
  return node;
}
Regular optional_fraction() {
  static const Regular node = optional(concat({text("."), repeat(digit(), 1)}));
  return node;
}
Regular zero_fraction() {
  static const Regular node = optional(concat({text("."), repeat(text("0"), 1)}));
  return node;
}
// A fraction with a digit that is not zero.
Regular nonzero_fraction() {
  static const Regular node = concat({text("."), zeros(), digits('1', '9'), any_digits()});
  return node;
}
Regular whole() {
  static const Regular node = any_of({text("0"), concat({digits('1', '9'), any_digits()})});
  return node;
}

// Unsigned numbers without exponents, and all numbers without exponents.
Regular magnitudes() {
  static const Regular node = [] {
    const Regular point = concat({repeat(any_of({digit(), text(".")}), 3, kMaxDigits + 1)});
    const Regular with_fraction = all_of({concat({whole(), text("."), repeat(digit(), 1)}), point});
    const Regular rest = repeat(digit(), 0, kMaxDigits - 1);
    return any_of({text("0"), concat({digits('1', '9'), rest}), with_fraction});
  }();
  return node;
}
Regular plain_numbers() {
  static const Regular node = concat({optional(minus_sign()), magnitudes()});
  return node;
}

// Fractions above `bound` (digits without trailing zeros), or equal to it if `or_equal`; the point included.
Regular fraction_above(const std::string& bound, bool or_equal) {
  if (bound.empty()) return or_equal ? optional_fraction() : nonzero_fraction();
  Regular rest = or_equal ? any_digits() : concat({zeros(), digits('1', '9'), any_digits()});
  for (size_t i = bound.size(); i-- > 0;) {
    const char c = bound[i];
    Regular above = c < '9' ? concat({digits(static_cast<char>(c + 1), '9'), any_digits()}) : nothing();
    rest = any_of({std::move(above), concat({digits(c, c), std::move(rest)})});
  }
  return concat({text("."), std::move(rest)});
}

// Magnitudes above the bound, or equal to it.
Regular magnitude_above(const Decimal& bound, bool or_equal) {
  const std::string& whole_part = bound.integer;
  const auto length = static_cast<uint32_t>(whole_part.size());
  const Regular longer = concat({digits('1', '9'), repeat(digit(), length), optional_fraction()});
  Regular rest = fraction_above(bound.fraction, or_equal);
  for (size_t i = length; i-- > 0;) {
    const char c = whole_part[i];
    const auto remaining = static_cast<uint32_t>(length - i - 1);
    // A number of several digits does not begin with zero; neither does the bound.
    Regular above = c < '9' ? concat({digits(static_cast<char>(c + 1), '9'),
                                      repeat(digit(), remaining, remaining), optional_fraction()})
                            : nothing();
    rest = any_of({std::move(above), concat({digits(c, c), std::move(rest)})});
  }
  return all_of({magnitudes(), any_of({longer, std::move(rest)})});
}

Regular magnitude_zero() {
  static const Regular node = concat({text("0"), zero_fraction()});
  return node;
}

// The numbers above the bound, or equal to it.
Regular above(const Decimal& bound, bool or_equal) {
  if (bound.is_zero()) {
    if (or_equal) return any_of({magnitudes(), concat({minus_sign(), magnitude_zero()})});
    return minus(magnitudes(), magnitude_zero());
  }
  if (!bound.negative) return magnitude_above(bound, or_equal);
  // Negative numbers with a magnitude that is not above the bound's.
  const Regular below = minus(magnitudes(), magnitude_above(bound, !or_equal));
  return any_of({magnitudes(), concat({minus_sign(), below})});
}

NumberSet plain(Regular spellings) {
  return {false, std::move(spellings)};
}

Regular spellings_of(const NumberSet& set) {
  return set.all ? plain_numbers() : set.spellings;
}

// The divisor without its decimal point; 0 if it is too large.
uint32_t scaled_divisor(const Decimal& divisor) {
  uint64_t value = 0;
  for (const char c : divisor.integer + divisor.fraction) {
    value = value * 10 + static_cast<uint64_t>(c - '0');
    if (value > kMaxResidues) return 0;
  }
  return static_cast<uint32_t>(value);
}

}  // namespace

std::optional<Decimal> parse_decimal(std::string_view spelling) {
  Decimal value;
  size_t i = 0;
  if (i < spelling.size() && spelling[i] == '-') {
    value.negative = true;
    ++i;
  }
  std::string all;
  int64_t point = -1;
  for (; i < spelling.size() && spelling[i] != 'e' && spelling[i] != 'E'; ++i) {
    if (spelling[i] == '.') {
      point = static_cast<int64_t>(all.size());
    } else {
      all += spelling[i];
    }
  }
  if (point < 0) point = static_cast<int64_t>(all.size());
  if (i < spelling.size()) {
    int64_t exponent = 0;
    bool negative = false;
    for (++i; i < spelling.size(); ++i) {
      if (spelling[i] == '-') negative = true;
      if (spelling[i] >= '0' && spelling[i] <= '9')
        exponent = std::min<int64_t>(exponent * 10 + (spelling[i] - '0'), 1'000'000);
    }
    point += negative ? -exponent : exponent;
  }
  if (all.find_first_not_of('0') == std::string::npos) return Decimal{};
  const auto limit = static_cast<int64_t>(kMaxDecimalDigits);
  if (all.size() > kMaxDecimalDigits || point > limit || point < -limit) return std::nullopt;
  if (point < 0) {
    all.insert(0, static_cast<size_t>(-point), '0');
    point = 0;
  }
  if (static_cast<size_t>(point) > all.size()) all.append(static_cast<size_t>(point) - all.size(), '0');
  value.integer = all.substr(0, static_cast<size_t>(point));
  value.fraction = all.substr(static_cast<size_t>(point));
  value.integer.erase(0, value.integer.find_first_not_of('0'));  // npos erases all
  if (value.integer.empty()) value.integer = "0";
  while (!value.fraction.empty() && value.fraction.back() == '0') value.fraction.pop_back();
  return value;
}

std::string to_string(const Decimal& value) {
  std::string result = value.negative ? "-" : "";
  result += value.integer;
  if (!value.fraction.empty()) result.append(".").append(value.fraction);
  return result;
}

int compare(const Decimal& a, const Decimal& b) {
  if (a.negative != b.negative) return a.negative ? -1 : 1;
  int order = 0;
  if (a.integer.size() != b.integer.size()) {
    order = a.integer.size() < b.integer.size() ? -1 : 1;
  } else if (const int integer = a.integer.compare(b.integer); integer != 0) {
    order = integer;
  } else {
    order = a.fraction.compare(b.fraction);
  }
  return a.negative ? -order : order;
}

NumberSet all_numbers() {
  return {true, nothing()};
}

NumberSet integers() {
  static const Regular node =
      all_of({concat({optional(minus_sign()), whole(), zero_fraction()}), plain_numbers()});
  return plain(node);
}

NumberSet any_number_of(const std::vector<Decimal>& values) {
  std::vector<std::string> wholes;
  std::vector<std::string> fractions;
  for (const Decimal& value : values) {
    (value.fraction.empty() ? wholes : fractions).push_back(to_string(value));
    if (value.is_zero()) wholes.emplace_back("-0");
  }
  const Regular spellings = any_of({concat({any_text(std::move(wholes)), zero_fraction()}),
                                    concat({any_text(std::move(fractions)), zeros()})});
  return plain(all_of({spellings, plain_numbers()}));
}

NumberSet exactly(const Decimal& value) {
  return any_number_of({value});
}

NumberSet at_least(const Decimal& bound, bool exclusive) {
  return plain(above(bound, !exclusive));
}

NumberSet at_most(const Decimal& bound, bool exclusive) {
  return plain(minus(plain_numbers(), above(bound, exclusive)));
}

namespace {

// Languages of the digits that may follow a remainder. Equal languages are one node, which keeps the powers
// of ten small; the number of nodes is limited.
class RemainderLanguages {
 public:
  explicit RemainderLanguages(uint32_t modulus) : modulus_(modulus) {}

  // For each remainder: `ends[r]`, or one more digit and then `after` of the remainder that follows.
  std::vector<Regular> before(const std::vector<Regular>& ends, const std::vector<Regular>& after) {
    std::vector<Regular> result(modulus_);
    for (uint32_t r = 0; r < modulus_ && known_.size() <= kMaxNodes; ++r) result[r] = node(r, ends[r], after);
    return result;
  }
  bool too_many() const { return known_.size() > kMaxNodes; }

 private:
  static constexpr size_t kMaxNodes = 6'000;

  Regular node(uint32_t r, const Regular& end, const std::vector<Regular>& after) {
    std::vector<Regular> next = {end};
    for (uint32_t d = 0; d < 10; ++d) next.push_back(after[(r * 10 + d) % modulus_]);
    const auto [found, added] = known_.try_emplace(next);
    if (!added) return found->second;
    std::vector<Regular> alternatives = {end};
    for (uint32_t d = 0; d < 10; ++d) {
      // All digits with the same continuation at once.
      ByteSet same;
      for (uint32_t other = 0; other < 10; ++other) {
        if (next[other + 1] == next[d + 1]) same.set('0' + other);
      }
      if (same._Find_first() == '0' + d) alternatives.push_back(concat({bytes(same), next[d + 1]}));
    }
    return found->second = any_of(std::move(alternatives));
  }

  uint32_t modulus_;
  std::map<std::vector<Regular>, Regular> known_;
};

}  // namespace

std::optional<NumberSet> multiples_of(const Decimal& divisor) {
  const uint32_t modulus = scaled_divisor(divisor);
  if (modulus == 0) return std::nullopt;
  const size_t places = divisor.fraction.size();
  RemainderLanguages languages(modulus);
  // after[r]: what may follow digits whose value has the remainder r, up to the last place that counts. First
  // the fraction, from its last place to its first, then the digits before the point. As numbers have at most
  // 64 digits, each position gets languages of its own, which share their ends.
  std::vector<Regular> after(modulus, nothing());
  after[0] = zeros();
  // Whether the remainder becomes zero with `count` zeros.
  const auto ends_with_zeros = [&](uint64_t r, size_t count) {
    for (size_t i = 0; i < count; ++i) r = r * 10 % modulus;
    return r == 0;
  };
  for (size_t place = places; place-- > 0;) {
    std::vector<Regular> ends(modulus, nothing());
    for (uint32_t r = 0; r < modulus && place > 0; ++r) {
      if (ends_with_zeros(r, places - place)) ends[r] = empty_text();
    }
    after = languages.before(ends, after);
    if (languages.too_many()) return std::nullopt;
  }
  std::vector<Regular> at_point(modulus);
  for (uint32_t r = 0; r < modulus; ++r) {
    const Regular end = ends_with_zeros(r, places) ? empty_text() : nothing();
    if (places == 0) {
      at_point[r] = r == 0 ? zero_fraction() : nothing();
    } else {
      at_point[r] = any_of({end, concat({text("."), after[r]})});
    }
  }
  after = at_point;
  for (uint32_t length = 1; length < kMaxDigits; ++length) {
    after = languages.before(at_point, after);
    if (languages.too_many()) return std::nullopt;
  }
  std::vector<Regular> starts = {concat({text("0"), at_point[0]})};
  for (uint32_t d = 1; d < 10; ++d) {
    const char c = static_cast<char>('0' + d);
    starts.push_back(concat({digits(c, c), after[d % modulus]}));
  }
  return plain(all_of({plain_numbers(), concat({optional(minus_sign()), any_of(std::move(starts))})}));
}

NumberSet unite(const NumberSet& a, const NumberSet& b) {
  if (a.all || b.all) return all_numbers();
  return plain(any_of({a.spellings, b.spellings}));
}

NumberSet intersect(const NumberSet& a, const NumberSet& b) {
  if (a.all) return b;
  if (b.all) return a;
  return plain(all_of({a.spellings, b.spellings}));
}

NumberSet complement(const NumberSet& set) {
  if (set.all) return plain(nothing());
  if (set.none()) return all_numbers();
  return plain(minus(plain_numbers(), spellings_of(set)));
}

Regular json_number(const NumberSet& set, NumberSpelling spelling) {
  if (!set.all && spelling == NumberSpelling::kAny) return set.spellings;
  if (!set.all) {
    static const Regular shortest =
        minus(concat({optional(minus_sign()), repeat(digit(), 1),
                      optional(concat({text("."), repeat(digit(), 0), digits('1', '9')}))}),
              text("-0"));
    return all_of({set.spellings, shortest});
  }
  static const Regular node = [] {
    ByteSet mark;
    mark.set('e');
    mark.set('E');
    const Regular sign = optional(any_of({text("+"), minus_sign()}));
    return concat({plain_numbers(), optional(concat({bytes(mark), sign, repeat(digit(), 1, 3)}))});
  }();
  return node;
}

}  // namespace quire::grammar
