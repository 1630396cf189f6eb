#include "grammar/structural_tag.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "grammar/expression.h"
#include "grammar/free_text.h"
#include "grammar/gbnf.h"
#include "grammar/regex.h"
#include "grammar/structural_tag_reader.h"
#include "text/unicode/unicode.h"

namespace quire::grammar {
namespace {

// The end of the tag around a format: one of the texts, or a token. Free text stops before it.
struct TagEnd {
  std::vector<std::string> texts = {};
  std::optional<TokenId> token = {};

  bool is_none() const { return texts.empty() && !token; }
};

// The flags of formats that consist of tags.
struct TagFlags {
  bool at_least_one = false;
  bool stop_after_first = false;
};

// A text that starts a part within free text, and the part.
struct Dispatch {
  std::string trigger;
  std::vector<Expression> parts;
};

// Reads one structural tag. After the first error all functions return default values.
class StructuralTagParser : private StructuralTagReader {
 public:
  StructuralTagParser(Grammar& grammar, const StructuralTagOptions& options)
      : grammar_(grammar), options_(options), budget_{static_cast<int64_t>(options.limits.memory_bytes)} {}

  Status parse(const TagJson& tag);

 private:
  TagFlags flags_field(const TagJson& object, const std::string& pointer);
  std::optional<TokenId> token_of(const TagJson& object, const std::string& pointer);

  // A format and what follows it.
  Expression format(const TagJson& object, const std::string& pointer, const TagEnd& end, int depth);
  Expression primitive(const std::string& type, const TagJson& object, const std::string& pointer);
  Expression json_schema(const TagJson& object, const std::string& pointer);
  Expression any_text(const TagJson& object, const std::string& pointer, const TagEnd& end);
  Expression sequence(const TagJson& object, const std::string& pointer, const TagEnd& end, int depth);
  Expression choice(const TagJson& object, const std::string& pointer, const TagEnd& end, int depth);
  Expression repeated(const std::string& type, const TagJson& object, const std::string& pointer,
                      const TagEnd& end, int depth);
  Expression tag(const TagJson& object, const std::string& pointer, std::string_view trigger, int depth);
  Expression tags_with_separator(const TagJson& object, const std::string& pointer, int depth);
  Expression triggered_tags(const TagJson& object, const std::string& pointer, const TagEnd& end, int depth);
  Expression dispatch(const TagJson& object, const std::string& pointer, const TagEnd& end, int depth);
  Expression legacy(const TagJson& object);
  Expression legacy_tag(const TagJson& object, const std::string& pointer, std::string_view trigger);
  Expression schema(const TagJson& value, const std::string& pointer);

  // Makes a tag without the trigger.
  using MakeTag = std::function<Expression(const TagJson&, const std::string& pointer, std::string_view)>;
  std::vector<Dispatch> group_by_trigger(const TagJson& tags, const std::vector<std::string>& triggers,
                                         const std::string& pointer, const MakeTag& make_tag);
  Expression free_text(const std::vector<std::string>& stops, const TagEnd& end);
  Expression dispatches(std::vector<Dispatch> parts, const std::vector<std::string>& excludes, bool loop,
                        bool starts_with_text, const std::string& pointer, const TagEnd& end);
  bool check_triggers(const std::vector<std::string>& triggers, const std::string& pointer);
  void check_stops(const std::vector<std::string>& triggers, const std::vector<std::string>& excludes,
                   const TagEnd& end, const std::string& pointer);
  Expression literal(std::string_view value);
  // An expression that can be copied without a copy of its parts.
  Expression shared(Expression expression);
  Expression followed(Expression content, const TagEnd& end);
  bool charge(const std::vector<std::string>& stops);

