// The global functions of a chat template.
#include <algorithm>

#include "text/chat/jinja/filter_args.h"

namespace quire::jinja {
namespace {

constexpr int64_t kMaxRange = 100000;  // limit of jinja2's sandbox

Value call_range(Interpreter& interpreter, Arguments& args) {
  static constexpr std::string_view kNames[] = {"start", "stop", "step"};
  if (!args.keywords.empty()) fail_type("range() takes no keyword arguments");
  Value a[3];
  bind_values("range", args, kNames, 1, a);
  const int64_t first = to_index(a[0]);
  int64_t start = 0, stop = first;
  if (!a[1].is_missing()) {
    start = first;
    stop = to_index(a[1]);
  }
  const int64_t step = integer_or(a[2], 1);
  if (step == 0) fail_value("range() arg 3 must not be zero");
  Value range = Value::of(interpreter.heap().create<Range>(start, stop, step));
  const int64_t size = range.get<Range>().size();
  if (size < 0 || size > kMaxRange) {
    fail(ErrorClass::kLimit, "Range too big. The sandbox blocks ranges larger than MAX_RANGE (" +
                                 std::to_string(kMaxRange) + ").");
  }
  return range;
}

// dict(mapping or pairs, **more)
Value make_dict(Interpreter& interpreter, Arguments& args) {
  Heap& heap = interpreter.heap();
  Value result = heap.dict();
  auto& dict = result.get<Dict>();
  if (args.positional.size() > 1) {
    fail_type("dict expected at most 1 argument, got " + std::to_string(args.positional.size()));
  }
  if (!args.positional.empty()) {
    const Value& source = args.positional[0];
    if (source.is(Kind::kDict)) {
      for (const auto& [key, value] : source.get<Dict>().entries) dict.set(key, value);
    } else {
      Cursor cursor(heap, source);
      Value item;
      while (cursor.next(item)) {
        const auto pair = collect(heap, item);
        if (pair.size() != 2) {
          fail_value("dictionary update sequence element has length " + std::to_string(pair.size()) +
                     "; 2 is required");
        }
        dict.set(pair[0], pair[1]);
      }
    }
  }
  for (const auto& [key, value] : args.keywords) dict.set(key, value);
  return result;
}

Value call_namespace(Interpreter& interpreter, Arguments& args) {
  const Value attributes = make_dict(interpreter, args);
  for (const auto& [key, value] : attributes.get<Dict>().entries) {
    if (key.is_string() && !key.str().empty() && key.str()[0] == '_') {
      fail(ErrorClass::kSecurity,
           "Chat templates cannot store underscore-prefixed attributes on a namespace, but got '" +
               key.str() + "'.");
    }
  }
  auto* result = interpreter.heap().create<Namespace>();
  Value reference = Value::of(result);
  result->attributes = attributes;
  return reference;
}

Value call_cycler(Interpreter& interpreter, Arguments& args) {
  if (!args.keywords.empty()) fail_type("cycler() got an unexpected keyword argument");
  if (args.positional.empty()) fail(ErrorClass::kRuntime, "at least one item has to be provided");
  auto* cycler = interpreter.heap().create<Cycler>();
  Value result = Value::of(cycler);
  cycler->items = std::move(args.positional);
  return result;
}

Value call_joiner(Interpreter& interpreter, Arguments& args) {
  static constexpr std::string_view kNames[] = {"sep"};
  Value a[1];
  bind_values("joiner", args, kNames, 0, a);
  auto* joiner = interpreter.heap().create<Joiner>();
  Value result = Value::of(joiner);
  joiner->separator = a[0].is_missing() ? interpreter.heap().string(", ") : a[0];
  return result;
}

Value call_raise_exception(Interpreter& interpreter, Arguments& args) {
  static constexpr std::string_view kNames[] = {"message"};
  Value a[1];
  bind_values("raise_exception", args, kNames, 1, a);
  fail(ErrorClass::kRaised, str_of(interpreter.heap(), a[0]));
}

Value call_strftime_now(Interpreter& interpreter, Arguments& args) {
  static constexpr std::string_view kNames[] = {"format"};
  Value a[1];
  bind_values("strftime_now", args, kNames, 1, a);
  const auto& format = need_string(a[0], "the format");
  Heap& heap = interpreter.heap();
  // A directive of two characters can expand to about fifty.
  heap.require(format.size() * 32);
  heap.step_bytes(format.size() * 64);
  auto text = format_time(interpreter.now(), format);
  if (!text.ok()) fail_value(text.failure().message);
  return heap.string(std::move(*text));
}

constexpr FunctionDefinition kGlobals[] = {
    {"cycler", call_cycler},
    {"dict", make_dict},
    {"joiner", call_joiner},
    {"namespace", call_namespace},
    {"range", call_range},
    {"raise_exception", call_raise_exception},
    {"strftime_now", call_strftime_now},
};

}  // namespace

const FunctionDefinition* find_global(std::string_view name) {
  const auto* found = std::find_if(std::begin(kGlobals), std::end(kGlobals),
                                   [&](const FunctionDefinition& f) { return f.name == name; });
  return found == std::end(kGlobals) ? nullptr : found;
}

}  // namespace quire::jinja
