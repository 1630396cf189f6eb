// Finds stop strings in a text that arrives piece by piece, and holds back what may still become one. One for
// each sample; engine thread only.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace quire {

class StopChecker {
 public:
  StopChecker(std::vector<std::string> stops, bool include_stop_in_output);

  struct Step {
    std::string text;                  // certain to belong to the output
    std::optional<std::string> match;  // the stop string that ended it; nothing may be appended afterwards
  };
  // Of several matches the one that is completed first wins, of those completed together the longest.
  // check = false passes the text through unexamined (while min_tokens is not reached).
  Step append(std::string_view piece, bool check);
  // What was held back, when the text ends for another reason.
  std::string flush();

 private:
  size_t held_back() const;  // characters at the end of pending_ that begin a stop string

  std::vector<std::string> stops_;
  bool include_stop_;
  std::string pending_;
};

}  // namespace quire
