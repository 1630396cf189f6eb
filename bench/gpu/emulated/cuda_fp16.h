// Stands in for the CUDA toolkit's header when a kernel is compiled for the emulated device.
#pragma once

#include "../arithmetic.h"

struct __half {
  uint16_t bits;
};
inline float __half2float(__half x) {
  return probe::to_float(x.bits, probe::OperandType::kFp16);
}
inline __half __float2half_rn(float x) {
  return {probe::from_float(x, probe::OperandType::kFp16)};
}
