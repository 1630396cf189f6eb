#include "text/chat/jinja/ops.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "text/chat/jinja/printf_format.h"

namespace quire::jinja {
namespace {

[[noreturn]] void fail_deep() {
  fail(ErrorClass::kLimit, "a value is nested too deeply");
}
[[noreturn]] void fail_range() {
  fail(ErrorClass::kLimit, "an integer does not fit in 64 bits");
}

bool numeric(const Value& v) {
  return v.is_integral() || v.is(Kind::kFloat);
}

double to_real(const Value& v) {
  return v.is(Kind::kFloat) ? v.as_float() : static_cast<double>(v.as_int());
}

// -1, 0 or 1; 2 = unordered. long double represents every int64 and every double exactly.
int order_numbers(const Value& a, const Value& b) {
  if (a.is_integral() && b.is_integral())
    return a.as_int() < b.as_int() ? -1 : a.as_int() > b.as_int() ? 1 : 0;
  const auto wide = [](const Value& v) {
    return v.is(Kind::kFloat) ? static_cast<long double>(v.as_float()) : static_cast<long double>(v.as_int());
  };
  const long double x = wide(a), y = wide(b);
  if (std::isnan(x) || std::isnan(y)) return 2;
  return x < y ? -1 : x > y ? 1 : 0;
}

bool equal_at(Heap& heap, const Value& a, const Value& b, int depth);

bool equal_lists(Heap& heap, const std::vector<Value>& a, const std::vector<Value>& b, int depth) {
  if (a.size() != b.size()) return false;
  heap.step_items(a.size());
  for (size_t i = 0; i < a.size(); ++i) {
    if (!equal_at(heap, a[i], b[i], depth)) return false;
  }
  return true;
}

bool equal_dicts(Heap& heap, const Dict& a, const Dict& b, int depth) {
  if (a.entries.size() != b.entries.size()) return false;
  heap.step(a.entries.size() + 1);
  for (const auto& [key, value] : a.entries) {
    const Value* other = b.find(key);
    if (other == nullptr || !equal_at(heap, value, *other, depth)) return false;
  }
  return true;
}

// Views of keys and of items are compared as sets; views of values are equal only to themselves.
bool equal_views(Heap& heap, const DictView& a, const DictView& b, int depth) {
  if (a.part != b.part || a.part == DictView::kValues) return &a == &b;
  const auto &x = a.dict.get<Dict>(), &y = b.dict.get<Dict>();
  if (a.part == DictView::kItems) return equal_dicts(heap, x, y, depth);
  if (x.entries.size() != y.entries.size()) return false;
  heap.step(x.entries.size() + 1);
  return std::all_of(x.entries.begin(), x.entries.end(),
                     [&](const auto& entry) { return y.find(entry.first) != nullptr; });
}

bool equal_at(Heap& heap, const Value& a, const Value& b, int depth) {
  if (numeric(a) && numeric(b)) return order_numbers(a, b) == 0;
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Kind::kNone:
    case Kind::kUndefined:
    case Kind::kMissing:
      return true;
    case Kind::kString:
      if (a.str().size() != b.str().size()) return false;
      heap.step_bytes(a.str().size());
      return a.str() == b.str();
    case Kind::kBigInt:
      return a.get<BigInt>().digits == b.get<BigInt>().digits;
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kDict:
      if (a.object() == b.object()) return true;
      if (depth >= kMaxValueDepth) fail_deep();
      return a.is(Kind::kDict) ? equal_dicts(heap, a.get<Dict>(), b.get<Dict>(), depth + 1)
                               : equal_lists(heap, a.items(), b.items(), depth + 1);
    case Kind::kDictView:
      if (depth >= kMaxValueDepth) fail_deep();
      heap.step();
      return equal_views(heap, a.get<DictView>(), b.get<DictView>(), depth + 1);
    case Kind::kRange: {
      const auto &x = a.get<Range>(), &y = b.get<Range>();
      const int64_t n = x.size();
      return n == y.size() && (n == 0 || (x.start == y.start && (n == 1 || x.step == y.step)));
    }
    default:
      return a.object() == b.object();
  }
}

size_t mix(size_t seed, size_t value) {
  return (seed ^ value) * 0x9E3779B97F4A7C15ULL + (seed >> 7);
}

size_t hash_at(Heap& heap, const Value& value, int depth) {
  switch (value.kind()) {
    case Kind::kString:
      heap.step_bytes(value.str().size());
      return hash_string(value.str());
    case Kind::kBool:
    case Kind::kInt:
      return mix(1, static_cast<size_t>(value.as_int()));
    case Kind::kFloat: {
      const double d = value.as_float();
      constexpr double kEdge = 9223372036854775808.0;
      if (d >= -kEdge && d < kEdge && d == std::floor(d))
        return mix(1, static_cast<size_t>(static_cast<int64_t>(d)));
      return mix(2, std::hash<double>()(d));
    }
    case Kind::kBigInt:
      return hash_string(value.get<BigInt>().digits);
    case Kind::kTuple: {
      if (depth >= kMaxValueDepth) fail_deep();
      heap.step_items(value.items().size());
      size_t seed = 3;
      for (const auto& item : value.items()) seed = mix(seed, hash_at(heap, item, depth + 1));
      return seed;
    }
    case Kind::kList:
    case Kind::kDict:
      fail_type("unhashable type: '" + std::string(type_name(value)) + "'");
    case Kind::kNone:
    case Kind::kUndefined:
    case Kind::kMissing:
      return static_cast<size_t>(value.kind());
    case Kind::kRange:
      return mix(4, static_cast<size_t>(value.get<Range>().size()));
    default:
      return std::hash<const void*>()(value.object());
  }
}

[[noreturn]] void fail_order(const Value& a, const Value& b, Comparison op) {
  const char* sign = op == Comparison::kLt   ? "<"
                     : op == Comparison::kLe ? "<="
                     : op == Comparison::kGt ? ">"
                                             : ">=";
  fail_type(std::string("'") + sign + "' not supported between instances of '" + std::string(type_name(a)) +
            "' and '" + std::string(type_name(b)) + "'");
}

bool decide(int order, Comparison op) {
  if (order == 2) return false;
  switch (op) {
    case Comparison::kLt:
      return order < 0;
    case Comparison::kLe:
      return order <= 0;
    case Comparison::kGt:
      return order > 0;
    default:
      return order >= 0;
  }
}

int order_big(const Value& a, const Value& b) {
  const auto digits = [](const Value& v) {
    return v.is(Kind::kBigInt) ? v.get<BigInt>().digits : std::to_string(v.as_int());
  };
  std::string x = digits(a), y = digits(b);
  const bool minus = x[0] == '-';
  if (minus != (y[0] == '-')) return minus ? -1 : 1;
  const int magnitude = x.size() != y.size() ? (x.size() < y.size() ? -1 : 1)
                        : x.compare(y) < 0   ? -1
                        : x == y             ? 0
                                             : 1;
  return minus ? -magnitude : magnitude;
}

bool ordered_at(Heap& heap, const Value& a, const Value& b, Comparison op, int depth) {
  if (numeric(a) && numeric(b)) return decide(order_numbers(a, b), op);
  if (a.is_undefined()) fail_undefined(a);
  if (b.is_undefined()) fail_undefined(b);
  const auto whole = [](const Value& v) { return v.is_integral() || v.is(Kind::kBigInt); };
  if (whole(a) && whole(b)) return decide(order_big(a, b), op);
  if (a.kind() != b.kind()) fail_order(a, b, op);
  if (a.is_string()) {
    heap.step_bytes(std::min(a.str().size(), b.str().size()));
    const int order = a.str().compare(b.str());
    return decide(order < 0 ? -1 : order > 0 ? 1 : 0, op);
  }
  if (!a.is_sequence_object()) fail_order(a, b, op);
  if (depth >= kMaxValueDepth) fail_deep();
  const auto &x = a.items(), &y = b.items();
  heap.step_items(std::min(x.size(), y.size()));
  for (size_t i = 0; i < x.size() && i < y.size(); ++i) {
    if (!equal_at(heap, x[i], y[i], depth + 1)) return ordered_at(heap, x[i], y[i], op, depth + 1);
  }
  return decide(x.size() < y.size() ? -1 : x.size() > y.size() ? 1 : 0, op);
}

constexpr const char* kSigns[] = {"+", "-", "*", "/", "//", "%", "** or pow()"};

[[noreturn]] void fail_operands(Operator op, const Value& a, const Value& b) {
  if (op == Operator::kAdd && (a.is_string() || a.is_sequence_object())) {
    const std::string own(type_name(a));
    fail_type("can only concatenate " + own + " (not \"" + std::string(type_name(b)) + "\") to " + own);
  }
  fail_type(std::string("unsupported operand type(s) for ") + kSigns[static_cast<int>(op)] + ": '" +
            std::string(type_name(a)) + "' and '" + std::string(type_name(b)) + "'");
}

int64_t power(int64_t base, int64_t exponent) {
  int64_t result = 1;
  while (exponent > 0) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) fail_range();
    exponent >>= 1;
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) fail_range();
  }
  return result;
}

