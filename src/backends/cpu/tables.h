// The op tables of the instruction sets above the generic one. They live as long as the program; any thread.
#pragma once

#include "ops/op_table.h"

namespace quire::cpu {

const OpTable& avx2_ops();
const OpTable& avx512_ops();
const OpTable& avx512_vnni_ops();
const OpTable& avx512_bf16_ops();

}  // namespace quire::cpu
