// The JSON of requests, from a client's body or a line of a file: parsed within limits on depth, time and
// memory.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/yield_point.h"

namespace quire {

// Objects keep the order of their fields: a chat template prints a tool's schema as the client wrote it.
using Json = nlohmann::ordered_json;

// Fails if `text` is not JSON or not UTF-8, if it is nested too deeply, or if parsing it would take too much
// time or memory. The message begins with `what` ("the body") and contains the position or the limit. Throws
// Cancelled soon after `yield_point` is cancelled.
//
// Integers beyond 64 bits become floating-point numbers, except within the fields `exact_fields` of the
// outermost object (empty = everywhere), where big_integer() returns them.
Result<Json> parse_request_json(std::string_view text, std::string_view what,
                                const YieldPoint& yield_point = {},
                                std::span<const std::string_view> exact_fields = {});

// parse_request_json() for callers that report failures as Error.
Json require_json(std::string_view text, std::string_view what);

// The digits, and a minus sign if negative, of an integer beyond 64 bits; empty for any other value.
std::string_view big_integer(const Json& value);

// "a string", "an object", ...
std::string_view json_type_name(const Json& value);

}  // namespace quire