Value integers(Operator op, int64_t a, int64_t b) {
  int64_t result = 0;
  switch (op) {
    case Operator::kAdd:
      if (__builtin_add_overflow(a, b, &result)) fail_range();
      return Value::integer(result);
    case Operator::kSub:
      if (__builtin_sub_overflow(a, b, &result)) fail_range();
      return Value::integer(result);
    case Operator::kMul:
      if (__builtin_mul_overflow(a, b, &result)) fail_range();
      return Value::integer(result);
    case Operator::kDiv:
      if (b == 0) fail_value("division by zero");
      return Value::real(static_cast<double>(static_cast<long double>(a) / static_cast<long double>(b)));
    case Operator::kFloorDiv:
      if (b == 0) fail_value("integer division or modulo by zero");
      if (b == -1) return integers(Operator::kSub, 0, a);
      return Value::integer(a / b - (a % b != 0 && (a % b < 0) != (b < 0) ? 1 : 0));
    case Operator::kMod:
      if (b == 0) fail_value("integer modulo by zero");
      return Value::integer(floor_mod(a, b));
    case Operator::kPow:
      if (b >= 0) {
        if (a == 0 || a == 1) return Value::integer(b == 0 ? 1 : a);
        if (a == -1) return Value::integer(b % 2 == 0 ? 1 : -1);
        return Value::integer(power(a, b));
      }
      if (a == 0) fail_value("0.0 cannot be raised to a negative power");
      return Value::real(std::pow(static_cast<double>(a), static_cast<double>(b)));
  }
  return {};
}

