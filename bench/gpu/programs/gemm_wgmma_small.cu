#include "../kernels/gemm_wgmma.cuh"

namespace probe::wgmma {

void bf16_64x16(const WgmmaProblem& problem, cudaStream_t stream) {
  run<cutlass::bfloat16_t, 64, 16>(problem, stream);
}
void bf16_64x32(const WgmmaProblem& problem, cudaStream_t stream) {
  run<cutlass::bfloat16_t, 64, 32>(problem, stream);
}
void bf16_128x32(const WgmmaProblem& problem, cudaStream_t stream) {
  run<cutlass::bfloat16_t, 128, 32>(problem, stream);
}
void fp16_128x64(const WgmmaProblem& problem, cudaStream_t stream) {
  run<cutlass::half_t, 128, 64>(problem, stream);
}

}  // namespace probe::wgmma
