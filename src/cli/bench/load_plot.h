// The plots of `quire bench serve --svg`. Pure functions.
#pragma once

#include <string>
#include <vector>

#include "cli/bench/stats.h"

namespace quire::cli {

// An SVG document: histograms of TTFT and TPOT, output tokens per second over time, and a timeline of the
// requests. Failed requests are left out.
std::string load_plot(const std::string& subtitle, const std::vector<RequestRecord>& records);

}  // namespace quire::cli