Value reals(Operator op, double a, double b) {
  switch (op) {
    case Operator::kAdd:
      return Value::real(a + b);
    case Operator::kSub:
      return Value::real(a - b);
    case Operator::kMul:
      return Value::real(a * b);
    case Operator::kDiv:
      if (b == 0) fail_value("float division by zero");
      return Value::real(a / b);
    case Operator::kFloorDiv:
    case Operator::kMod: {
      if (b == 0) fail_value(op == Operator::kMod ? "float modulo" : "float floor division by zero");
      double mod = std::fmod(a, b);
      double div = (a - mod) / b;
      if (mod != 0 && (b < 0) != (mod < 0)) {
        mod += b;
        div -= 1;
      }
      if (op == Operator::kMod) return Value::real(mod == 0 ? std::copysign(0.0, b) : mod);
      double floored = std::floor(div);
      if (div - floored > 0.5) floored += 1;
      return Value::real(div == 0 ? std::copysign(0.0, a / b) : floored);
    }
    case Operator::kPow: {
      if (a == 0 && b < 0) fail_value("0.0 cannot be raised to a negative power");
      if (a < 0 && std::isfinite(a) && std::isfinite(b) && b != std::floor(b))
        fail_value("a complex number is not supported");
      const double result = std::pow(a, b);
      if (std::isinf(result) && std::isfinite(a) && std::isfinite(b))
        fail_value("(34, 'Numerical result out of range')");
      return Value::real(result);
    }
  }
  return {};
}

Value repeat(Heap& heap, const Value& sequence, int64_t count) {
  const auto times = static_cast<size_t>(count < 0 ? 0 : count);
  if (sequence.is_string()) {
    const auto& text = sequence.str();
    if (text.empty() || times == 0) return heap.string("");
    if (times > std::numeric_limits<size_t>::max() / 2 / text.size())
      heap.require(std::numeric_limits<size_t>::max());
    heap.require(times * text.size());
    heap.step_bytes(times * text.size());
    std::string out;
    out.reserve(times * text.size());
    for (size_t i = 0; i < times; ++i) out += text;
    Value result = heap.string(std::move(out));
    result.get<Str>().markup = sequence.get<Str>().markup;
    return result;
  }
  const auto& items = sequence.items();
  std::vector<Value> out;
  if (!items.empty() && times != 0) {
    if (times > std::numeric_limits<size_t>::max() / 64 / items.size())
      heap.require(std::numeric_limits<size_t>::max());
    heap.require(times * items.size() * sizeof(Value));
    heap.step(times * items.size());
    out.reserve(times * items.size());
    for (size_t i = 0; i < times; ++i) out.insert(out.end(), items.begin(), items.end());
  }
  return heap.list(std::move(out), sequence.kind());
}

