#include "results.h"

#include <cerrno>
#include <cmath>
#include <cstring>
#include <stdexcept>

namespace probe {
namespace {

std::string format(const char* pattern, double value) {
  char text[64];
  std::snprintf(text, sizeof(text), pattern, value);
  return text;
}

}  // namespace

std::string json_string(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20) {
      char escaped[8];
      std::snprintf(escaped, sizeof(escaped), "\\u%04x", byte);
      out += escaped;
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string json_number(double value) {
  return std::isfinite(value) ? format("%.17g", value) : "null";
}

std::string table_number(double value) {
  const bool integer = value == std::floor(value) && std::fabs(value) < 1e15;
  if (integer) return format("%.0f", value);
  const double magnitude = std::fabs(value);
  if (!std::isfinite(value) || magnitude < 1e-3) return format("%.3g", value);
  return format(magnitude >= 1000  ? "%.0f"
                : magnitude >= 100 ? "%.1f"
                : magnitude >= 10  ? "%.2f"
                                   : "%.3f",
                value);
}

Results::Results(const std::string& path, FILE* table) : table_(table) {
  if (path.empty()) return;
  records_ = std::fopen(path.c_str(), "a");
  if (records_ == nullptr) throw std::runtime_error("cannot open " + path + ": " + std::strerror(errno));
}

Results::~Results() {
  if (records_ != nullptr) std::fclose(records_);
}

void Results::add(const std::string& measurement, const Labels& labels, double value,
                  const std::string& unit) {
  std::string line = measurement, variant, json = "{\"measurement\": " + json_string(measurement);
  for (const auto& [name, label] : labels) {
    line += ", " + (name.empty() ? label : name + " " + label);
    if (!name.empty()) {
      json += ", " + json_string(name) + ": " + json_string(label);
    } else {
      variant += (variant.empty() ? "" : ", ") + label;
    }
  }
  if (!variant.empty()) json += ", \"variant\": " + json_string(variant);
  std::fprintf(table_, "  %-76s %10s %s\n", line.c_str(), table_number(value).c_str(), unit.c_str());
  std::fflush(table_);
  write_record(json + ", \"value\": " + json_number(value) + ", \"unit\": " + json_string(unit) + "}");
}

void Results::add_text(const std::string& measurement, const std::string& text) {
  std::fprintf(table_, "  %s: %s\n", measurement.c_str(), text.c_str());
  std::fflush(table_);
  write_record("{\"measurement\": " + json_string(measurement) + ", \"text\": " + json_string(text) + "}");
}

void Results::write_record(const std::string& json) const {
  if (records_ == nullptr) return;
  std::fprintf(records_, "%s\n", json.c_str());
  std::fflush(records_);
}

}  // namespace probe
