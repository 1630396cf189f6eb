// A bar on stderr for work that lasts: only where stderr is a terminal, and only once a second has passed.
// One thread at a time.
#pragma once

#include <string>

namespace quire::cli {

class ProgressBar {
 public:
  explicit ProgressBar(std::string label);
  ~ProgressBar();            // clears the line
  void update(double done);  // 0 to 1

 private:
  std::string label_;
  bool terminal_;
  bool shown_ = false;
  double begin_;
  double last_ = 0.0;
};

}  // namespace quire::cli
