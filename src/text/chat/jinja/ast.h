// The parsed template: plain nodes owned by a Program, immutable after parsing and shared by all rendering
// threads. Variables are resolved during parsing: a name is a slot in an enclosing frame (see scope.h).
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <unordered_map>
#include <vector>

#include "text/chat/jinja/value.h"

namespace quire::jinja {

struct Expr;
struct Stmt;
struct Arguments;
class Interpreter;

using FilterFunction = Value (*)(Interpreter&, Arguments&);
using TestFunction = bool (*)(Interpreter&, Arguments&);

enum class ExprKind : uint8_t {
  kConst,
  kName,
  kNamespaceRef,  // target of an assignment: name.attribute
  kAttribute,
  kSubscript,
  kSlice,  // a[lower:upper:step]: first is a; items are the three bounds, null if absent
  kCall,
  kFilter,  // first is null in {% filter %} and {% set x | filter %}, which use the captured text
  kTest,
  kNot,
  kAnd,
  kOr,
  kConditional,  // first if second else third; if third is null, undefined
  kCompare,      // items joined by ops
  kBinary,
  kNegate,
  kPlus,
  kConcat,
  kList,
  kTuple,
  kDict,  // items: key, value, key, value, ...
};

enum class Operator : uint8_t { kAdd, kSub, kMul, kDiv, kFloorDiv, kMod, kPow };
enum class Comparison : uint8_t { kEq, kNe, kLt, kLe, kGt, kGe, kIn, kNotIn };

// Location of a variable: the frame `hops` levels outward, and its slot. The slot is negative if the name is
// unused.
struct VariableRef {
  int hops = 0;
  int slot = -1;
};

struct CallArguments {
  std::vector<Expr*> positional;
  std::vector<std::pair<Value, Expr*>> keywords;
  Expr* star = nullptr;
  Expr* star_star = nullptr;
};

struct Expr {
  ExprKind kind;
  Operator op = Operator::kAdd;
  bool negated = false;  // of tests: `is not`
  int line = 0;
  int depth = 1;    // depth of this subtree, which limits the recursion of an evaluation
  Value value;      // the constant, or the name of a variable, attribute, filter or test as a string
  Value attribute;  // name of the attribute in a kNamespaceRef
  VariableRef ref;
  Expr* first = nullptr;
  Expr* second = nullptr;
  Expr* third = nullptr;
  std::vector<Expr*> items;
  std::vector<Comparison> comparisons;
  CallArguments arguments;
  FilterFunction filter =
      nullptr;  // null if no filter has this name, which is an error only when it is executed
  TestFunction test = nullptr;
};

// The slots of a frame, and their initialization on entry.
struct FrameLayout {
  enum class Action : uint8_t { kParameter, kContext, kAlias, kUndefined };
  struct Load {
    int slot;
    Action action;
    int context = 0;     // kContext: index into Program::context_names
    VariableRef source;  // kAlias, relative to the frame itself
  };
  int num_slots = 0;
  std::vector<Load> loads;  // slots that need initialization; excludes parameters
};

struct MacroDefinition {
  Value name;  // missing for a call block
  std::vector<Value> names;
  std::vector<int> slots;       // slots of the parameters
  std::vector<Expr*> params;    // kName nodes, as parsed
  std::vector<Expr*> defaults;  // defaults of the last parameters
  std::vector<Stmt*> body;
  FrameLayout layout;
  int caller_slot = -1, kwargs_slot = -1, varargs_slot = -1;
  bool explicit_caller = false;
};

enum class StmtKind : uint8_t {
  kData,
  kOutput,
  kIf,
  kFor,
  kSet,
  kSetBlock,
  kMacro,
  kCallBlock,
  kFilterBlock,
  kWith,
  kScope,  // {% generation %}
  kBreak,
  kContinue,
};

struct Branch {
  Expr* test;  // null for else
  std::vector<Stmt*> body;
};

struct Stmt {
  StmtKind kind;
  bool recursive = false;
  bool uses_loop = false;  // the body refers to `loop`
  int line = 0;
  int loop_slot = -1;
  std::string data;
  Expr* target = nullptr;
  Expr* value = nullptr;       // value that is set, iterated or called; filter of a block
  Expr* test = nullptr;        // condition of a for loop
  std::vector<Expr*> outputs;  // kOutput; kWith: the values
  std::vector<Expr*> targets;  // kWith
  std::vector<Stmt*> body;
  std::vector<Stmt*> otherwise;  // else branch of a for loop
  std::vector<Branch> branches;  // kIf
  FrameLayout layout, else_layout, test_layout;
  MacroDefinition* macro = nullptr;
};

class Program {
  // Declared before all references to them, so they outlive these.
  std::deque<Str> strings_;
  std::deque<BigInt> big_integers_;

 public:
  std::string origin;
  std::vector<Stmt*> body;
  FrameLayout root;
  std::vector<Value> context_names;  // variables and globals that the template refers to, as strings

  Expr* expr(ExprKind kind, int line) {
    exprs_.emplace_back();
    exprs_.back().kind = kind;
    exprs_.back().line = line;
    return &exprs_.back();
  }
  Stmt* stmt(StmtKind kind, int line) {
    stmts_.emplace_back();
    stmts_.back().kind = kind;
    stmts_.back().line = line;
    return &stmts_.back();
  }
  MacroDefinition* macro() { return &macros_.emplace_back(); }
  // A constant string. Equal strings are one object, so names are compared by address.
  Value intern(const std::string& text) {
    const auto found = interned_.find(text);
    if (found != interned_.end()) return Value::of(found->second);
    auto& slot = strings_.emplace_back(text);
    slot.refs = Object::kImmortal;
    slot.length();
    interned_.emplace(text, &slot);
    return Value::of(&slot);
  }
  Value big_integer(std::string digits) {
    auto& slot = big_integers_.emplace_back(std::move(digits));
    slot.refs = Object::kImmortal;
    return Value::of(&slot);
  }

 private:
  std::unordered_map<std::string, Str*> interned_;
  std::deque<Expr> exprs_;
  std::deque<Stmt> stmts_;
  std::deque<MacroDefinition> macros_;
};

}  // namespace quire::jinja
