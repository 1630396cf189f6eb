// The instruction sets above the generic one: op tables, and what the machine can do with them.
#pragma once

#include "ops/op_table.h"
#include "ops/profile.h"

namespace quire::cpu {

struct Level {
  const OpTable* table;  // lives as long as the program
  MachineLimits (*limits)(ThreadPool& pool);
};

Level avx2_level();
Level avx512_level();
Level avx512_vnni_level();
Level avx512_bf16_level();
Level amx_bf16_level();
MachineLimits generic_limits(ThreadPool& pool);

}  // namespace quire::cpu
