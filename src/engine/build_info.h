// What this program was built from and what it chose on this machine.
#pragma once

#include <string>
#include <vector>

namespace quire {

struct BuildInfo {
  std::string version;  // "0.1.0"
  std::string commit;   // git, "unknown" outside of a checkout
  std::string compiler;
  std::vector<std::string> isas;  // compiled in, lowest first
  std::string chosen_isa;         // throws Error where QUIRE_CPU_ISA names an impossible one
  bool cuda = false;
};

BuildInfo build_info();

}  // namespace quire
