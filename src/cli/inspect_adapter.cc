#include "cli/inspect_adapter.h"

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/counted.h"
#include "base/log.h"
#include "base/strings.h"

namespace quire::cli {
namespace {

using nlohmann::ordered_json;

void line(std::string_view label, std::string_view value) {
  std::cout << label << std::string(label.size() < 12 ? 12 - label.size() : 1, ' ') << value << "\n";
}

ordered_json optional_text(const std::string& text) {
  return text.empty() ? ordered_json(nullptr) : ordered_json(text);
}

// With six significant digits.
std::string short_text(float value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", static_cast<double>(value));
  return text;
}

std::string change_text(const AdapterModulesReport& m) {
  // Norms have no inputs of their own.
  const std::string from = m.in_features > 0 ? cat(m.in_features, " to ") : std::string();
  const std::string shape = cat(from, m.out_features, " features");
  if (m.change == "replaced") return cat("replaced, ", shape);
  if (m.change == "bias") return cat("trained bias, ", m.out_features, " features");
  if (m.change == "tokens")
    return cat(counted(m.in_features, "trained token"), ", ", m.out_features, " features");
  return cat("rank ", m.rank, ", scale ", short_text(m.scale), ", ", shape);
}

}  // namespace

void print_adapter(const AdapterReport& r) {
  for (const std::string& warning : r.warnings) log_warning(warning);
  line("adapter", escape_log_text(r.path));
  if (!r.made_for.empty()) line("made for", escape_log_text(r.made_for));
  if (!r.model.empty()) line("model", escape_log_text(r.model));
  line("rank", cat("at most ", r.max_rank));
  line("size", cat(counted(r.num_modules, "module"), ", ", format_bytes(r.bytes),
                   r.model.empty() ? " in the file" : " in memory"));
  if (!r.digest.empty()) line("digest", r.digest);
  for (const AdapterModulesReport& m : r.modules) {
    line(&m == r.modules.data() ? "modules" : "",
         cat(m.modules, " × ", escape_log_text(m.name), ": ", change_text(m), ", ", m.dtype,
             m.experts > 0 ? cat(", each of ", counted(m.experts, "expert")) : "",
             m.bias && m.change != "bias" ? ", with biases" : ""));
  }
  constexpr size_t kShown = 10;
  const size_t shown = std::min(kShown, r.without_effect.size());
  for (size_t i = 0; i < shown; ++i) line(i == 0 ? "no effect" : "", escape_log_text(r.without_effect[i]));
  if (shown < r.without_effect.size()) line("", cat("and ", r.without_effect.size() - shown, " more"));
}

void print_adapter_json(const AdapterReport& r) {
  ordered_json modules = ordered_json::array();
  for (const AdapterModulesReport& m : r.modules) {
    modules.push_back({{"name", m.name},
                       {"modules", m.modules},
                       {"change", m.change},
                       {"rank", m.rank},
                       {"experts", m.experts > 0 ? ordered_json(m.experts) : ordered_json(nullptr)},
                       {"scale", m.scale},
                       {"in_features", m.in_features},
                       {"out_features", m.out_features},
                       {"dtype", m.dtype},
                       {"bias", m.bias}});
  }
  const ordered_json object = {{"adapter", r.path},
                               {"made_for", optional_text(r.made_for)},
                               {"peft_version", optional_text(r.peft_version)},
                               {"model", optional_text(r.model)},
                               {"digest", optional_text(r.digest)},
                               {"max_rank", r.max_rank},
                               {"num_modules", r.num_modules},
                               {"bytes", r.bytes},
                               {"modules", modules},
                               {"without_effect", r.without_effect},
                               {"warnings", r.warnings}};
  std::cout << object.dump(2, ' ', false, ordered_json::error_handler_t::replace) << "\n";
}

}  // namespace quire::cli