Value join_strings(Heap& heap, const Value& a, const Value& b) {
  const bool markup = a.get<Str>().markup || b.get<Str>().markup;
  const auto text = [&](const Value& v) {
    return markup && !v.get<Str>().markup ? escape_html(v.str()) : v.str();
  };
  constexpr size_t kLongestEntity = 5;
  heap.require((a.str().size() + b.str().size()) * (markup ? kLongestEntity : 1));
  heap.step_bytes(a.str().size() + b.str().size());
  std::string out;
  if (!markup) {
    out.reserve(a.str().size() + b.str().size());
    out += a.str();
    out += b.str();
    return heap.string(std::move(out));
  }
  Value result = heap.string(text(a) + text(b));
  result.get<Str>().markup = true;
  return result;
}

Value join_lists(Heap& heap, const Value& a, const Value& b) {
  const auto &x = a.items(), &y = b.items();
  heap.require((x.size() + y.size()) * sizeof(Value));
  heap.step((x.size() + y.size()) / 8 + 1);
  std::vector<Value> out;
  out.reserve(x.size() + y.size());
  out.insert(out.end(), x.begin(), x.end());
  out.insert(out.end(), y.begin(), y.end());
  return heap.list(std::move(out), a.kind());
}

}  // namespace

bool truthy(const Value& value) {
  switch (value.kind()) {
    case Kind::kMissing:
    case Kind::kUndefined:
    case Kind::kNone:
      return false;
    case Kind::kBool:
    case Kind::kInt:
      return value.as_int() != 0;
    case Kind::kFloat:
      return value.as_float() != 0;
    case Kind::kString:
      return !value.str().empty();
    default:
      return try_length(value).value_or(1) != 0;
  }
}

bool equal(Heap& heap, const Value& a, const Value& b) {
  return equal_at(heap, a, b, 0);
}
size_t hash_string(std::string_view text) {
  return std::hash<std::string_view>()(text);
}
size_t hash_value(Heap& heap, const Value& value) {
  return hash_at(heap, value, 0);
}
bool ordered(Heap& heap, const Value& a, const Value& b, Comparison op) {
  return ordered_at(heap, a, b, op, 0);
}

int64_t floor_mod(int64_t a, int64_t b) {
  if (b == -1) return 0;
  const int64_t rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

Value arithmetic(Heap& heap, Operator op, const Value& a, const Value& b) {
  if (op == Operator::kAdd && a.is_string() && b.is_string()) return join_strings(heap, a, b);
  if (a.is_integral() && b.is_integral()) return integers(op, a.as_int(), b.as_int());
  if (numeric(a) && numeric(b)) return reals(op, to_real(a), to_real(b));
  if (op == Operator::kMod && a.is_string()) return heap.string(printf_format(heap, a.str(), b));
  if (a.is_undefined()) fail_undefined(a);
  if (b.is_undefined()) fail_undefined(b);
  if (op == Operator::kAdd && a.is_sequence_object() && a.kind() == b.kind()) return join_lists(heap, a, b);
  if (op == Operator::kMul) {
    if ((a.is_string() || a.is_sequence_object()) && b.is_integral()) return repeat(heap, a, b.as_int());
    if ((b.is_string() || b.is_sequence_object()) && a.is_integral()) return repeat(heap, b, a.as_int());
  }
  if (a.is(Kind::kBigInt) || b.is(Kind::kBigInt)) fail_range();
  fail_operands(op, a, b);
}

Value negate(Heap&, const Value& value) {
  if (value.is_integral()) {
    if (value.as_int() == std::numeric_limits<int64_t>::min()) fail_range();
    return Value::integer(-value.as_int());
  }
  if (value.is(Kind::kFloat)) return Value::real(-value.as_float());
  if (value.is_undefined()) fail_undefined(value);
  if (value.is(Kind::kBigInt)) fail_range();
  fail_type("bad operand type for unary -: '" + std::string(type_name(value)) + "'");
}

Value identity_plus(const Value& value) {
  if (value.is_integral()) return Value::integer(value.as_int());
  if (value.is(Kind::kFloat) || value.is(Kind::kBigInt)) return value;
  if (value.is_undefined()) fail_undefined(value);
  fail_type("bad operand type for unary +: '" + std::string(type_name(value)) + "'");
}

}  // namespace quire::jinja
