// Attributes, items, slices and iteration.
#include <algorithm>

#include "text/chat/jinja/objects.h"
#include "text/chat/jinja/ops.h"
#include "text/chat/jinja/unicode_text.h"

namespace quire::jinja {
namespace {

bool is_dunder(std::string_view name) {
  return name.size() > 4 && name.substr(0, 2) == "__" && name.substr(name.size() - 2) == "__";
}

Value unsafe_attribute(Heap& heap, const Value& object, std::string_view name) {
  auto* info = heap.create<UndefinedInfo>();
  Value result = Value::of(info);
  info->error = ErrorClass::kSecurity;
  constexpr size_t kShown = 200;  // templates can create names of any length
  info->hint = "access to attribute '" + std::string(name.substr(0, kShown)) + "' of '" +
               std::string(type_name(object)) + "' object is unsafe.";
  return result;
}

Value macro_attribute(Heap& heap, const Value& object, std::string_view name) {
  const auto& definition = *object.get<Macro>().definition;
  if (name == "name") return definition.name.is_missing() ? Value::none() : definition.name;
  if (name == "arguments") return heap.list(definition.names, Kind::kTuple);
  if (name == "catch_kwargs") return Value::boolean(definition.kwargs_slot >= 0);
  if (name == "catch_varargs") return Value::boolean(definition.varargs_slot >= 0);
  if (name == "caller") return Value::boolean(definition.caller_slot >= 0);
  return {};
}

Value loop_attribute(Heap& heap, const Value& object, std::string_view name) {
  auto& loop = object.get<LoopState>();
  if (name == "index") return Value::integer(loop.index0 + 1);
  if (name == "index0") return Value::integer(loop.index0);
  if (name == "first") return Value::boolean(loop.index0 == 0);
  if (name == "last") return Value::boolean(!loop.has_next());
  if (name == "length") return Value::integer(loop.count());
  if (name == "revindex") return Value::integer(loop.count() - loop.index0);
  if (name == "revindex0") return Value::integer(loop.count() - loop.index0 - 1);
  if (name == "depth") return Value::integer(loop.depth0 + 1);
  if (name == "depth0") return Value::integer(loop.depth0);
  if (name == "previtem")
    return loop.index0 == 0 ? undefined_hint(heap, "there is no previous item") : loop.before;
  if (name == "nextitem")
    return loop.has_next() ? loop.peeked : undefined_hint(heap, "there is no next item");
  return {};
}

Value plain_attribute(Heap& heap, const Value& object, std::string_view name) {
  switch (object.kind()) {
    case Kind::kNamespace: {
      const Value* found = object.get<Namespace>().attributes.get<Dict>().find(name);
      return found == nullptr ? Value() : *found;
    }
    case Kind::kMacro:
      return macro_attribute(heap, object, name);
    case Kind::kLoop:
      return loop_attribute(heap, object, name);
    case Kind::kCycler: {
      const auto& cycler = object.get<Cycler>();
      return name == "current" ? cycler.items[cycler.at] : Value();
    }
    case Kind::kJoiner:
      if (name == "sep") return object.get<Joiner>().separator;
      return name == "used" ? Value::boolean(object.get<Joiner>().used) : Value();
    case Kind::kTuple:
      if (!object.get<List>().grouped) return {};
      return name == "grouper" ? object.items()[0] : name == "list" ? object.items()[1] : Value();
    case Kind::kRange: {
      const auto& range = object.get<Range>();
      if (name == "start") return Value::integer(range.start);
      if (name == "stop") return Value::integer(range.stop);
      return name == "step" ? Value::integer(range.step) : Value();
    }
    case Kind::kBool:
    case Kind::kInt:
      if (name == "real" || name == "numerator") return Value::integer(object.as_int());
      return name == "imag" ? Value::integer(0) : name == "denominator" ? Value::integer(1) : Value();
    case Kind::kFloat:
      return name == "real" ? object : name == "imag" ? Value::real(0) : Value();
    default:
      return {};
  }
}

// Python's slice.indices: limits the bounds to a sequence of `length` items.
struct Bounds {
  int64_t start, step, count;
};

Bounds clamp(int64_t length, const Value& lower, const Value& upper, const Value& step_value) {
  const auto absent = [](const Value& v) { return v.is_missing() || v.is_none(); };
  const int64_t step = absent(step_value) ? 1 : to_index(step_value);
  if (step == 0) fail_value("slice step cannot be zero");
  const int64_t low = step < 0 ? -1 : 0, high = step < 0 ? length - 1 : length;
  const auto bound = [&](const Value& v, int64_t fallback) {
    if (absent(v)) return fallback;
    const int64_t i = to_index(v);
    return i < 0 ? std::max(i + length, low) : std::min(i, high);
  };
  const int64_t start = bound(lower, step < 0 ? high : low);
  const int64_t stop = bound(upper, step < 0 ? low : high);
  if (step > 0 ? start >= stop : start <= stop) return {start, step, 0};
  // The distance is at most the length, so a huge step cannot overflow here.
  const uint64_t stride = step > 0 ? static_cast<uint64_t>(step) : 0 - static_cast<uint64_t>(step);
  const uint64_t distance = static_cast<uint64_t>(step > 0 ? stop - start : start - stop);
  return {start, step, static_cast<int64_t>((distance - 1) / stride) + 1};
}

Value slice_string(Heap& heap, const Value& object, const Value& lower, const Value& upper,
                   const Value& step) {
  const auto& source = object.get<Str>();
  const auto bounds = clamp(static_cast<int64_t>(source.length()), lower, upper, step);
  const auto start = static_cast<size_t>(bounds.start), count = static_cast<size_t>(bounds.count);
  heap.step_bytes(source.text.size());
  std::string out;
  if (count != 0 && bounds.step == 1) {
    const size_t from = source.ascii() ? start : byte_offset(source.text, start);
    const std::string_view rest = std::string_view(source.text).substr(from);
    out = rest.substr(0, source.ascii() ? count : byte_offset(rest, count));
  } else if (count != 0) {
    const auto points = to_code_points(source.text);
    int64_t at = bounds.start;
    for (size_t i = 0; i < count; ++i) {
      append_utf8(out, points[static_cast<size_t>(at)]);
      if (i + 1 < count) at += bounds.step;
    }
  }
  Value result = heap.string(std::move(out));
  result.get<Str>().markup = source.markup;
  return result;
}

Value get_index(Heap& heap, const Value& object, int64_t index) {
  const int64_t length = length_of(object);
  const int64_t at = index < 0 ? index + length : index;
  if (at < 0 || at >= length) return {};
  if (object.is_sequence_object()) return object.items()[static_cast<size_t>(at)];
  if (object.is(Kind::kRange)) {
    const auto& range = object.get<Range>();
    return Value::integer(range.start + at * range.step);
  }
  const auto& source = object.get<Str>();
  const size_t from =
      source.ascii() ? static_cast<size_t>(at) : byte_offset(source.text, static_cast<size_t>(at));
  if (!source.ascii()) heap.step_bytes(source.text.size());
  Value result = heap.string(source.text.substr(from, decode_at(source.text, from).bytes));
  result.get<Str>().markup = source.markup;
  return result;
}

bool hashable(Heap& heap, const Value& key) {
  if (key.is(Kind::kList) || key.is(Kind::kDict)) return false;
  if (!key.is(Kind::kTuple)) return true;
  try {
    hash_value(heap, key);
    return true;
  } catch (const RenderError& error) {
    if (error.kind != ErrorClass::kType) throw;
    return false;
  }
}

}  // namespace

Value Arguments::take(std::string_view name) {
  for (auto at = keywords.begin(); at != keywords.end(); ++at) {
    if (at->first.str() != name) continue;
    Value value = std::move(at->second);
    keywords.erase(at);
    return value;
  }
  return {};
}

void bind_arguments(std::string_view function, Arguments& args, const std::string_view* names, size_t count,
                    size_t required, Value* out) {
  if (args.positional.size() > count) {
    fail_type(std::string(function) + "() takes at most " + std::to_string(count) + " arguments (" +
              std::to_string(args.positional.size()) + " given)");
  }
  for (size_t i = 0; i < args.positional.size(); ++i) out[i] = args.positional[i];
  for (auto& [name, value] : args.keywords) {
    const auto* found = std::find(names, names + count, std::string_view(name.str()));
    if (found == names + count) {
      fail_type(std::string(function) + "() got an unexpected keyword argument '" + name.str() + "'");
    }
    if (!out[found - names].is_missing()) {
      fail_type(std::string(function) + "() got multiple values for argument '" + name.str() + "'");
    }
    out[found - names] = value;
  }
  for (size_t i = 0; i < required; ++i) {
    if (out[i].is_missing()) {
      fail_type(std::string(function) + "() missing required argument: '" + std::string(names[i]) + "'");
    }
  }
}

std::optional<int64_t> try_length(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
      return 0;
    case Kind::kString:
      return static_cast<int64_t>(value.get<Str>().length());
    case Kind::kList:
    case Kind::kTuple:
      return static_cast<int64_t>(value.items().size());
    case Kind::kDict:
      return static_cast<int64_t>(value.get<Dict>().entries.size());
    case Kind::kDictView:
      return static_cast<int64_t>(value.get<DictView>().dict.get<Dict>().entries.size());
    case Kind::kRange:
      return value.get<Range>().size();
    case Kind::kLoop:
      return value.get<LoopState>().count();
    default:
      return std::nullopt;
  }
}

