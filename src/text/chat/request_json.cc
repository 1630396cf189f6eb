#include "text/chat/request_json.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <utility>
#include <vector>

#include "base/strings.h"

namespace quire {
namespace {

// nlohmann's values have no kind for them; JSON texts have no binary values.
constexpr uint64_t kBigInteger = 1;

constexpr size_t kMaxDepth = 100;
// Objects keep their fields in a list, so reading an object with n fields takes n^2 / 2 comparisons. This
// limit is about half a second.
constexpr uint64_t kMaxComparisons = 200'000'000;

// Bytes of the parsed form, in addition to the text of the body. An array grows by doubling, so that each
// element counts for two.
constexpr uint64_t kContainerBytes = 64;
constexpr uint64_t kElementBytes = 2 * sizeof(Json);
constexpr uint64_t kFieldBytes = 2 * sizeof(Json::object_t::value_type);
constexpr uint64_t kStringBytes = 48;
// A parsed body may take this, and in addition this multiple of the body's size.
constexpr uint64_t kMaxParsedBytes = 16 << 20;
constexpr uint64_t kMaxParsedPerByte = 8;
// Parsing passes its yield point once per this many bytes, about every millisecond. A power of two.
constexpr size_t kBytesPerCheck = 1 << 16;

// The parser limits neither depth nor time nor memory, so that they are checked before it runs. Counts
// brackets, commas and strings; a body that is not valid JSON is left to the parser.
Status check_shape(std::string_view body, std::string_view what, const YieldPoint& yield_point) {
  struct Level {
    bool object;
    uint64_t commas;
  };
  std::vector<Level> levels;
  uint64_t comparisons = 0;
  uint64_t parsed_bytes = body.size();
  const uint64_t max_parsed_bytes = kMaxParsedBytes + kMaxParsedPerByte * body.size();
  bool in_string = false;
  for (size_t i = 0; i < body.size(); ++i) {
    if (i % kBytesPerCheck == 0) yield_point.check();
    const char c = body[i];
    if (in_string) {
      if (c == '\\') {
        ++i;
      } else if (c == '"') {
        in_string = false;
      }
      continue;
    }
    if (c == '"') {
      in_string = true;
      parsed_bytes += kStringBytes;
    } else if (c == '{' || c == '[') {
      parsed_bytes += kContainerBytes + (c == '{' ? kFieldBytes : kElementBytes);
      if (levels.size() == kMaxDepth)
        return invalid_argument(cat(what, " is nested deeper than ", kMaxDepth, " levels"));
      levels.push_back({c == '{', 0});
    } else if ((c == '}' || c == ']') && !levels.empty()) {
      levels.pop_back();
    } else if (c == ',' && !levels.empty() && levels.back().object) {
      parsed_bytes += kFieldBytes;
      comparisons += ++levels.back().commas;
      if (comparisons > kMaxComparisons)
        return invalid_argument(cat(what, " has too many fields in one object; the limit is about 20000"));
    } else if (c == ',') {
      parsed_bytes += kElementBytes;
    }
    if (parsed_bytes > max_parsed_bytes) {
      return Failure{ErrorKind::kTooLarge,
                     cat(what, " contains too many values for its size: parsed, it may take ",
                         format_bytes(static_cast<int64_t>(kMaxParsedBytes)), " and ", kMaxParsedPerByte,
                         " times its own ", format_bytes(static_cast<int64_t>(body.size()))),
                     ""};
    }
  }
  return {};
}

// The bytes of a body, for the parser. Passes the yield point on the way.
class CheckedBytes {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CheckedBytes(const char* position, const YieldPoint& yield_point)
      : position_(position), yield_point_(&yield_point) {}
  reference operator*() const { return *position_; }
  CheckedBytes& operator++() {
    if (reinterpret_cast<uintptr_t>(++position_) % kBytesPerCheck == 0) yield_point_->check();
    return *this;
  }
  bool operator==(const CheckedBytes& other) const { return position_ == other.position_; }

