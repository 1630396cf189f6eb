// Reading of large JSON files with RapidJSON; errors contain the file and the location in it.
#pragma once

#include <rapidjson/document.h>

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "io/config_fields.h"
#include "io/json_allocator.h"

namespace quire::tokenizer {

using JsonDocument = rapidjson::GenericDocument<rapidjson::UTF8<>,
                                                rapidjson::MemoryPoolAllocator<JsonAllocator>, JsonAllocator>;
using JsonValue = JsonDocument::ValueType;

// A parsed file. The strings of the document point into `text`.
struct JsonFile {
  std::string name;  // for messages
  std::string text;
  JsonDocument document;
};

// Throws Error with line and column if the text is not JSON, not UTF-8, or not an object.
void parse_json(std::string_view text, JsonFile& file);

inline constexpr int kDeepestSequence = 16;  // maximum nesting of the steps of type "Sequence"

// A value of a parsed file and its location, such as "tokenizer.json: model.vocab". The value may be null or
// absent; readers report the expected type. Copying is cheap except for the path, so large arrays are
// traversed with value().
class JsonPlace {
 public:
  // log: remembers the members that are asked for, by their paths.
  JsonPlace(const JsonValue* value, std::string path, FieldLog* log = nullptr)
      : value_(value), path_(std::move(path)), log_(log) {}

  const JsonValue& value() const { return *value_; }
  const std::string& path() const { return path_; }
  bool present() const { return value_ != nullptr && !value_->IsNull(); }

  // The member, which may be absent. This value must be an object.
  JsonPlace member(const char* name) const;
  JsonPlace element(rapidjson::SizeType i) const;

  void expect_object() const;
  void expect_array() const;
  std::string_view string() const;
  std::string_view string_or(std::string_view otherwise) const;  // `otherwise` if absent or null
  bool boolean_or(bool otherwise) const;
  uint64_t integer(uint64_t highest) const;  // 0 to highest
  uint64_t integer_or(uint64_t otherwise, uint64_t highest) const;
  double number() const;
  // The "type" member of an object.
  std::string_view type() const;

  [[noreturn]] void fail(const std::string& what) const;

 private:
  const JsonValue* value_;
  std::string path_;
  FieldLog* log_;
};

// unread_warning() for the members of a file; a member whose own members were asked for counts one by one.
std::string unread_warning(ConfigFile kind, const JsonFile& file, const FieldLog& log);

// A string of a JSON value.
inline std::string_view view(const JsonValue& v) {
  return {v.GetString(), v.GetStringLength()};
}

}  // namespace quire::tokenizer
