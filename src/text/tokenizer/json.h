// Reading big JSON files: RapidJSON with errors that name the file and the place in it.
#pragma once

#include <rapidjson/document.h>

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

namespace quire::tokenizer {

using JsonValue = rapidjson::Value;

// A parsed file. The document's strings lie in `text`.
struct JsonFile {
  std::string name;  // for messages
  std::string text;
  rapidjson::Document document;
};

// Throws Error with line and column when the text is not JSON, not UTF-8, or not an object.
void parse_json(std::string_view text, JsonFile& file);

// A value of a parsed file together with where it is, e.g. "tokenizer.json: model.vocab". The value may be
// null or absent; the readers say what was expected. Cheap to copy but for the path, so big arrays are walked
// through value().
class JsonPlace {
 public:
  JsonPlace(const JsonValue* value, std::string path) : value_(value), path_(std::move(path)) {}

  const JsonValue& value() const { return *value_; }
  const std::string& path() const { return path_; }
  bool present() const { return value_ != nullptr && !value_->IsNull(); }

  // The member, which may be absent. This place must be an object.
  JsonPlace member(const char* name) const;
  JsonPlace element(rapidjson::SizeType i) const;

  void expect_object() const;
  void expect_array() const;
  std::string_view string() const;
  std::string_view string_or(std::string_view otherwise) const;  // absent or null gives `otherwise`
  bool boolean_or(bool otherwise) const;
  uint64_t integer(uint64_t highest) const;  // 0 .. highest
  uint64_t integer_or(uint64_t otherwise, uint64_t highest) const;
  double number() const;
  // The "type" member of an object.
  std::string_view type() const;

  [[noreturn]] void fail(const std::string& what) const;

 private:
  const JsonValue* value_;
  std::string path_;
};

// A string of a JSON value.
inline std::string_view view(const JsonValue& v) {
  return {v.GetString(), v.GetStringLength()};
}

}  // namespace quire::tokenizer
