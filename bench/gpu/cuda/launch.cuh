// Launches kernels of kernels/ on a GPU. emulated/launch.cuh has the same function for the emulated device.
#pragma once

#include <cuda_runtime.h>

#include <stdexcept>
#include <string>

// Throws std::runtime_error if the launch fails. Errors of the kernel itself appear at a later call.
template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), dim3 grid, int block, size_t shared_bytes, cudaStream_t stream,
            Arguments... arguments) {
  constexpr size_t kDefaultLimit = 48 << 10;  // a kernel has to request more
  cudaError_t status = cudaSuccess;
  if (shared_bytes > kDefaultLimit)
    status = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  static_cast<int>(shared_bytes));
  if (status == cudaSuccess) {
    kernel<<<grid, static_cast<unsigned>(block), shared_bytes, stream>>>(arguments...);
    status = cudaGetLastError();
  }
  if (status != cudaSuccess)
    throw std::runtime_error(std::string("cannot launch a kernel: ") + cudaGetErrorString(status));
}
