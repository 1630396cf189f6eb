// Evaluation of expressions. Functions called by eval() are not inlined, so that its stack frame, which is
// needed per level of an expression, stays small.
#include "text/chat/jinja/interpreter.h"

namespace quire::jinja {

#define QUIRE_OUT_OF_LINE [[gnu::noinline]]

Value Interpreter::eval(const Expr& expr, Frame& frame) {
  if (expr.kind == ExprKind::kConst) return expr.value;
  heap_.step();
  if (depth_ >= kMaxDepth) fail(ErrorClass::kLimit, "the template recurses too deeply");
  line_ = expr.line;
  struct Level {
    int& depth;
    ~Level() { --depth; }
  } const level{++depth_};
  switch (expr.kind) {
    case ExprKind::kConst:
      return expr.value;
    case ExprKind::kName:
      return eval_name(expr, frame);
    case ExprKind::kNamespaceRef:
      return {};
    case ExprKind::kAttribute:
      return get_attribute(heap_, eval(*expr.first, frame), expr.value);
    case ExprKind::kSubscript:
      return eval_subscript(expr, frame);
    case ExprKind::kSlice:
      return eval_slice(expr, frame);
    case ExprKind::kCall:
      return eval_call(expr, frame, Value());
    case ExprKind::kFilter:
      return eval_filter(expr, frame);
    case ExprKind::kTest:
      return eval_test(expr, frame);
    case ExprKind::kNot:
      return Value::boolean(!truthy(eval(*expr.first, frame)));
    case ExprKind::kAnd:
    case ExprKind::kOr: {
      Value left = eval(*expr.first, frame);
      return truthy(left) == (expr.kind == ExprKind::kOr) ? left : eval(*expr.second, frame);
    }
    case ExprKind::kConditional:
      return eval_conditional(expr, frame);
    case ExprKind::kCompare:
      return eval_compare(expr, frame);
    case ExprKind::kBinary:
      return eval_binary(expr, frame);
    case ExprKind::kNegate:
      return negate(heap_, eval(*expr.first, frame));
    case ExprKind::kPlus:
      return identity_plus(eval(*expr.first, frame));
    case ExprKind::kConcat:
      return eval_concat(expr, frame);
    case ExprKind::kList:
    case ExprKind::kTuple:
      return eval_list(expr, frame);
    case ExprKind::kDict:
      return eval_dict(expr, frame);
  }
  return {};
}

QUIRE_OUT_OF_LINE Value Interpreter::eval_name(const Expr& expr, Frame& frame) {
  const Value& value = variable(expr.ref, frame);
  if (!value.is_missing()) return value;
  auto* info = heap_.create<UndefinedInfo>();
  Value result = Value::of(info);
  info->name = expr.value;
  return result;
}

QUIRE_OUT_OF_LINE Value Interpreter::eval_subscript(const Expr& expr, Frame& frame) {
  const Value object = eval(*expr.first, frame);
  const Value key = eval(*expr.second, frame);
  return get_item(heap_, object, key);
}

QUIRE_OUT_OF_LINE Value Interpreter::eval_slice(const Expr& expr, Frame& frame) {
  const Value object = eval(*expr.first, frame);
  Value bounds[3];
  for (size_t i = 0; i < 3; ++i) {
    if (expr.items[i] != nullptr) bounds[i] = eval(*expr.items[i], frame);
  }
  return slice(heap_, object, bounds[0], bounds[1], bounds[2]);
}

void Interpreter::eval_arguments(const CallArguments& from, Frame& frame, Arguments& to) {
  // Constants are evaluated without counting a step.
  heap_.step_items(from.positional.size() + from.keywords.size());
  to.positional.reserve(to.positional.size() + from.positional.size());
  for (const Expr* item : from.positional) to.positional.push_back(eval(*item, frame));
  if (from.star != nullptr) {
    const Value rest = eval(*from.star, frame);
    for (auto& item : collect(heap_, rest)) to.positional.push_back(std::move(item));
  }
  for (const auto& [name, item] : from.keywords) to.keywords.emplace_back(name, eval(*item, frame));
  if (from.star_star == nullptr) return;
  const Value rest = eval(*from.star_star, frame);
  if (!rest.is(Kind::kDict))
    fail_type("argument after ** must be a mapping, not " + std::string(type_name(rest)));
  for (const auto& [key, value] : rest.get<Dict>().entries) {
    if (!key.is_string()) fail_type("keywords must be strings");
    // The key is compared with all previous keywords.
    heap_.step(to.keywords.size() / 8 * (key.str().size() / 64 + 1) + 1);
    for (const auto& given : to.keywords) {
      if (given.first.str() == key.str())
        fail_type("got multiple values for keyword argument '" + key.str() + "'");
    }
    to.keywords.emplace_back(key, value);
  }
}

// `caller`: of a call block, otherwise missing.
QUIRE_OUT_OF_LINE Value Interpreter::eval_call(const Expr& expr, Frame& frame, const Value& caller) {
  const Expr& target = *expr.first;
  Value self, callee;
  const MethodDefinition* method = nullptr;
  if (target.kind == ExprKind::kAttribute) {
    // The common case of a built-in method needs no bound method object.
    self = eval(*target.first, frame);
    if (self.is_undefined()) fail_undefined(self);
    method = find_method(self, target.value.str());
    if (method == nullptr || method->call == nullptr) {
      callee = get_attribute(heap_, self, target.value);
      method = nullptr;
    }
  } else {
    callee = eval(target, frame);
  }
  Arguments args;
  eval_arguments(expr.arguments, frame, args);
  if (!caller.is_missing()) {
    for (const auto& given : args.keywords) {
      if (given.first.str() == "caller") fail_type("got multiple values for keyword argument 'caller'");
    }
    args.keywords.emplace_back(heap_.string("caller"), caller);
  }
  line_ = expr.line;
  return method != nullptr ? method->call(*this, self, args) : call(callee, args);
}

QUIRE_OUT_OF_LINE Value Interpreter::eval_filter(const Expr& expr, Frame& frame) {
  Arguments args;
  args.positional.push_back(expr.first == nullptr ? std::move(captured_) : eval(*expr.first, frame));
  eval_arguments(expr.arguments, frame, args);
  line_ = expr.line;
  if (expr.filter == nullptr) fail(ErrorClass::kRuntime, "No filter named '" + expr.value.str() + "' found.");
  return expr.filter(*this, args);
}

QUIRE_OUT_OF_LINE Value Interpreter::eval_test(const Expr& expr, Frame& frame) {
  Arguments args;
  args.positional.push_back(eval(*expr.first, frame));
  eval_arguments(expr.arguments, frame, args);
  line_ = expr.line;
  if (expr.test == nullptr) fail(ErrorClass::kRuntime, "No test named '" + expr.value.str() + "' found.");
  return Value::boolean(expr.test(*this, args) != expr.negated);
}

QUIRE_OUT_OF_LINE Value Interpreter::eval_compare(const Expr& expr, Frame& frame) {
  Value left = eval(*expr.items[0], frame);
  for (size_t i = 0; i < expr.comparisons.size(); ++i) {
    heap_.step();
    Value right = eval(*expr.items[i + 1], frame);
    bool holds = false;
    switch (expr.comparisons[i]) {
      case Comparison::kEq:
        holds = equal(heap_, left, right);
        break;
      case Comparison::kNe:
        holds = !equal(heap_, left, right);
        break;
      case Comparison::kIn:
        holds = contains(heap_, right, left);
        break;
      case Comparison::kNotIn:
        holds = !contains(heap_, right, left);
        break;
      default:
        holds = ordered(heap_, left, right, expr.comparisons[i]);
    }
    if (!holds) return Value::boolean(false);
    left = std::move(right);
  }
  return Value::boolean(true);
}

QUIRE_OUT_OF_LINE Value Interpreter::eval_binary(const Expr& expr, Frame& frame) {
  const Value left = eval(*expr.first, frame);
  const Value right = eval(*expr.second, frame);
  line_ = expr.line;
  return arithmetic(heap_, expr.op, left, right);
}

QUIRE_OUT_OF_LINE Value Interpreter::eval_concat(const Expr& expr, Frame& frame) {
  std::vector<Value> parts;
  parts.reserve(expr.items.size());
  for (const Expr* item : expr.items) parts.push_back(eval(*item, frame));
  std::string out;
  for (const Value& part : parts) append_str(heap_, out, part);
  return heap_.string(std::move(out));
}

QUIRE_OUT_OF_LINE Value Interpreter::eval_list(const Expr& expr, Frame& frame) {
  std::vector<Value> items;
  items.reserve(expr.items.size());
  for (const Expr* item : expr.items) items.push_back(eval(*item, frame));
  return heap_.list(std::move(items), expr.kind == ExprKind::kList ? Kind::kList : Kind::kTuple);
}

QUIRE_OUT_OF_LINE Value Interpreter::eval_dict(const Expr& expr, Frame& frame) {
  Value result = heap_.dict();
  for (size_t i = 0; i + 1 < expr.items.size(); i += 2) {
    const Value key = eval(*expr.items[i], frame);
    result.get<Dict>().set(key, eval(*expr.items[i + 1], frame));
  }
  return result;
}

QUIRE_OUT_OF_LINE Value Interpreter::eval_conditional(const Expr& expr, Frame& frame) {
  if (truthy(eval(*expr.second, frame))) return eval(*expr.first, frame);
  if (expr.third != nullptr) return eval(*expr.third, frame);
  return undefined_hint(heap_, "the inline if-expression on line " + std::to_string(expr.line) +
                                   " evaluated to false and no else section was defined.");
}

#undef QUIRE_OUT_OF_LINE

}  // namespace quire::jinja
