#include "server/openai/lora.h"

#include <algorithm>
#include <filesystem>
#include <string>

#include "base/strings.h"
#include "server/openai/errors.h"
#include "server/openai/field_reader.h"

namespace quire {
namespace {

// Whether path is `dir` or below it, after links and `..` are resolved.
bool is_below(const std::filesystem::path& path, const std::filesystem::path& dir) {
  std::error_code error;
  const auto resolved = std::filesystem::weakly_canonical(path, error);
  if (error) return false;
  const auto top = std::filesystem::weakly_canonical(dir, error);
  if (error) return false;
  return std::mismatch(top.begin(), top.end(), resolved.begin(), resolved.end()).first == top.end();
}

HttpResponse success(std::string text) {
  HttpResponse response;
  response.content_type = "text/plain; charset=utf-8";
  response.body = std::move(text);
  return response;
}

}  // namespace

HttpResponse load_lora_adapter(const Json& body, const ApiState& state) {
  FieldReader fields(body);
  const LoraModule module{fields.text("lora_name").value_or(""), fields.text("lora_path").value_or("")};
  const bool replace = fields.boolean("load_inplace").value_or(false);
  if (!fields.ok()) return error_response(fields.failure());
  if (module.name.empty() || module.path.empty())
    return error_response(400, "Both 'lora_name' and 'lora_path' must be given.");
  const ApiOptions& options = state.options;
  if (std::ranges::find(options.model_names, module.name) != options.model_names.end())
    return error_response(400, cat("'", module.name, "' is a name of the base model."), "lora_name");
  const auto allows = [&](const std::string& dir) { return is_below(module.path, dir); };
  if (std::ranges::none_of(options.lora_dirs, allows)) {
    return error_response(403,
                          "'lora_path' is outside of the directories that adapters may be loaded from "
                          "(--lora-allowed-dir, --lora-dir).",
                          "lora_path");
  }
  if (const Status loaded = state.engine.load_adapter(module, replace); !loaded.ok())
    return error_response(loaded.failure());
  return success(cat("Success: LoRA adapter '", module.name, "' added successfully."));
}

HttpResponse unload_lora_adapter(const Json& body, const ApiState& state) {
  FieldReader fields(body);
  const std::string name = fields.text("lora_name").value_or("");
  if (!fields.ok()) return error_response(fields.failure());
  if (name.empty()) return error_response(400, "'lora_name' must be given.", "lora_name");
  if (const Status unloaded = state.engine.unload_adapter(name); !unloaded.ok())
    return error_response(unloaded.failure());
  return success(cat("Success: LoRA adapter '", name, "' removed successfully."));
}

}  // namespace quire
