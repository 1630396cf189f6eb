// What a profile becomes when the engine ends: a file for trace viewers and a table for the terminal.
#pragma once

#include <fstream>
#include <string>

#include "ops/profile.h"

namespace quire {

// Opened when the engine starts, so that a path that cannot be written is an error then.
class ProfileFile {
 public:
  explicit ProfileFile(const std::string& path);  // throws Error
  // Chrome's trace format: one event for each call with its shape, bytes, operations, rates, and its share of
  // the machine's limit. Throws Error.
  void write(const OpProfile& profile);
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  std::ofstream out_;
};

// Time of each kind of call, the largest first: calls, share of the steps' time, GB/s, GFLOP/s, share of the
// machine's limit.
std::string profile_table(const OpProfile& profile);

}  // namespace quire
