// The program's version, compiler and instruction sets.
#pragma once

#include <string>
#include <vector>

namespace quire {

struct BuildInfo {
  std::string version;  // "0.1.0"
  std::string commit;   // git, "unknown" outside a checkout
  std::string compiler;
  std::vector<std::string> isas;  // compiled in, lowest first
  std::string chosen_isa;         // build_info() throws Error if QUIRE_CPU_ISA is not usable
  bool cuda = false;
};

BuildInfo build_info();

}  // namespace quire
