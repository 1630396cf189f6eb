// Reads the fields of structural tags, and has the first error. The base of the parser of one structural tag;
// used by one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace quire::grammar {

using TagJson = nlohmann::ordered_json;

// The field of the object; null if it is absent or null.
const TagJson* value_of(const TagJson& object, const char* name);

// After the first error all functions return default values. Pointers are JSON pointers to the object.
class StructuralTagReader {
 protected:
  bool failed() const { return !message_.empty(); }
  void fail(const std::string& pointer, std::string_view message);

  // Whether the value is an object that has the required fields and no unknown ones.
  bool check_fields(const TagJson& object, const std::string& pointer,
                    std::initializer_list<std::string_view> required,
                    std::initializer_list<std::string_view> optional);
  std::string text_field(const TagJson& object, const std::string& pointer, const char* name);
  bool flag_field(const TagJson& object, const std::string& pointer, const char* name, bool default_value);
  const TagJson& list_field(const TagJson& object, const std::string& pointer, const char* name);
  // Texts that are not empty; none if the field is absent.
  std::vector<std::string> texts_field(const TagJson& object, const std::string& pointer, const char* name);
  // A number from -1 to `limit`.
  int64_t number_field(const TagJson& object, const std::string& pointer, const char* name, int64_t limit);

  // Bounds comparisons of all texts with each other.
  static constexpr size_t kMaxTexts = 1'000;

  std::string message_;  // the first error, empty so far
};

}  // namespace quire::grammar
