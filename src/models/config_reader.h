// Reads fields of a JSON object, usually config.json, with their limits. Every error is an Error "<file>:
// '<field>' …". A field that is null counts as absent.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace quire {

// A view of a JSON object, which must outlive it.
class ConfigReader {
 public:
  // path: prefix of field names in errors, such as "rope_scaling." for an object within the configuration.
  explicit ConfigReader(const nlohmann::json& object, std::string path = "",
                        std::string file = "config.json");

  bool has(std::string_view field) const { return find(field) != nullptr; }
  // Whether the field is present, even if it is null.
  bool mentions(std::string_view field) const { return object_->contains(field); }
  const nlohmann::json& json() const { return *object_; }
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
  // The list of the field; an empty one if it is absent. items: what it holds, for errors.
  const nlohmann::json& list(std::string_view field, std::string_view items) const;

  const nlohmann::json* object_;
  std::string path_;
  std::string file_;
};

}  // namespace quire
