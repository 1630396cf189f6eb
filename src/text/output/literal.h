// Conversion of values in a model's output to JSON, byte by byte and with constant state.
#pragma once

#include <bitset>
#include <cstdint>
#include <string>
#include <string_view>

namespace quire {

// append_json_escaped() for each byte.
void append_escaped(std::string& out, std::string_view text);
// The text without white space around it.
std::string_view without_spaces(std::string_view text);

// The JSON of a number, true, false or null in JSON's or Python's spelling; "" for other texts. White space
// around it is ignored.
std::string scalar_json(std::string_view text);

// Converts one value. The caller passes bytes until push() returns false or the value's end is known.
class LiteralConverter {
 public:
  enum class Dialect : uint8_t {
    kJson,    // JSON, or Python's repr(); white space and separators are copied
    kPython,  // Python; separators become those of json.dumps
    kGemma,   // bare keys; strings between calls of quote()
  };

  void start(Dialect dialect);
  // Returns false if `c` does not belong to the value, which is complete.
  bool push(char c, std::string& out);
  // A delimiter of strings in Gemma's dialect.
  void quote(std::string& out);
  // The end of the value, or of the output: appends a word that may have gone on.
  void finish(std::string& out);
  // The end of the value, though strings and brackets may be open: closes them.
  void close_all(std::string& out);

  bool in_string() const { return mode_ == Mode::kString || mode_ == Mode::kEscape || mode_ == Mode::kHex; }
  bool in_word() const { return mode_ == Mode::kWord || mode_ == Mode::kLongWord; }
  bool done() const { return done_; }
  bool started() const { return done_ || depth_ > 0 || mode_ != Mode::kBetween; }

 private:
  enum class Mode : uint8_t { kBetween, kString, kEscape, kHex, kWord, kLongWord };
  static constexpr size_t kMaxDepth = 128;

  bool between(char c, std::string& out);
  void string_byte(char c, std::string& out);
  void escape_byte(char c, std::string& out);
  void open(char c, std::string& out);
  void close(std::string& out);
  void begin_value(std::string& out);
  void end_value();
  void begin_string(char quote_char, std::string& out);
  bool ends_word(char c) const;
  void flush_word(std::string& out);
  bool in_dict() const { return depth_ > 0 && dicts_[depth_ - 1]; }

  Dialect dialect_ = Dialect::kJson;
  Mode mode_ = Mode::kBetween;
  char quote_ = '"';
  bool done_ = false;
  bool comma_ = false;  // a separator that has not been written
  bool key_ = false;    // the next value of a dictionary is a key
  uint8_t hex_left_ = 0;
  size_t depth_ = 0;
  size_t excess_ = 0;  // levels beyond kMaxDepth, which are not written
  std::bitset<kMaxDepth> dicts_;
  std::string word_;
};

// Follows a JSON value in order to copy it. Returns false from push() when `c` is not a part of the value.
class JsonCopier {
 public:
  void start() { *this = JsonCopier(); }
  bool push(char c);
  bool done() const { return done_; }
  bool in_string() const { return in_string_; }
  bool started() const { return started_; }

 private:
  int64_t depth_ = 0;
  bool in_string_ = false, escape_ = false, done_ = false, started_ = false, scalar_ = false;
};

inline bool is_json_space(char c) {
  return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

}  // namespace quire
