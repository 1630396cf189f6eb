// Readers of trace files.
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <unordered_map>

#include "base/error.h"
#include "base/strings.h"
#include "sim/trace.h"

namespace quire::sim {

namespace {

using nlohmann::json;

constexpr double kMaxLength = 1 << 24;  // tokens; a larger value is treated as an error in the file

// A time with more precision than seconds since 1970 have in a double.
struct Moment {
  int64_t seconds = 0;
  double fraction = 0.0;
  double since(const Moment& first) const {
    return static_cast<double>(seconds - first.seconds) + (fraction - first.fraction);
  }
};

std::optional<double> whole_number(std::string_view text) {
  double value = 0.0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

// Parses exactly `digits` digits and advances `at` past them; returns -1 if there are fewer.
int take_digits(std::string_view text, size_t& at, size_t digits) {
  if (at + digits > text.size()) return -1;
  int value = 0;
  for (size_t i = 0; i < digits; ++i) {
    const char c = text[at + i];
    if (c < '0' || c > '9') return -1;
    value = 10 * value + (c - '0');
  }
  at += digits;
  return value;
}

bool take_char(std::string_view text, size_t& at, std::string_view allowed) {
  if (at >= text.size() || allowed.find(text[at]) == std::string_view::npos) return false;
  ++at;
  return true;
}

// Parses "2023-11-16 18:15:46.6805900"; T instead of the space and a zone of +00:00 or Z are accepted.
std::optional<Moment> parse_date(std::string_view text) {
  size_t at = 0;
  const int year = take_digits(text, at, 4);
  if (!take_char(text, at, "-")) return std::nullopt;
  const int month = take_digits(text, at, 2);
  if (!take_char(text, at, "-")) return std::nullopt;
  const int day = take_digits(text, at, 2);
  if (!take_char(text, at, " T")) return std::nullopt;
  const int hour = take_digits(text, at, 2);
  if (!take_char(text, at, ":")) return std::nullopt;
  const int minute = take_digits(text, at, 2);
  if (!take_char(text, at, ":")) return std::nullopt;
  const int second = take_digits(text, at, 2);
  if (year < 0 || month < 0 || day < 0 || hour < 0 || hour > 23 || minute < 0 || minute > 59 || second < 0 ||
      second > 60) {
    return std::nullopt;
  }
  const std::chrono::year_month_day date{std::chrono::year(year),
                                         std::chrono::month(static_cast<unsigned>(month)),
                                         std::chrono::day(static_cast<unsigned>(day))};
  if (!date.ok()) return std::nullopt;
  Moment moment;
  const int64_t days = std::chrono::sys_days(date).time_since_epoch().count();
  moment.seconds = ((days * 24 + hour) * 60 + minute) * 60 + second;
  if (take_char(text, at, ".")) {
    const size_t begin = at;
    double unit = 0.1;
    for (int digit = 0; (digit = take_digits(text, at, 1)) >= 0; unit /= 10.0)
      moment.fraction += digit * unit;
    if (at == begin) return std::nullopt;
  }
  const std::string_view zone = text.substr(at);
  if (!zone.empty() && zone != "Z" && zone != "+00:00") return std::nullopt;
  return moment;
}

std::optional<Moment> parse_time(const std::string& text) {
  if (const auto seconds = whole_number(text); seconds && std::abs(*seconds) < 1e15) {
    const double whole = std::floor(*seconds);
    return Moment{static_cast<int64_t>(whole), *seconds - whole};
  }
  return parse_date(text);
}

// Splits a line of CSV. Quoted cells may contain commas and doubled quotes.
std::vector<std::string> split_csv(std::string_view line, const std::string& place) {
  if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  std::vector<std::string> cells(1);
  bool quoted = false;
  for (size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (c == '"') {
      if (quoted && i + 1 < line.size() && line[i + 1] == '"') {
        cells.back() += line[++i];
      } else {
        quoted = !quoted;
      }
    } else if (c == ',' && !quoted) {
      cells.emplace_back();
    } else {
      cells.back() += c;
    }
  }
  if (quoted) throw Error(cat(place, ": unterminated quoted cell"));
  return cells;
}

std::ifstream open(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw Error(cat("cannot read ", path));
  return in;
}

bool blank(const std::string& line) {
  return line.find_first_not_of(" \t\r") == std::string::npos;
}

int32_t checked_length(double value, const std::string& place) {
  if (!(value >= 0.0) || value > kMaxLength)
    throw Error(cat(place, ": ", value, " is not a valid number of tokens"));
  return std::max(1, static_cast<int32_t>(value));
}

// Numbers the adapters of a trace by their names.
class AdapterNames {
 public:
  explicit AdapterNames(Trace& trace) : trace_(trace) {}
  int32_t number_of(const std::string& name) {
    if (name.empty()) return 0;
    const auto [entry, added] = numbers_.try_emplace(name, static_cast<int32_t>(numbers_.size()) + 1);
    if (added) trace_.adapters.push_back(name);
    return entry->second;
  }

 private:
  Trace& trace_;
  std::unordered_map<std::string, int32_t> numbers_;
};

// Sorts by arrival time, starting at 0. Requests with equal times keep the file's order.
void finish(Trace& trace, const std::vector<Moment>& times, const std::string& path) {
  if (trace.requests.empty()) throw Error(cat(path, ": contains no usable request"));
  trace.has_times = !times.empty();
  if (times.empty()) return;
  Moment first = times.front();
  for (const Moment& time : times) {
    if (time.since(first) < 0.0) first = time;
  }
  for (size_t i = 0; i < times.size(); ++i) trace.requests[i].arrival = times[i].since(first);
  std::stable_sort(trace.requests.begin(), trace.requests.end(),
                   [](const TraceRequest& a, const TraceRequest& b) { return a.arrival < b.arrival; });
}

// Column indices of a CSV trace.
struct Columns {
  size_t input = 0;
  size_t output = 0;
  std::optional<size_t> time;
  std::optional<size_t> adapter;
};

Columns find_columns(const std::vector<std::string>& header, const std::string& path, bool needs_times) {
  const auto find = [&](const char* name) -> std::optional<size_t> {
    const auto it = std::find(header.begin(), header.end(), name);
    if (it == header.end()) return std::nullopt;
    return static_cast<size_t>(it - header.begin());
  };
  const auto need = [&](const char* name) {
    const auto column = find(name);
    if (!column) {
      throw Error(cat(path, ":1: no column '", name, "'; a trace has ",
                      needs_times ? "TIMESTAMP, ContextTokens and GeneratedTokens"
                                  : "ContextTokens and GeneratedTokens"));
    }
    return *column;
  };
  Columns columns;
  columns.input = need("ContextTokens");
  columns.output = need("GeneratedTokens");
  columns.time = needs_times ? need("TIMESTAMP") : find("TIMESTAMP");
  columns.adapter = find("adapter");
  return columns;
}

double number_field(const json& object, const char* key, const std::string& place, const char* what) {
  const auto it = object.find(key);
  if (it == object.end() || !it->is_number()) throw Error(cat(place, ": '", key, "' must be ", what));
  return it->get<double>();
}

void add_hashes(const json& hashes, const std::string& place, Trace& trace, TraceRequest& request) {
  if (!hashes.is_array()) throw Error(cat(place, ": 'hash_ids' must be a list of numbers"));
  const size_t wanted =
      (static_cast<size_t>(request.input_len) + Trace::kTokensPerHash - 1) / Trace::kTokensPerHash;
  if (hashes.size() != wanted) {
    throw Error(cat(place, ": 'hash_ids' has ", hashes.size(), " entries, ", request.input_len,
                    " tokens have ", wanted, " blocks of ", Trace::kTokensPerHash));
  }
  request.first_hash = static_cast<uint32_t>(trace.hash_ids.size());
  request.num_hashes = static_cast<uint32_t>(wanted);
  for (const json& hash : hashes) {
    const bool fits = hash.is_number_integer() && hash.get<double>() >= 0.0 &&
                      hash.get<double>() <= static_cast<double>(std::numeric_limits<int32_t>::max());
    if (!fits) throw Error(cat(place, ": 'hash_ids' must be integers from 0 to 2147483647"));
    trace.hash_ids.push_back(hash.get<int32_t>());
  }
}

}  // namespace

Trace read_csv_trace(const std::string& path, int64_t max_requests, bool needs_times) {
  std::ifstream in = open(path);
  std::string line;
  if (!std::getline(in, line)) throw Error(cat(path, ": empty file; the first line must name the columns"));
  if (line.rfind("\xEF\xBB\xBF", 0) == 0) line.erase(0, 3);
  const std::vector<std::string> header = split_csv(line, cat(path, ":1"));
  const Columns columns = find_columns(header, path, needs_times);
  Trace trace;
  AdapterNames adapters(trace);
  std::vector<Moment> times;
  for (int64_t number = 2;
       static_cast<int64_t>(trace.requests.size()) < max_requests && std::getline(in, line); ++number) {
    if (blank(line)) continue;
    const std::string place = cat(path, ":", number);
    const std::vector<std::string> cells = split_csv(line, place);
    if (cells.size() != header.size())
      throw Error(cat(place, ": expected ", header.size(), " cells as in the header, found ", cells.size()));
    const auto length = [&](size_t at) {
      const auto value = whole_number(cells[at]);
      if (!value) throw Error(cat(place, ": '", header[at], "' must be a number, not '", cells[at], "'"));
      return checked_length(*value, place);
    };
    TraceRequest& request = trace.requests.emplace_back();
    request.input_len = length(columns.input);
    request.output_len = length(columns.output);
    if (columns.adapter) request.adapter = adapters.number_of(cells[*columns.adapter]);
    if (!columns.time) continue;
    const auto time = parse_time(cells[*columns.time]);
    if (!time) {
      throw Error(cat(place, ": '", cells[*columns.time],
                      "' is not a valid time; write for example 2023-11-16 18:15:46.68, or seconds"));
    }
    times.push_back(*time);
  }
  finish(trace, times, path);
  return trace;
}

Trace read_jsonl_trace(const std::string& path, int64_t max_requests) {
  std::ifstream in = open(path);
  Trace trace;
  AdapterNames adapters(trace);
  std::vector<Moment> times;
  std::string line;
  for (int64_t number = 1;
       static_cast<int64_t>(trace.requests.size()) < max_requests && std::getline(in, line); ++number) {
    if (blank(line)) continue;
    const std::string place = cat(path, ":", number);
    const json object = json::parse(line, nullptr, false);
    if (object.is_discarded() || !object.is_object()) throw Error(cat(place, ": must be a JSON object"));
    TraceRequest& request = trace.requests.emplace_back();
    request.input_len =
        checked_length(number_field(object, "input_length", place, "a number of tokens"), place);
    request.output_len =
        checked_length(number_field(object, "output_length", place, "a number of tokens"), place);
    if (const auto hashes = object.find("hash_ids"); hashes != object.end())
      add_hashes(*hashes, place, trace, request);
    if (const auto adapter = object.find("adapter"); adapter != object.end() && !adapter->is_null()) {
      if (!adapter->is_string()) throw Error(cat(place, ": 'adapter' must be a string"));
      request.adapter = adapters.number_of(adapter->get_ref<const std::string&>());
    }
    if (object.contains("timestamp")) {
      const double milliseconds = number_field(object, "timestamp", place, "a number of milliseconds");
      if (!(std::abs(milliseconds) < 1e15))
        throw Error(cat(place, ": ", milliseconds, " is not a valid time"));
      const double whole = std::floor(milliseconds / 1e3);
      times.push_back({static_cast<int64_t>(whole), milliseconds / 1e3 - whole});
    }
    if (!times.empty() && times.size() != trace.requests.size())
      throw Error(cat(place, ": 'timestamp' must be present in all lines or in none"));
  }
  finish(trace, times, path);
  return trace;
}

}  // namespace quire::sim
