#include "gemm_wgmma.h"

#include <stdexcept>

namespace probe {
namespace {

using Run = void (*)(const WgmmaProblem&, cudaStream_t);

Run find(OperandType type, int tile_tokens) {
  if (type == OperandType::kFp16) return tile_tokens == 64 ? wgmma::fp16_64 : nullptr;
  switch (tile_tokens) {
    case 16:
      return wgmma::bf16_16;
    case 32:
      return wgmma::bf16_32;
    case 64:
      return wgmma::bf16_64;
    case 128:
      return wgmma::bf16_128;
    case 256:
      return wgmma::bf16_256;
    default:
      return nullptr;
  }
}

}  // namespace

bool has_wgmma(OperandType type, int tile_tokens) {
  return find(type, tile_tokens) != nullptr;
}

void run_gemm_wgmma(OperandType type, int tile_tokens, const WgmmaProblem& problem, cudaStream_t stream) {
  const Run run = find(type, tile_tokens);
  if (run == nullptr) throw std::runtime_error("no wgmma kernel is compiled for this type and tile");
  run(problem, stream);
}

}  // namespace probe
