#include "text/chat/jinja/scope.h"

#include <algorithm>
#include <functional>

#include "text/chat/jinja/lexer.h"

namespace quire::jinja {
namespace {

using Action = FrameLayout::Action;

struct Entry {
  const Object* name;  // an interned string, so that names can be compared by address
  Value text;
  bool referenced = false;
  bool stored = false;
  bool loaded = false;  // `load` is valid
  FrameLayout::Load load{};
};

// The names of a frame during analysis.
struct Scope {
  Scope* parent;
  std::vector<Entry> entries;

  int slot(const Value& name) {
    for (size_t i = 0; i < entries.size(); ++i) {
      if (entries[i].name == name.object()) return static_cast<int>(i);
    }
    Entry entry;
    entry.name = name.object();
    entry.text = name;
    entry.load.slot = static_cast<int>(entries.size());
    entries.push_back(std::move(entry));
    return static_cast<int>(entries.size()) - 1;
  }
  // The location of the name as seen from this scope; slot -1 if it is not found.
  VariableRef find(const Object* name) const {
    int hops = 0;
    for (const Scope* scope = this; scope != nullptr; scope = scope->parent, ++hops) {
      for (size_t i = 0; i < scope->entries.size(); ++i) {
        const auto& entry = scope->entries[i];
        if (entry.referenced && entry.name == name) return {hops, static_cast<int>(i)};
      }
    }
    return {};
  }
  VariableRef find_outside(const Object* name) const {
    return parent == nullptr ? VariableRef{} : parent->find(name);
  }
};

class Resolver {
 public:
  explicit Resolver(Program& program) : program_(program) {}

  void run() {
    Scope root{nullptr, {}};
    analyze(program_.body, root);
    finish(root, program_.root);
    resolve(program_.body, root, false);
  }

 private:
  // --- names that a frame refers to in its own statements, excluding inner frames ---

  void load(const Value& name, Scope& scope) {
    if (scope.find(name.object()).slot >= 0) return;
    auto& entry = scope.entries[static_cast<size_t>(scope.slot(name))];
    entry.referenced = entry.loaded = true;
    entry.load.action = Action::kContext;
    entry.load.context = context_index(name);
  }

  void store(const Value& name, Scope& scope) {
    const VariableRef outside = scope.find_outside(name.object());
    auto& entry = scope.entries[static_cast<size_t>(scope.slot(name))];
    entry.stored = true;
    if (entry.referenced) return;
    entry.referenced = entry.loaded = true;
    if (outside.slot >= 0) {
      entry.load.action = Action::kAlias;
      entry.load.source = {outside.hops + 1, outside.slot};
    } else {
      entry.load.action = Action::kUndefined;
    }
  }

  int declare(const Value& name, Scope& scope) {
    const int slot = scope.slot(name);
    auto& entry = scope.entries[static_cast<size_t>(slot)];
    entry.stored = entry.referenced = entry.loaded = true;
    entry.load.action = Action::kParameter;
    return slot;
  }

  int context_index(const Value& name) {
    auto& names = program_.context_names;
    const auto found =
        std::find_if(names.begin(), names.end(), [&](const Value& n) { return n.object() == name.object(); });
    if (found != names.end()) return static_cast<int>(found - names.begin());
    names.push_back(name);
    return static_cast<int>(names.size()) - 1;
  }

  // Calls visit(child) for each direct subexpression.
  template <typename Visit>
  static void children(const Expr& expr, Visit visit) {
    const auto call = [&](Expr* child) {
      if (child != nullptr) visit(*child);
    };
    call(expr.first);
    call(expr.second);
    call(expr.third);
    for (Expr* item : expr.items) call(item);
    for (Expr* item : expr.arguments.positional) call(item);
    for (const auto& [name, item] : expr.arguments.keywords) call(item);
    call(expr.arguments.star);
    call(expr.arguments.star_star);
  }

  void analyze(const Expr* expr, Scope& scope) {
    if (expr == nullptr) return;
    if (expr->kind == ExprKind::kName) load(expr->value, scope);
    children(*expr, [&](const Expr& child) { analyze(&child, scope); });
  }

