// Layout of matrix tiles in shared memory.
#pragma once

#include <cuda_runtime.h>

// A row consists of chunks of 8 elements of 16 bits. Chunk `index` is stored at index ^ row % 8, so that 8
// rows of one column, which ldmatrix reads at once, use different banks. Returns the offset of the chunk
// in its row, in elements.
__device__ inline int swizzle(int row, int index) {
  return (index ^ row % 8) * 8;
}
