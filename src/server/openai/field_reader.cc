#include "server/openai/field_reader.h"

#include <cmath>

#include "base/strings.h"
#include "text/chat/messages.h"

namespace quire {

Result<Json> parse_json_object(std::string_view body, const YieldPoint& yield_point) {
  if (body.empty()) return invalid_argument("The request has no body; a JSON object is expected.");
  auto value = parse_request_json(body, "the JSON body", yield_point, kPrintedChatFields);
  if (value.ok() && !value->is_object())
    return invalid_argument(cat("The JSON body must be an object, not ", json_type_name(*value), "."));
  return value;
}

void FieldReader::fail(ErrorKind kind, std::string message, std::string_view param) {
  if (!failure_) failure_ = Failure{kind, std::move(message), std::string(param)};
}

void FieldReader::wrong_type(std::string_view name, std::string_view expected, const Json& value) {
  fail(cat(name, " must be ", expected, ", not ", json_type_name(value), "."), name);
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
    fail(cat(name, " must be between ", low, " and ", high, ", not ", value->dump(), "."), name);
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
      fail(cat(name, " must be an integer, not ", value->dump(), "."), name);
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
    fail(cat(name, " must be a finite 32-bit number, not ", value->dump(), "."), name);
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
      fail(cat(name, "[", result.size(), "] must be a string, not ", json_type_name(element), "."), name);
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
          cat(name, "[", ids.size(), "] must be a token id, not ", json_type_name(element), "."),
          std::string(name));
    }
    const bool fits =
        element.is_number_unsigned() && element.get<uint64_t>() < static_cast<uint64_t>(vocab_size);
    if (!fits) {
      return invalid_argument(cat(name, "[", ids.size(), "] is ", element.dump(),
                                  "; the model's token ids are 0 to ", vocab_size - 1, "."),
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
