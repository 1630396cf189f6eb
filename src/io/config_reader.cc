#include "io/config_reader.h"

#include <cmath>
#include <limits>
#include <utility>

#include "base/error.h"
#include "base/strings.h"

namespace quire {
namespace {

std::string shown(const nlohmann::json& value) {
  std::string text = value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  if (text.size() > 60) text = text.substr(0, 57) + "...";
  return text;
}

// The value as an integer; 4096.0 counts as one.
std::optional<int64_t> as_integer(const nlohmann::json& value) {
  if (value.is_number_unsigned() && value.get<uint64_t>() > uint64_t{INT64_MAX}) return std::nullopt;
  if (value.is_number_integer()) return value.get<int64_t>();
  if (!value.is_number_float()) return std::nullopt;
  const double v = value.get<double>();
  if (!(std::abs(v) < 0x1p53) || v != std::floor(v)) return std::nullopt;
  return static_cast<int64_t>(v);
}

// The value as a number; NaN if it is not one. transformers writes infinity as {"__float__": "Infinity"}.
double as_number(const nlohmann::json& value) {
  if (value.is_number()) return value.get<double>();
  const auto tagged = value.is_object() ? value.find("__float__") : value.end();
  if (tagged == value.end() || *tagged != "Infinity") return std::nan("");
  return std::numeric_limits<double>::infinity();
}

}  // namespace

std::vector<FieldLog::Unread> FieldLog::unread(const nlohmann::json& object, const std::string& path) const {
  std::vector<Unread> all;
  for (const auto& [key, value] : object.items()) {
    const std::string own = path + key;
    if (value.is_object() && paths_.contains(own + ".")) {
      for (Unread& inner : unread(value, own + ".")) all.push_back(std::move(inner));
      continue;
    }
    const bool empty = value.is_null() || value == "" || (value.is_structured() && value.empty());
    if (!empty && !paths_.contains(own)) all.push_back({own, &value});
  }
  return all;
}

ConfigReader::ConfigReader(const nlohmann::json& object, std::string path, ConfigOrigin origin, FieldLog* log)
    : ConfigReader(object, std::move(path), std::make_shared<const ConfigOrigin>(std::move(origin)), log) {}

ConfigReader::ConfigReader(const nlohmann::json& object, std::string path,
                           std::shared_ptr<const ConfigOrigin> origin, FieldLog* log)
    : object_(&object), path_(std::move(path)), origin_(std::move(origin)), log_(log) {
  if (!object.is_object()) throw Error(cat(origin_->file, ": not a JSON object"));
}

const nlohmann::json* ConfigReader::find(std::string_view field) const {
  if (log_ != nullptr) log_->add(cat(path_, field));
  const auto it = object_->find(field);
  return it == object_->end() || it->is_null() ? nullptr : &*it;
}

ConfigReader ConfigReader::object(std::string_view field) const {
  static const nlohmann::json kEmpty = nlohmann::json::object();
  const nlohmann::json* value = find(field);
  if (value != nullptr && !value->is_object()) fail(field, cat("must be an object, but is ", shown(*value)));
  const std::string path = cat(path_, field, ".");
  if (log_ != nullptr) log_->add(path);
  return ConfigReader(value == nullptr ? kEmpty : *value, path, origin_, log_);
}

int64_t ConfigReader::integer(std::string_view field, int64_t low, int64_t high,
                              std::optional<int64_t> fallback) const {
  const nlohmann::json* value = find(field);
  if (value == nullptr) {
    if (!fallback) fail(field, "is missing");
    return *fallback;
  }
  const auto n = as_integer(*value);
  if (!n) fail(field, cat("must be an integer, but is ", shown(*value)));
  if (*n < low || *n > high) fail(field, cat("is ", *n, ", but must be between ", low, " and ", high));
  return *n;
}

double ConfigReader::number(std::string_view field, double low, double high,
                            std::optional<double> fallback) const {
  const nlohmann::json* value = find(field);
  if (value == nullptr) {
    if (!fallback) fail(field, "is missing");
    return *fallback;
  }
  if (!value->is_number()) fail(field, cat("must be a number, but is ", shown(*value)));
  const double v = value->get<double>();
  if (!(v >= low && v <= high)) fail(field, cat("is ", v, ", but must be between ", low, " and ", high));
  return v;
}

bool ConfigReader::boolean(std::string_view field, bool fallback) const {
  const nlohmann::json* value = find(field);
  if (value == nullptr) return fallback;
  if (!value->is_boolean()) fail(field, cat("must be true or false, but is ", shown(*value)));
  return value->get<bool>();
}

std::string ConfigReader::text(std::string_view field, std::string_view fallback) const {
  const nlohmann::json* value = find(field);
  if (value == nullptr) return std::string(fallback);
  if (!value->is_string()) fail(field, cat("must be a string, but is ", shown(*value)));
  return value->get<std::string>();
}

const nlohmann::json& ConfigReader::list(std::string_view field, std::string_view items) const {
  static const nlohmann::json kEmpty = nlohmann::json::array();
  const nlohmann::json* value = find(field);
  if (value == nullptr) return kEmpty;
  if (!value->is_array()) fail(field, cat("must be a list of ", items, ", but is ", shown(*value)));
  return *value;
}

std::vector<std::string> ConfigReader::texts(std::string_view field) const {
  std::vector<std::string> all;
  for (const auto& item : list(field, "strings")) {
    if (!item.is_string()) fail(field, cat("must contain strings only, but contains ", shown(item)));
    all.push_back(item.get<std::string>());
  }
  return all;
}

std::vector<int64_t> ConfigReader::integers(std::string_view field, int64_t low, int64_t high) const {
  std::vector<int64_t> all;
  for (const auto& item : list(field, "numbers")) {
    const auto n = as_integer(item);
    if (!n || *n < low || *n > high)
      fail(field, cat("must contain integers from ", low, " to ", high, ", but contains ", shown(item)));
    all.push_back(*n);
  }
  return all;
}

std::vector<double> ConfigReader::numbers(std::string_view field, double low, double high) const {
  std::vector<double> all;
  for (const auto& item : list(field, "numbers")) {
    const double n = as_number(item);
    if (!(n >= low && n <= high))
      fail(field, cat("must contain numbers from ", low, " to ", high, ", but contains ", shown(item)));
    all.push_back(n);
  }
  return all;
}

std::vector<int32_t> ConfigReader::token_ids(std::string_view field, int64_t end) const {
  std::vector<int32_t> ids;
  const auto add = [&](const nlohmann::json& item) {
    const auto n = as_integer(item);
    if (!n) fail(field, cat("must be a token id or a list of them, not ", shown(item)));
    if (*n >= 0 && *n < end) ids.push_back(static_cast<int32_t>(*n));
  };
  const nlohmann::json* value = find(field);
  if (value == nullptr) return ids;
  if (value->is_array()) {
    for (const auto& item : *value) add(item);
  } else {
    add(*value);
  }
  return ids;
}

void ConfigReader::fail(std::string_view field, std::string_view problem) const {
  const auto key = origin_->keys.find(field);
  if (key != origin_->keys.end()) throw Error(cat(origin_->file, ": metadata '", key->second, "' ", problem));
  throw Error(cat(origin_->file, ": '", path_, field, "' ",
                  origin_->keys.empty() ? "" : "of the configuration in its metadata ", problem));
}

}  // namespace quire
