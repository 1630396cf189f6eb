// launch() of cuda/launch.cuh for the emulated device. The kernel has finished when it returns.
#pragma once

#include <cuda_runtime.h>

template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), dim3 grid, int block, size_t shared_bytes, cudaStream_t /*stream*/,
            Arguments... arguments) {
  auto body = [&] { kernel(arguments...); };
  emulated::run_grid({[](void* self) { (*static_cast<decltype(body)*>(self))(); }, &body}, grid,
                     {static_cast<unsigned>(block), 1, 1}, shared_bytes);
}
