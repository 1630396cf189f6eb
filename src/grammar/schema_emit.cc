#include "grammar/schema_emit.h"

#include <algorithm>
#include <array>

#include "base/strings.h"

namespace quire::grammar {
namespace {

// Combinations of conditions on further keys, and of counted items.
constexpr size_t kMaxKeyConditions = 8;
constexpr size_t kMaxSome = 4;
constexpr size_t kMaxCounts = 3;
constexpr size_t kMaxUniqueValues = 8;

Regular in_braces(const char* open, const Regular& space, const char* close) {
  return concat({text(open), space, text(close)});
}

}  // namespace

// An object's rules. The state is the next member of the schema, how many members there are (up to what
// matters), and which of the `some` conditions are met.
struct SchemaEmitter::ObjectPlan {
  struct Member {
    Symbol key;
    Goal value;
    bool required = false;
    std::vector<bool> in_some;
  };
  std::vector<Member> members;
  std::vector<FurtherKeys> further;
  std::vector<Goal> some;
  uint64_t min = 0;
  uint64_t max = kNoLimit;
  std::vector<size_t> required_from;  // [members + 1] required members from here on
  struct State {
    size_t member;
    uint64_t count;
    uint32_t found;
    // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy 14 takes <=> for a comparison with 0
    friend auto operator<=>(const State&, const State&) = default;
  };
  std::map<State, Symbol> keys;   // a key and what follows
  std::map<State, Symbol> rests;  // after a value: a comma and more keys, or nothing
  std::vector<std::pair<State, Symbol>> pending_keys;

  uint32_t all_found() const { return (1u << some.size()) - 1; }
  uint64_t counted(uint64_t count) const {
    if (max != kNoLimit) return count;
    return std::min(count, min);
  }
  bool may_end(const State& state) const {
    return required_from[state.member] == 0 && state.count >= min && state.found == all_found();
  }
};

// An array's rules. The state is the position (up to where items differ) and the counts of `contains`.
struct SchemaEmitter::ArrayPlan {
  const ArrayCase* array = nullptr;
  size_t last_position = 0;  // all later ones are alike
  struct State {
    size_t position;
    std::vector<uint64_t> counts;
    // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy 14 takes <=> for a comparison with 0
    friend auto operator<=>(const State&, const State&) = default;
  };
  std::map<State, Symbol> items;
  std::map<State, Symbol> rests;
  std::vector<std::pair<State, Symbol>> pending_items;