  void analyze_target(const Expr& target, Scope& scope, bool parameter) {
    if (target.kind == ExprKind::kNamespaceRef) {
      load(target.value, scope);
    } else if (target.kind == ExprKind::kTuple) {
      for (const Expr* item : target.items) analyze_target(*item, scope, parameter);
    } else if (parameter) {
      declare(target.value, scope);
    } else {
      store(target.value, scope);
    }
  }

  void analyze(const std::vector<Stmt*>& body, Scope& scope) {
    for (const Stmt* stmt : body) analyze(*stmt, scope);
  }

  void analyze(const Stmt& stmt, Scope& scope) {
    switch (stmt.kind) {
      case StmtKind::kOutput:
      case StmtKind::kWith:
        for (const Expr* expr : stmt.outputs) analyze(expr, scope);
        break;
      case StmtKind::kIf:
        analyze_if(stmt, 0, scope);
        break;
      case StmtKind::kFor:
      case StmtKind::kCallBlock:
      case StmtKind::kFilterBlock:
        analyze(stmt.value, scope);
        break;
      case StmtKind::kSet:
        analyze(stmt.value, scope);
        analyze_target(*stmt.target, scope, false);
        break;
      case StmtKind::kSetBlock:
      case StmtKind::kMacro:
        analyze_target(*stmt.target, scope, false);
        break;
      case StmtKind::kData:
      case StmtKind::kScope:
      case StmtKind::kBreak:
      case StmtKind::kContinue:
        break;
    }
  }

  // Branches are analyzed from the same state and then merged: variables that only some of them store are
  // looked up on entry.
  void analyze_if(const Stmt& stmt, size_t from, Scope& scope) {
    const auto& branches = stmt.branches;
    analyze(branches[from].test, scope);
    Scope body = scope;
    analyze(branches[from].body, body);
    Scope elifs = continued(scope, body);
    for (size_t i = from + 1; i < branches.size() && branches[i].test != nullptr; ++i) {
      // Each elif is an if in the same branch state.
      analyze(branches[i].test, elifs);
      Scope inner = elifs;
      analyze(branches[i].body, inner);
      Scope rest = continued(elifs, inner);
      join(elifs, {&inner, &rest, &rest});
    }
    Scope otherwise = continued(scope, elifs);
    if (branches.back().test == nullptr) analyze(branches.back().body, otherwise);
    join(scope, {&body, &elifs, &otherwise});
  }

  // `scope` with the slots that a sibling branch allocated, so that a name has the same slot in all branches.
  static Scope continued(const Scope& scope, const Scope& sibling) {
    Scope copy = scope;
    for (size_t i = copy.entries.size(); i < sibling.entries.size(); ++i) {
      Entry entry;
      entry.name = sibling.entries[i].name;
      entry.text = sibling.entries[i].text;
      entry.load.slot = static_cast<int>(i);
      copy.entries.push_back(std::move(entry));
    }
    return copy;
  }

  void join(Scope& scope, std::initializer_list<const Scope*> branches) {
    const size_t known = scope.entries.size();
    for (const Scope* branch : branches) {
      scope = continued(scope, *branch);
    }
    for (size_t i = 0; i < scope.entries.size(); ++i) {
      auto& entry = scope.entries[i];
      const bool stored_before = i < known && entry.stored;
      bool stored_in_branch = false;
      for (const Scope* branch : branches) {
        if (i >= branch->entries.size()) continue;
        const auto& other = branch->entries[i];
        entry.referenced = entry.referenced || other.referenced;
        if (other.loaded) {
          entry.loaded = true;
          entry.load = other.load;
        }
        stored_in_branch = stored_in_branch || other.stored;
        entry.stored = entry.stored || other.stored;
      }
      if (!stored_in_branch || stored_before) continue;
      const VariableRef outside = scope.find_outside(entry.name);
      entry.loaded = true;
      if (outside.slot >= 0) {
        entry.load.action = Action::kAlias;
        entry.load.source = {outside.hops + 1, outside.slot};
      } else {
        entry.load.action = Action::kContext;
        entry.load.context = context_index(entry.text);
      }
    }
  }

  static void finish(const Scope& scope, FrameLayout& layout) {
    layout.num_slots = static_cast<int>(scope.entries.size());
    layout.loads.clear();
    for (const auto& entry : scope.entries) {
      if (entry.loaded && entry.load.action != Action::kParameter) layout.loads.push_back(entry.load);
    }
  }

