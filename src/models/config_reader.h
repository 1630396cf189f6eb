// Reads fields of config.json with their limits. Every complaint is an Error "config.json: '<field>' …". A
// field that is null counts as absent.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace quire {

// Looks at a JSON object that outlives it.
class ConfigReader {
 public:
  // `path` stands before field names in errors: "rope_scaling." for an object within the configuration.
  explicit ConfigReader(const nlohmann::json& object, std::string path = "");

  bool has(std::string_view field) const { return find(field) != nullptr; }
  // Whether the field is written at all, if only as null.
  bool mentions(std::string_view field) const { return object_->contains(field); }
  const nlohmann::json& json() const { return *object_; }
  // Null: absent.
  const nlohmann::json* find(std::string_view field) const;
  // The field's object; empty where it is absent.
  ConfigReader object(std::string_view field) const;

  // Within [low, high]; without a fallback the field must be there.
  int64_t integer(std::string_view field, int64_t low, int64_t high,
                  std::optional<int64_t> fallback = {}) const;
  double number(std::string_view field, double low, double high, std::optional<double> fallback = {}) const;
  bool boolean(std::string_view field, bool fallback) const;
  std::string text(std::string_view field, std::string_view fallback) const;
  std::vector<std::string> texts(std::string_view field) const;  // a list of strings; empty where absent
  std::vector<int64_t> integers(std::string_view field, int64_t low,
                                int64_t high) const;                                   // empty where absent
  std::vector<double> numbers(std::string_view field, double low, double high) const;  // empty where absent
  // One integer or a list of them; those outside [0, end) are left out.
  std::vector<int32_t> token_ids(std::string_view field, int64_t end) const;

  [[noreturn]] void fail(std::string_view field, std::string_view problem) const;

 private:
  const nlohmann::json* object_;
  std::string path_;
};

}  // namespace quire
