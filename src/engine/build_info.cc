#include "engine/build_info.h"

#include "exec/local_runtime.h"

// Set by the build (cmake/QuireProducts.cmake).
#ifndef QUIRE_VERSION
#define QUIRE_VERSION "0"
#endif
#ifndef QUIRE_GIT_COMMIT
#define QUIRE_GIT_COMMIT "unknown"
#endif

namespace quire {

BuildInfo build_info() {
  BuildInfo info;
  info.version = QUIRE_VERSION;
  info.commit = QUIRE_GIT_COMMIT;
  info.compiler = __VERSION__;
  info.isas = compiled_isas();
  info.chosen_isa = chosen_isa();
  return info;
}

}  // namespace quire
