// Methods of all types except str, and method lookup.
#include "text/chat/jinja/methods.h"

#include <algorithm>
#include <cmath>

#include "text/chat/jinja/filter_args.h"

namespace quire::jinja {
namespace {

template <DictView::Part kPart>
Value dict_view(Interpreter& interpreter, const Value& self, Arguments& args) {
  if (!args.positional.empty() || !args.keywords.empty()) fail_type("dict method takes no arguments");
  return Value::of(interpreter.heap().create<DictView>(self, kPart));
}

Value dict_get(Interpreter&, const Value& self, Arguments& args) {
  static constexpr std::string_view kNames[] = {"key", "default"};
  if (!args.keywords.empty()) fail_type("dict.get() takes no keyword arguments");
  Value a[2];
  bind_values("get", args, kNames, 1, a);
  const Value* found = self.get<Dict>().find(a[0]);
  if (found != nullptr) return *found;
  return a[1].is_missing() ? Value::none() : a[1];
}

Value dict_copy(Interpreter& interpreter, const Value& self, Arguments& args) {
  if (!args.positional.empty() || !args.keywords.empty()) fail_type("dict.copy() takes no arguments");
  Value copy = interpreter.heap().dict();
  for (const auto& [key, value] : self.get<Dict>().entries) copy.get<Dict>().set(key, value);
  return copy;
}

Value dict_fromkeys(Interpreter& interpreter, const Value&, Arguments& args) {
  static constexpr std::string_view kNames[] = {"iterable", "value"};
  Value a[2];
  bind_values("fromkeys", args, kNames, 1, a);
  Value result = interpreter.heap().dict();
  Cursor cursor(interpreter.heap(), a[0]);
  Value key;
  while (cursor.next(key)) result.get<Dict>().set(key, a[1].is_missing() ? Value::none() : a[1]);
  return result;
}

Value list_count(Interpreter& interpreter, const Value& self, Arguments& args) {
  static constexpr std::string_view kNames[] = {"value"};
  Value a[1];
  bind_values("count", args, kNames, 1, a);
  int64_t count = 0;
  Cursor cursor(interpreter.heap(), self);
  Value item;
  while (cursor.next(item)) count += equal(interpreter.heap(), item, a[0]) ? 1 : 0;
  return Value::integer(count);
}

Value list_index(Interpreter& interpreter, const Value& self, Arguments& args) {
  static constexpr std::string_view kNames[] = {"value", "start", "stop"};
  Value a[3];
  bind_values("index", args, kNames, 1, a);
  const int64_t length = length_of(self);
  const auto clamp = [&](const Value& v, int64_t fallback) {
    const int64_t i = integer_or(v, fallback);
    return i < 0 ? std::max<int64_t>(i + length, 0) : std::min(i, length);
  };
  const int64_t start = clamp(a[1], 0), stop = clamp(a[2], length);
  Cursor cursor(interpreter.heap(), self);
  Value item;
  for (int64_t i = 0; cursor.next(item); ++i) {
    if (i >= start && i < stop && equal(interpreter.heap(), item, a[0])) return Value::integer(i);
  }
  fail_value(repr_of(interpreter.heap(), a[0]) + " is not in list");
}

Value list_copy(Interpreter& interpreter, const Value& self, Arguments& args) {
  if (!args.positional.empty() || !args.keywords.empty()) fail_type("list.copy() takes no arguments");
  return interpreter.heap().list(collect(interpreter.heap(), self));
}

Value int_bit_length(Interpreter&, const Value& self, Arguments&) {
  uint64_t magnitude =
      self.as_int() < 0 ? 0 - static_cast<uint64_t>(self.as_int()) : static_cast<uint64_t>(self.as_int());
  int64_t bits = 0;
  for (; magnitude != 0; magnitude >>= 1) ++bits;
  return Value::integer(bits);
}

Value float_is_integer(Interpreter&, const Value& self, Arguments&) {
  return Value::boolean(std::isfinite(self.as_float()) && std::floor(self.as_float()) == self.as_float());
}

Value loop_cycle(Interpreter&, const Value& self, Arguments& args) {
  if (!args.keywords.empty()) fail_type("cycle() takes no keyword arguments");
  if (args.positional.empty()) fail_type("no items for cycling given");
  const auto index = static_cast<size_t>(std::max<int64_t>(self.get<LoopState>().index0, 0));
  return args.positional[index % args.positional.size()];
}

Value loop_changed(Interpreter& interpreter, const Value& self, Arguments& args) {
  if (!args.keywords.empty()) fail_type("changed() takes no keyword arguments");
  auto& loop = self.get<LoopState>();
  const Value now = interpreter.heap().list(args.positional, Kind::kTuple);
  if (!loop.last_changed.is_missing() && equal(interpreter.heap(), loop.last_changed, now))
    return Value::boolean(false);
  loop.last_changed = now;
  return Value::boolean(true);
}

Value cycler_next(Interpreter&, const Value& self, Arguments&) {
  auto& cycler = self.get<Cycler>();
  Value item = cycler.items[cycler.at];
  cycler.at = (cycler.at + 1) % cycler.items.size();
  return item;
}

Value cycler_reset(Interpreter&, const Value& self, Arguments&) {
  self.get<Cycler>().at = 0;
  return Value::none();
}

// Methods without a function would modify their object, which the sandbox forbids.
constexpr MethodDefinition kDictMethods[] = {
    {"clear", nullptr},
    {"copy", dict_copy},
    {"fromkeys", dict_fromkeys},
    {"get", dict_get},
    {"items", dict_view<DictView::kItems>},
    {"keys", dict_view<DictView::kKeys>},
    {"pop", nullptr},
    {"popitem", nullptr},
    {"setdefault", nullptr},
    {"update", nullptr},
    {"values", dict_view<DictView::kValues>},
};
constexpr MethodDefinition kListMethods[] = {
    {"append", nullptr}, {"clear", nullptr},    {"copy", list_copy}, {"count", list_count},
    {"extend", nullptr}, {"index", list_index}, {"insert", nullptr}, {"pop", nullptr},
    {"remove", nullptr}, {"reverse", nullptr},  {"sort", nullptr},
};
constexpr MethodDefinition kTupleMethods[] = {{"count", list_count}, {"index", list_index}};
constexpr MethodDefinition kIntMethods[] = {{"bit_length", int_bit_length}};
constexpr MethodDefinition kFloatMethods[] = {{"is_integer", float_is_integer}};
constexpr MethodDefinition kLoopMethods[] = {{"changed", loop_changed}, {"cycle", loop_cycle}};
constexpr MethodDefinition kCyclerMethods[] = {{"next", cycler_next}, {"reset", cycler_reset}};
constexpr MethodDefinition kFunctionMethods[] = {{"fromkeys", dict_fromkeys}};

std::span<const MethodDefinition> methods_of(const Value& self) {
  switch (self.kind()) {
    case Kind::kString:
      return string_methods();
    case Kind::kDict:
      return kDictMethods;
    case Kind::kList:
      return kListMethods;
    case Kind::kTuple:
    case Kind::kRange:
      return kTupleMethods;
    case Kind::kBool:
    case Kind::kInt:
      return kIntMethods;
    case Kind::kFloat:
      return kFloatMethods;
    case Kind::kLoop:
      return kLoopMethods;
    case Kind::kCycler:
      return kCyclerMethods;
    case Kind::kFunction:
      if (self.get<Function>().definition->name == "dict") return kFunctionMethods;
      return {};
    default:
      return {};
  }
}

}  // namespace

const MethodDefinition* find_method(const Value& self, std::string_view name) {
  const auto methods = methods_of(self);
  const auto at = std::lower_bound(methods.begin(), methods.end(), name,
                                   [](const MethodDefinition& m, std::string_view n) { return m.name < n; });
  return at != methods.end() && at->name == name ? &*at : nullptr;
}

}  // namespace quire::jinja
