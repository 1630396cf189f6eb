#include "gemm_wgmma.h"

#include <stdexcept>

namespace probe {
namespace {

struct Kernel {
  OperandType type;
  WgmmaTile tile;
  void (*run)(const WgmmaProblem&, cudaStream_t);
};
constexpr Kernel kKernels[] = {
    {OperandType::kBf16, {64, 16}, wgmma::bf16_64x16},
    {OperandType::kBf16, {64, 32}, wgmma::bf16_64x32},
    {OperandType::kBf16, {128, 32}, wgmma::bf16_128x32},
    {OperandType::kBf16, {128, 64}, wgmma::bf16_128x64},
    {OperandType::kBf16, {128, 128}, wgmma::bf16_128x128},
    {OperandType::kBf16, {128, 256}, wgmma::bf16_128x256},
    {OperandType::kFp16, {128, 64}, wgmma::fp16_128x64},
};

const Kernel* find(OperandType type, const WgmmaTile& tile) {
  for (const Kernel& kernel : kKernels) {
    if (kernel.type == type && kernel.tile == tile) return &kernel;
  }
  return nullptr;
}

}  // namespace

bool has_wgmma(OperandType type, const WgmmaTile& tile) {
  return find(type, tile) != nullptr;
}

void run_gemm_wgmma(OperandType type, const WgmmaTile& tile, const WgmmaProblem& problem,
                    cudaStream_t stream) {
  const Kernel* kernel = find(type, tile);
  if (kernel == nullptr) throw std::runtime_error("no wgmma kernel is compiled for this type and tile");
  kernel->run(problem, stream);
}

}  // namespace probe