int64_t length_of(const Value& value) {
  const auto length = try_length(value);
  if (!length) fail_type("object of type '" + std::string(type_name(value)) + "' has no len()");
  return *length;
}

int64_t to_index(const Value& value) {
  if (value.is_integral()) return value.as_int();
  if (value.is_undefined()) fail_undefined(value);
  fail_type("'" + std::string(type_name(value)) + "' object cannot be interpreted as an integer");
}

bool contains(Heap& heap, const Value& container, const Value& item) {
  switch (container.kind()) {
    case Kind::kString:
      if (!item.is_string()) {
        fail_type("'in <string>' requires string as left operand, not " + std::string(type_name(item)));
      }
      heap.step_bytes(container.str().size());
      return find_text(container.str(), item.str(), 0) != std::string_view::npos;
    case Kind::kList:
    case Kind::kTuple:
      for (const auto& own : container.items()) {
        heap.step();
        if (equal(heap, own, item)) return true;
      }
      return false;
    case Kind::kDict:
      return container.get<Dict>().find(item) != nullptr;
    case Kind::kUndefined:
      return false;
    case Kind::kRange:
    case Kind::kDictView:
    case Kind::kIterator: {
      Cursor cursor(heap, container);
      Value own;
      while (cursor.next(own)) {
        if (equal(heap, own, item)) return true;
      }
      return false;
    }
    default:
      fail_type("argument of type '" + std::string(type_name(container)) + "' is not iterable");
  }
}

