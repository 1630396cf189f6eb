// "Did you mean": the names that are closest to a mistyped one.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace quire::cli {

// A command line that cannot be run. The program prints the message and ends with exit code 2.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// At most three of the candidates: those that begin with `word`, the one that is its end ("--torch-dtype"),
// or those that differ least from it, if that is in at most half of the letters.
std::vector<std::string> closest_names(std::string_view word, const std::vector<std::string>& candidates);

// "; did you mean serve?", or an empty text if no name is close. A name among `others` is only suggested if
// it is closer than all candidates.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates,
                         const std::vector<std::string>& others = {});

// "a", "a or b", "a, b or c".
std::string enumerate(const std::vector<std::string>& names, std::string_view conjunction);

}  // namespace quire::cli
