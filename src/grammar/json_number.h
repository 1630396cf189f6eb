// Sets of numbers as languages of their JSON spellings. A set that is not "all numbers" is spelled without
// exponents: then each of its values has all spellings that digits and a point allow (2, 2.0, 2.00), and
// intersection, union and difference of sets are those of the languages.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "grammar/regular.h"

namespace quire::grammar {

// A decimal number: digits without leading zeros (at least one), then digits without trailing zeros.
struct Decimal {
  bool negative = false;
  std::string integer = "0";
  std::string fraction;

  bool is_zero() const { return integer == "0" && fraction.empty(); }
  bool operator==(const Decimal&) const = default;
};

// The value of a JSON number. Nothing if it has more than 400 digits.
std::optional<Decimal> parse_decimal(std::string_view spelling);
// "-12.5"
std::string to_string(const Decimal& value);
// Negative, zero or positive: a compared with b.
int compare(const Decimal& a, const Decimal& b);

struct NumberSet {
  bool all = false;  // then `spellings` has no meaning
  Regular spellings = nothing();

  bool none() const { return !all && spellings->kind == RegularNode::Kind::kNothing; }
};

NumberSet all_numbers();
NumberSet integers();
NumberSet exactly(const Decimal& value);
NumberSet any_number_of(const std::vector<Decimal>& values);
// Numbers at least (more than, if `exclusive`) and at most (less than) the bound.
NumberSet at_least(const Decimal& bound, bool exclusive);
NumberSet at_most(const Decimal& bound, bool exclusive);
// Multiples of a positive number. Nothing if the language is too large: divisors whose digits,
// without factors of two and five, are worth more than about 90 are refused.
std::optional<NumberSet> multiples_of(const Decimal& divisor);

NumberSet unite(const NumberSet& a, const NumberSet& b);
NumberSet intersect(const NumberSet& a, const NumberSet& b);
NumberSet complement(const NumberSet& set);

enum class NumberSpelling {
  kAny,       // 2, 2.0, 2.00
  kShortest,  // 2; a set that is not "all numbers" has one spelling for each value
};
// The spellings: at most 64 digits, exponents of at most three.
Regular json_number(const NumberSet& set, NumberSpelling spelling);

}  // namespace quire::grammar
