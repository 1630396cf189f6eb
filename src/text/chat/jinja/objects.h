// Callable and stateful objects of a rendering, and the tables of built-in functions and methods.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/chat/jinja/ast.h"
#include "text/chat/jinja/ops.h"

namespace quire::jinja {

class Interpreter;

// The evaluated arguments of a call. For a filter or test, the first positional argument is the value that it
// is applied to.
struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<Value, Value>> keywords;  // name (a string), value

  // Removes and returns a keyword argument; missing if it was not given.
  Value take(std::string_view name);
};

struct FunctionDefinition {
  std::string_view name;
  Value (*call)(Interpreter&, Arguments&);
};

struct MethodDefinition {
  std::string_view name;
  Value (*call)(Interpreter&, const Value& self, Arguments&);  // null if the sandbox forbids it
};

struct Function : Object {
  const FunctionDefinition* definition;
  explicit Function(const FunctionDefinition* d) : Object(Kind::kFunction), definition(d) {}
};

struct BoundMethod : Object {
  Value self;
  const MethodDefinition* definition;
  BoundMethod(Value s, const MethodDefinition* d)
      : Object(Kind::kMethod), self(std::move(s)), definition(d) {}
};

// The variables of a running block. Macros keep the frame in which they were defined.
struct Frame : Container {
  Frame* parent = nullptr;
  Value parent_reference;
  std::vector<Value> slots;
  Frame() : Container(Kind::kFrame) {}
  void clear() override {
    std::vector<Value>().swap(slots);
    parent_reference = Value();
  }
};

struct Macro : Container {
  const MacroDefinition* definition = nullptr;
  Value frame;  // frame of the definition
  Macro() : Container(Kind::kMacro) {}
  void clear() override { frame = Value(); }
};

// `loop` in a for loop.
struct LoopState : Container {
  Interpreter* interpreter = nullptr;
  const Stmt* stmt = nullptr;
  Value outer_frame;  // frame that contains the loop
  Value test_frame;   // frame of the loop's condition; missing if there is no condition
  std::optional<Cursor> cursor;
  Value current, before, peeked, last_changed;
  bool has_peeked = false;
  int64_t index0 = -1;
  int64_t depth0 = 0;
  int64_t length = -1;
  std::vector<Value> drained;  // items that `length` has read ahead, in order
  size_t drained_at = 0;
  bool exhausted = false;

  LoopState() : Container(Kind::kLoop) {}
  void clear() override;
  bool advance(Value& out);  // next item that satisfies the condition
  bool has_next();           // reads one item ahead
  int64_t count();           // reads all items if their number is not known

 private:
  bool pull(Value& out);
};

struct Cycler : Container {
  std::vector<Value> items;
  size_t at = 0;
  Cycler() : Container(Kind::kCycler) {}
  void clear() override { items.clear(); }
};

struct Joiner : Object {
  Value separator;
  bool used = false;
  Joiner() : Object(Kind::kJoiner) {}
};

// Null if there is none.
const FunctionDefinition* find_global(std::string_view name);
const MethodDefinition* find_method(const Value& self, std::string_view name);

// Assigns `args` to parameters like Python; parameters that are not given remain missing. The first
// `required` parameters must be given. Throws a type error with the name `function`.
void bind_arguments(std::string_view function, Arguments& args, const std::string_view* names, size_t count,
                    size_t required, Value* out);
template <size_t N>
void bind_values(std::string_view function, Arguments& args, const std::string_view (&names)[N],
                 size_t required, Value (&out)[N]) {
  bind_arguments(function, args, names, N, required, out);
}

}  // namespace quire::jinja
