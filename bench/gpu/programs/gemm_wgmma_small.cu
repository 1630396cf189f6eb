#include "../kernels/gemm_wgmma.cuh"

namespace probe::wgmma {

void bf16_16(const WgmmaProblem& problem, cudaStream_t stream) {
  run<cutlass::bfloat16_t, 16>(problem, stream);
}
void bf16_32(const WgmmaProblem& problem, cudaStream_t stream) {
  run<cutlass::bfloat16_t, 32>(problem, stream);
}
void fp16_64(const WgmmaProblem& problem, cudaStream_t stream) {
  run<cutlass::half_t, 64>(problem, stream);
}

}  // namespace probe::wgmma
