#include <algorithm>

#include "text/chat/jinja/filter_args.h"
#include "text/chat/jinja/filters.h"
#include "text/chat/jinja/unicode_text.h"

namespace quire::jinja {
namespace {

// Converts strings to lowercase if case_sensitive is false.
Value fold(Interpreter& interpreter, Value value, bool case_sensitive) {
  if (case_sensitive || !value.is_string()) return value;
  interpreter.heap().step_bytes(value.str().size());
  return interpreter.heap().string(to_lower(value.str()));
}

// Runs `fill`, which appends to the items of a new generator. Errors are rethrown when the generator is read,
// except that limits take effect immediately.
template <typename Fill>
Value generate(Interpreter& interpreter, Fill fill) {
  auto* generator = interpreter.heap().create<IteratorObject>("generator");
  Value result = Value::of(generator);
  try {
    fill(generator->items);
  } catch (const RenderError& error) {
    if (ends_rendering(error.kind)) throw;
    generator->error = error;
  }
  interpreter.heap().grow(*generator, generator->items.size() * sizeof(Value));
  return result;
}

void append(Heap& heap, std::vector<Value>& items, Value item) {
  if (items.size() == items.capacity()) heap.require((items.size() + 8) * 2 * sizeof(Value));
  items.push_back(std::move(item));
}

struct Keyed {
  Value key, item;
};

void sort_keyed(Heap& heap, std::vector<Keyed>& items, bool reverse) {
  std::stable_sort(items.begin(), items.end(), [&heap, reverse](const Keyed& a, const Keyed& b) {
    heap.step();
    return reverse ? ordered(heap, b.key, a.key, Comparison::kLt)
                   : ordered(heap, a.key, b.key, Comparison::kLt);
  });
}

Value filter_batch(Interpreter& interpreter, Arguments& args) {
  static constexpr std::string_view kNames[] = {"value", "linecount", "fill_with"};
  Value a[3];
  bind_values("batch", args, kNames, 2, a);
  Heap& heap = interpreter.heap();
  return generate(interpreter, [&](std::vector<Value>& out) {
    const int64_t size = to_index(a[1]);
    std::vector<Value> row;
    Cursor cursor(heap, a[0]);
    Value item;
    while (cursor.next(item)) {
      if (static_cast<int64_t>(row.size()) == size) append(heap, out, heap.list(std::exchange(row, {})));
      append(heap, row, std::move(item));
    }
    if (row.empty()) return;
    if (!a[2].is_missing() && !a[2].is_none() && static_cast<int64_t>(row.size()) < size) {
      heap.require(static_cast<size_t>(std::min<int64_t>(size, INT64_MAX / 64)) * sizeof(Value));
      heap.step(static_cast<uint64_t>(size));
      row.resize(static_cast<size_t>(size), a[2]);
    }
    append(heap, out, heap.list(std::move(row)));
  });
}

Value filter_slice(Interpreter& interpreter, Arguments& args) {
  static constexpr std::string_view kNames[] = {"value", "slices", "fill_with"};
  Value a[3];
  bind_values("slice", args, kNames, 2, a);
  Heap& heap = interpreter.heap();
  return generate(interpreter, [&](std::vector<Value>& out) {
    const auto items = collect(heap, a[0]);
    const int64_t slices = to_index(a[1]);
    if (slices == 0) fail_value("integer division or modulo by zero");
    const auto length = static_cast<int64_t>(items.size());
    const int64_t each = slices < 0 ? 0 : length / slices, extra = slices < 0 ? 0 : length % slices;
    size_t at = 0;
    for (int64_t i = 0; i < slices; ++i) {
      heap.step();
      const auto size = static_cast<size_t>(each + (i < extra ? 1 : 0));
      std::vector<Value> part(items.begin() + static_cast<ptrdiff_t>(at),
                              items.begin() + static_cast<ptrdiff_t>(at + size));
      at += size;
      if (!a[2].is_missing() && !a[2].is_none() && i >= extra) part.push_back(a[2]);
      append(heap, out, heap.list(std::move(part)));
    }
  });
}

Value filter_dictsort(Interpreter& interpreter, Arguments& args) {
  static constexpr std::string_view kNames[] = {"value", "case_sensitive", "by", "reverse"};
  Value a[4];
  bind_values("dictsort", args, kNames, 1, a);
  const std::string by = a[2].is_missing() ? "key" : a[2].is_string() ? a[2].str() : "";
  if (by != "key" && by != "value") fail_value("You can only sort by either \"key\" or \"value\"");
  if (a[0].is_undefined()) fail_undefined(a[0]);
  if (!a[0].is(Kind::kDict))
    fail(ErrorClass::kUndefined, "'" + std::string(type_name(a[0])) + "' object has no attribute 'items'");
  std::vector<Keyed> items;
  for (const auto& [key, value] : a[0].get<Dict>().entries) {
    items.push_back({fold(interpreter, by == "key" ? key : value, truth_or(a[1], false)),
                     interpreter.heap().list({key, value}, Kind::kTuple)});
  }
  sort_keyed(interpreter.heap(), items, truth_or(a[3], false));
  std::vector<Value> out;
  for (auto& keyed : items) out.push_back(std::move(keyed.item));
  return interpreter.heap().list(std::move(out));
}

Value filter_first(Interpreter& interpreter, Arguments& args) {
  static constexpr std::string_view kNames[] = {"seq"};
  Value a[1];
  bind_values("first", args, kNames, 1, a);
  Cursor cursor(interpreter.heap(), a[0]);
  Value item;
  if (cursor.next(item)) return item;
  return undefined_hint(interpreter.heap(), "No first item, sequence was empty.");
}

Value filter_last(Interpreter& interpreter, Arguments& args) {
  static constexpr std::string_view kNames[] = {"seq"};
  Value a[1];
  bind_values("last", args, kNames, 1, a);
  Heap& heap = interpreter.heap();
  if (!iterable(a[0]) || a[0].is(Kind::kIterator) || a[0].is(Kind::kLoop)) {
    fail_type("'" + std::string(type_name(a[0])) + "' object is not reversible");
  }
  if (a[0].is_string() || a[0].is_sequence_object() || a[0].is(Kind::kRange)) {
    if (length_of(a[0]) > 0) return get_item(heap, a[0], Value::integer(-1));
  } else if (auto items = collect(heap, a[0]); !items.empty()) {
    return items.back();
  }
  return undefined_hint(heap, "No last item, sequence was empty.");
}

Value filter_groupby(Interpreter& interpreter, Arguments& args) {
  static constexpr std::string_view kNames[] = {"value", "attribute", "default", "case_sensitive"};
  Value a[4];
  bind_values("groupby", args, kNames, 2, a);
  Heap& heap = interpreter.heap();
  const auto grouper = [&](const Value& item) {
    Value key = get_path(interpreter, item, a[1]);
    return key.is_undefined() && !a[2].is_missing() && !a[2].is_none() ? a[2] : key;
  };
  std::vector<Keyed> items;
  for (auto& item : collect(heap, a[0])) {
    Value key = fold(interpreter, grouper(item), truth_or(a[3], false));
    items.push_back({std::move(key), std::move(item)});
  }
  sort_keyed(heap, items, false);
  std::vector<Value> groups;
  for (size_t i = 0; i < items.size();) {
    std::vector<Value> members;
    const Value key = items[i].key;
    const Value shown = truth_or(a[3], false) ? key : grouper(items[i].item);
    for (; i < items.size() && equal(heap, items[i].key, key); ++i) members.push_back(items[i].item);
    // A key that does not equal itself (NaN) still contains its item.
    if (members.empty()) members.push_back(items[i++].item);
    const Value group = heap.list({shown, heap.list(std::move(members))}, Kind::kTuple);
    group.get<List>().grouped = true;
    groups.push_back(group);
  }
  return heap.list(std::move(groups));
}

Value filter_items(Interpreter& interpreter, Arguments& args) {
  static constexpr std::string_view kNames[] = {"value"};
  Value a[1];
  bind_values("items", args, kNames, 1, a);
  return generate(interpreter, [&](std::vector<Value>& out) {
    if (a[0].is_undefined()) return;
    if (!a[0].is(Kind::kDict)) fail_type("Can only get item pairs from a mapping.");
    for (const auto& [key, value] : a[0].get<Dict>().entries) {
      append(interpreter.heap(), out, interpreter.heap().list({key, value}, Kind::kTuple));
    }
  });
}

Value filter_join(Interpreter& interpreter, Arguments& args) {
  static constexpr std::string_view kNames[] = {"value", "d", "attribute"};
  Value a[3];
  bind_values("join", args, kNames, 1, a);
  Heap& heap = interpreter.heap();
  const std::string separator = a[1].is_missing() ? "" : str_of(heap, a[1]);
  std::string out;
  bool first = true;
  Cursor cursor(heap, a[0]);
  Value item;
  while (cursor.next(item)) {
    if (!first) {
      heap.require(out.size() + separator.size());
      heap.step_bytes(separator.size());
      out += separator;
    }
    first = false;
    append_str(heap, out, get_path(interpreter, item, a[2]));
  }
  return heap.string(std::move(out));
}

Value filter_length(Interpreter&, Arguments& args) {
  static constexpr std::string_view kNames[] = {"obj"};
  Value a[1];
  bind_values("len", args, kNames, 1, a);
  return Value::integer(length_of(a[0]));
}

Value filter_list(Interpreter& interpreter, Arguments& args) {
  static constexpr std::string_view kNames[] = {"value"};
  Value a[1];
  bind_values("list", args, kNames, 1, a);
  return interpreter.heap().list(collect(interpreter.heap(), a[0]));
}

// Removes and returns the first argument; missing if there is none.
Value take_first(Arguments& args, size_t at) {
  if (args.positional.size() <= at) return {};
  Value value = std::move(args.positional[at]);
  args.positional.erase(args.positional.begin() + static_cast<ptrdiff_t>(at));
  return value;
}

Value filter_map(Interpreter& interpreter, Arguments& args) {
  const Value source = take_first(args, 0);
  return generate(interpreter, [&](std::vector<Value>& out) {
    if (!truthy(source) && !source.is(Kind::kIterator)) return;
    Value attribute, fallback, name;
    if (args.positional.empty()) attribute = args.take("attribute");
    if (!attribute.is_missing()) {
      fallback = args.take("default");
      if (!args.keywords.empty())
        fail_value("Unexpected keyword argument '" + args.keywords[0].first.str() + "'");
    } else {
      name = take_first(args, 0);
      if (name.is_missing()) fail_value("map requires a filter argument");
    }
    Cursor cursor(interpreter.heap(), source);
    Value item;
    while (cursor.next(item)) {
      if (!name.is_missing()) {
        interpreter.heap().step_items(args.positional.size() + args.keywords.size());
        Arguments call = args;
        call.positional.insert(call.positional.begin(), item);
        append(interpreter.heap(), out, interpreter.apply_filter(name, call));
        continue;
      }
      Value found = get_path(interpreter, item, attribute);
      const bool use_default = found.is_undefined() && !fallback.is_missing() && !fallback.is_none();
      append(interpreter.heap(), out, use_default ? fallback : std::move(found));
    }
  });
}

Value pick(Interpreter& interpreter, Arguments& args, bool wanted, bool by_attribute) {
  const Value source = take_first(args, 0);
  return generate(interpreter, [&](std::vector<Value>& out) {
    if (!truthy(source) && !source.is(Kind::kIterator)) return;
    Value attribute;
    if (by_attribute) {
      attribute = take_first(args, 0);
      if (attribute.is_missing()) fail_value("Missing parameter for attribute name");
    }
    const Value test = take_first(args, 0);
    Cursor cursor(interpreter.heap(), source);
    Value item;
    while (cursor.next(item)) {
      Value tested = by_attribute ? get_path(interpreter, item, attribute) : item;
      bool holds;
      if (test.is_missing()) {
        holds = truthy(tested);
      } else {
        interpreter.heap().step_items(args.positional.size() + args.keywords.size());
        Arguments call = args;
        call.positional.insert(call.positional.begin(), std::move(tested));
        holds = interpreter.apply_test(test, call);
      }
      if (holds == wanted) append(interpreter.heap(), out, std::move(item));
    }
  });
}

Value filter_select(Interpreter& i, Arguments& args) {
  return pick(i, args, true, false);
}
Value filter_reject(Interpreter& i, Arguments& args) {
  return pick(i, args, false, false);
}
Value filter_selectattr(Interpreter& i, Arguments& args) {
  return pick(i, args, true, true);
}
Value filter_rejectattr(Interpreter& i, Arguments& args) {
  return pick(i, args, false, true);
}

Value extreme(Interpreter& interpreter, Arguments& args, Comparison better) {
  static constexpr std::string_view kNames[] = {"value", "case_sensitive", "attribute"};
  Value a[3];
  bind_values(better == Comparison::kLt ? "min" : "max", args, kNames, 1, a);
  Cursor cursor(interpreter.heap(), a[0]);
  Value best, best_key, item;
  while (cursor.next(item)) {
    Value key = fold(interpreter, get_path(interpreter, item, a[2]), truth_or(a[1], false));
    if (!best_key.is_missing() && !ordered(interpreter.heap(), key, best_key, better)) continue;
    best = std::move(item);
    best_key = std::move(key);
  }
  return best.is_missing() ? undefined_hint(interpreter.heap(), "No aggregated item, sequence was empty.")
                           : best;
}

Value filter_min(Interpreter& i, Arguments& args) {
  return extreme(i, args, Comparison::kLt);
}
Value filter_max(Interpreter& i, Arguments& args) {
  return extreme(i, args, Comparison::kGt);
}

Value filter_reverse(Interpreter& interpreter, Arguments& args) {
  static constexpr std::string_view kNames[] = {"value"};
  Value a[1];
  bind_values("reverse", args, kNames, 1, a);
  Heap& heap = interpreter.heap();
  if (a[0].is_string()) {
    heap.step_bytes(a[0].str().size() * kClassCost);
    heap.require(a[0].str().size() * sizeof(char32_t));
    auto points = to_code_points(a[0].str());
    std::reverse(points.begin(), points.end());
    return string_like(heap, a[0], to_utf8(points));
  }
  if (!iterable(a[0])) fail_value("argument must be iterable");
  auto items = collect(heap, a[0]);
  std::reverse(items.begin(), items.end());
  if (a[0].is(Kind::kIterator) || a[0].is(Kind::kLoop)) return heap.list(std::move(items));
  const char* name = a[0].is(Kind::kList)    ? "list_reverseiterator"
                     : a[0].is(Kind::kDict)  ? "dict_reversekeyiterator"
                     : a[0].is(Kind::kRange) ? "range_iterator"
                                             : "reversed";
  auto* iterator = heap.create<IteratorObject>(name);
  Value result = Value::of(iterator);
  heap.grow(*iterator, items.size() * sizeof(Value));
  iterator->items = std::move(items);
  return result;
}

Value filter_sort(Interpreter& interpreter, Arguments& args) {
  static constexpr std::string_view kNames[] = {"value", "reverse", "case_sensitive", "attribute"};
  Value a[4];
  bind_values("sort", args, kNames, 1, a);
  Heap& heap = interpreter.heap();
  std::vector<Value> paths;
  if (a[3].is_string()) {
    std::string_view rest = a[3].str();
    for (size_t comma; (comma = rest.find(',')) != std::string_view::npos; rest.remove_prefix(comma + 1)) {
      paths.push_back(heap.string(std::string(rest.substr(0, comma))));
    }
    paths.push_back(heap.string(std::string(rest)));
  } else {
    paths.push_back(a[3]);
  }
  std::vector<Keyed> items;
  for (auto& item : collect(heap, a[0])) {
    std::vector<Value> key;
    for (const Value& path : paths)
      key.push_back(fold(interpreter, get_path(interpreter, item, path), truth_or(a[2], false)));
    items.push_back({heap.list(std::move(key)), std::move(item)});
  }
  sort_keyed(heap, items, truth_or(a[1], false));
  std::vector<Value> out;
  for (auto& keyed : items) out.push_back(std::move(keyed.item));
  return heap.list(std::move(out));
}

Value filter_sum(Interpreter& interpreter, Arguments& args) {
  static constexpr std::string_view kNames[] = {"iterable", "attribute", "start"};
  Value a[3];
  bind_values("sum", args, kNames, 1, a);
  Value total = a[2].is_missing() ? Value::integer(0) : a[2];
  if (total.is_string()) fail_type("sum() can't sum strings [use ''.join(seq) instead]");
  Cursor cursor(interpreter.heap(), a[0]);
  Value item;
  while (cursor.next(item)) {
    total = arithmetic(interpreter.heap(), Operator::kAdd, total, get_path(interpreter, item, a[1]));
  }
  return total;
}

Value filter_unique(Interpreter& interpreter, Arguments& args) {
  static constexpr std::string_view kNames[] = {"value", "case_sensitive", "attribute"};
  Value a[3];
  bind_values("unique", args, kNames, 1, a);
  Heap& heap = interpreter.heap();
  return generate(interpreter, [&](std::vector<Value>& out) {
    const Value seen = heap.dict();
    Cursor cursor(heap, a[0]);
    Value item;
    while (cursor.next(item)) {
      const Value key = fold(interpreter, get_path(interpreter, item, a[2]), truth_or(a[1], false));
      if (seen.get<Dict>().find(key) != nullptr) continue;
      seen.get<Dict>().set(key, Value::none());
      append(heap, out, std::move(item));
    }
  });
}

constexpr FilterDefinition kSequenceFilters[] = {
    {"batch", filter_batch},     {"count", filter_length},    {"dictsort", filter_dictsort},
    {"first", filter_first},     {"groupby", filter_groupby}, {"items", filter_items},
    {"join", filter_join},       {"last", filter_last},       {"length", filter_length},
    {"list", filter_list},       {"map", filter_map},         {"max", filter_max},
    {"min", filter_min},         {"reject", filter_reject},   {"rejectattr", filter_rejectattr},
    {"reverse", filter_reverse}, {"select", filter_select},   {"selectattr", filter_selectattr},
    {"slice", filter_slice},     {"sort", filter_sort},       {"sum", filter_sum},
    {"unique", filter_unique},
};

}  // namespace

std::span<const FilterDefinition> sequence_filters() {
  return kSequenceFilters;
}

}  // namespace quire::jinja
