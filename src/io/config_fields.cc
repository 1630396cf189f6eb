#include "io/config_fields.h"

#include <fnmatch.h>

#include <algorithm>
#include <vector>

#include "base/strings.h"

namespace quire {
namespace {

bool matches(std::string_view pattern, const std::string& field) {
  return ::fnmatch(std::string(pattern).c_str(), field.c_str(), FNM_NOESCAPE) == 0;
}

bool lists(std::string_view words, std::string_view word) {
  return cat(" ", words, " ").find(cat(" ", word, " ")) != std::string::npos;
}

std::string quoted_list(const std::vector<std::string>& fields) {
  constexpr size_t kShown = 12;
  std::string text;
  const size_t shown = std::min(kShown, fields.size());
  for (size_t i = 0; i < shown; ++i) {
    const bool last = i + 1 == fields.size();
    text += cat(i == 0 ? "" : last ? " and " : ", ", "'", fields[i].substr(0, 100), "'");
  }
  return fields.size() > shown ? cat(text, " and ", fields.size() - shown, " more") : text;
}

}  // namespace

bool has_no_effect(ConfigFile kind, std::string_view field, const nlohmann::json& value,
                   std::string_view model_type) {
  // Objects of MPT and DBRX that have the fields of transformers' base class, too.
  for (const std::string_view part : {"attn_config.", "ffn_config."}) {
    if (kind == ConfigFile::kModel && field.starts_with(part) &&
        has_no_effect(kind, field.substr(part.size()), value, model_type))
      return true;
  }
  const std::string name(field);
  return std::ranges::any_of(fields_without_effect(), [&](const FieldWithoutEffect& row) {
    return row.file == kind && matches(row.field, name) &&
           (row.value.empty() || nlohmann::json::parse(row.value) == value) &&
           (row.models.empty() || lists(row.models, model_type));
  });
}

std::string unread_warning(ConfigFile kind, const std::string& file, const FieldLog& log,
                           const nlohmann::json& object, const std::string& path,
                           std::string_view model_type) {
  std::vector<std::string> fields;
  for (const FieldLog::Unread& field : log.unread(object, path)) {
    if (!has_no_effect(kind, std::string_view(field.path).substr(path.size()), *field.value, model_type))
      fields.push_back(field.path);
  }
  return unread_warning(file, fields);
}

std::string unread_warning(const std::string& file, const std::vector<std::string>& fields) {
  if (fields.empty()) return "";
  return cat(file, ": ", quoted_list(fields), fields.size() == 1 ? " is" : " are",
             " unknown or not supported and ", fields.size() == 1 ? "has" : "have",
             " no effect, so that the output may differ from that of other programs");
}

}  // namespace quire
