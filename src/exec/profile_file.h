// Writes the profile when the engine stops: a trace file for viewers such as Perfetto, and a table for the
// terminal.
#pragma once

#include <fstream>
#include <string>

#include "ops/profile.h"

namespace quire {

// Opened when the engine starts, so that an invalid path is an error at start-up.
class ProfileFile {
 public:
  explicit ProfileFile(const std::string& path);  // throws Error
  // Chrome trace format: one event per call with its shape, bytes, operations, rates, and the fraction of the
  // machine's limit. Throws Error.
  void write(const OpProfile& profile);
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  std::ofstream out_;
};

// Time per kind of call, largest first: calls, fraction of the steps' time, GB/s, GFLOP/s, fraction of the
// machine's limit.
std::string profile_table(const OpProfile& profile);

}  // namespace quire
