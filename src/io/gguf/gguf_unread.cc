#include "io/gguf/gguf_unread.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/strings.h"
#include "io/config_fields.h"

namespace quire {
namespace {

// Null for arrays: no row of the table has an array as its value.
nlohmann::json json_of(const GgufValue& value) {
  if (const auto boolean = value.boolean()) return *boolean;
  if (const auto integer = value.integer()) return *integer;
  if (const auto number = value.decimal()) return *number;
  if (const auto text = value.text(); text && is_valid_utf8(*text)) return std::string(*text);
  return nullptr;
}

std::string architecture_of(const GgufFile& file) {
  const GgufValue* name = file.peek("general.architecture");
  return std::string(name == nullptr ? "" : name->text().value_or(""));
}

// families: the first parts of the keys.
std::vector<std::string> unread(const GgufFile& file, const std::vector<std::string>& families) {
  const std::string architecture = architecture_of(file);
  std::vector<std::string> keys;
  for (const auto& entry : file.metadata()) {
    const std::string& key = entry.first;
    const bool matters =
        std::ranges::any_of(families, [&](const std::string& family) { return key.starts_with(family); });
    if (matters && !file.asked().contains(key) &&
        !has_no_effect(ConfigFile::kGguf, key, json_of(entry.second), architecture))
      keys.push_back(key);
  }
  return keys;
}

}  // namespace

std::vector<std::string> unread_model_metadata(const GgufFile& file) {
  return unread(file, {architecture_of(file) + ".", "general.sampling.", "xielu."});
}

std::vector<std::string> unread_tokenizer_metadata(const GgufFile& file) {
  return unread(file, {"tokenizer."});
}

}  // namespace quire