Value find_attribute(Heap& heap, const Value& object, std::string_view name) {
  if (object.is_undefined()) fail_undefined(object);
  if (const auto* method = find_method(object, name)) {
    if (method->call == nullptr) return unsafe_attribute(heap, object, name);
    return Value::of(heap.create<BoundMethod>(object, method));
  }
  if (Value value = plain_attribute(heap, object, name); !value.is_missing()) return value;
  if (is_dunder(name) && !object.is(Kind::kDict)) return unsafe_attribute(heap, object, name);
  return {};
}

Value undefined_attribute(Heap& heap, const Value& object, const Value& name) {
  auto* info = heap.create<UndefinedInfo>();
  Value result = Value::of(info);
  info->owner = object.is_none() ? "None" : type_name(object).data();
  info->name = name;
  return result;
}

Value undefined_hint(Heap& heap, std::string hint) {
  auto* info = heap.create<UndefinedInfo>();
  Value result = Value::of(info);
  info->hint = std::move(hint);
  return result;
}

Value get_attribute(Heap& heap, const Value& object, const Value& name) {
  if (Value value = find_attribute(heap, object, name.str()); !value.is_missing()) return value;
  if (object.is(Kind::kDict)) {
    if (const Value* found = object.get<Dict>().find(std::string_view(name.str()))) return *found;
    if (is_dunder(name.str())) return unsafe_attribute(heap, object, name.str());
  }
  return undefined_attribute(heap, object, name);
}

Value get_item(Heap& heap, const Value& object, const Value& key) {
  if (object.is_undefined()) fail_undefined(object);
  if (object.is(Kind::kDict)) {
    if (hashable(heap, key)) {
      if (const Value* found = object.get<Dict>().find(key)) return *found;
    }
  } else if (key.is_integral() &&
             (object.is_string() || object.is_sequence_object() || object.is(Kind::kRange))) {
    if (Value value = get_index(heap, object, key.as_int()); !value.is_missing()) return value;
    return undefined_attribute(heap, object, key);
  }
  if (key.is_string()) {
    if (Value value = find_attribute(heap, object, key.str()); !value.is_missing()) return value;
  }
  return undefined_attribute(heap, object, key);
}

