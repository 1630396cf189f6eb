#include "../kernels/gemm_wgmma.cuh"

namespace probe::wgmma {

void bf16_128x64(const WgmmaProblem& problem, cudaStream_t stream) {
  run<cutlass::bfloat16_t, 128, 64>(problem, stream);
}
void bf16_128x128(const WgmmaProblem& problem, cudaStream_t stream) {
  run<cutlass::bfloat16_t, 128, 128>(problem, stream);
}
void bf16_128x256(const WgmmaProblem& problem, cudaStream_t stream) {
  run<cutlass::bfloat16_t, 128, 256>(problem, stream);
}

}  // namespace probe::wgmma
