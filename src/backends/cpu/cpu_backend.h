// The CPU's op tables, one for each instruction set compiled in.
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
  // Measures what the machine can do at most with these instructions; a quarter of a second.
  MachineLimits (*limits)(ThreadPool& pool);
  bool supported;  // this machine and its operating system can run it
};

// All levels compiled in, lowest first. Thread-safe.
std::span<const CpuIsa> cpu_isas();

// The best level that the machine supports, or the one that QUIRE_CPU_ISA names. Throws Error when that one
// is unknown or the machine cannot run it, naming those it can.
const CpuIsa& select_cpu_isa();
const CpuIsa& select_cpu_isa(std::string_view name);

}  // namespace quire