Value slice(Heap& heap, const Value& object, const Value& lower, const Value& upper, const Value& step) {
  if (object.is_undefined()) fail_undefined(object);
  if (object.is_string()) return slice_string(heap, object, lower, upper, step);
  if (object.is_sequence_object()) {
    const auto& items = object.items();
    const auto bounds = clamp(static_cast<int64_t>(items.size()), lower, upper, step);
    heap.require(static_cast<size_t>(bounds.count) * sizeof(Value));
    heap.step(static_cast<uint64_t>(bounds.count) / 8 + 1);
    std::vector<Value> out;
    out.reserve(static_cast<size_t>(bounds.count));
    for (int64_t i = 0; i < bounds.count; ++i)
      out.push_back(items[static_cast<size_t>(bounds.start + i * bounds.step)]);
    return heap.list(std::move(out), object.kind());
  }
  if (object.is(Kind::kRange)) {
    const auto& range = object.get<Range>();
    const auto bounds = clamp(range.size(), lower, upper, step);
    const int64_t start = range.start + bounds.start * range.step;
    const int64_t stride = bounds.count > 1 ? range.step * bounds.step : 1;
    return Value::of(heap.create<Range>(start, start + bounds.count * stride, stride));
  }
  if (object.is(Kind::kDict)) fail_type("unhashable type: 'slice'");
  fail_type("'" + std::string(type_name(object)) + "' object is not subscriptable");
}

bool iterable(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
    case Kind::kString:
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kDict:
    case Kind::kDictView:
    case Kind::kRange:
    case Kind::kIterator:
    case Kind::kLoop:
      return true;
    default:
      return false;
  }
}

Cursor::Cursor(Heap& heap, Value source) : heap_(heap), source_(std::move(source)) {
  if (!iterable(source_)) fail_type("'" + std::string(type_name(source_)) + "' object is not iterable");
}

std::optional<int64_t> Cursor::left() const {
  if (source_.is(Kind::kIterator) || source_.is(Kind::kString) || source_.is(Kind::kLoop))
    return std::nullopt;
  return length_of(source_) - static_cast<int64_t>(at_);
}

bool Cursor::next(Value& out) {
  heap_.step();
  switch (source_.kind()) {
    case Kind::kString: {
      const auto& text = source_.str();
      if (at_ >= text.size()) return false;
      const size_t bytes = decode_at(text, at_).bytes;
      out = heap_.string(text.substr(at_, bytes));
      at_ += bytes;
      return true;
    }
    case Kind::kList:
    case Kind::kTuple:
      if (at_ >= source_.items().size()) return false;
      out = source_.items()[at_++];
      return true;
    case Kind::kDict: {
      const auto& entries = source_.get<Dict>().entries;
      if (at_ >= entries.size()) return false;
      out = entries[at_++].first;
      return true;
    }
    case Kind::kDictView: {
      const auto& view = source_.get<DictView>();
      const auto& entries = view.dict.get<Dict>().entries;
      if (at_ >= entries.size()) return false;
      const auto& [key, value] = entries[at_++];
      if (view.part == DictView::kItems) {
        out = heap_.list({key, value}, Kind::kTuple);
      } else {
        out = view.part == DictView::kKeys ? key : value;
      }
      return true;
    }
    case Kind::kRange: {
      const auto& range = source_.get<Range>();
      if (static_cast<int64_t>(at_) >= range.size()) return false;
      out = Value::integer(range.start + static_cast<int64_t>(at_++) * range.step);
      return true;
    }
    case Kind::kIterator: {
      auto& iterator = source_.get<IteratorObject>();
      if (iterator.next < iterator.items.size()) {
        out = std::move(iterator.items[iterator.next++]);
        return true;
      }
      if (iterator.error) {
        const RenderError error = *iterator.error;
        iterator.error.reset();
        throw error;
      }
      return false;
    }
    case Kind::kLoop: {
      Value item;
      if (!source_.get<LoopState>().advance(item)) return false;
      out = heap_.list({item, source_}, Kind::kTuple);
      return true;
    }
    default:
      return false;
  }
}

std::vector<Value> collect(Heap& heap, const Value& source) {
  Cursor cursor(heap, source);
  std::vector<Value> items;
  Value item;
  while (cursor.next(item)) {
    if (items.size() == items.capacity()) heap.require((items.size() + 16) * 2 * sizeof(Value));
    items.push_back(std::move(item));
  }
  return items;
}

}  // namespace quire::jinja