  bool may_end(const State& state) const {
    if (state.position < array->min) return false;
    for (size_t i = 0; i < state.counts.size(); ++i) {
      if (state.counts[i] < array->counts[i].min) return false;
    }
    return true;
  }
};

SchemaEmitter::SchemaEmitter(SchemaMeaning& meaning, Grammar& grammar, JsonSpacing spacing,
                             NumberSpelling numbers, const Limits& limits)
    : meaning_(&meaning),
      grammar_(&grammar),
      numbers_(numbers),
      limits_(limits),
      first_rule_(grammar.rules.size()) {
  const Regular space = json_space(spacing);
  open_object_ = concat({text("{"), space});
  close_object_ = concat({space, text("}")});
  empty_object_ = in_braces("{", space, "}");
  open_array_ = concat({text("["), space});
  close_array_ = concat({space, text("]")});
  empty_array_ = in_braces("[", space, "]");
  comma_ = json_comma(spacing);
  colon_ = json_colon(spacing);
}

void SchemaEmitter::refuse(std::string_view keyword, std::string reason) {
  meaning_->refuse(at_, keyword, std::move(reason));
}

Symbol SchemaEmitter::lexeme(const Regular& regular) {
  const auto [found, added] = lexemes_.try_emplace(regular.get());
  if (added) found->second = add_lexeme(*grammar_, regular);
  return found->second;
}

Symbol SchemaEmitter::rule(const char* name) {
  if (grammar_->rules.size() + grammar_->lexemes.size() >= limits_.rules_and_lexemes) {
    refuse("", cat("the grammar would have more than ", limits_.rules_and_lexemes, " rules."));
    return {Symbol::Kind::kRule, static_cast<int32_t>(first_rule_)};
  }
  return add_rule(*grammar_, name);
}

std::vector<std::vector<Symbol>>& SchemaEmitter::alternatives(Symbol symbol) {
  return grammar_->rules[static_cast<size_t>(symbol.id)].alternatives;
}

void SchemaEmitter::add(Symbol rule, std::vector<Symbol> symbols) {
  auto& known = alternatives(rule);
  if (std::find(known.begin(), known.end(), symbols) == known.end()) known.push_back(std::move(symbols));
}

Symbol SchemaEmitter::emit(const Goal& goal) {
  const Symbol result = value(goal);
  while (!pending_.empty() && !meaning_->failed()) {
    const auto [next, symbol] = std::move(pending_.back());
    pending_.pop_back();
    define(next, symbol);
  }
  return result;
}

Symbol SchemaEmitter::value(const Goal& goal) {
  const auto found = values_.find(goal);
  if (found != values_.end()) return found->second;
  const Symbol symbol = rule("value");
  values_.emplace(goal, symbol);
  pending_.emplace_back(goal, symbol);
  return symbol;
}

void SchemaEmitter::define(const Goal& goal, Symbol symbol) {
  if (is_nothing(goal)) return;
  at_ = goal.empty() ? kTrueSchema : goal[0].schema;
  const Scalars scalars = meaning_->scalars(goal);
  std::vector<Regular> texts;
  if (scalars.null) texts.push_back(text("null"));
  if (scalars.yes) texts.push_back(text("true"));
  if (scalars.no) texts.push_back(text("false"));
  if (!scalars.numbers.none()) texts.push_back(json_number(scalars.numbers, numbers_));
  // A counted repetition stays alone, so that the automaton can count instead of repeating its states.
  const bool counted =
      scalars.strings->kind == RegularNode::Kind::kRepeat && scalars.strings != any_content();
  if (counted) {
    const Symbol string = lexeme(json_string(scalars.strings));
    alternatives(symbol).push_back({string});
  } else if (scalars.strings->kind != RegularNode::Kind::kNothing) {
    texts.push_back(json_string(scalars.strings));
  }
  if (!texts.empty()) {
    const Symbol scalar = lexeme(any_of(std::move(texts)));
    alternatives(symbol).push_back({scalar});
  }
  for (const ObjectCase& one : meaning_->objects(goal)) {
    if (const auto rules = object(one)) add(symbol, {*rules});
    if (meaning_->failed()) return;
  }
  for (const ArrayCase& one : meaning_->arrays(goal)) {
    const bool unique = one.unique && one.max > 1;
    if (const auto rules = unique ? unique_array(one) : array(one)) add(symbol, {*rules});
    if (meaning_->failed()) return;
  }
}

std::vector<SchemaEmitter::FurtherKeys> SchemaEmitter::further_keys(const ObjectCase& object) {
  std::vector<std::string> names;
  for (const ObjectCase::Member& member : object.members) names.push_back(member.name);
  // All keys are divided by each language in turn.
  struct Part {
    Regular keys;
    Goal value;
    std::vector<bool> in_some;
  };
  std::vector<Part> parts = {{any_content(), {}, std::vector<bool>(object.some.size())}};
  const Regular named = any_text(names);
  const auto divide = [&](const Regular& language, const auto& mark) {
    std::vector<Part> divided;
    for (const Part& part : parts) {
      if (language == any_content() || language == part.keys) {
        divided.push_back(part);
        mark(divided.back());
        continue;
      }
      Part inside = part;
      inside.keys = all_of({part.keys, language});
      Part outside = part;
      outside.keys = minus(part.keys, language);
      mark(inside);
      if (!meaning_->queries().is_empty(minus(inside.keys, named))) divided.push_back(std::move(inside));
      if (!meaning_->queries().is_empty(minus(outside.keys, named))) divided.push_back(std::move(outside));
    }
    parts = std::move(divided);
  };
  if (object.all.size() > kMaxKeyConditions) {
    refuse("", cat("more than ", kMaxKeyConditions, " conditions on further keys."));
    return {};
  }
  for (const ObjectCase::Keys& keys : object.all)
    divide(keys.language, [&](Part& part) { part.value = both(part.value, keys.value); });
  std::erase_if(parts, [](const Part& part) { return is_nothing(part.value); });
  for (size_t i = 0; i < object.some.size(); ++i)
    divide(object.some[i].language, [&](Part& part) { part.in_some[i] = true; });
  std::vector<FurtherKeys> result;
  for (const Part& part : parts) {
    // The same keys as in other objects are the same lexeme.
    static const Regular any_key = json_string(any_content());
    const bool free = part.keys == any_content() && names.empty();
    result.push_back(
        {lexeme(free ? any_key : json_string(names.empty() ? part.keys : minus(part.keys, named))),
         part.value, part.in_some});
  }
  return result;
}

std::optional<Symbol> SchemaEmitter::object(const ObjectCase& object) {
  ObjectPlan plan;
  if (object.some.size() > kMaxSome) {
    refuse("", "too many conditions that some key has to meet.");
    return std::nullopt;
  }
  for (const ObjectCase::Keys& keys : object.some) plan.some.push_back(keys.value);
  if (grammar_->rules.size() + 2 * object.members.size() > limits_.rules_and_lexemes) {
    refuse("", cat("the grammar would have more than ", limits_.rules_and_lexemes, " rules."));
    return std::nullopt;
  }
  uint64_t required = 0;
  for (const ObjectCase::Member& member : object.members) {
    const Goal goal = meaning_->member_goal(object, member);
    if (is_nothing(goal)) {
      if (member.required) return std::nullopt;
      continue;
    }
    ObjectPlan::Member planned = {lexeme(json_string(text(member.name))), goal, member.required, {}};
    for (const ObjectCase::Keys& keys : object.some)
      planned.in_some.push_back(meaning_->contains(keys, member.name));
    required += member.required ? 1 : 0;
    plan.members.push_back(std::move(planned));
  }
  plan.further = further_keys(object);
  if (meaning_->failed()) return std::nullopt;
  plan.min = object.min <= required ? 0 : object.min;
  plan.max = plan.further.empty() && object.max >= plan.members.size() ? kNoLimit : object.max;
  if (plan.max < std::max(required, plan.min)) return std::nullopt;
  if (plan.further.empty() && plan.min > plan.members.size()) return std::nullopt;
  // Further keys may be equal to each other, so only one of them counts for certain.
  if (!plan.further.empty() && plan.min > required + 1) {
    refuse("minProperties", "cannot be met by keys that the schema does not name, except for one.");
    return std::nullopt;
  }
  plan.required_from.assign(plan.members.size() + 1, 0);
  for (size_t i = plan.members.size(); i-- > 0;)
    plan.required_from[i] = plan.required_from[i + 1] + (plan.members[i].required ? 1 : 0);

  const Symbol result = rule("object");
  const ObjectPlan::State start = {0, 0, 0};
  if (plan.may_end(start)) alternatives(result).push_back({lexeme(empty_object_)});
  const Symbol keys = rule("members");
  plan.keys.emplace(start, keys);
  plan.pending_keys.emplace_back(start, keys);
  alternatives(result).push_back({lexeme(open_object_), keys, lexeme(close_object_)});
  while (!plan.pending_keys.empty() && !meaning_->failed()) {
    const auto [state, symbol] = plan.pending_keys.back();
    plan.pending_keys.pop_back();
    define_keys(plan, state.member, state.count, state.found, symbol);
  }
  return result;
}

void SchemaEmitter::define_keys(ObjectPlan& plan, size_t member, uint64_t count, uint32_t found,
                                Symbol symbol) {
  const auto keys_at = [&](const ObjectPlan::State& state) {
    const auto known = plan.keys.find(state);
    if (known != plan.keys.end()) return known->second;
    const Symbol added = rule("members");
    plan.keys.emplace(state, added);
    plan.pending_keys.emplace_back(state, added);
    return added;
  };
  const auto rest_at = [&](const ObjectPlan::State& state) {
    const auto known = plan.rests.find(state);
    if (known != plan.rests.end()) return known->second;
    const Symbol added = rule("more members");
    plan.rests.emplace(state, added);
    const Symbol next = keys_at(state);
    if (plan.may_end(state)) alternatives(added).emplace_back();
    alternatives(added).push_back({lexeme(comma_), next});
    return added;
  };
  if (count + 1 > plan.max) return;
  // The key, and which of the open conditions its value meets.
  const auto add_member = [&](Symbol key, const Goal& goal, const std::vector<bool>& in_some, size_t next) {
    for (uint32_t met = 0; met <= plan.all_found(); ++met) {
      if ((met & found) != 0) continue;
      Goal value_goal = goal;
      bool possible = true;
      for (size_t i = 0; i < plan.some.size(); ++i) {
        if ((met >> i & 1) == 0) continue;
        possible = possible && in_some[i];
        value_goal = both(value_goal, plan.some[i]);
      }
      if (!possible || is_nothing(value_goal)) continue;
      const ObjectPlan::State after = {next, plan.counted(count + 1), found | met};
      add(symbol, {key, lexeme(colon_), value(value_goal), rest_at(after)});
    }
  };
  if (member < plan.members.size()) {
    const ObjectPlan::Member& planned = plan.members[member];
    add_member(planned.key, planned.value, planned.in_some, member + 1);
    if (!planned.required) {
      const Symbol next = keys_at({member + 1, count, found});
      add(symbol, {next});
    }
    return;
  }
  for (const FurtherKeys& keys : plan.further) add_member(keys.key, keys.value, keys.in_some, member);
}

std::optional<Symbol> SchemaEmitter::array(const ArrayCase& array) {
  if (array.counts.size() > kMaxCounts) {
    refuse("contains", cat("more than ", kMaxCounts, " of them apply to one array."));
    return std::nullopt;
  }
  ArrayPlan plan;
  plan.array = &array;
  plan.last_position = array.prefix.size();
  for (const ArrayCase::Count& count : array.counts)
    plan.last_position = std::max<size_t>(plan.last_position, count.from);
  const uint64_t bound = array.max != kNoLimit ? array.max : array.min;
  if (bound > limits_.rules_and_lexemes) {
    // A limit far beyond what fits is no limit.
    refuse(array.max != kNoLimit ? "maxItems" : "minItems", "is too large.");
    return std::nullopt;
  }
  plan.last_position = std::max<size_t>(plan.last_position, bound);
  const Symbol result = rule("array");
  const ArrayPlan::State start = {0, std::vector<uint64_t>(array.counts.size(), 0)};
  if (plan.may_end(start)) alternatives(result).push_back({lexeme(empty_array_)});
  if (array.max == 0) return result;
  const Symbol items = rule("items");
  plan.items.emplace(start, items);
  plan.pending_items.emplace_back(start, items);
  alternatives(result).push_back({lexeme(open_array_), items, lexeme(close_array_)});
  while (!plan.pending_items.empty() && !meaning_->failed()) {
    const auto [state, symbol] = plan.pending_items.back();
    plan.pending_items.pop_back();
    define_items(plan, state.position, state.counts, symbol);
  }
  return result;
}

void SchemaEmitter::define_items(ArrayPlan& plan, size_t position, const std::vector<uint64_t>& counts,
                                 Symbol symbol) {
  const ArrayCase& array = *plan.array;
  const auto items_at = [&](const ArrayPlan::State& state) {
    const auto known = plan.items.find(state);
    if (known != plan.items.end()) return known->second;
    const Symbol added = rule("items");
    plan.items.emplace(state, added);
    plan.pending_items.emplace_back(state, added);
    return added;
  };
  const auto rest_at = [&](const ArrayPlan::State& state) {
    const auto known = plan.rests.find(state);
    if (known != plan.rests.end()) return known->second;
    const Symbol added = rule("more items");
    plan.rests.emplace(state, added);
    if (plan.may_end(state)) alternatives(added).emplace_back();
    if (state.position < array.max) {
      const Symbol next = items_at(state);
      alternatives(added).push_back({lexeme(comma_), next});
    }
    return added;
  };
  const Goal& own = position < array.prefix.size() ? array.prefix[position] : array.rest;
  if (is_nothing(own)) return;
  for (uint32_t met = 0; met < 1u << counts.size(); ++met) {
    Goal goal = own;
    ArrayPlan::State after = {std::min(position + 1, plan.last_position), counts};
    bool possible = true;
    for (size_t i = 0; i < counts.size(); ++i) {
      const ArrayCase::Count& count = array.counts[i];
      const bool counted = (met >> i & 1) != 0;
      const bool limited = count.max != kNoLimit;
      if (position < count.from) {
        possible = possible && !counted;
      } else if (counted) {
        goal = both(goal, count.value);
        after.counts[i] = limited ? counts[i] + 1 : std::min(counts[i] + 1, count.min);
        possible = possible && (limited ? after.counts[i] <= count.max : counts[i] < count.min);
      } else if (limited) {
        // Every item that satisfies the schema counts.
        goal = both(goal, meaning_->opposite(count.value));
      }
    }
    if (possible && !is_nothing(goal)) add(symbol, {value(goal), rest_at(after)});
  }
}

std::optional<std::vector<Regular>> SchemaEmitter::few_values(const Goal& goal) {
  if (is_nothing(goal)) return std::vector<Regular>();
  if (!meaning_->objects(goal).empty() || !meaning_->arrays(goal).empty()) return std::nullopt;
  const Scalars scalars = meaning_->scalars(goal);
  std::vector<Regular> result;
  if (scalars.null) result.push_back(text("null"));
  if (scalars.yes) result.push_back(text("true"));
  if (scalars.no) result.push_back(text("false"));
  if (scalars.numbers.all) return std::nullopt;
  // One spelling of each number.
  ByteSet digit;
  for (char c = '0'; c <= '9'; ++c) digit.set(static_cast<uint8_t>(c));
  ByteSet nonzero = digit;
  nonzero.reset('0');
  const Regular whole = any_of({text("0"), concat({bytes(nonzero), repeat(bytes(digit), 0)})});
  const Regular shortest =
      minus(concat({optional(text("-")), whole,
                    optional(concat({text("."), repeat(bytes(digit), 0), bytes(nonzero)}))}),
            text("-0"));
  const auto numbers =
      meaning_->queries().texts(all_of({scalars.numbers.spellings, shortest}), kMaxUniqueValues);
  const auto strings = meaning_->queries().texts(scalars.strings, kMaxUniqueValues);
  if (!numbers || !strings || result.size() + numbers->size() + strings->size() > kMaxUniqueValues)
    return std::nullopt;
  for (const std::string& number : *numbers) result.push_back(text(number));
  for (const std::string& string : *strings) result.push_back(json_string(text(string)));
  return result;
}

// Arrays of different items: for each position, the items that are not used yet. Only if the items are few.
std::optional<Symbol> SchemaEmitter::unique_array(const ArrayCase& array) {
  ArrayCase kinds = array;
  std::vector<Regular> all;  // by their spelling, so that positions share values
  std::vector<std::vector<size_t>> allowed;
  const auto few = [&](const Goal& goal) {
    const auto values = few_values(goal);
    if (!values) return false;
    std::vector<size_t> ids;
    for (const Regular& one : *values) {
      size_t id = 0;
      while (id < all.size() && meaning_->queries().is_empty(all_of({all[id], one}))) ++id;
      if (id == all.size()) all.push_back(one);
      ids.push_back(id);
    }
    allowed.push_back(std::move(ids));
    return all.size() <= kMaxUniqueValues;
  };
  const size_t longest = std::min<uint64_t>(array.max, array.prefix.size() + 1 + kMaxUniqueValues);
  bool possible = array.counts.empty();
  for (size_t i = 0; possible && i < array.prefix.size() && i < longest; ++i) possible = few(array.prefix[i]);
  if (possible && longest > array.prefix.size()) possible = few(array.rest);
  if (!possible) {
    refuse("uniqueItems",
           cat("is only supported for items of at most ", kMaxUniqueValues, " values in all."));
    return std::nullopt;
  }
  const Symbol result = rule("array");
  if (array.min == 0) alternatives(result).push_back({lexeme(empty_array_)});
  if (array.max == 0) return result;
  std::map<std::pair<size_t, uint32_t>, Symbol> states;
  std::vector<std::pair<size_t, uint32_t>> pending;
  const auto items_at = [&](size_t position, uint32_t used) {
    const auto [found, added] = states.try_emplace({position, used});
    if (added) {
      found->second = rule("items");
      pending.emplace_back(position, used);
    }
    return found->second;
  };
  const Symbol first = items_at(0, 0);
  alternatives(result).push_back({lexeme(open_array_), first, lexeme(close_array_)});
  while (!pending.empty() && !meaning_->failed()) {
    const auto [position, used] = pending.back();
    pending.pop_back();
    const Symbol symbol = states.at({position, used});
    for (const size_t id : allowed[std::min(position, allowed.size() - 1)]) {
      if ((used >> id & 1) != 0) continue;
      const Symbol item = lexeme(all[id]);
      if (position + 1 >= array.min) alternatives(symbol).push_back({item});
      if (position + 1 >= array.max || position + 1 > kMaxUniqueValues) continue;
      const Symbol next = items_at(position + 1, used | 1u << id);
      alternatives(symbol).push_back({item, lexeme(comma_), next});
    }
  }
  return result;
}

bool SchemaEmitter::remove_empty(Symbol symbol) {
  const size_t count = grammar_->rules.size();
  std::vector<bool> lexeme_empty(grammar_->lexemes.size());
  for (const auto& [node, one] : lexemes_)
    lexeme_empty[static_cast<size_t>(one.id)] =
        meaning_->queries().is_empty(grammar_->lexemes[static_cast<size_t>(one.id)]);
  // Rules from before are taken as they are.
  std::vector<bool> productive(count, false);
  std::fill(productive.begin(), productive.begin() + static_cast<std::ptrdiff_t>(first_rule_), true);
  // For each alternative, how many of its symbols are not known to derive a sentence.
  struct Waiting {
    size_t rule;
    size_t missing;
  };
  std::vector<Waiting> waiting;
  std::vector<std::vector<size_t>> uses(count);
  std::vector<size_t> ready;
  for (size_t r = first_rule_; r < count; ++r) {
    for (const auto& alternative : grammar_->rules[r].alternatives) {
      Waiting one = {r, 0};
      for (const Symbol& part : alternative) {
        const auto id = static_cast<size_t>(part.id);
        if (part.kind == Symbol::Kind::kLexeme && lexeme_empty[id]) one.missing = count + 1;
        if (part.kind != Symbol::Kind::kRule || productive[id]) continue;
        ++one.missing;
        uses[id].push_back(waiting.size());
      }
      if (one.missing == 0) ready.push_back(r);
      waiting.push_back(one);
    }
  }
  while (!ready.empty()) {
    const size_t r = ready.back();
    ready.pop_back();
    if (productive[r]) continue;
    productive[r] = true;
    for (const size_t use : uses[r]) {
      if (--waiting[use].missing == 0) ready.push_back(waiting[use].rule);
    }
  }
  for (size_t r = first_rule_; r < count; ++r) {
    std::erase_if(grammar_->rules[r].alternatives, [&](const std::vector<Symbol>& alternative) {
      return std::any_of(alternative.begin(), alternative.end(), [&](const Symbol& part) {
        const auto id = static_cast<size_t>(part.id);
        if (part.kind == Symbol::Kind::kLexeme) return static_cast<bool>(lexeme_empty[id]);
        return part.kind == Symbol::Kind::kRule && !productive[id];
      });
    });
  }
  return productive[static_cast<size_t>(symbol.id)];
}

}  // namespace quire::grammar
