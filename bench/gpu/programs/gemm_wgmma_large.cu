#include "../kernels/gemm_wgmma.cuh"

namespace probe::wgmma {

void bf16_64(const WgmmaProblem& problem, cudaStream_t stream) {
  run<cutlass::bfloat16_t, 64>(problem, stream);
}
void bf16_128(const WgmmaProblem& problem, cudaStream_t stream) {
  run<cutlass::bfloat16_t, 128>(problem, stream);
}
void bf16_256(const WgmmaProblem& problem, cudaStream_t stream) {
  run<cutlass::bfloat16_t, 256>(problem, stream);
}

}  // namespace probe::wgmma