  Grammar& grammar_;
  const StructuralTagOptions& options_;
  MemoryBudget budget_;
  std::vector<NamedExpression> rules_;  // parts that occur several times, and the whole at the end
};

// ---- Fields ----

TagFlags StructuralTagParser::flags_field(const TagJson& object, const std::string& pointer) {
  return {flag_field(object, pointer, "at_least_one", false),
          flag_field(object, pointer, "stop_after_first", false)};
}

std::optional<TokenId> StructuralTagParser::token_of(const TagJson& object, const std::string& pointer) {
  if (!check_fields(object, pointer, {"token"}, {})) return std::nullopt;
  const TagJson& value = *object.find("token");
  std::optional<TokenId> id;
  if (!options_.tokens.find || !options_.tokens.contains) {
    fail(pointer, "tokens are not supported here");
  } else if (value.is_string()) {
    id = options_.tokens.find(value.get_ref<const std::string&>());
  } else if (value.is_number_unsigned() && value.get<uint64_t>() <= INT32_MAX &&
             options_.tokens.contains(value.get<int64_t>())) {
    id = value.get<TokenId>();
  }
  if (!id) fail(cat(pointer, "/token"), "the model has no such special token");
  return id;
}

// ---- Parts ----

// Takes what the languages of free text need: each byte of a stop is a node of its own.
bool StructuralTagParser::charge(const std::vector<std::string>& stops) {
  for (const std::string& value : stops) {
    for (size_t i = 0; i < value.size() && budget_.charge(1); ++i) {
    }
  }
  return budget_.charge(stops.size());
}

Expression StructuralTagParser::literal(std::string_view value) {
  for (size_t i = 0; i < value.size() && budget_.charge(1); ++i) {
  }
  if (budget_.exceeded()) return {};
  return language_expression(text(value), value.size() + 1);
}

Expression StructuralTagParser::shared(Expression expression) {
  rules_.push_back({"structural_tag", std::move(expression)});
  Expression reference;
  reference.kind = Expression::Kind::kReference;
  reference.reference = rules_.size() - 1;
  return reference;
}

Expression StructuralTagParser::followed(Expression content, const TagEnd& end) {
  if (end.is_none()) return content;
  std::vector<Expression> parts;
  parts.push_back(std::move(content));
  if (end.token) {
    parts.push_back(symbol_expression({Symbol::Kind::kToken, *end.token}));
  } else {
    std::vector<Expression> texts;
    for (const std::string& value : end.texts) texts.push_back(literal(value));
    parts.push_back(choice_expression(std::move(texts)));
  }
  return sequence_expression(std::move(parts));
}

// Text without the stops, and the end. An end that is empty does not stop the text.
Expression StructuralTagParser::free_text(const std::vector<std::string>& stops, const TagEnd& end) {
  std::vector<std::string> ends;
  for (const std::string& value : end.texts)
    if (!value.empty()) ends.push_back(value);
  std::vector<std::string> all = stops;
  all.insert(all.end(), ends.begin(), ends.end());
  if (!charge(all) || !charge(ends)) return {};
  const FreeText text(all);
  std::vector<Expression> alternatives;
  if (!ends.empty()) alternatives.push_back(language_expression(text.until(ends), 0));
  if (ends.size() < end.texts.size() || end.texts.empty()) {
    TagEnd token_only;
    token_only.token = end.token;
    alternatives.push_back(followed(language_expression(text.without_stops(), 0), token_only));
  }
  return choice_expression(std::move(alternatives));
}

Expression StructuralTagParser::any_text(const TagJson& object, const std::string& pointer,
                                         const TagEnd& end) {
  if (!check_fields(object, pointer, {}, {"excludes"})) return {};
  const std::vector<std::string> excludes = texts_field(object, pointer, "excludes");
  check_stops({}, excludes, end, pointer);
  return failed() ? Expression() : free_text(excludes, end);
}

Expression StructuralTagParser::json_schema(const TagJson& object, const std::string& pointer) {
  if (!check_fields(object, pointer, {"json_schema"}, {"style", "any_order"})) return {};
  if (value_of(object, "style") != nullptr && text_field(object, pointer, "style") != "json")
    fail(cat(pointer, "/style"), "only the style json is supported");
  if (flag_field(object, pointer, "any_order", false))
    fail(cat(pointer, "/any_order"), "only the order of the schema is supported");
  if (failed()) return {};
  return schema(*object.find("json_schema"), cat(pointer, "/json_schema"));
}

Expression StructuralTagParser::schema(const TagJson& value, const std::string& pointer) {
  if (failed()) return {};
  if (!options_.add_schema) {
    fail(pointer, "schemas are not supported here");
    return {};
  }
  const auto symbol = options_.add_schema(grammar_, value, pointer);
  if (symbol.ok()) return symbol_expression(*symbol);
  message_ = symbol.failure().message;
  return {};
}

Expression StructuralTagParser::primitive(const std::string& type, const TagJson& object,
                                          const std::string& pointer) {
  if (type == "const_string") {
    if (!check_fields(object, pointer, {"value"}, {})) return {};
    return literal(text_field(object, pointer, "value"));
  }
  if (type == "json_schema") return json_schema(object, pointer);
  if (type == "grammar") {
    if (!check_fields(object, pointer, {"grammar"}, {})) return {};
    const auto symbol = add_gbnf(grammar_, text_field(object, pointer, "grammar"),
                                 {.tokens = options_.tokens, .limits = options_.limits});
    if (symbol.ok()) return symbol_expression(*symbol);
    fail(cat(pointer, "/grammar"), symbol.failure().message);
    return {};
  }
  if (type == "regex") {
    if (!check_fields(object, pointer, {"pattern"}, {})) return {};
    const auto language =
        parse_regex(text_field(object, pointer, "pattern"),
                    {.dialect = RegexOptions::Dialect::kPython, .encode = {}, .limits = options_.limits});
    if (language.ok()) return language_expression(*language, 0);
    fail(cat(pointer, "/pattern"), language.failure().message);
    return {};
  }
  if (type == "token") {
    const auto id = token_of(object, pointer);
    return id ? symbol_expression({Symbol::Kind::kToken, *id}) : Expression();
  }
  fail(cat(pointer, "/type"),
       cat("the format '", unicode::to_valid(type.substr(0, 100)), "' is not supported"));
  return {};
}

// ---- Compositions ----

Expression StructuralTagParser::format(const TagJson& object, const std::string& pointer, const TagEnd& end,
                                       int depth) {
  if (failed()) return {};
  if (depth >= options_.limits.nesting) {
    fail(pointer, cat("formats are nested more than ", options_.limits.nesting, " deep"));
    return {};
  }
  if (!object.is_object()) {
    fail(pointer, "an object is expected");
    return {};
  }
  const std::string type = text_field(object, pointer, "type");
  if (failed()) return {};
  if (type == "any_text") return any_text(object, pointer, end);
  if (type == "sequence") return sequence(object, pointer, end, depth);
  if (type == "or") return choice(object, pointer, end, depth);
  if (type == "triggered_tags") return triggered_tags(object, pointer, end, depth);
  if (type == "dispatch") return dispatch(object, pointer, end, depth);
  for (const std::string_view name : {"optional", "plus", "star", "repeat"})
    if (type == name) return repeated(type, object, pointer, end, depth);
  if (type == "tag") return followed(tag(object, pointer, "", depth), end);
  if (type == "tags_with_separator") return followed(tags_with_separator(object, pointer, depth), end);
  return followed(primitive(type, object, pointer), end);
}

Expression StructuralTagParser::sequence(const TagJson& object, const std::string& pointer, const TagEnd& end,
                                         int depth) {
  if (!check_fields(object, pointer, {"elements"}, {})) return {};
  const TagJson& elements = list_field(object, pointer, "elements");
  if (elements.empty()) return followed({}, end);
  std::vector<Expression> parts;
  for (size_t i = 0; i < elements.size() && !failed(); ++i) {
    const bool last = i + 1 == elements.size();
    parts.push_back(format(elements[i], cat(pointer, "/elements/", i), last ? end : TagEnd{}, depth + 1));
  }
  return sequence_expression(std::move(parts));
}

Expression StructuralTagParser::choice(const TagJson& object, const std::string& pointer, const TagEnd& end,
                                       int depth) {
  if (!check_fields(object, pointer, {"elements"}, {})) return {};
  const TagJson& elements = list_field(object, pointer, "elements");
  if (elements.empty()) fail(cat(pointer, "/elements"), "the list is empty");
  std::vector<Expression> parts;
  for (size_t i = 0; i < elements.size() && !failed(); ++i)
    parts.push_back(format(elements[i], cat(pointer, "/elements/", i), end, depth + 1));
  return failed() ? Expression() : choice_expression(std::move(parts));
}

// Free text does not stop at the end of a tag around the repeat, where an end would stop the last iteration
// only.
bool has_free_text(const TagJson& format) {
  if (!format.is_object() || !format.contains("type")) return false;
  const TagJson& type = *format.find("type");
  if (type == "any_text" || type == "triggered_tags" || type == "dispatch") return true;
  if (type == "tag" || type == "tags_with_separator") return false;
  for (const char* name : {"elements", "content"}) {
    const auto value = format.find(name);
    if (value == format.end()) continue;
    if (value->is_object() && has_free_text(*value)) return true;
    if (value->is_array() && std::any_of(value->begin(), value->end(), has_free_text)) return true;
  }
  return false;
}

Expression StructuralTagParser::repeated(const std::string& type, const TagJson& object,
                                         const std::string& pointer, const TagEnd& end, int depth) {
  uint32_t min = type == "plus" ? 1 : 0;
  uint32_t max = type == "optional" ? 1 : RegularNode::kUnlimited;
  if (type == "repeat") {
    if (!check_fields(object, pointer, {"content", "min", "max"}, {})) return {};
    const auto limit = static_cast<int64_t>(options_.limits.states_of_lexeme);
    const int64_t lowest = number_field(object, pointer, "min", limit);
    const int64_t highest = number_field(object, pointer, "max", limit);
    if (lowest < 0 || (highest >= 0 && lowest > highest))
      fail(cat(pointer, "/min"), "a number from 0 to max is expected");
    min = static_cast<uint32_t>(lowest);
    max = highest < 0 ? RegularNode::kUnlimited : static_cast<uint32_t>(highest);
  } else if (!check_fields(object, pointer, {"content"}, {})) {
    return {};
  }
  if (failed()) return {};
  const TagJson& content = *object.find("content");
  Expression part = format(content, cat(pointer, "/content"), {}, depth + 1);
  if (!failed() && !end.is_none() && has_free_text(content))
    fail(cat(pointer, "/content"), "free text in a repeat within a tag is not supported");
  if (failed()) return {};
  return followed(repeat_expression(std::move(part), min, max), end);
}

// ---- Tags ----

// A tag without the trigger, which comes at its begin.
Expression StructuralTagParser::tag(const TagJson& object, const std::string& pointer,
                                    std::string_view trigger, int depth) {
  if (!check_fields(object, pointer, {"begin", "content", "end"}, {})) return {};
  const TagJson& begin = *object.find("begin");
  const TagJson& last = *object.find("end");
  std::vector<Expression> parts;
  if (begin.is_object()) {
    const auto id = token_of(begin, cat(pointer, "/begin"));
    if (id) parts.push_back(symbol_expression({Symbol::Kind::kToken, *id}));
  } else {
    const std::string value = text_field(object, pointer, "begin");
    if (failed()) return {};
    parts.push_back(literal(std::string_view(value).substr(trigger.size())));
  }
  TagEnd end;
  if (last.is_object()) {
    end.token = token_of(last, cat(pointer, "/end"));
  } else if (last.is_string()) {
    end.texts = {text_field(object, pointer, "end")};
  } else {
    const TagJson& ends = list_field(object, pointer, "end");
    if (ends.empty() || ends.size() > kMaxTexts)
      fail(cat(pointer, "/end"),
           cat("a string, a list of 1 to ", kMaxTexts, " strings or a token is expected"));
    for (size_t i = 0; i < ends.size() && !failed(); ++i) {
      const bool valid = ends[i].is_string() && is_valid_utf8(ends[i].get_ref<const std::string&>());
      if (!valid) fail(cat(pointer, "/end/", i), "a string is expected");
      if (valid) end.texts.push_back(ends[i].get<std::string>());
    }
  }
  if (failed()) return {};
  parts.push_back(format(*object.find("content"), cat(pointer, "/content"), end, depth + 1));
  return sequence_expression(std::move(parts));
}

Expression StructuralTagParser::tags_with_separator(const TagJson& object, const std::string& pointer,
                                                    int depth) {
  if (!check_fields(object, pointer, {"tags", "separator"}, {"at_least_one", "stop_after_first"})) return {};
  const TagFlags flags = flags_field(object, pointer);
  const std::string separator = text_field(object, pointer, "separator");
  const TagJson& tags = list_field(object, pointer, "tags");
  if (tags.empty()) fail(cat(pointer, "/tags"), "the list is empty");
  std::vector<Expression> alternatives;
  for (size_t i = 0; i < tags.size() && !failed(); ++i)
    alternatives.push_back(tag(tags[i], cat(pointer, "/tags/", i), "", depth + 1));
  if (failed()) return {};
  Expression one = shared(choice_expression(std::move(alternatives)));
  if (!flags.stop_after_first) {
    // Any number of tags with a separator, then the last tag.
    std::vector<Expression> more;
    more.push_back(one);
    more.push_back(literal(separator));
    std::vector<Expression> all;
    all.push_back(repeat_expression(sequence_expression(std::move(more)), 0));
    all.push_back(std::move(one));
    one = sequence_expression(std::move(all));
  }
  return flags.at_least_one ? one : repeat_expression(std::move(one), 0, 1);
}

bool StructuralTagParser::check_triggers(const std::vector<std::string>& triggers,
                                         const std::string& pointer) {
  if (triggers.empty()) fail(pointer, "the list is empty");
  for (size_t i = 0; i < triggers.size() && !failed(); ++i) {
    for (size_t j = 0; j < triggers.size(); ++j) {
      if (i != j && triggers[i].find(triggers[j]) != std::string::npos)
        fail(cat(pointer, "/", i), "contains another trigger, so that it cannot occur first");
    }
  }
  return !failed();
}

void StructuralTagParser::check_stops(const std::vector<std::string>& triggers,
                                      const std::vector<std::string>& excludes, const TagEnd& end,
                                      const std::string& pointer) {
  const auto contains_one_of = [](const std::string& value, const std::vector<std::string>& others) {
    return std::any_of(others.begin(), others.end(), [&](const std::string& other) {
      return !other.empty() && value != other && value.find(other) != std::string::npos;
    });
  };
  for (const std::string& trigger : triggers) {
    if (contains_one_of(trigger, excludes) || contains_one_of(trigger, end.texts) ||
        std::find(excludes.begin(), excludes.end(), trigger) != excludes.end())
      fail(pointer, "a trigger contains a text that free text excludes, so that it cannot occur");
  }
  for (const std::string& value : end.texts) {
    if (contains_one_of(value, triggers) || contains_one_of(value, excludes) ||
        std::find(triggers.begin(), triggers.end(), value) != triggers.end())
      fail(pointer, "the end of the tag contains a text that free text excludes, so that it cannot occur");
  }
}

// Free text with parts that triggers start, and the end.
Expression StructuralTagParser::dispatches(std::vector<Dispatch> parts,
                                           const std::vector<std::string>& excludes, bool loop,
                                           bool starts_with_text, const std::string& pointer,
                                           const TagEnd& end) {
  std::vector<std::string> triggers;
  for (const Dispatch& part : parts) triggers.push_back(part.trigger);
  check_stops(triggers, excludes, end, pointer);
  if (failed()) return {};
  std::vector<std::string> stops = excludes;
  stops.insert(stops.end(), triggers.begin(), triggers.end());
  std::vector<std::string> item_stops = stops;
  for (const std::string& value : end.texts)
    if (!value.empty()) item_stops.push_back(value);
  if (!charge(item_stops) || !charge(triggers)) return {};
  const FreeText text(item_stops);

  std::vector<Expression> items;
  std::vector<Expression> first_items;  // without text in front
  for (Dispatch& part : parts) {
    Expression content = shared(choice_expression(std::move(part.parts)));
    if (!starts_with_text) {
      std::vector<Expression> direct;
      direct.push_back(literal(part.trigger));
      direct.push_back(content);
      first_items.push_back(sequence_expression(std::move(direct)));
    }
    std::vector<Expression> item;
    item.push_back(language_expression(text.until({part.trigger}), 0));
    item.push_back(std::move(content));
    items.push_back(sequence_expression(std::move(item)));
  }
  Expression item = choice_expression(std::move(items));
  std::vector<Expression> all;
  if (!starts_with_text) all.push_back(choice_expression(std::move(first_items)));
  if (loop) {
    all.push_back(repeat_expression(std::move(item), 0));
    all.push_back(free_text(stops, end));
    return sequence_expression(std::move(all));
  }
  if (!starts_with_text) return followed(sequence_expression(std::move(all)), end);
  all.push_back(followed(std::move(item), end));
  all.push_back(free_text(stops, end));
  return choice_expression(std::move(all));
}

std::vector<Dispatch> StructuralTagParser::group_by_trigger(const TagJson& tags,
                                                            const std::vector<std::string>& triggers,
                                                            const std::string& pointer,
                                                            const MakeTag& make_tag) {
  std::vector<Dispatch> groups;
  for (const std::string& trigger : triggers) groups.push_back({trigger, {}});
  for (size_t i = 0; i < tags.size() && !failed(); ++i) {
    const std::string at = cat(pointer, "/", i);
    if (!tags[i].is_object()) {
      fail(at, "an object is expected");
      break;
    }
    const std::string begin = text_field(tags[i], at, "begin");
    const auto group = std::find_if(groups.begin(), groups.end(), [&](const Dispatch& dispatch) {
      return begin.substr(0, dispatch.trigger.size()) == dispatch.trigger;
    });
    if (group == groups.end()) {
      fail(cat(at, "/begin"), "starts with none of the triggers");
      break;
    }
    group->parts.push_back(make_tag(tags[i], at, group->trigger));
  }
  return groups;
}

Expression StructuralTagParser::triggered_tags(const TagJson& object, const std::string& pointer,
                                               const TagEnd& end, int depth) {
  if (!check_fields(object, pointer, {"triggers", "tags"}, {"at_least_one", "stop_after_first", "excludes"}))
    return {};
  const TagFlags flags = flags_field(object, pointer);
  const std::vector<std::string> triggers = texts_field(object, pointer, "triggers");
  const std::vector<std::string> excludes = texts_field(object, pointer, "excludes");
  if (!failed()) check_triggers(triggers, cat(pointer, "/triggers"));
  const TagJson& tags = list_field(object, pointer, "tags");
  if (failed()) return {};
  std::vector<Dispatch> groups =
      group_by_trigger(tags, triggers, cat(pointer, "/tags"),
                       [this, depth](const TagJson& value, const std::string& at, std::string_view trigger) {
                         return tag(value, at, trigger, depth + 1);
                       });
  if (failed()) return {};
  return dispatches(std::move(groups), excludes, !flags.stop_after_first, !flags.at_least_one, pointer, end);
}

Expression StructuralTagParser::dispatch(const TagJson& object, const std::string& pointer, const TagEnd& end,
                                         int depth) {
  if (!check_fields(object, pointer, {"rules"}, {"loop", "excludes"})) return {};
  const std::vector<std::string> excludes = texts_field(object, pointer, "excludes");
  const bool loop = flag_field(object, pointer, "loop", true);
  const TagJson& rules = list_field(object, pointer, "rules");
  if (rules.size() > kMaxTexts) fail(cat(pointer, "/rules"), cat("more than ", kMaxTexts, " rules"));
  std::vector<Dispatch> parts;
  std::vector<std::string> triggers;
  for (size_t i = 0; i < rules.size() && !failed(); ++i) {
    const std::string at = cat(pointer, "/rules/", i);
    const TagJson& rule = rules[i];
    const bool valid = rule.is_array() && rule.size() == 2 && rule[0].is_string() &&
                       !rule[0].get_ref<const std::string&>().empty() &&
                       is_valid_utf8(rule[0].get_ref<const std::string&>());
    if (!valid) {
      fail(at, "a list of a string and a format is expected");
      break;
    }
    triggers.push_back(rule[0].get<std::string>());
    std::vector<Expression> content;
    content.push_back(format(rule[1], cat(at, "/1"), {}, depth + 1));
    parts.push_back({triggers.back(), std::move(content)});
  }
  if (failed() || !check_triggers(triggers, cat(pointer, "/rules"))) return {};
  return dispatches(std::move(parts), excludes, loop, true, pointer, end);
}

// {"begin": ..., "schema": ..., "end": ...}
Expression StructuralTagParser::legacy_tag(const TagJson& object, const std::string& pointer,
                                           std::string_view trigger) {
  if (!check_fields(object, pointer, {"begin", "schema", "end"}, {})) return {};
  std::vector<Expression> parts;
  parts.push_back(literal(std::string_view(text_field(object, pointer, "begin")).substr(trigger.size())));
  parts.push_back(schema(*object.find("schema"), cat(pointer, "/schema")));
  parts.push_back(literal(text_field(object, pointer, "end")));
  return sequence_expression(std::move(parts));
}

// {"structures": [...], "triggers": [...]}
Expression StructuralTagParser::legacy(const TagJson& object) {
  if (!check_fields(object, "", {"structures", "triggers"}, {})) return {};
  const std::vector<std::string> triggers = texts_field(object, "", "triggers");
  if (!failed()) check_triggers(triggers, "/triggers");
  const TagJson& structures = list_field(object, "", "structures");
  if (failed()) return {};
  std::vector<Dispatch> groups =
      group_by_trigger(structures, triggers, "/structures",
                       [this](const TagJson& value, const std::string& at, std::string_view trigger) {
                         return legacy_tag(value, at, trigger);
                       });
  if (failed()) return {};
  return dispatches(std::move(groups), {}, true, true, "", {});
}

Status StructuralTagParser::parse(const TagJson& tag) {
  if (!tag.is_object()) return invalid_argument("/: an object is expected");
  Expression whole;
  if (!tag.contains("format")) {
    whole = legacy(tag);
  } else if (check_fields(tag, "", {"format"}, {})) {
    whole = format(*tag.find("format"), "/format", {}, 0);
  }
  if (!failed() && budget_.exceeded()) fail("", "the structural tag takes too much memory");
  if (failed()) return invalid_argument(message_);
  rules_.push_back({"structural_tag", std::move(whole)});
  const auto symbol = add_expressions(grammar_, rules_, rules_.size() - 1, options_.limits, budget_);
  if (!symbol.ok()) return invalid_argument(cat("/: ", symbol.failure().message));
  set_start(grammar_, *symbol);
  return {};
}

}  // namespace

Result<Grammar> parse_structural_tag(const nlohmann::ordered_json& tag, const StructuralTagOptions& options) {
  Grammar grammar;
  const Status status = StructuralTagParser(grammar, options).parse(tag);
  if (!status.ok()) return status.failure();
  return grammar;
}

}  // namespace quire::grammar
