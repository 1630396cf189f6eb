// The instruction set levels above the generic one: their op tables and machine limits.
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