  // --- all names in a subtree, in jinja2's order ---

  using NameVisitor = std::function<void(const Value& name, bool is_load, int line)>;

  static void names(const Expr* expr, bool is_load, const NameVisitor& visit) {
    if (expr == nullptr) return;
    if (expr->kind == ExprKind::kName) visit(expr->value, is_load, expr->line);
    children(*expr, [&](const Expr& child) { names(&child, is_load, visit); });
  }

  static void names(const std::vector<Stmt*>& body, const NameVisitor& visit) {
    for (const Stmt* stmt : body) {
      if (stmt->kind == StmtKind::kCallBlock) names(stmt->value, true, visit);
      if (stmt->kind != StmtKind::kMacro) names(stmt->target, false, visit);
      for (const Expr* target : stmt->targets) names(target, false, visit);
      if (stmt->kind != StmtKind::kCallBlock) names(stmt->value, true, visit);
      for (const Expr* expr : stmt->outputs) names(expr, true, visit);
      for (const auto& branch : stmt->branches) {
        names(branch.test, true, visit);
        names(branch.body, visit);
      }
      if (stmt->macro != nullptr) {
        for (const Expr* expr : stmt->macro->defaults) names(expr, true, visit);
        names(stmt->macro->body, visit);
      }
      names(stmt->body, visit);
      names(stmt->otherwise, visit);
      names(stmt->test, true, visit);
    }
  }

  static std::vector<std::string> undeclared(const std::vector<Stmt*>& body,
                                             std::vector<std::string> wanted) {
    std::vector<std::string> found;
    names(body, [&](const Value& name, bool is_load, int) {
      const auto at = std::find(wanted.begin(), wanted.end(), name.str());
      if (at == wanted.end()) return;
      if (is_load) found.push_back(*at);
      wanted.erase(at);
    });
    return found;
  }

  // --- second pass: assign slots to names ---

  void resolve(Expr* expr, const Scope& scope, bool soft) {
    if (expr == nullptr) return;
    if (expr->kind == ExprKind::kName || expr->kind == ExprKind::kNamespaceRef)
      expr->ref = scope.find(expr->value.object());
    soft = soft || expr->kind == ExprKind::kConditional;
    if (!soft && expr->kind == ExprKind::kFilter && expr->filter == nullptr) {
      throw SyntaxError{"No filter named '" + expr->value.str() + "'.", expr->line};
    }
    if (!soft && expr->kind == ExprKind::kTest && expr->test == nullptr) {
      throw SyntaxError{"No test named '" + expr->value.str() + "'.", expr->line};
    }
    children(*expr, [&](Expr& child) { resolve(&child, scope, soft); });
  }

  void resolve(const std::vector<Stmt*>& body, Scope& scope, bool soft) {
    for (Stmt* stmt : body) resolve(*stmt, scope, soft);
  }

  void resolve(Stmt& stmt, Scope& scope, bool soft) {
    switch (stmt.kind) {
      case StmtKind::kOutput:
        for (Expr* expr : stmt.outputs) resolve(expr, scope, soft);
        break;
      case StmtKind::kIf:
        for (auto& branch : stmt.branches) {
          resolve(branch.test, scope, true);
          resolve(branch.body, scope, true);
        }
        break;
      case StmtKind::kFor:
        resolve_for(stmt, scope, soft);
        break;
      case StmtKind::kSet:
        resolve(stmt.value, scope, soft);
        resolve(stmt.target, scope, soft);
        break;
      case StmtKind::kSetBlock:
      case StmtKind::kFilterBlock:
      case StmtKind::kScope:
        resolve_block(stmt, scope, soft);
        break;
      case StmtKind::kMacro:
        resolve(stmt.target, scope, soft);
        resolve_macro(*stmt.macro, scope, stmt.line);
        break;
      case StmtKind::kCallBlock:
        resolve_macro(*stmt.macro, scope, stmt.line);
        resolve(stmt.value, scope, soft);
        break;
      case StmtKind::kWith: {
        for (Expr* expr : stmt.outputs) resolve(expr, scope, soft);
        Scope inner{&scope, {}};
        for (const Expr* target : stmt.targets) analyze_target(*target, inner, true);
        analyze(stmt.body, inner);
        finish(inner, stmt.layout);
        for (Expr* target : stmt.targets) resolve(target, inner, false);
        resolve(stmt.body, inner, false);
        break;
      }
      case StmtKind::kData:
      case StmtKind::kBreak:
      case StmtKind::kContinue:
        break;
    }
  }

