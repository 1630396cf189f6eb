// The tile sizes of gemm_mma that the programs compile. Rings of 36 KB and more keep enough bytes in flight.
#pragma once

#include "gemm_mma.cuh"

namespace gemm_tiles {

//                          warps, tokens, stages
template <class T>
using Rows16 = GemmMma<T, 1, 16, 9>;
template <class T>
using Rows64 = GemmMma<T, 4, 32, 4>;
template <class T>
using Rows128 = GemmMma<T, 8, 128, 3>;

}  // namespace gemm_tiles
