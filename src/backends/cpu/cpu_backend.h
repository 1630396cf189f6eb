// The CPU's op tables, one per compiled instruction set level.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "ops/op_table.h"
#include "ops/profile.h"

namespace quire {

struct CpuIsa {
  std::string_view name;  // "generic", "avx2", "avx512", "avx512_vnni", "avx512_bf16", "amx_bf16"
  const OpTable* table;   // never null; lives as long as the program
  // Measures the peak throughput of this machine with these instructions, in about a quarter of a second.
  MachineLimits (*limits)(ThreadPool& pool);
  bool supported;  // by this machine and its operating system
};

// All levels compiled in, lowest first. Thread-safe.
std::span<const CpuIsa> cpu_isas();

// Returns the best level that the machine supports, or the one that QUIRE_CPU_ISA names. Throws Error with
// the usable levels if the named level is unknown or not supported.
const CpuIsa& select_cpu_isa();
const CpuIsa& select_cpu_isa(std::string_view name);

}  // namespace quire
