// Names of parameters within a model, the same for all architectures and file formats.
#pragma once

#include <string_view>

namespace quire {

// The constants are in the header of the mechanism that owns the parameter, for example attention::kQProj.
struct ParamId {
  std::string_view name;

  constexpr bool empty() const { return name.empty(); }
  friend constexpr bool operator==(const ParamId&, const ParamId&) = default;
};

}  // namespace quire
