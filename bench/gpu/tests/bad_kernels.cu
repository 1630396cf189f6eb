// Kernels that the compiler and check_kernels.py must reject. BAD selects one.
#if BAD == 0
// Nothing is wrong.
__global__ void kernel(float* out) {
  out[threadIdx.x] *= 2.0F;
}
#elif BAD == 1
// An array with computed indices is in local memory.
__global__ void kernel(float* out, const int* index) {
  float values[64];
  for (int i = 0; i < 64; ++i) values[i] = out[i];
  for (int i = 0; i < 64; ++i) values[index[i]] += 1.0F;
  for (int i = 0; i < 64; ++i) out[i] = values[index[63 - i]];
}
#elif BAD == 2
// Too few registers for what is live, so registers are spilled.
__global__ void __launch_bounds__(1024, 2) kernel(float* out, const float* in) {
  float values[96];
#pragma unroll
  for (int i = 0; i < 96; ++i) values[i] = in[i * 1024 + threadIdx.x];
  __syncthreads();
#pragma unroll
  for (int i = 0; i < 96; ++i) out[i * 1024 + threadIdx.x] = values[i] * values[95 - i];
}
#elif BAD == 3
// Double arithmetic.
__global__ void kernel(float* out) {
  out[threadIdx.x] = static_cast<float>(out[threadIdx.x] * 0.1);
}
#endif
