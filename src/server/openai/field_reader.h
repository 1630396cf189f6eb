// Reads the fields of a request's JSON object, checks their types and reports the fields that were not read.
// One reader per request.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/yield_point.h"
#include "contract/ids.h"
#include "server/serving_engine.h"

namespace quire {

// The body as a JSON object; fails like parse_request_json(), and if it is not an object.
Result<Json> parse_json_object(std::string_view body, const YieldPoint& yield_point = {});

// A field that is absent or null reads as nullopt. A field of the wrong type reads as nullopt too, and ok()
// becomes false; the first failure is kept, so that a caller can read all fields and check once.
class FieldReader {
 public:
  // `object` must be a JSON object and outlive the reader.
  explicit FieldReader(const Json& object) : object_(object) {}

  std::optional<bool> boolean(std::string_view name);
  // A number with an integral value in [low, high].
  std::optional<int64_t> integer(std::string_view name, int64_t low, int64_t high);
  std::optional<int32_t> integer32(std::string_view name, int32_t low = std::numeric_limits<int32_t>::min());
  std::optional<double> number(std::string_view name);
  std::optional<std::string> text(std::string_view name);
  // A string, or an array of strings.
  std::optional<std::vector<std::string>> texts(std::string_view name);
  std::optional<std::vector<TokenId>> tokens(std::string_view name, int32_t vocab_size);
  // The value itself; nullptr if it is absent or null.
  const Json* object(std::string_view name);
  const Json* array(std::string_view name);
  const Json* any(std::string_view name);

  void fail(ErrorKind kind, std::string message, std::string_view param);
  void fail(std::string message, std::string_view param) {
    fail(ErrorKind::kInvalidArgument, std::move(message), param);
  }
  bool ok() const { return !failure_.has_value(); }
  const Failure& failure() const { return *failure_; }

  const Json& body() const { return object_; }
  // Fields that were never read.
  std::vector<std::string> unread() const;

 private:
  void wrong_type(std::string_view name, std::string_view expected, const Json& value);

  const Json& object_;
  std::set<std::string, std::less<>> read_;
  std::optional<Failure> failure_;
};

// `array` as token ids below vocab_size; the failure names the element.
Result<std::vector<TokenId>> read_token_ids(const Json& array, std::string_view name, int32_t vocab_size);

}  // namespace quire
