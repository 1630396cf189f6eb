// Executes a Program. An Interpreter is used for one rendering on one thread; the Program is shared and not
// changed.
#pragma once

#include <string>
#include <vector>

#include "text/chat/clock.h"
#include "text/chat/jinja/objects.h"

namespace quire::jinja {

// Maximum nesting of statements, expressions and macro calls during rendering. With this limit the C++ stack
// usage stays below 1 MiB (measured by a test).
inline constexpr int kMaxDepth = 900;

class Interpreter {
 public:
  // `context` contains the value of each of program.context_names; missing if it is not defined.
  Interpreter(const Program& program, Heap& heap, const LocalTime& now, std::vector<Value> context)
      : program_(program), heap_(heap), now_(now), context_(std::move(context)) {}

  // Returns the rendered text. Throws RenderError.
  std::string run();

  Heap& heap() { return heap_; }
  const LocalTime& now() const { return now_; }
  int line() const { return line_; }

  Value call(const Value& callee, Arguments& args);
  // Calls a filter or test by name, like map and select; `name` need not be a string.
  Value apply_filter(const Value& name, Arguments& args);
  bool apply_test(const Value& name, Arguments& args);
  // loop(items) in a recursive loop.
  Value recurse(LoopState& loop, Arguments& args);
  // Whether an item satisfies the condition of the loop.
  bool passes(const LoopState& loop, const Value& item);

 private:
  enum class Flow { kNormal, kBreak, kContinue };
  struct Depth;  // counts one level during its lifetime, and throws at the limit
  struct Capture;

  Flow exec(const std::vector<Stmt*>& body, Frame& frame);
  Flow exec(const Stmt& stmt, Frame& frame);
  Flow exec_if(const Stmt& stmt, Frame& frame);
  Flow exec_for(const Stmt& stmt, Frame& frame);
  Flow exec_with(const Stmt& stmt, Frame& frame);
  Flow exec_capture(const Stmt& stmt, Frame& frame);
  void exec_set(const Stmt& stmt, Frame& frame);
  void exec_call_block(const Stmt& stmt, Frame& frame);
  // Runs a loop over `items`; break and continue end here.
  void run_loop(const Stmt& stmt, const Value& items, const Value& outer, int64_t depth);
  bool run_plain_loop(const Stmt& stmt, const Value& items, Frame& inner);
  bool run_stateful_loop(const Stmt& stmt, const Value& items, Frame& inner, int64_t depth);
  Flow run_iteration(const Stmt& stmt, const Value& item, Frame& inner, bool& completed);

  Value eval(const Expr& expr, Frame& frame);
  Value eval_name(const Expr& expr, Frame& frame);
  Value eval_call(const Expr& expr, Frame& frame, const Value& caller);
  Value eval_filter(const Expr& expr, Frame& frame);
  Value eval_test(const Expr& expr, Frame& frame);
  Value eval_compare(const Expr& expr, Frame& frame);
  Value eval_binary(const Expr& expr, Frame& frame);
  Value eval_concat(const Expr& expr, Frame& frame);
  Value eval_subscript(const Expr& expr, Frame& frame);
  Value eval_slice(const Expr& expr, Frame& frame);
  Value eval_list(const Expr& expr, Frame& frame);
  Value eval_dict(const Expr& expr, Frame& frame);
  Value eval_conditional(const Expr& expr, Frame& frame);
  void eval_arguments(const CallArguments& from, Frame& frame, Arguments& to);

  Value make_macro(const MacroDefinition& definition, Frame& frame);
  Value call_macro(const Value& macro, Arguments& args);
  void bind_macro(const MacroDefinition& definition, Arguments& args, Frame& frame);
  void fill_defaults(const MacroDefinition& definition, Frame& frame);

  Value new_frame(const FrameLayout& layout, Frame* parent);
  void enter(const FrameLayout& layout, Frame& frame);
  Value& variable(VariableRef ref, Frame& frame);
  void assign(const Expr& target, Value value, Frame& frame);
  void unpack(const Expr& target, const Value& value, Frame& frame);
  void check_namespaces(const Expr& target, Frame& frame);
  void write(std::string_view text);
  void write(const Value& value);

  const Program& program_;
  Heap& heap_;
  LocalTime now_;
  std::vector<Value> context_;
  std::string* out_ = nullptr;
  Value captured_;  // captured text of a filter or set block, until its first filter takes it
  int depth_ = 0;
  int line_ = 0;
};

}  // namespace quire::jinja
