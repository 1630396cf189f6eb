// Python's operations on values. All functions throw RenderError. Messages are those of Python or jinja2 if
// users may know them. Work and memory are counted on the heap.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/chat/jinja/ast.h"
#include "text/chat/jinja/value.h"

namespace quire::jinja {

// Maximum nesting of lists and dictionaries that are compared, printed or read from a request.
inline constexpr int kMaxValueDepth = 400;

std::string_view type_name(const Value& value);
// The message "'x' is undefined" or similar.
std::string undefined_message(const UndefinedInfo& info);
[[noreturn]] void fail_undefined(const Value& value);

// --- ops.cc ---
bool truthy(const Value& value);
bool equal(Heap& heap, const Value& a, const Value& b);
size_t hash_string(std::string_view text);
size_t hash_value(Heap& heap, const Value& value);  // throws a type error if Python cannot hash the value
// Evaluates a < b, a <= b, ...; `op` is one of kLt, kLe, kGt, kGe.
bool ordered(Heap& heap, const Value& a, const Value& b, Comparison op);
Value arithmetic(Heap& heap, Operator op, const Value& a, const Value& b);
Value negate(Heap& heap, const Value& value);
Value identity_plus(const Value& value);
int64_t floor_mod(int64_t a, int64_t b);  // b != 0; the result has the sign of b, as in Python

// --- access.cc ---
std::optional<int64_t> try_length(const Value& value);
int64_t length_of(const Value& value);
bool contains(Heap& heap, const Value& container, const Value& item);
Value get_item(Heap& heap, const Value& object, const Value& key);
Value get_attribute(Heap& heap, const Value& object, const Value& name);
// The attribute only, without falling back to an item; missing if there is none.
Value find_attribute(Heap& heap, const Value& object, std::string_view name);
// Bounds are missing or none if they are absent.
Value slice(Heap& heap, const Value& object, const Value& lower, const Value& upper, const Value& step);
Value undefined_attribute(Heap& heap, const Value& object, const Value& name);
Value undefined_hint(Heap& heap, std::string hint);
bool iterable(const Value& value);
// An index or size given by a template; throws a type error if it is not an integer.
int64_t to_index(const Value& value);

// Reads the items of an iterable one after another.
class Cursor {
 public:
  // Throws a type error if `source` is not iterable.
  Cursor(Heap& heap, Value source);
  bool next(Value& out);
  // The number of remaining items, if it is known without reading them.
  std::optional<int64_t> left() const;

 private:
  Heap& heap_;
  Value source_;
  size_t at_ = 0;
};

std::vector<Value> collect(Heap& heap, const Value& source);

// --- text_of.cc ---
void append_str(Heap& heap, std::string& out, const Value& value);
void append_repr(Heap& heap, std::string& out, const Value& value);
std::string str_of(Heap& heap, const Value& value);
std::string repr_of(Heap& heap, const Value& value);
std::string repr_float(double value);
void append_string_repr(std::string& out, std::string_view text);
std::string escape_html(std::string_view text);

}  // namespace quire::jinja
