#include "text/chat/jinja/tests.h"

#include <algorithm>

#include "text/chat/jinja/filter_args.h"
#include "text/chat/jinja/filters.h"
#include "text/chat/jinja/interpreter.h"
#include "text/chat/jinja/unicode_text.h"

namespace quire::jinja {
namespace {

// The value of a test without arguments.
const Value& only(Arguments& args) {
  if (args.positional.size() != 1 || !args.keywords.empty()) fail_type("the test takes no arguments");
  return args.positional[0];
}

// The value and the argument of a test.
std::pair<Value, Value> both(Arguments& args, std::string_view name) {
  const std::string_view names[] = {"value", name};
  Value out[2];
  bind_values("test", args, names, 2, out);
  return {out[0], out[1]};
}

template <Kind kKind>
bool is_kind(Interpreter&, Arguments& args) {
  return only(args).is(kKind);
}

template <Comparison kOp>
bool compares(Interpreter& interpreter, Arguments& args) {
  const auto [a, b] = both(args, "other");
  return ordered(interpreter.heap(), a, b, kOp);
}

bool is_equal(Interpreter& interpreter, Arguments& args) {
  const auto [a, b] = both(args, "other");
  return equal(interpreter.heap(), a, b);
}

bool is_unequal(Interpreter& interpreter, Arguments& args) {
  return !is_equal(interpreter, args);
}

bool remainder_is(Interpreter& interpreter, const Value& value, const Value& divisor, int64_t wanted) {
  return equal(interpreter.heap(), arithmetic(interpreter.heap(), Operator::kMod, value, divisor),
               Value::integer(wanted));
}

bool is_odd(Interpreter& i, Arguments& args) {
  return remainder_is(i, only(args), Value::integer(2), 1);
}
bool is_even(Interpreter& i, Arguments& args) {
  return remainder_is(i, only(args), Value::integer(2), 0);
}
bool is_divisible(Interpreter& i, Arguments& args) {
  const auto [value, divisor] = both(args, "num");
  return remainder_is(i, value, divisor, 0);
}

bool is_defined(Interpreter&, Arguments& args) {
  return !only(args).is_undefined();
}
bool is_false(Interpreter&, Arguments& args) {
  return only(args).is(Kind::kBool) && !args.positional[0].as_bool();
}
bool is_true(Interpreter&, Arguments& args) {
  return only(args).is(Kind::kBool) && args.positional[0].as_bool();
}
bool is_integer(Interpreter&, Arguments& args) {
  return only(args).is(Kind::kInt) || args.positional[0].is(Kind::kBigInt);
}
bool is_number(Interpreter&, Arguments& args) {
  const Value& v = only(args);
  return v.is_integral() || v.is(Kind::kFloat) || v.is(Kind::kBigInt);
}
bool is_escaped(Interpreter&, Arguments& args) {
  return only(args).is_string() && args.positional[0].get<Str>().markup;
}

// Whether there is at least one cased character and all have the given case.
bool has_case(Interpreter& interpreter, const Value& value, bool upper) {
  bool found = false;
  const std::string text = str_of(interpreter.heap(), value);
  interpreter.heap().step_bytes(text.size() * kClassCost);
  for (const char32_t c : to_code_points(text)) {
    if (is_title(c) || (upper ? is_lower(c) : is_upper(c))) return false;
    found = found || (upper ? is_upper(c) : is_lower(c));
  }
  return found;
}
bool is_lower_case(Interpreter& i, Arguments& args) {
  return has_case(i, only(args), false);
}
bool is_upper_case(Interpreter& i, Arguments& args) {
  return has_case(i, only(args), true);
}

bool is_sequence(Interpreter&, Arguments& args) {
  const Value& v = only(args);
  return v.is_string() || v.is_sequence_object() || v.is(Kind::kDict) || v.is(Kind::kRange) ||
         v.is_undefined();
}
bool is_iterable(Interpreter&, Arguments& args) {
  return iterable(only(args));
}
bool is_callable(Interpreter&, Arguments& args) {
  switch (only(args).kind()) {
    case Kind::kFunction:
    case Kind::kMethod:
    case Kind::kMacro:
    case Kind::kLoop:
    case Kind::kJoiner:
    case Kind::kUndefined:  // undefined values are callable in jinja2; the call fails
      return true;
    default:
      return false;
  }
}

bool is_in(Interpreter& interpreter, Arguments& args) {
  const auto [value, sequence] = both(args, "seq");
  return contains(interpreter.heap(), sequence, value);
}

bool is_same(Interpreter&, Arguments& args) {
  const auto [a, b] = both(args, "other");
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Kind::kNone:
      return true;
    case Kind::kBool:
      return a.as_bool() == b.as_bool();
    case Kind::kInt:
      // Python has one object per small integer; whether other integers are shared is not defined.
      return a.as_int() == b.as_int();
    case Kind::kFloat:
      return a.as_float() == b.as_float();
    default:
      return a.object() == b.object();
  }
}

bool is_filter(Interpreter&, Arguments& args) {
  return only(args).is_string() && find_filter(args.positional[0].str()) != nullptr;
}
bool is_test(Interpreter&, Arguments& args) {
  return only(args).is_string() && find_test(args.positional[0].str()) != nullptr;
}

struct TestDefinition {
  std::string_view name;
  TestFunction function;
};

constexpr TestDefinition kTests[] = {
    // Sorted, for binary search.
    {"!=", is_unequal},
    {"<", compares<Comparison::kLt>},
    {"<=", compares<Comparison::kLe>},
    {"==", is_equal},
    {">", compares<Comparison::kGt>},
    {">=", compares<Comparison::kGe>},
    {"boolean", is_kind<Kind::kBool>},
    {"callable", is_callable},
    {"defined", is_defined},
    {"divisibleby", is_divisible},
    {"eq", is_equal},
    {"equalto", is_equal},
    {"escaped", is_escaped},
    {"even", is_even},
    {"false", is_false},
    {"filter", is_filter},
    {"float", is_kind<Kind::kFloat>},
    {"ge", compares<Comparison::kGe>},
    {"greaterthan", compares<Comparison::kGt>},
    {"gt", compares<Comparison::kGt>},
    {"in", is_in},
    {"integer", is_integer},
    {"iterable", is_iterable},
    {"le", compares<Comparison::kLe>},
    {"lessthan", compares<Comparison::kLt>},
    {"lower", is_lower_case},
    {"lt", compares<Comparison::kLt>},
    {"mapping", is_kind<Kind::kDict>},
    {"ne", is_unequal},
    {"none", is_kind<Kind::kNone>},
    {"number", is_number},
    {"odd", is_odd},
    {"sameas", is_same},
    {"sequence", is_sequence},
    {"string", is_kind<Kind::kString>},
    {"test", is_test},
    {"true", is_true},
    {"undefined", is_kind<Kind::kUndefined>},
    {"upper", is_upper_case},
};

}  // namespace

TestFunction find_test(std::string_view name) {
  const auto* at = std::lower_bound(std::begin(kTests), std::end(kTests), name,
                                    [](const TestDefinition& t, std::string_view n) { return t.name < n; });
  return at != std::end(kTests) && at->name == name ? at->function : nullptr;
}

}  // namespace quire::jinja
