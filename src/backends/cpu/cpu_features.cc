#include "backends/cpu/cpu_features.h"

#include <cstdint>

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace quire {
namespace {

#if defined(__x86_64__)

bool bit(uint32_t word, int n) {
  return ((word >> n) & 1U) != 0;
}

// Reads XCR0, which describes the register sets that the operating system saves on a context switch.
uint64_t xcr0() {
  uint32_t low = 0;
  uint32_t high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (uint64_t{high} << 32) | low;
}

// Linux grants the tile registers (8 KiB per thread) only to processes that request them.
bool may_use_tiles() {
#if defined(__linux__)
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}

CpuFeatures detect() {
  CpuFeatures found;
  uint32_t a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0) return found;
  const bool fma = bit(c, 12);
  const bool f16c = bit(c, 29);
  const bool osxsave = bit(c, 27);
  if (!osxsave || !bit(c, 28)) return found;  // no AVX, or no support for it in the operating system
  const uint64_t saved = xcr0();
  const bool ymm_saved = (saved & 0x06U) == 0x06U;  // xmm, ymm
  const bool zmm_saved = (saved & 0xe6U) == 0xe6U;  // and mask registers, upper halves of zmm0-15, zmm16-31
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return found;
  found.avx2 = ymm_saved && fma && f16c && bit(b, 5);
  found.avx512 = found.avx2 && zmm_saved && bit(b, 16) && bit(b, 17) && bit(b, 30) && bit(b, 31);
  found.avx512_vnni = found.avx512 && bit(c, 11);
  const bool tiles_saved = (saved & 0x60000U) == 0x60000U;                 // configuration and data
  const bool amx = bit(d, 22) && bit(d, 24) && bit(d, 25) && tiles_saved;  // bfloat16, tiles, int8
  if (__get_cpuid_count(7, 1, &a, &b, &c, &d) == 0) return found;
  found.avx512_bf16 = found.avx512_vnni && bit(a, 5);
  found.amx_bf16 = found.avx512_bf16 && amx && may_use_tiles();
  return found;
}

#else

CpuFeatures detect() {
  return {};
}

#endif

}  // namespace

const CpuFeatures& cpu_features() {
  static const CpuFeatures features = detect();
  return features;
}

}  // namespace quire
