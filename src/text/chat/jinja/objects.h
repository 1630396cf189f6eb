// The callable and stateful objects of a rendering, and the tables of built-in functions and methods.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/chat/jinja/ast.h"
#include "text/chat/jinja/ops.h"

namespace quire::jinja {

class Interpreter;

// The arguments of a call, evaluated. For a filter or test the first positional one is the value it is
// applied to.
struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<Value, Value>> keywords;  // name (a string), value

  // Removes and returns a keyword argument; missing when it was not given.
  Value take(std::string_view name);
};

struct FunctionDefinition {
  std::string_view name;
  Value (*call)(Interpreter&, Arguments&);
};

struct MethodDefinition {
  std::string_view name;
  Value (*call)(Interpreter&, const Value& self, Arguments&);  // null: the sandbox forbids it
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

// The variables of one running block. Macros keep the frame they were defined in.
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
  Value frame;  // where it was defined
  Macro() : Container(Kind::kMacro) {}
  void clear() override { frame = Value(); }
};

// `loop` inside of a for loop.
struct LoopState : Container {
  Interpreter* interpreter = nullptr;
  const Stmt* stmt = nullptr;
  Value outer_frame;  // where the loop stands
  Value test_frame;   // of the loop's condition, missing without one
  std::optional<Cursor> cursor;
  Value current, before, peeked, last_changed;
  bool has_peeked = false;
  int64_t index0 = -1;
  int64_t depth0 = 0;
  int64_t length = -1;
  std::vector<Value> drained;  // items read ahead by `length`, in order
  size_t drained_at = 0;
  bool exhausted = false;

  LoopState() : Container(Kind::kLoop) {}
  void clear() override;
  bool advance(Value& out);  // the next item that passes the condition
  bool has_next();           // reads one item ahead
  int64_t count();           // reads all items when their number is not known

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

// Null when there is none.
const FunctionDefinition* find_global(std::string_view name);
const MethodDefinition* find_method(const Value& self, std::string_view name);

// Distributes `args` over parameters as Python does; those not given stay missing. The first `required` must
// be given. Throws a type error that names `function`.
void bind_arguments(std::string_view function, Arguments& args, const std::string_view* names, size_t count,
                    size_t required, Value* out);
template <size_t N>
void bind_values(std::string_view function, Arguments& args, const std::string_view (&names)[N],
                 size_t required, Value (&out)[N]) {
  bind_arguments(function, args, names, N, required, out);
}

}  // namespace quire::jinja