 private:
  const char* position_;
  const YieldPoint* yield_point_;
};

// nlohmann's "[json.exception.parse_error.101] parse error at line 1, column 2: ..." without the part for
// programmers.
std::string readable(std::string_view what) {
  const size_t end = what.find("] ");
  return std::string(end == std::string_view::npos ? what : what.substr(end + 2));
}

// Builds the parsed value; keeps the digits of integers beyond 64 bits in the fields that ask for it.
class RequestBuilder final : public nlohmann::json_sax<Json> {
 public:
  explicit RequestBuilder(std::span<const std::string_view> exact_fields)
      : exact_fields_(exact_fields), exact_(exact_fields.empty()) {}

  bool null() override { return put(nullptr) != nullptr; }
  bool boolean(bool value) override { return put(value) != nullptr; }
  bool number_integer(number_integer_t value) override { return put(value) != nullptr; }
  bool number_unsigned(number_unsigned_t value) override { return put(value) != nullptr; }
  bool number_float(number_float_t value, const string_t& digits) override {
    const bool whole = digits.find_first_not_of("0123456789", digits[0] == '-' ? 1 : 0) == string_t::npos;
    if (!exact_ || !whole) return put(value) != nullptr;
    return put(Json::binary({digits.begin(), digits.end()}, kBigInteger)) != nullptr;
  }
  bool string(string_t& value) override { return put(std::move(value)) != nullptr; }
  bool binary(binary_t& /*value*/) override { return false; }  // JSON texts have none
  bool start_object(size_t /*size*/) override {
    open_.push_back(put(Json::object()));
    return true;
  }
  bool key(string_t& name) override {
    if (open_.size() == 1 && !exact_fields_.empty())
      exact_ = std::ranges::find(exact_fields_, name) != exact_fields_.end();
    field_ = &(*open_.back())[name];
    return true;
  }
  bool end_object() override { return close(); }
  bool start_array(size_t /*size*/) override {
    open_.push_back(put(Json::array()));
    return true;
  }
  bool end_array() override { return close(); }
  bool parse_error(size_t /*position*/, const std::string& /*token*/, const Json::exception& error) override {
    error_ = readable(error.what());
    return false;
  }

  Json& value() { return value_; }
  const std::string& error() const { return error_; }

 private:
  Json* put(Json value) {
    if (open_.empty()) {
      value_ = std::move(value);
      return &value_;
    }
    if (open_.back()->is_array()) return &open_.back()->emplace_back(std::move(value));
    *field_ = std::move(value);
    return field_;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  std::span<const std::string_view> exact_fields_;
  bool exact_;
  Json value_;
  std::vector<Json*> open_;  // the arrays and objects around the position
  Json* field_ = nullptr;    // current field of the innermost object
  std::string error_;
};

}  // namespace

Json require_json(std::string_view text, std::string_view what) {
  auto value = parse_request_json(text, what);
  if (!value.ok()) throw Error(value.failure().message);
  return std::move(value).value();
}

std::string_view big_integer(const Json& value) {
  if (!value.is_binary() || !value.get_binary().has_subtype() || value.get_binary().subtype() != kBigInteger)
    return {};
  return {reinterpret_cast<const char*>(value.get_binary().data()), value.get_binary().size()};
}

std::string_view json_type_name(const Json& value) {
  switch (value.type()) {
    case Json::value_t::null:
      return "null";
    case Json::value_t::object:
      return "an object";
    case Json::value_t::array:
      return "an array";
    case Json::value_t::string:
      return "a string";
    case Json::value_t::boolean:
      return "a boolean";
    default:
      return "a number";
  }
}

Result<Json> parse_request_json(std::string_view text, std::string_view what, const YieldPoint& yield_point,
                                std::span<const std::string_view> exact_fields) {
  if (const Status shape = check_shape(text, what, yield_point); !shape.ok()) return shape.failure();
  RequestBuilder builder(exact_fields);
  const bool valid = Json::sax_parse(CheckedBytes(text.data(), yield_point),
                                     CheckedBytes(text.data() + text.size(), yield_point), &builder);
  if (!valid) return invalid_argument(cat(what, " is not valid JSON: ", builder.error()));
  return std::move(builder.value());
}

}  // namespace quire
