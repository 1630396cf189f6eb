// Stands in for the CUDA toolkit's header when a kernel is compiled for the emulated device.
#pragma once

#include "../arithmetic.h"

struct __nv_bfloat16 {
  uint16_t bits;
};
inline float __bfloat162float(__nv_bfloat16 x) {
  return probe::to_float(x.bits, probe::OperandType::kBf16);
}
inline __nv_bfloat16 __float2bfloat16_rn(float x) {
  return {probe::from_float(x, probe::OperandType::kBf16)};
}
