#include "server/openai/field_reader.h"

#include <cmath>
#include <iterator>

#include "base/strings.h"
#include "base/yield_point.h"

namespace quire {
namespace {

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
Status check_shape(std::string_view body, const YieldPoint& yield_point) {
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
        return invalid_argument(cat("the JSON body is nested deeper than ", kMaxDepth, " levels"));
      levels.push_back({c == '{', 0});
    } else if ((c == '}' || c == ']') && !levels.empty()) {
      levels.pop_back();
    } else if (c == ',' && !levels.empty() && levels.back().object) {
      parsed_bytes += kFieldBytes;
      comparisons += ++levels.back().commas;
      if (comparisons > kMaxComparisons)
        return invalid_argument("the JSON body has too many fields in one object; the limit is about 20000");
    } else if (c == ',') {
      parsed_bytes += kElementBytes;
    }
    if (parsed_bytes > max_parsed_bytes) {
      return Failure{ErrorKind::kTooLarge,
                     cat("the JSON body contains too many values for its size: parsed, it may take ",
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

}  // namespace

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

Result<Json> parse_json_object(std::string_view body, const YieldPoint& yield_point) {
  if (body.empty()) return invalid_argument("the request has no body; a JSON object is expected");
  if (const Status shape = check_shape(body, yield_point); !shape.ok()) return shape.failure();
  try {
    Json value = Json::parse(CheckedBytes(body.data(), yield_point),
                             CheckedBytes(body.data() + body.size(), yield_point));
    if (!value.is_object())
      return invalid_argument(cat("the body must be a JSON object, not ", json_type_name(value)));
    return value;
  } catch (const Json::exception& e) {
    return invalid_argument(cat("the body is not valid JSON: ", readable(e.what())));
  }
}

void FieldReader::fail(ErrorKind kind, std::string message, std::string_view param) {
  if (!failure_) failure_ = Failure{kind, std::move(message), std::string(param)};
}

void FieldReader::wrong_type(std::string_view name, std::string_view expected, const Json& value) {
  fail(cat(name, " must be ", expected, ", not ", json_type_name(value)), name);
}

const Json* FieldReader::any(std::string_view name) {
  const auto it = object_.find(std::string(name));
  if (it == object_.end()) return nullptr;
  read_.emplace(name);
  return it->is_null() ? nullptr : &*it;
}

std::optional<bool> FieldReader::boolean(std::string_view name) {
  const Json* value = any(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) {
    wrong_type(name, "true or false", *value);
    return std::nullopt;
  }
  return value->get<bool>();
}

std::optional<int64_t> FieldReader::integer(std::string_view name, int64_t low, int64_t high) {
  const Json* value = any(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number()) {
    wrong_type(name, "an integer", *value);
    return std::nullopt;
  }
  const auto out_of_range = [&] {
    fail(cat(name, " must be between ", low, " and ", high, ", not ", value->dump()), name);
  };
  int64_t result = 0;
  if (value->is_number_unsigned()) {
    const auto u = value->get<uint64_t>();
    if (u > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return out_of_range(), std::nullopt;
    result = static_cast<int64_t>(u);
  } else if (value->is_number_integer()) {
    result = value->get<int64_t>();
  } else {
    // 16.0 is an integer to many clients.
    const auto d = value->get<double>();
    if (std::nearbyint(d) != d) {
      fail(cat(name, " must be an integer, not ", value->dump()), name);
      return std::nullopt;
    }
    if (std::abs(d) > 9007199254740992.0) return out_of_range(), std::nullopt;
    result = static_cast<int64_t>(d);
  }
  if (result < low || result > high) return out_of_range(), std::nullopt;
  return result;
}

std::optional<int32_t> FieldReader::integer32(std::string_view name, int32_t low) {
  const auto value = integer(name, low, std::numeric_limits<int32_t>::max());
  return value ? std::optional<int32_t>(static_cast<int32_t>(*value)) : std::nullopt;
}

std::optional<double> FieldReader::number(std::string_view name) {
  const Json* value = any(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number()) {
    wrong_type(name, "a number", *value);
    return std::nullopt;
  }
  const auto d = value->get<double>();
  if (!std::isfinite(static_cast<float>(d))) {
    fail(cat(name, " is out of range: ", value->dump()), name);
    return std::nullopt;
  }
  return d;
}

std::optional<std::string> FieldReader::text(std::string_view name) {
  const Json* value = any(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) {
    wrong_type(name, "a string", *value);
    return std::nullopt;
  }
  return value->get<std::string>();
}

std::optional<std::vector<std::string>> FieldReader::texts(std::string_view name) {
  const Json* value = any(name);
  if (value == nullptr) return std::nullopt;
  if (value->is_string()) return std::vector<std::string>{value->get<std::string>()};
  if (!value->is_array()) {
    wrong_type(name, "a string or an array of strings", *value);
    return std::nullopt;
  }
  std::vector<std::string> result;
  for (const Json& element : *value) {
    if (!element.is_string()) {
      fail(cat(name, "[", result.size(), "] must be a string, not ", json_type_name(element)), name);
      return std::nullopt;
    }
    result.push_back(element.get<std::string>());
  }
  return result;
}

Result<std::vector<TokenId>> read_token_ids(const Json& array, std::string_view name, int32_t vocab_size) {
  std::vector<TokenId> ids;
  ids.reserve(array.size());
  for (const Json& element : array) {
    if (!element.is_number_integer()) {
      return invalid_argument(
          cat(name, "[", ids.size(), "] must be a token id, not ", json_type_name(element)),
          std::string(name));
    }
    const bool fits =
        element.is_number_unsigned() && element.get<uint64_t>() < static_cast<uint64_t>(vocab_size);
    if (!fits) {
      return invalid_argument(cat(name, "[", ids.size(), "] is ", element.dump(),
                                  "; the model's token ids are 0 to ", vocab_size - 1),
                              std::string(name));
    }
    ids.push_back(static_cast<TokenId>(element.get<uint64_t>()));
  }
  return ids;
}

std::optional<std::vector<TokenId>> FieldReader::tokens(std::string_view name, int32_t vocab_size) {
  const Json* value = array(name);
  if (value == nullptr) return std::nullopt;
  auto ids = read_token_ids(*value, name, vocab_size);
  if (!ids.ok()) {
    fail(ids.failure().message, name);
    return std::nullopt;
  }
  return std::move(ids).value();
}

const Json* FieldReader::object(std::string_view name) {
  const Json* value = any(name);
  if (value == nullptr || value->is_object()) return value;
  wrong_type(name, "an object", *value);
  return nullptr;
}

const Json* FieldReader::array(std::string_view name) {
  const Json* value = any(name);
  if (value == nullptr || value->is_array()) return value;
  wrong_type(name, "an array", *value);
  return nullptr;
}

std::vector<std::string> FieldReader::unread() const {
  std::vector<std::string> names;
  for (const auto& item : object_.items()) {
    if (!read_.contains(item.key())) names.push_back(item.key());
  }
  return names;
}

}  // namespace quire
