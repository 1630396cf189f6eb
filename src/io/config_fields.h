// Fields of a model's configuration files that nothing reads. Readers record what they ask for (FieldLog);
// this table lists the fields that may stay unread, because they do not change the output. All others are
// named in a warning.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>

#include "io/config_reader.h"

namespace quire {

enum class ConfigFile : uint8_t {
  kModel,                 // config.json, without the next
  kQuantization,          // its quantization_config, or quantize_config.json
  kGeneration,            // generation_config.json
  kTokenizer,             // tokenizer.json
  kTokenizerConfig,       // tokenizer_config.json and special_tokens_map.json
  kSentenceTransformers,  // modules.json, the files of its modules, config_sentence_transformers.json
  kGguf,                  // metadata of a GGUF file
  kIndex,                 // model.safetensors.index.json
};

struct FieldWithoutEffect {
  ConfigFile file;
  std::string_view field;        // its path, or a pattern of fnmatch() for several
  std::string_view reason;       // why it does not change the output
  std::string_view value = "";   // JSON: only this value has no effect; empty = no value has one
  std::string_view models = "";  // kModel and kGguf: the model types that it is limited to
};
std::span<const FieldWithoutEffect> fields_without_effect();

// model_type: of config.json, or general.architecture of a GGUF file.
bool has_no_effect(ConfigFile kind, std::string_view field, const nlohmann::json& value,
                   std::string_view model_type = "");

// A sentence that names the fields of `object` that nothing read and that could change the output; empty if
// there are none. file: its name in the message; path: of the object in it.
std::string unread_warning(ConfigFile kind, const std::string& file, const FieldLog& log,
                           const nlohmann::json& object, const std::string& path = "",
                           std::string_view model_type = "");
// The same for fields that are known to be unread.
std::string unread_warning(const std::string& file, const std::vector<std::string>& fields);

}  // namespace quire
