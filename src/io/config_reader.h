// Reads fields of a JSON object, usually config.json, with their limits. Every error is an Error "<file>:
// '<field>' …"; in errors of GGUF files the key of the metadata replaces the field. A field that is null
// counts as absent. A FieldLog remembers which fields were asked for, so that those that nothing reads can be
// named. Load time only; single-threaded.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "io/config_origin.h"

namespace quire {

// The fields of a file that were asked for, by their paths: "rope_scaling.factor".
class FieldLog {
 public:
  void add(std::string path) { paths_.insert(std::move(path)); }
  bool contains(std::string_view path) const { return paths_.contains(path); }
  struct Unread {
    std::string path;
    const nlohmann::json* value;
  };
  // The fields of `object` that were not asked for. Those of an object within it count one by one if
  // ConfigReader::object read it. Fields that are null or empty are left out: they say nothing.
  std::vector<Unread> unread(const nlohmann::json& object, const std::string& path = "") const;

 private:
  std::set<std::string, std::less<>> paths_;
};

// A view of a JSON object, which must outlive it, and so must the log.
class ConfigReader {
 public:
  // path: prefix of field names in errors, such as "rope_scaling." for an object within the configuration.
  explicit ConfigReader(const nlohmann::json& object, std::string path = "", ConfigOrigin origin = {},
                        FieldLog* log = nullptr);

  bool has(std::string_view field) const { return find(field) != nullptr; }
  // Whether the field is present, even if it is null.
  bool mentions(std::string_view field) const { return object_->contains(field); }
  const std::string& path() const { return path_; }
  // The whole object. Reading it this way does not count as asking for its fields.
  const nlohmann::json& json() const { return *object_; }
  // A reader of the same fields in another form.
  ConfigReader converted(const nlohmann::json& object) const {
    return ConfigReader(object, path_, origin_, log_);
  }
  const ConfigOrigin& origin() const { return *origin_; }
  // Null if the field is absent.
  const nlohmann::json* find(std::string_view field) const;
  // The object of the field; an empty one if it is absent.
  ConfigReader object(std::string_view field) const;

  // A value in [low, high]. Without a fallback the field is required.
  int64_t integer(std::string_view field, int64_t low, int64_t high,
                  std::optional<int64_t> fallback = {}) const;
  double number(std::string_view field, double low, double high, std::optional<double> fallback = {}) const;
  bool boolean(std::string_view field, bool fallback) const;
  std::string text(std::string_view field, std::string_view fallback) const;
  std::vector<std::string> texts(std::string_view field) const;  // a list of strings; empty if absent
  std::vector<int64_t> integers(std::string_view field, int64_t low,
                                int64_t high) const;                                   // empty if absent
  std::vector<double> numbers(std::string_view field, double low, double high) const;  // empty if absent
  // One integer or a list of them; values outside [0, end) are left out.
  std::vector<int32_t> token_ids(std::string_view field, int64_t end) const;

  [[noreturn]] void fail(std::string_view field, std::string_view problem) const;

 private:
  ConfigReader(const nlohmann::json& object, std::string path, std::shared_ptr<const ConfigOrigin> origin,
               FieldLog* log);
  // The list of the field; an empty one if it is absent. items: what it holds, for errors.
  const nlohmann::json& list(std::string_view field, std::string_view items) const;

  const nlohmann::json* object_;
  std::string path_;
  std::shared_ptr<const ConfigOrigin> origin_;  // origin of the outermost object
  FieldLog* log_;
};

}  // namespace quire
