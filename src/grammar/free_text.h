// Languages of free text up to the first occurrence of some texts. Immutable; thread-safe.
#pragma once

#include <string>
#include <vector>

#include "grammar/regular.h"

namespace quire::grammar {

class FreeText {
 public:
  // Texts that free text stops at; none is empty.
  explicit FreeText(const std::vector<std::string>& stops);

  // Texts in which no stop occurs.
  Regular without_stops() const;
  // Texts that end with one of `ends` and in which no stop occurs earlier, that is without the last
  // character.
  Regular until(const std::vector<std::string>& ends) const;

 private:
  Regular any_stop_;
};

}  // namespace quire::grammar
