#include "backends/cpu/cpu_backend.h"

#include <array>
#include <cstdlib>

#include "backends/cpu/cpu_features.h"
#include "backends/cpu/tables.h"
#include "base/error.h"
#include "ops/reference.h"

namespace quire {

std::span<const CpuIsa> cpu_isas() {
  static const std::array<CpuIsa, 6> levels = [] {
    const CpuFeatures& has = cpu_features();
    const auto row = [](std::string_view name, const cpu::Level& level, bool supported) {
      return CpuIsa{name, level.table, level.limits, supported};
    };
    return std::array<CpuIsa, 6>{{
        {"generic", &reference_ops(), cpu::generic_limits, true},
        row("avx2", cpu::avx2_level(), has.avx2),
        row("avx512", cpu::avx512_level(), has.avx512),
        row("avx512_vnni", cpu::avx512_vnni_level(), has.avx512_vnni),
        row("avx512_bf16", cpu::avx512_bf16_level(), has.avx512_bf16),
        row("amx_bf16", cpu::amx_bf16_level(), has.amx_bf16),
    }};
  }();
  return levels;
}

const CpuIsa& select_cpu_isa() {
  const char* forced = std::getenv("QUIRE_CPU_ISA");
  if (forced != nullptr && *forced != '\0') return select_cpu_isa(forced);
  const CpuIsa* best = nullptr;
  for (const CpuIsa& level : cpu_isas()) {
    if (level.supported) best = &level;
  }
  return *best;
}

const CpuIsa& select_cpu_isa(std::string_view name) {
  std::string usable;
  bool known = false;
  for (const CpuIsa& level : cpu_isas()) {
    if (level.name == name) {
      if (level.supported) return level;
      known = true;
    }
    if (level.supported) usable += (usable.empty() ? "" : ", ") + std::string(level.name);
  }
  throw Error(std::string("QUIRE_CPU_ISA: ") +
              (known ? "this machine does not support \"" : "unknown level \"") + std::string(name) +
              "\"; choose one of: " + usable);
}

}  // namespace quire
