// The table of filters, and the filters for values other than text and sequences.
#include "text/chat/jinja/filters.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "text/chat/jinja/filter_args.h"
#include "text/chat/jinja/json_text.h"
#include "text/chat/jinja/number_text.h"
#include "text/chat/jinja/pretty.h"
#include "text/chat/jinja/unicode_text.h"

namespace quire::jinja {
namespace {

Value filter_abs(Interpreter& interpreter, Arguments& args) {
  static constexpr std::string_view kNames[] = {"value"};
  Value a[1];
  bind_values("abs", args, kNames, 1, a);
  if (a[0].is(Kind::kFloat)) return Value::real(std::fabs(a[0].as_float()));
  if (!a[0].is_integral()) {
    if (a[0].is_undefined()) fail_undefined(a[0]);
    fail_type("bad operand type for abs(): '" + std::string(type_name(a[0])) + "'");
  }
  return a[0].as_int() < 0 ? negate(interpreter.heap(), a[0]) : identity_plus(a[0]);
}

Value filter_attr(Interpreter& interpreter, Arguments& args) {
  static constexpr std::string_view kNames[] = {"obj", "name"};
  Value a[2];
  bind_values("attr", args, kNames, 2, a);
  need_string(a[1], "attribute name");
  Value found = find_attribute(interpreter.heap(), a[0], a[1].str());
  return found.is_missing() ? undefined_attribute(interpreter.heap(), a[0], a[1]) : found;
}

Value filter_default(Interpreter& interpreter, Arguments& args) {
  static constexpr std::string_view kNames[] = {"value", "default_value", "boolean"};
  Value a[3];
  bind_values("default", args, kNames, 1, a);
  if (a[0].is_undefined() || (truth_or(a[2], false) && !truthy(a[0]))) {
    return a[1].is_missing() ? interpreter.heap().string("") : a[1];
  }
  return a[0];
}

Value filter_float(Interpreter& interpreter, Arguments& args) {
  static constexpr std::string_view kNames[] = {"value", "default"};
  Value a[2];
  bind_values("float", args, kNames, 1, a);
  Value fallback = a[1].is_missing() ? Value::real(0) : a[1];
  if (a[0].is(Kind::kFloat)) return a[0];
  if (a[0].is_integral()) return Value::real(static_cast<double>(a[0].as_int()));
  if (a[0].is(Kind::kBigInt)) return Value::real(std::strtod(a[0].get<BigInt>().digits.c_str(), nullptr));
  if (a[0].is_undefined()) fail_undefined(a[0]);
  if (!a[0].is_string()) return fallback;
  interpreter.heap().step_bytes(a[0].str().size() * kClassCost);
  const auto parsed = parse_float(a[0].str());
  return parsed ? Value::real(*parsed) : fallback;
}

Value truncate_float(Heap& heap, double value) {
  if (std::isinf(value)) fail_value("cannot convert float infinity to integer");
  if (std::fabs(value) < 9.2e18) return Value::integer(static_cast<int64_t>(value));
  std::array<char, 400> buffer;
  const int n = std::snprintf(buffer.data(), buffer.size(), "%.0f", std::trunc(value));
  return Value::of(heap.create<BigInt>(std::string(buffer.data(), static_cast<size_t>(n))));
}

Value filter_int(Interpreter& interpreter, Arguments& args) {
  static constexpr std::string_view kNames[] = {"value", "default", "base"};
  Value a[3];
  bind_values("int", args, kNames, 1, a);
  Value fallback = a[1].is_missing() ? Value::integer(0) : a[1];
  if (a[0].is_integral()) return Value::integer(a[0].as_int());
  if (a[0].is(Kind::kBigInt)) return a[0];
  if (a[0].is_undefined()) fail_undefined(a[0]);
  if (a[0].is(Kind::kFloat)) {
    return std::isnan(a[0].as_float()) ? fallback : truncate_float(interpreter.heap(), a[0].as_float());
  }
  if (!a[0].is_string()) return fallback;
  interpreter.heap().step_bytes(a[0].str().size() * kClassCost * 2);
  const int64_t base = integer_or(a[2], 10);
  if (Value parsed = parse_integer(interpreter.heap(), a[0].str(), base); !parsed.is_missing()) return parsed;
  const auto real = parse_float(a[0].str());
  if (!real || !std::isfinite(*real)) return fallback;
  return truncate_float(interpreter.heap(), *real);
}

// Python's round(x, digits): uses the exact decimal expansion and rounds halves to even.
double round_to(double value, int64_t digits) {
  if (!std::isfinite(value) || digits > 300) return value;
  if (digits < -300) return 0 * value;
  if (digits >= 0) {
    std::array<char, 700> buffer;
    std::snprintf(buffer.data(), buffer.size(), "%.*f", static_cast<int>(digits), value);
    return std::strtod(buffer.data(), nullptr);
  }
  const double scale = std::pow(10.0, static_cast<double>(-digits));
  return std::nearbyint(value / scale) * scale;
}

Value round_integer(int64_t value, int64_t digits) {
  if (digits >= 0) return Value::integer(value);
  if (digits < -18) return Value::integer(0);
  int64_t scale = 1;
  for (int64_t i = 0; i < -digits; ++i) scale *= 10;
  const int64_t rest = floor_mod(value, scale);
  int64_t low = value - rest;
  if (rest * 2 > scale || (rest * 2 == scale && (low / scale) % 2 != 0)) low += scale;
  return Value::integer(low);
}

Value filter_round(Interpreter&, Arguments& args) {
  static constexpr std::string_view kNames[] = {"value", "precision", "method"};
  Value a[3];
  bind_values("round", args, kNames, 1, a);
  const int64_t digits = integer_or(a[1], 0);
  const std::string method = a[2].is_missing() ? "common" : a[2].is_string() ? a[2].str() : "";
  if (method != "common" && method != "ceil" && method != "floor")
    fail_value("method must be common, ceil or floor");
  if (a[0].is_undefined()) fail_undefined(a[0]);
  if (!a[0].is_integral() && !a[0].is(Kind::kFloat)) {
    fail_type("type " + std::string(type_name(a[0])) + " doesn't define __round__ method");
  }
  if (method == "common") {
    return a[0].is(Kind::kFloat) ? Value::real(round_to(a[0].as_float(), digits))
                                 : round_integer(a[0].as_int(), digits);
  }
  const double value = a[0].is(Kind::kFloat) ? a[0].as_float() : static_cast<double>(a[0].as_int());
  const double scale = std::pow(10.0, static_cast<double>(digits));
  const double scaled = value * scale;
  if (!std::isfinite(scaled)) fail_value("cannot convert float infinity to integer");
  return Value::real((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / scale);
}

Value filter_filesizeformat(Interpreter& interpreter, Arguments& args) {
  static constexpr std::string_view kNames[] = {"value", "binary"};
  Value a[2];
  bind_values("filesizeformat", args, kNames, 1, a);
  const bool binary = truth_or(a[1], false);
  double bytes = 0;
  if (a[0].is(Kind::kFloat)) {
    bytes = a[0].as_float();
  } else if (a[0].is_integral()) {
    bytes = static_cast<double>(a[0].as_int());
  } else {
    interpreter.heap().step_bytes(need_string(a[0], "the size").size() * kClassCost);
    const auto parsed = parse_float(a[0].str());
    if (!parsed) fail_value("could not convert string to float");
    bytes = *parsed;
  }
  Heap& heap = interpreter.heap();
  const double base = binary ? 1024 : 1000;
  if (bytes == 1) return heap.string("1 Byte");
  if (bytes < base) return heap.string(str_of(heap, truncate_float(heap, bytes)) + " Bytes");
  static constexpr std::string_view kUnits = "kMGTPEZY";
  double unit = base;
  std::string prefix;
  for (size_t i = 0; i < kUnits.size(); ++i) {
    unit *= base;
    prefix = binary ? std::string(1, i == 0 ? 'K' : kUnits[i]) + "iB" : std::string(1, kUnits[i]) + "B";
    if (bytes < unit) break;
  }
  std::array<char, 400> buffer;
  const int n = std::snprintf(buffer.data(), buffer.size(), "%.1f ", base * bytes / unit);
  return heap.string(std::string(buffer.data(), static_cast<size_t>(n)) + prefix);
}

// tojson of transformers: json.dumps without HTML escaping.
Value filter_tojson(Interpreter& interpreter, Arguments& args) {
  static constexpr std::string_view kNames[] = {"x", "ensure_ascii", "indent", "separators", "sort_keys"};
  Value a[5];
  bind_values("tojson", args, kNames, 1, a);
  JsonStyle style;
  style.ensure_ascii = truth_or(a[1], false);
  style.sort_keys = truth_or(a[4], false);
  if (!a[2].is_missing() && !a[2].is_none()) {
    style.indented = true;
    style.item_separator = ",";
    style.indent =
        a[2].is_string() ? a[2].str() : std::string(checked_size(interpreter.heap(), to_index(a[2])), ' ');
  }
  if (!a[3].is_missing() && !a[3].is_none()) {
    const auto parts = collect(interpreter.heap(), a[3]);
    if (parts.size() != 2) fail_value("separators must be a pair of strings");
    style.item_separator = need_string(parts[0], "separator");
    style.key_separator = need_string(parts[1], "separator");
  }
  return interpreter.heap().string(to_json(interpreter.heap(), a[0], style));
}

Value filter_pprint(Interpreter& interpreter, Arguments& args) {
  static constexpr std::string_view kNames[] = {"value"};
  Value a[1];
  bind_values("pprint", args, kNames, 1, a);
  return interpreter.heap().string(pretty_print(interpreter.heap(), a[0]));
}

constexpr FilterDefinition kValueFilters[] = {
    {"abs", filter_abs},
    {"attr", filter_attr},
    {"d", filter_default},
    {"default", filter_default},
    {"filesizeformat", filter_filesizeformat},
    {"float", filter_float},
    {"int", filter_int},
    {"pprint", filter_pprint},
    {"round", filter_round},
    {"tojson", filter_tojson},
};

}  // namespace

std::span<const FilterDefinition> value_filters() {
  return kValueFilters;
}

FilterFunction find_filter(std::string_view name) {
  for (const auto table : {value_filters(), sequence_filters(), string_filters()}) {
    const auto at =
        std::lower_bound(table.begin(), table.end(), name,
                         [](const FilterDefinition& f, std::string_view n) { return f.name < n; });
    if (at != table.end() && at->name == name) return at->function;
  }
  return nullptr;
}

Value get_path(Interpreter& interpreter, Value item, const Value& path) {
  Heap& heap = interpreter.heap();
  if (!path.is_string()) return path.is_none() || path.is_missing() ? item : get_item(heap, item, path);
  std::string_view rest = path.str();
  for (;;) {
    const size_t dot = rest.find('.');
    const std::string part(rest.substr(0, dot));
    const bool number =
        !part.empty() && part.size() < 19 && part.find_first_not_of("0123456789") == std::string::npos;
    item = get_item(heap, item,
                    number ? Value::integer(std::strtoll(part.c_str(), nullptr, 10)) : heap.string(part));
    if (dot == std::string_view::npos) return item;
    rest.remove_prefix(dot + 1);
  }
}

}  // namespace quire::jinja
