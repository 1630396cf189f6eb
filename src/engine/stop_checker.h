// Finds stop strings in a text that arrives piece by piece, and holds back text that may become one. One per
// sample; engine thread only.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace quire {

class StopChecker {
 public:
  // `stops` is shared by all samples of a request.
  StopChecker(std::shared_ptr<const std::vector<std::string>> stops, bool include_stop_in_output);
  StopChecker(std::vector<std::string> stops, bool include_stop_in_output);

  struct Step {
    std::string text;                  // final, belongs to the output
    std::optional<std::string> match;  // the stop string that ended it; nothing may be appended afterwards
  };
  // Among several matches the one that is complete first wins; among those complete at the same character,
  // the longest. check = false (while min_tokens is not reached): no match ends in this piece, but one may
  // begin in it.
  Step append(std::string_view piece, bool check);
  // Returns the held-back text when the sample ends for another reason.
  std::string flush();

 private:
  std::optional<Step> find_stop(
      size_t searched);      // a match that ends after `searched` characters of pending_
  size_t held_back() const;  // characters at the end of pending_ that begin a stop string

  std::shared_ptr<const std::vector<std::string>> stops_;
  bool include_stop_;
  std::string pending_;
};

}  // namespace quire
