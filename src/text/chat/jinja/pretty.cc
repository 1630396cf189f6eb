#include "text/chat/jinja/pretty.h"

#include <algorithm>

#include "text/chat/jinja/ops.h"
#include "text/chat/jinja/unicode_text.h"

namespace quire::jinja {
namespace {

constexpr size_t kWidth = 80;

// Dictionaries are printed in order of their keys if these can be ordered.
Value sorted_copy(Heap& heap, const Value& value, int depth) {
  if (depth > kMaxValueDepth) fail(ErrorClass::kLimit, "a value is nested too deeply");
  heap.step();
  if (value.is_sequence_object()) {
    std::vector<Value> items;
    for (const auto& item : value.items()) items.push_back(sorted_copy(heap, item, depth + 1));
    return heap.list(std::move(items), value.kind());
  }
  if (!value.is(Kind::kDict)) return value;
  heap.step_items(value.get<Dict>().entries.size());
  auto entries = value.get<Dict>().entries;
  std::stable_sort(entries.begin(), entries.end(), [&heap](const Dict::Entry& a, const Dict::Entry& b) {
    heap.step();
    if (a.first.is_string() != b.first.is_string()) return type_name(a.first) < type_name(b.first);
    try {
      return ordered(heap, a.first, b.first, Comparison::kLt);
    } catch (const RenderError& error) {
      if (ends_rendering(error.kind)) throw;
      return type_name(a.first) < type_name(b.first);
    }
  });
  Value copy = heap.dict();
  for (const auto& [key, item] : entries) copy.get<Dict>().set(key, sorted_copy(heap, item, depth + 1));
  return copy;
}

// indent: column in which the value starts. after: number of characters that must fit after it on the line.
void append_pretty(Heap& heap, std::string& out, const Value& value, size_t indent, size_t after, int depth) {
  if (depth > kMaxValueDepth) fail(ErrorClass::kLimit, "a value is nested too deeply");
  const std::string flat = repr_of(heap, value);
  const size_t used = indent + after;
  const bool container = value.is_sequence_object() || value.is(Kind::kDict);
  if (!container || used >= kWidth || utf8_length(flat) <= kWidth - used) {
    if (!container || utf8_length(flat) + used <= kWidth) {
      out += flat;
      return;
    }
  }
  const std::string margin(std::min(indent + 1, size_t{4096}), ' ');
  const auto separate = [&](bool first) {
    if (!first) out += ",\n" + margin;
    heap.require(out.size());
  };
  if (value.is(Kind::kDict)) {
    out += '{';
    const auto& entries = value.get<Dict>().entries;
    for (size_t i = 0; i < entries.size(); ++i) {
      separate(i == 0);
      const std::string key = repr_of(heap, entries[i].first);
      out += key + ": ";
      const bool last = i + 1 == entries.size();
      append_pretty(heap, out, entries[i].second, indent + 1 + utf8_length(key) + 2, last ? after + 1 : 1,
                    depth + 1);
    }
    out += '}';
    return;
  }
  out += value.is(Kind::kList) ? '[' : '(';
  const auto& items = value.items();
  for (size_t i = 0; i < items.size(); ++i) {
    separate(i == 0);
    append_pretty(heap, out, items[i], indent + 1, i + 1 == items.size() ? after + 1 : 1, depth + 1);
  }
  if (value.is(Kind::kTuple) && items.size() == 1) out += ',';
  out += value.is(Kind::kList) ? ']' : ')';
}

}  // namespace

std::string pretty_print(Heap& heap, const Value& value) {
  std::string out;
  append_pretty(heap, out, sorted_copy(heap, value, 0), 0, 0, 0);
  return out;
}

}  // namespace quire::jinja
