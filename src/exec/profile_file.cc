#include "exec/profile_file.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <vector>

#include "base/error.h"
#include "base/strings.h"
#include "exec/local_executor.h"

namespace quire {
namespace {

// "qkv 960x576": calls of one kind, for the table.
std::string kind_of(const ProfileEvent& event) {
  if (event.depth == 0) return std::string(event.name);
  return cat(event.name, " ", event.columns, "x", event.depth);
}

// Percent that are shown as more than 100.
constexpr double kVisiblyAbove = 100.5;

double percent(double part, double whole) {
  return whole > 0 ? 100 * part / whole : 0;
}

// One line of the trace. Chrome counts in microseconds.
std::string trace_line(const OpProfile& profile, const ProfileEvent& event, double origin) {
  const double min_seconds = profile.least_seconds(event);
  std::string line = cat(R"({"name":")", kind_of(event), R"(","ph":"X","pid":1,"tid":1,"ts":)",
                         fixed((event.begin_s - origin) * 1e6, 3), R"(,"dur":)",
                         fixed(event.seconds * 1e6, 3), R"(,"args":{"rows":)", event.rows);
  if (min_seconds > 0) {
    line += cat(R"(,"bytes":)", fixed(event.bytes, 0), R"(,"flop":)", fixed(event.flop, 0), R"(,"GB/s":)",
                fixed(event.bytes / event.seconds / 1e9, 2), R"(,"GFLOP/s":)",
                fixed(event.flop / event.seconds / 1e9, 2), R"(,"percent of limit":)",
                fixed(percent(min_seconds, event.seconds), 1));
  }
  return line + "}}";
}

struct Total {
  std::string kind;
  int64_t calls = 0;
  double seconds = 0;
  double bytes = 0;
  double flop = 0;
  double least_seconds = 0;
};

std::vector<Total> totals_of(const OpProfile& profile) {
  std::map<std::string, Total> by_kind;
  for (const ProfileEvent& event : profile.events()) {
    Total& total = by_kind[kind_of(event)];
    ++total.calls;
    total.seconds += event.seconds;
    total.bytes += event.bytes;
    total.flop += event.flop;
    total.least_seconds += profile.least_seconds(event);
  }
  std::vector<Total> totals;
  for (auto& [kind, total] : by_kind) {
    total.kind = kind;
    totals.push_back(total);
  }
  std::sort(totals.begin(), totals.end(),
            [](const Total& a, const Total& b) { return a.seconds > b.seconds; });
  return totals;
}

}  // namespace

ProfileFile::ProfileFile(const std::string& path) : path_(path), out_(path) {
  if (!out_) throw Error(cat("--profile ", path, ": cannot be written"));
}

void ProfileFile::write(const OpProfile& profile) {
  const MachineLimits& limits = profile.limits();
  out_ << R"({"displayTimeUnit":"ms","otherData":{"read GB/s":)" << fixed(limits.read_bytes_per_s / 1e9, 2)
       << R"(,"float32 GFLOP/s":)" << fixed(limits.f32_flop_per_s / 1e9, 1) << R"(,"bfloat16 GFLOP/s":)"
       << fixed(limits.bf16_flop_per_s / 1e9, 1) << R"(,"int8 GFLOP/s":)"
       << fixed(limits.int8_flop_per_s / 1e9, 1) << R"(,"events dropped":)" << profile.num_dropped()
       << R"(},"traceEvents":[)";
  const char* separator = "\n";
  const double origin = profile.events().empty() ? 0.0 : profile.events().front().begin_s;
  for (const ProfileEvent& event : profile.events()) {
    out_ << separator << trace_line(profile, event, origin);
    separator = ",\n";
  }
  out_ << "\n]}\n";
  out_.close();
  if (!out_) throw Error(cat("--profile ", path_, ": writing failed; is the disk full?"));
}

std::string profile_table(const OpProfile& profile) {
  const std::vector<Total> totals = totals_of(profile);
  double whole = 0;
  for (const Total& total : totals) {
    if (total.kind == kStepEvent) whole = total.seconds;
  }
  char line[200];
  std::string text;
  bool any_above = false;
  const auto add = [&](const char* format, auto... values) {
    std::snprintf(line, sizeof(line), format, values...);
    text += line;
  };
  add("%-28s %8s %10s %7s %8s %9s %9s\n", "", "calls", "ms", "share", "GB/s", "GFLOP/s", "of limit");
  for (const Total& total : totals) {
    const double of_limit = percent(total.least_seconds, total.seconds);
    const bool above = of_limit >= kVisiblyAbove;
    any_above = any_above || above;
    add("%-28s %8lld %10.2f %6.1f%% %8.2f %9.2f %8.0f%%%s\n", total.kind.c_str(),
        static_cast<long long>(total.calls), total.seconds * 1e3, percent(total.seconds, whole),
        total.bytes / total.seconds / 1e9, total.flop / total.seconds / 1e9, of_limit,
        above ? " (from cache)" : "");
  }
  const MachineLimits& limits = profile.limits();
  add("The limits, measured at the start: %.1f GB/s read, %.0f GFLOP/s float32, %.0f bfloat16, %.0f int8.\n",
      limits.read_bytes_per_s / 1e9, limits.f32_flop_per_s / 1e9, limits.bf16_flop_per_s / 1e9,
      limits.int8_flop_per_s / 1e9);
  if (any_above) {
    text +=
        "Above 100%: data that earlier calls left in the caches of the processor, which are faster than the "
        "memory.\n";
  }
  return text;
}

}  // namespace quire
