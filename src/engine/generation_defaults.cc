#include "engine/generation_defaults.h"

#include <array>
#include <limits>
#include <utility>

#include "base/error.h"
#include "base/strings.h"
#include "io/config_fields.h"
#include "io/config_reader.h"
#include "sample/validate.h"

namespace quire {
namespace {

constexpr const char* kFile = "generation_config.json";

// Calls read(), which throws Error if a value is of no use. warnings: null = the caller gets the Error.
template <typename Read>
void read_or_warn(std::vector<std::string>* warnings, const Read& read) {
  if (warnings == nullptr) return read();
  try {
    read();
  } catch (const Error& error) {
    std::string problem = error.what();
    if (problem.ends_with('.')) problem.pop_back();
    warnings->push_back(problem + "; this default is not used");
  }
}

void require_valid(const SamplingParams& params, int64_t vocab_size, const char* source) {
  const Status valid = validate(params, static_cast<int32_t>(vocab_size), -1);
  if (!valid.ok()) throw Error(cat(source, ": ", valid.failure().message));
}

void read_sampling(const ConfigReader& config, int64_t vocab_size, const char* source,
                   std::vector<std::string>* warnings, GenerationDefaults& out) {
  constexpr std::pair<const char*, float SamplingParams::*> kNumbers[] = {
      {"temperature", &SamplingParams::temperature},
      {"top_p", &SamplingParams::top_p},
      {"min_p", &SamplingParams::min_p},
      {"repetition_penalty", &SamplingParams::repetition_penalty},
      {"typical_p", &SamplingParams::typical_p},
      {"xtc_probability", &SamplingParams::xtc_probability},
      {"xtc_threshold", &SamplingParams::xtc_threshold},
      {"mirostat_tau", &SamplingParams::mirostat_tau},
      {"mirostat_eta", &SamplingParams::mirostat_eta},
  };
  constexpr double kLargest = std::numeric_limits<float>::max();
  for (const auto& [field, member] : kNumbers) {
    read_or_warn(warnings, [&, name = field, to = member] {
      SamplingParams params = out.sampling;
      params.*to = static_cast<float>(config.number(name, -kLargest, kLargest, params.*to));
      require_valid(params, vocab_size, source);
      out.sampling = params;
    });
  }
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  read_or_warn(warnings, [&] {
    out.sampling.top_k = static_cast<int32_t>(config.integer("top_k", -1, kMost, out.sampling.top_k));
  });
  // Of GGUF files.
  read_or_warn(warnings, [&] {
    SamplingParams params = out.sampling;
    params.mirostat_mode = static_cast<int32_t>(config.integer("mirostat", 0, 2, params.mirostat_mode));
    require_valid(params, vocab_size, source);
    out.sampling = params;
  });
  read_or_warn(warnings, [&] {
    SamplingParams params = out.sampling;
    if (config.has("samplers")) params.samplers = config.texts("samplers");
    require_valid(params, vocab_size, source);
    out.sampling = params;
  });
  read_or_warn(warnings, [&] {
    if (!config.has("max_new_tokens")) return;
    out.max_new_tokens = static_cast<int32_t>(config.integer("max_new_tokens", 1, kMost));
    out.sampling.max_tokens = out.max_new_tokens;
  });
}

}  // namespace

GenerationDefaults read_generation_config(const std::optional<nlohmann::json>& file, int64_t vocab_size,
                                          bool use_sampling) {
  GenerationDefaults out;
  if (!file || !file->is_object()) return out;
  FieldLog log;
  const ConfigReader config(*file, "", ConfigOrigin{kFile}, &log);
  read_or_warn(&out.warnings, [&] { out.end_tokens = config.token_ids("eos_token_id", vocab_size); });
  if (!use_sampling) return out;
  read_sampling(config, vocab_size, kFile, &out.warnings, out);
  std::string warning = unread_warning(ConfigFile::kGeneration, kFile, log, *file);
  if (!warning.empty()) out.warnings.push_back(std::move(warning));
  return out;
}

void override_generation_defaults(const std::string& json, int64_t vocab_size, GenerationDefaults& defaults) {
  constexpr const char* kFlag = "--override-generation-config";
  const nlohmann::json object = nlohmann::json::parse(json, nullptr, false);
  if (!object.is_object()) throw Error(cat(kFlag, " must be a JSON object."));
  FieldLog log;
  const ConfigReader config(object, "", ConfigOrigin{kFlag}, &log);
  GenerationDefaults out = defaults;
  read_sampling(config, vocab_size, kFlag, nullptr, out);
  const std::string unread = unread_warning(ConfigFile::kGeneration, kFlag, log, object);
  if (!unread.empty()) throw Error(unread);
  defaults = std::move(out);
}

}  // namespace quire
