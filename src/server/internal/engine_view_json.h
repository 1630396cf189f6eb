// An EngineView as JSON, for the web page. Times are milliseconds relative to the snapshot, negative in the
// past, and null if something has not happened.
#pragma once

#include <cstdint>
#include <string>

#include "engine/engine_view.h"

namespace quire {

// The cells of a pool are run-length encoded: "cells" has six integers per run, the number of equal cells,
// and of each cell the owner (index into "requests", or -1), the largest reference count, used blocks, cached
// blocks, and the percentage of the used blocks' slots that hold a token.
std::string engine_view_json(const EngineView& view, int32_t block_size);

}  // namespace quire
