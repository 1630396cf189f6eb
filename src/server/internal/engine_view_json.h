// An EngineView as JSON, for the web page. Times are milliseconds relative to the snapshot, negative in the
// past, and null if something has not happened.
#pragma once

#include <string>

#include "engine/engine_view.h"

namespace quire {

// The cells of a pool are run-length encoded: "cells" has six integers per run, the number of equal cells,
// and of each cell the owner (index into "requests", or -1), the largest reference count, used blocks, cached
// blocks, and slots of the used blocks that hold a token. The runs of "placed" begin with the index of their
// first cell.
std::string engine_view_json(const EngineView& view);

}  // namespace quire
