#include "grammar/structural_tag_reader.h"

#include <algorithm>
#include <utility>

#include "base/strings.h"
#include "text/unicode/unicode.h"

namespace quire::grammar {

const TagJson* value_of(const TagJson& object, const char* name) {
  const auto value = object.find(name);
  return value == object.end() || value->is_null() ? nullptr : &*value;
}

void StructuralTagReader::fail(const std::string& pointer, std::string_view message) {
  if (!failed()) message_ = cat(pointer.empty() ? "/" : pointer, ": ", message);
}

bool StructuralTagReader::check_fields(const TagJson& object, const std::string& pointer,
                                       std::initializer_list<std::string_view> required,
                                       std::initializer_list<std::string_view> optional) {
  if (!object.is_object()) {
    fail(pointer, "an object is expected");
    return false;
  }
  for (const std::string_view name : required)
    if (!object.contains(name)) fail(pointer, cat("missing field '", name, "'"));
  for (const auto& [name, value] : object.items()) {
    const bool known = name == "type" ||
                       std::find(required.begin(), required.end(), name) != required.end() ||
                       std::find(optional.begin(), optional.end(), name) != optional.end();
    // Libraries write fields without a value as null.
    if (!known && !value.is_null())
      fail(pointer, cat("the field '", unicode::to_valid(name.substr(0, 100)), "' is not supported"));
  }
  return !failed();
}

std::string StructuralTagReader::text_field(const TagJson& object, const std::string& pointer,
                                            const char* name) {
  const auto value = object.find(name);
  if (value != object.end() && value->is_string() && is_valid_utf8(value->get_ref<const std::string&>()))
    return value->get<std::string>();
  fail(cat(pointer, "/", name), "a string is expected");
  return {};
}

bool StructuralTagReader::flag_field(const TagJson& object, const std::string& pointer, const char* name,
                                     bool default_value) {
  const TagJson* value = value_of(object, name);
  if (value == nullptr) return default_value;
  if (value->is_boolean()) return value->get<bool>();
  fail(cat(pointer, "/", name), "true or false is expected");
  return default_value;
}

const TagJson& StructuralTagReader::list_field(const TagJson& object, const std::string& pointer,
                                               const char* name) {
  static const TagJson kEmpty = TagJson::array();
  const auto value = object.find(name);
  if (value != object.end() && value->is_array()) return *value;
  fail(cat(pointer, "/", name), "a list is expected");
  return kEmpty;
}

std::vector<std::string> StructuralTagReader::texts_field(const TagJson& object, const std::string& pointer,
                                                          const char* name) {
  std::vector<std::string> texts;
  if (value_of(object, name) == nullptr) return texts;
  const TagJson& list = list_field(object, pointer, name);
  if (list.size() > kMaxTexts) fail(cat(pointer, "/", name), cat("more than ", kMaxTexts, " texts"));
  for (size_t i = 0; i < list.size() && !failed(); ++i) {
    const bool valid = list[i].is_string() && !list[i].get_ref<const std::string&>().empty() &&
                       is_valid_utf8(list[i].get_ref<const std::string&>());
    if (!valid) {
      fail(cat(pointer, "/", name, "/", i), "a string that is not empty is expected");
    } else {
      texts.push_back(list[i].get<std::string>());
    }
  }
  return texts;
}

int64_t StructuralTagReader::number_field(const TagJson& object, const std::string& pointer, const char* name,
                                          int64_t limit) {
  const TagJson* value = value_of(object, name);
  if (value != nullptr && value->is_number_integer()) {
    const bool fits = !value->is_number_unsigned() || value->get<uint64_t>() <= static_cast<uint64_t>(limit);
    const int64_t number = fits ? value->get<int64_t>() : limit + 1;
    if (number >= -1 && number <= limit) return number;
  }
  fail(cat(pointer, "/", name), cat("a number up to ", limit, " is expected"));
  return 0;
}

}  // namespace quire::grammar
