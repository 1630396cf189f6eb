#include "cli/chat/chat_settings.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <variant>

#include "base/error.h"
#include "base/strings.h"
#include "cli/constraint_flags.h"
#include "text/chat/request_json.h"

namespace quire::cli {
namespace {

constexpr double kNoBound = std::numeric_limits<double>::infinity();

struct FloatField {
  float SamplingParams::*value;
  double min_value;
  double max_value;
  bool min_excluded = false;
};
struct IntField {
  int32_t SamplingParams::*value;
  int64_t min_value;
};
struct SwitchField {
  bool SamplingParams::*value;
};
// One text, or a JSON array of texts.
struct TextsField {
  std::vector<std::string> SamplingParams::*value;
};
// One constraint takes the place of another one.
struct ConstraintField {
  StructuredOutputs::Kind kind;
  StructuredOutputs (*make)(const std::string& value, std::string field);
};
struct SeedField {};
struct StatsField {};

struct Field {
  std::string_view name;
  std::string_view help;
  std::variant<FloatField, IntField, SwitchField, TextsField, ConstraintField, SeedField, StatsField> kind;
};

// Ranges are those that the engine checks, so that a wrong value is reported at once. The common fields come
// last, where a terminal shows them.
const std::vector<Field>& fields() {
  static const std::vector<Field> table = {
      {"typical_p", "1 = off", FloatField{&SamplingParams::typical_p, 0.0, 1.0, true}},
      {"top_n_sigma", "0 = off", FloatField{&SamplingParams::top_n_sigma, 0.0, kNoBound}},
      {"min_keep", "tokens that truncating steps leave", IntField{&SamplingParams::min_keep, 0}},
      {"dynatemp_range", "0 = off", FloatField{&SamplingParams::dynatemp_range, 0.0, kNoBound}},
      {"dynatemp_exponent", "", FloatField{&SamplingParams::dynatemp_exponent, 0.0, kNoBound}},
      {"xtc_probability", "0 = off", FloatField{&SamplingParams::xtc_probability, 0.0, 1.0}},
      {"xtc_threshold", "", FloatField{&SamplingParams::xtc_threshold, 0.0, 1.0}},
      {"dry_multiplier", "0 = off", FloatField{&SamplingParams::dry_multiplier, 0.0, kNoBound}},
      {"dry_base", "", FloatField{&SamplingParams::dry_base, 1.0, kNoBound}},
      {"dry_allowed_length", "tokens", IntField{&SamplingParams::dry_allowed_length, 0}},
      {"dry_penalty_last_n", "tokens, -1 = all", IntField{&SamplingParams::dry_penalty_last_n, -1}},
      {"dry_sequence_breakers", "text or JSON array", TextsField{&SamplingParams::dry_sequence_breakers}},
      {"mirostat_mode", "0 or 2", IntField{&SamplingParams::mirostat_mode, 0}},
      {"mirostat_tau", "", FloatField{&SamplingParams::mirostat_tau, 0.0, kNoBound}},
      {"mirostat_eta", "", FloatField{&SamplingParams::mirostat_eta, 0.0, 1.0}},
      {"temperature", "0 = greedy", FloatField{&SamplingParams::temperature, 0.0, 2.0}},
      {"top_p", "cumulative probability", FloatField{&SamplingParams::top_p, 0.0, 1.0, true}},
      {"top_k", "number of most probable tokens, 0 = all", IntField{&SamplingParams::top_k, -1}},
      {"min_p", "relative to the most probable token", FloatField{&SamplingParams::min_p, 0.0, 1.0}},
      {"repetition_penalty", "1 = off", FloatField{&SamplingParams::repetition_penalty, 0.0, kNoBound, true}},
      {"presence_penalty", "0 = off", FloatField{&SamplingParams::presence_penalty, -2.0, 2.0}},
      {"frequency_penalty", "0 = off", FloatField{&SamplingParams::frequency_penalty, -2.0, 2.0}},
      {"bad_words", "text or JSON array", TextsField{&SamplingParams::bad_words}},
      {"stop", "text or JSON array", TextsField{&SamplingParams::stop}},
      {"ignore_eos", "on or off", SwitchField{&SamplingParams::ignore_eos}},
      {"json_schema", "file or schema that the answers are valid for, or off",
       ConstraintField{StructuredOutputs::Kind::kJsonSchema, schema_constraint}},
      {"regex", "pattern that the answers match, or off",
       ConstraintField{StructuredOutputs::Kind::kRegex, regex_constraint}},
      {"grammar", "file with the grammar of the answers, or off",
       ConstraintField{StructuredOutputs::Kind::kGrammar, grammar_constraint}},
      {"max_tokens", "per answer, 0 = the rest of the context", IntField{&SamplingParams::max_tokens, 0}},
      {"min_tokens", "per answer", IntField{&SamplingParams::min_tokens, 0}},
      {"thinking_token_budget", "tokens of reasoning, -1 = no limit",
       IntField{&SamplingParams::thinking_token_budget, -1}},
      {"seed", "number, or random", SeedField{}},
      {"stats", "on or off: a line after each answer", StatsField{}},
  };
  return table;
}

const Field& field_of(std::string_view name) {
  std::string underscored(name);
  std::ranges::replace(underscored, '-', '_');
  const auto found =
      std::ranges::find_if(fields(), [&](const Field& field) { return field.name == underscored; });
  if (found == fields().end())
    throw Error(cat("there is no '", name, "' to set; names are ", join(chat_field_names(), ", ")));
  return *found;
}

template <typename T>
std::optional<T> parse_as(const std::string& text) {
  T value{};
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// Sets or shows one field; the overloads are the kinds.
void set_value(const FloatField& field, ChatSettings& settings, std::string_view name,
               const std::string& text) {
  const auto value = parse_as<float>(text);
  const bool fits = value && std::isfinite(*value) && *value <= field.max_value &&
                    (field.min_excluded ? *value > field.min_value : *value >= field.min_value);
  if (!fits) {
    const std::string upper = std::isinf(field.max_value) ? "" : cat(" and at most ", field.max_value);
    throw Error(cat(name, " must be a number ", field.min_excluded ? "greater than " : "of at least ",
                    field.min_value, upper, ", not '", text, "'"));
  }
  settings.sampling.*field.value = *value;
}

void set_value(const IntField& field, ChatSettings& settings, std::string_view name,
               const std::string& text) {
  const auto value = parse_as<int32_t>(text);
  if (!value || *value < field.min_value)
    throw Error(cat(name, " must be an integer of at least ", field.min_value, ", not '", text, "'"));
  settings.sampling.*field.value = *value;
}

bool is_on(std::string_view name, const std::string& text) {
  if (text != "on" && text != "off") throw Error(cat(name, " must be on or off, not '", text, "'"));
  return text == "on";
}

void set_value(const SwitchField& field, ChatSettings& settings, std::string_view name,
               const std::string& text) {
  settings.sampling.*field.value = is_on(name, text);
}

void set_value(const TextsField& field, ChatSettings& settings, std::string_view name,
               const std::string& text) {
  if (!text.starts_with('[')) {
    settings.sampling.*field.value = {text};
    return;
  }
  const Json list = Json::parse(text, nullptr, false);
  if (!list.is_array() || !std::ranges::all_of(list, [](const Json& one) { return one.is_string(); }))
    throw Error(cat(name, " must be a text or a JSON array of texts, not '", text, "'"));
  settings.sampling.*field.value = list.get<std::vector<std::string>>();
}

// Whether the present constraint is one of this field.
bool is_set(const ConstraintField& field, const ChatSettings& settings) {
  const auto& present = settings.sampling.structured_outputs;
  return present && present->kind == field.kind;
}

void set_value(const ConstraintField& field, ChatSettings& settings, std::string_view name,
               const std::string& text) {
  if (text != "off") {
    settings.sampling.structured_outputs = field.make(text, std::string(name));
  } else if (is_set(field, settings)) {
    settings.sampling.structured_outputs.reset();
  }
}

void set_value(const SeedField&, ChatSettings& settings, std::string_view name, const std::string& text) {
  if (text == "random") {
    settings.sampling.seed.reset();
    return;
  }
  const auto value = parse_as<int64_t>(text);
  if (!value) throw Error(cat(name, " must be an integer or 'random', not '", text, "'"));
  settings.sampling.seed = *value;
}

void set_value(const StatsField&, ChatSettings& settings, std::string_view name, const std::string& text) {
  settings.stats = is_on(name, text);
}

void copy_value(const FloatField& field, ChatSettings& to, const ChatSettings& from) {
  to.sampling.*field.value = from.sampling.*field.value;
}
void copy_value(const IntField& field, ChatSettings& to, const ChatSettings& from) {
  to.sampling.*field.value = from.sampling.*field.value;
}
void copy_value(const SwitchField& field, ChatSettings& to, const ChatSettings& from) {
  to.sampling.*field.value = from.sampling.*field.value;
}
void copy_value(const TextsField& field, ChatSettings& to, const ChatSettings& from) {
  to.sampling.*field.value = from.sampling.*field.value;
}
void copy_value(const ConstraintField& field, ChatSettings& to, const ChatSettings& from) {
  if (is_set(field, to) || is_set(field, from))
    to.sampling.structured_outputs = from.sampling.structured_outputs;
}
void copy_value(const SeedField&, ChatSettings& to, const ChatSettings& from) {
  to.sampling.seed = from.sampling.seed;
}
void copy_value(const StatsField&, ChatSettings& to, const ChatSettings& from) {
  to.stats = from.stats;
}

std::string shown_value(const FloatField& field, const ChatSettings& settings) {
  // The shortest text that reads back the same as a float: 0.7, and not 0.699999988.
  std::array<char, 32> text;
  const auto result = std::to_chars(text.data(), text.data() + text.size(), settings.sampling.*field.value);
  return {text.data(), result.ptr};
}
std::string shown_value(const IntField& field, const ChatSettings& settings) {
  return std::to_string(settings.sampling.*field.value);
}
std::string shown_value(const SwitchField& field, const ChatSettings& settings) {
  return settings.sampling.*field.value ? "on" : "off";
}
std::string shown_value(const TextsField& field, const ChatSettings& settings) {
  return Json(settings.sampling.*field.value).dump(-1, ' ', false, Json::error_handler_t::replace);
}
std::string shown_value(const ConstraintField& field, const ChatSettings& settings) {
  return is_set(field, settings) ? "on" : "off";
}
std::string shown_value(const SeedField&, const ChatSettings& settings) {
  return settings.sampling.seed ? std::to_string(*settings.sampling.seed) : "random";
}
std::string shown_value(const StatsField&, const ChatSettings& settings) {
  return settings.stats ? "on" : "off";
}

}  // namespace

void set_chat_field(ChatSettings& settings, const ChatSettings& defaults, std::string_view name,
                    const std::string& text) {
  const Field& field = field_of(name);
  if (text == "default") {
    std::visit([&](const auto& kind) { copy_value(kind, settings, defaults); }, field.kind);
  } else {
    std::visit([&](const auto& kind) { set_value(kind, settings, field.name, text); }, field.kind);
  }
}

std::string chat_fields_text(const ChatSettings& settings) {
  constexpr size_t kNameWidth = 20;
  constexpr size_t kValueWidth = 10;
  const auto padded = [](std::string text, size_t width) {
    text.resize(std::max(width, text.size() + 1), ' ');
    return text;
  };
  std::string out;
  for (const Field& field : fields()) {
    const std::string value =
        std::visit([&](const auto& kind) { return shown_value(kind, settings); }, field.kind);
    out += cat(padded(std::string(field.name), kNameWidth), padded(value, kValueWidth), field.help, "\n");
  }
  return out;
}

std::vector<std::string> chat_field_names() {
  std::vector<std::string> names;
  for (const Field& field : fields()) names.emplace_back(field.name);
  return names;
}

}  // namespace quire::cli
