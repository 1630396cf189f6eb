#include "text/chat/jinja/interpreter.h"

#include <utility>

#include "text/chat/jinja/filters.h"
#include "text/chat/jinja/tests.h"

namespace quire::jinja {

struct Interpreter::Depth {
  explicit Depth(Interpreter& i) : interpreter(i) {
    if (interpreter.depth_ >= kMaxDepth) fail(ErrorClass::kLimit, "the template recurses too deeply");
    ++interpreter.depth_;
  }
  ~Depth() { --interpreter.depth_; }
  Interpreter& interpreter;
};

// Captures the output during its lifetime.
struct Interpreter::Capture {
  explicit Capture(Interpreter& i) : interpreter(i), outer(i.out_) { interpreter.out_ = &text; }
  ~Capture() {
    interpreter.out_ = outer;
    interpreter.heap_.discharge(text.size());
  }
  Value take() {
    interpreter.out_ = outer;
    const size_t size = text.size();
    interpreter.heap_.discharge(size);
    std::string taken = std::exchange(text, {});
    return interpreter.heap_.string(std::move(taken));
  }
  Interpreter& interpreter;
  std::string* outer;
  std::string text;
};

std::string Interpreter::run() {
  std::string out;
  out_ = &out;
  const Value frame = new_frame(program_.root, nullptr);
  exec(program_.body, frame.get<Frame>());
  return out;
}

void Interpreter::write(std::string_view text) {
  heap_.charge(text.size());
  heap_.step_bytes(text.size());
  out_->append(text);
}

void Interpreter::write(const Value& value) {
  if (value.is_string()) return write(value.str());
  const std::string text = str_of(heap_, value);
  write(text);
}

// --- frames and variables ---

Value Interpreter::new_frame(const FrameLayout& layout, Frame* parent) {
  auto* frame = heap_.create<Frame>();
  Value reference = Value::of(frame);
  frame->parent = parent;
  if (parent != nullptr) frame->parent_reference = Value::of(parent);
  heap_.grow(*frame, static_cast<size_t>(layout.num_slots) * sizeof(Value));
  heap_.step_items(static_cast<size_t>(layout.num_slots));
  frame->slots.resize(static_cast<size_t>(layout.num_slots));
  enter(layout, *frame);
  return reference;
}

void Interpreter::enter(const FrameLayout& layout, Frame& frame) {
  using Action = FrameLayout::Action;
  heap_.step_items(layout.loads.size());
  for (const auto& load : layout.loads) {
    Value& slot = frame.slots[static_cast<size_t>(load.slot)];
    if (load.action == Action::kContext) {
      slot = context_[static_cast<size_t>(load.context)];
    } else if (load.action == Action::kAlias) {
      slot = variable(load.source, frame);
    } else {
      slot = Value();
    }
  }
}

Value& Interpreter::variable(VariableRef ref, Frame& frame) {
  Frame* at = &frame;
  for (int hops = ref.hops; hops > 0; --hops) at = at->parent;
  return at->slots[static_cast<size_t>(ref.slot)];
}

void Interpreter::assign(const Expr& target, Value value, Frame& frame) {
  if (target.kind == ExprKind::kName) {
    variable(target.ref, frame) = std::move(value);
  } else if (target.kind == ExprKind::kTuple) {
    unpack(target, value, frame);
  } else {
    const Value& name = target.attribute;
    if (name.str()[0] == '_') {
      fail(ErrorClass::kSecurity,
           "Chat templates cannot store underscore-prefixed attributes on a namespace, but got '" +
               name.str() + "'.");
    }
    variable(target.ref, frame).get<Namespace>().attributes.get<Dict>().set(name, std::move(value));
  }
}

void Interpreter::unpack(const Expr& target, const Value& value, Frame& frame) {
  const Depth depth(*this);
  const size_t wanted = target.items.size();
  if (!iterable(value)) {
    fail_type("cannot unpack non-iterable " + std::string(type_name(value)) + " object");
  }
  std::vector<Value> items;
  Cursor cursor(heap_, value);
  Value item;
  while (items.size() <= wanted && cursor.next(item)) items.push_back(std::move(item));
  if (items.size() > wanted) {
    fail_value("too many values to unpack (expected " + std::to_string(wanted) + ")");
  }
  if (items.size() < wanted) {
    fail_value("not enough values to unpack (expected " + std::to_string(wanted) + ", got " +
               std::to_string(items.size()) + ")");
  }
  for (size_t i = 0; i < wanted; ++i) assign(*target.items[i], std::move(items[i]), frame);
}

void Interpreter::check_namespaces(const Expr& target, Frame& frame) {
  if (target.kind == ExprKind::kTuple) {
    for (const Expr* item : target.items) check_namespaces(*item, frame);
  } else if (target.kind == ExprKind::kNamespaceRef && !variable(target.ref, frame).is(Kind::kNamespace)) {
    fail(ErrorClass::kRuntime, "cannot assign attribute on non-namespace object");
  }
}

// --- statements ---

Interpreter::Flow Interpreter::exec(const std::vector<Stmt*>& body, Frame& frame) {
  const Depth depth(*this);
  for (const Stmt* stmt : body) {
    const Flow flow = exec(*stmt, frame);
    if (flow != Flow::kNormal) return flow;
  }
  return Flow::kNormal;
}

Interpreter::Flow Interpreter::exec(const Stmt& stmt, Frame& frame) {
  heap_.step();
  line_ = stmt.line;
  switch (stmt.kind) {
    case StmtKind::kData:
      write(stmt.data);
      break;
    case StmtKind::kOutput:
      for (const Expr* expr : stmt.outputs) write(eval(*expr, frame));
      break;
    case StmtKind::kIf:
      return exec_if(stmt, frame);
    case StmtKind::kFor:
      return exec_for(stmt, frame);
    case StmtKind::kSet:
      exec_set(stmt, frame);
      break;
    case StmtKind::kSetBlock:
    case StmtKind::kFilterBlock:
      return exec_capture(stmt, frame);
    case StmtKind::kMacro:
      assign(*stmt.target, make_macro(*stmt.macro, frame), frame);
      break;
    case StmtKind::kCallBlock:
      exec_call_block(stmt, frame);
      break;
    case StmtKind::kWith:
      return exec_with(stmt, frame);
    case StmtKind::kScope: {
      const Value inner = new_frame(stmt.layout, &frame);
      return exec(stmt.body, inner.get<Frame>());
    }
    case StmtKind::kBreak:
      return Flow::kBreak;
    case StmtKind::kContinue:
      return Flow::kContinue;
  }
  return Flow::kNormal;
}

Interpreter::Flow Interpreter::exec_if(const Stmt& stmt, Frame& frame) {
  for (const auto& branch : stmt.branches) {
    heap_.step();
    if (branch.test == nullptr || truthy(eval(*branch.test, frame))) return exec(branch.body, frame);
  }
  return Flow::kNormal;
}

void Interpreter::exec_set(const Stmt& stmt, Frame& frame) {
  check_namespaces(*stmt.target, frame);
  assign(*stmt.target, eval(*stmt.value, frame), frame);
}

Interpreter::Flow Interpreter::exec_with(const Stmt& stmt, Frame& frame) {
  const Value inner = new_frame(stmt.layout, &frame);
  for (size_t i = 0; i < stmt.targets.size(); ++i) {
    assign(*stmt.targets[i], eval(*stmt.outputs[i], frame), inner.get<Frame>());
  }
  return exec(stmt.body, inner.get<Frame>());
}

// {% filter %} and {% set x %}...{% endset %}.
Interpreter::Flow Interpreter::exec_capture(const Stmt& stmt, Frame& frame) {
  const Value inner = new_frame(stmt.layout, &frame);
  Value text;
  {
    Capture capture(*this);
    const Flow flow = exec(stmt.body, inner.get<Frame>());
    if (flow != Flow::kNormal) return flow;
    text = capture.take();
  }
  if (stmt.value != nullptr) {
    captured_ = std::move(text);
    text = eval(*stmt.value, inner.get<Frame>());
  }
  if (stmt.kind == StmtKind::kFilterBlock) {
    write(text);
  } else {
    check_namespaces(*stmt.target, frame);
    assign(*stmt.target, std::move(text), frame);
  }
  return Flow::kNormal;
}

void Interpreter::exec_call_block(const Stmt& stmt, Frame& frame) {
  const Value caller = make_macro(*stmt.macro, frame);
  write(eval_call(*stmt.value, frame, caller));
}

// --- loops ---

Interpreter::Flow Interpreter::exec_for(const Stmt& stmt, Frame& frame) {
  const Value items = eval(*stmt.value, frame);
  const Value outer = Value::of(&frame);
  if (!stmt.recursive) {
    run_loop(stmt, items, outer, 0);
    return Flow::kNormal;
  }
  Value text;
  {
    Capture capture(*this);
    run_loop(stmt, items, outer, 0);
    text = capture.take();
  }
  write(text);
  return Flow::kNormal;
}

void Interpreter::run_loop(const Stmt& stmt, const Value& items, const Value& outer, int64_t depth) {
  Frame& outside = outer.get<Frame>();
  const Value frame = new_frame(stmt.layout, &outside);
  Frame& inner = frame.get<Frame>();
  const bool completed = stmt.uses_loop || stmt.test != nullptr ? run_stateful_loop(stmt, items, inner, depth)
                                                                : run_plain_loop(stmt, items, inner);
  // Macros that outlive the loop do not keep its variables.
  if (!stmt.recursive || !stmt.otherwise.empty()) {
    for (auto& slot : inner.slots) slot = Value();
  }
  if (!completed && !stmt.otherwise.empty()) {
    const Value other = new_frame(stmt.else_layout, &outside);
    exec(stmt.otherwise, other.get<Frame>());
  }
}

// Both return whether an iteration reached the end of the body, which determines whether `else` is executed.
bool Interpreter::run_plain_loop(const Stmt& stmt, const Value& items, Frame& inner) {
  bool completed = false;
  Cursor cursor(heap_, items);
  Value item;
  while (cursor.next(item)) {
    if (run_iteration(stmt, item, inner, completed) == Flow::kBreak) break;
  }
  return completed;
}

bool Interpreter::run_stateful_loop(const Stmt& stmt, const Value& items, Frame& inner, int64_t depth) {
  auto* loop = heap_.create<LoopState>();
  const Value state = Value::of(loop);
  loop->interpreter = this;
  loop->stmt = &stmt;
  loop->outer_frame = inner.parent_reference;
  loop->depth0 = depth;
  loop->cursor.emplace(heap_, items);
  if (stmt.test != nullptr) loop->test_frame = new_frame(stmt.test_layout, inner.parent);
  bool completed = false;
  Value item;
  while (loop->advance(item)) {
    if (stmt.loop_slot >= 0) inner.slots[static_cast<size_t>(stmt.loop_slot)] = state;
    if (run_iteration(stmt, item, inner, completed) == Flow::kBreak) break;
  }
  return completed;
}

Interpreter::Flow Interpreter::run_iteration(const Stmt& stmt, const Value& item, Frame& inner,
                                             bool& completed) {
  assign(*stmt.target, item, inner);
  enter(stmt.layout, inner);
  const Flow flow = exec(stmt.body, inner);
  completed = completed || flow == Flow::kNormal;
  return flow;
}

bool Interpreter::passes(const LoopState& loop, const Value& item) {
  auto& frame = loop.test_frame.get<Frame>();
  assign(*loop.stmt->targets[0], item, frame);
  return truthy(eval(*loop.stmt->test, frame));
}

Value Interpreter::recurse(LoopState& loop, Arguments& args) {
  const Depth depth(*this);
  if (!loop.stmt->recursive) fail_type("The loop must have the 'recursive' marker to be called recursively.");
  static constexpr std::string_view kNames[] = {"iterable"};
  Value items[1];
  bind_values("loop", args, kNames, 1, items);
  Capture capture(*this);
  run_loop(*loop.stmt, items[0], loop.outer_frame, loop.depth0 + 1);
  return capture.take();
}

void LoopState::clear() {
  cursor.reset();
  outer_frame = test_frame = current = before = peeked = last_changed = Value();
  drained.clear();
}

bool LoopState::pull(Value& out) {
  if (drained_at < drained.size()) {
    out = std::move(drained[drained_at++]);
    return true;
  }
  while (!exhausted) {
    if (!cursor->next(out)) {
      exhausted = true;
    } else if (test_frame.is_missing() || interpreter->passes(*this, out)) {
      return true;
    }
  }
  return false;
}

bool LoopState::advance(Value& out) {
  if (has_peeked) {
    out = std::move(peeked);
    has_peeked = false;
  } else if (!pull(out)) {
    return false;
  }
  ++index0;
  before = std::move(current);
  current = out;
  return true;
}

bool LoopState::has_next() {
  if (!has_peeked) has_peeked = pull(peeked);
  return has_peeked;
}

int64_t LoopState::count() {
  if (length >= 0) return length;
  const int64_t seen = index0 + 1 + (has_peeked ? 1 : 0);
  if (test_frame.is_missing()) {
    if (const auto left = cursor->left()) return length = seen + *left;
  }
  std::vector<Value> rest;
  Value item;
  while (pull(item)) rest.push_back(std::move(item));
  drained = std::move(rest);
  drained_at = 0;
  return length = seen + static_cast<int64_t>(drained.size());
}

// --- macros and calls ---

Value Interpreter::make_macro(const MacroDefinition& definition, Frame& frame) {
  auto* macro = heap_.create<Macro>();
  Value result = Value::of(macro);
  macro->definition = &definition;
  macro->frame = Value::of(&frame);
  return result;
}

Value Interpreter::call_macro(const Value& callee, Arguments& args) {
  const auto& macro = callee.get<Macro>();
  if (macro.frame.is_missing()) return heap_.string("");
  const auto& definition = *macro.definition;
  const Value frame = new_frame(definition.layout, &macro.frame.get<Frame>());
  bind_macro(definition, args, frame.get<Frame>());
  fill_defaults(definition, frame.get<Frame>());
  Capture capture(*this);
  exec(definition.body, frame.get<Frame>());
  return capture.take();
}

void Interpreter::bind_macro(const MacroDefinition& definition, Arguments& args, Frame& frame) {
  const size_t count = definition.names.size();
  const auto name = [&] {
    return definition.name.is_missing() ? std::string("None") : repr_of(heap_, definition.name);
  };
  bool found_caller = args.positional.size() >= count && definition.explicit_caller;
  for (size_t i = 0; i < count; ++i) {
    Value& slot = frame.slots[static_cast<size_t>(definition.slots[i])];
    if (i < args.positional.size()) {
      slot = args.positional[i];
    } else {
      slot = args.take(definition.names[i].str());
      found_caller = found_caller || definition.names[i].str() == "caller";
    }
  }
  if (definition.caller_slot >= 0 && !found_caller) {
    Value caller = args.take("caller");
    if (caller.is_missing() || caller.is_none()) caller = undefined_hint(heap_, "No caller defined");
    frame.slots[static_cast<size_t>(definition.caller_slot)] = std::move(caller);
  }
  if (definition.kwargs_slot >= 0) {
    const Value rest = heap_.dict();
    for (auto& [key, value] : args.keywords) rest.get<Dict>().set(key, value);
    frame.slots[static_cast<size_t>(definition.kwargs_slot)] = rest;
  } else if (!args.keywords.empty()) {
    const auto& key = args.keywords[0].first.str();
    fail_type("macro " + name() + " takes no keyword argument '" + key + "'");
  }
  if (definition.varargs_slot >= 0) {
    std::vector<Value> rest;
    for (size_t i = count; i < args.positional.size(); ++i) rest.push_back(args.positional[i]);
    frame.slots[static_cast<size_t>(definition.varargs_slot)] = heap_.list(std::move(rest), Kind::kTuple);
  } else if (args.positional.size() > count) {
    fail_type("macro " + name() + " takes not more than " + std::to_string(count) + " argument(s)");
  }
}

void Interpreter::fill_defaults(const MacroDefinition& definition, Frame& frame) {
  const size_t count = definition.names.size(), first_default = count - definition.defaults.size();
  for (size_t i = 0; i < count; ++i) {
    const auto slot = static_cast<size_t>(definition.slots[i]);
    if (!frame.slots[slot].is_missing()) continue;
    if (i >= first_default) {
      Value value = eval(*definition.defaults[i - first_default], frame);
      frame.slots[slot] = std::move(value);
    } else {
      frame.slots[slot] =
          undefined_hint(heap_, "parameter '" + definition.names[i].str() + "' was not provided");
    }
  }
}

Value Interpreter::call(const Value& callee, Arguments& args) {
  const Depth depth(*this);
  switch (callee.kind()) {
    case Kind::kFunction:
      return callee.get<Function>().definition->call(*this, args);
    case Kind::kMethod: {
      const auto& method = callee.get<BoundMethod>();
      return method.definition->call(*this, method.self, args);
    }
    case Kind::kMacro:
      return call_macro(callee, args);
    case Kind::kLoop:
      return recurse(callee.get<LoopState>(), args);
    case Kind::kJoiner: {
      auto& joiner = callee.get<Joiner>();
      if (joiner.used) return joiner.separator;
      joiner.used = true;
      return heap_.string("");
    }
    case Kind::kUndefined:
      fail_undefined(callee);
    default:
      fail_type("'" + std::string(type_name(callee)) + "' object is not callable");
  }
}

Value Interpreter::apply_filter(const Value& name, Arguments& args) {
  const Depth depth(*this);
  const FilterFunction filter = name.is_string() ? find_filter(name.str()) : nullptr;
  if (filter == nullptr) fail(ErrorClass::kRuntime, "No filter named " + repr_of(heap_, name) + ".");
  return filter(*this, args);
}

bool Interpreter::apply_test(const Value& name, Arguments& args) {
  const Depth depth(*this);
  const TestFunction test = name.is_string() ? find_test(name.str()) : nullptr;
  if (test == nullptr) fail(ErrorClass::kRuntime, "No test named " + repr_of(heap_, name) + ".");
  return test(*this, args);
}

}  // namespace quire::jinja
