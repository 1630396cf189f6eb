// Writes JSON into a string, without building a tree first. The caller balances begin and end and writes a
// key before each value of an object.
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>

namespace quire {

// `text` as a JSON string with its quotes. Bytes that are not UTF-8 become U+FFFD.
void append_json_string(std::string& out, std::string_view text);

class JsonOut {
 public:
  explicit JsonOut(std::string& out) : out_(out) {}

  JsonOut& begin_object() { return open('{'); }
  JsonOut& end_object() { return close('}'); }
  JsonOut& begin_array() { return open('['); }
  JsonOut& end_array() { return close(']'); }
  JsonOut& key(std::string_view name);
  JsonOut& string(std::string_view text);
  JsonOut& string_or_null(std::string_view text) { return text.empty() ? null() : string(text); }
  template <std::integral T>
  JsonOut& integer(T value) {
    return raw(std::to_string(value));
  }
  // The shortest form that reads back as the same value; null for NaN and infinities.
  JsonOut& number(float value);
  JsonOut& number(double value);
  JsonOut& boolean(bool value) { return raw(value ? "true" : "false"); }
  JsonOut& null() { return raw("null"); }
  // A complete JSON value.
  JsonOut& raw(std::string_view json);

 private:
  JsonOut& open(char bracket);
  JsonOut& close(char bracket);
  void separate();

  std::string& out_;
  bool comma_ = false;
};

}  // namespace quire