  void resolve_block(Stmt& stmt, Scope& scope, bool soft) {
    if (stmt.target != nullptr) resolve(stmt.target, scope, soft);
    Scope inner{&scope, {}};
    analyze(stmt.body, inner);
    analyze(stmt.value, inner);
    finish(inner, stmt.layout);
    resolve(stmt.body, inner, false);
    resolve(stmt.value, inner, false);
  }

  void resolve_for(Stmt& stmt, Scope& scope, bool soft) {
    names({&stmt}, [](const Value& name, bool is_load, int line) {
      if (!is_load && name.str() == "loop") {
        throw SyntaxError{"Can't assign to special loop variable in for-loop target", line};
      }
    });
    resolve(stmt.value, scope, soft);
    stmt.uses_loop = stmt.recursive || !undeclared(stmt.body, {"loop"}).empty();
    Scope inner{&scope, {}};
    if (stmt.uses_loop) stmt.loop_slot = declare(program_.intern("loop"), inner);
    analyze_target(*stmt.target, inner, true);
    analyze(stmt.body, inner);
    finish(inner, stmt.layout);
    if (stmt.test != nullptr) {
      Scope test{&scope, {}};
      analyze_target(*stmt.target, test, true);
      analyze(stmt.test, test);
      finish(test, stmt.test_layout);
      // Items are unpacked by the target of the loop; in the frame of the condition they have separate slots.
      resolve(stmt.test, test, false);
      target_slots(*stmt.target, test, stmt);
    }
    resolve(stmt.target, inner, false);
    resolve(stmt.body, inner, false);
    if (!stmt.otherwise.empty()) {
      Scope other{&scope, {}};
      analyze(stmt.otherwise, other);
      finish(other, stmt.else_layout);
      resolve(stmt.otherwise, other, false);
    }
  }

  // A copy of the loop's target with the slots of the frame of the condition.
  void target_slots(const Expr& target, const Scope& test, Stmt& stmt) {
    Expr* copy = copy_target(target);
    resolve(copy, test, false);
    stmt.targets.assign(1, copy);
  }

  Expr* copy_target(const Expr& target) {
    Expr* copy = program_.expr(target.kind, target.line);
    copy->value = target.value;
    for (const Expr* item : target.items) copy->items.push_back(copy_target(*item));
    return copy;
  }

  void resolve_macro(MacroDefinition& macro, Scope& scope, int line) {
    Scope inner{&scope, {}};
    for (const Expr* param : macro.params) declare(param->value, inner);
    for (const Expr* expr : macro.defaults) analyze(expr, inner);
    analyze(macro.body, inner);
    for (const Expr* param : macro.params) macro.slots.push_back(declare(param->value, inner));
    const auto has_param = [&](std::string_view name) {
      return std::any_of(macro.names.begin(), macro.names.end(),
                         [&](const Value& n) { return n.str() == name; });
    };
    macro.explicit_caller = has_param("caller");
    for (const auto& name : undeclared(macro.body, {"caller", "kwargs", "varargs"})) {
      if (has_param(name)) {
        if (name == "caller") check_caller_default(macro, line);
        continue;
      }
      const int slot = declare(program_.intern(name), inner);
      (name == "caller"   ? macro.caller_slot
       : name == "kwargs" ? macro.kwargs_slot
                          : macro.varargs_slot) = slot;
    }
    finish(inner, macro.layout);
    for (Expr* expr : macro.defaults) resolve(expr, inner, false);
    resolve(macro.body, inner, false);
  }

  static void check_caller_default(const MacroDefinition& macro, int line) {
    for (size_t i = 0; i + macro.defaults.size() < macro.names.size(); ++i) {
      if (macro.names[i].str() == "caller") {
        throw SyntaxError{
            "when defining macros or call blocks the special \"caller\" argument must be omitted or be given "
            "a default",
            line};
      }
    }
  }

  Program& program_;
};

}  // namespace

void resolve_variables(Program& program) {
  Resolver(program).run();
}

}  // namespace quire::jinja
