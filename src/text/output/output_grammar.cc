#include "text/output/output_grammar.h"

#include <algorithm>
#include <utility>

#include "base/strings.h"
#include "text/output/call_machine.h"
#include "text/output/literal.h"
#include "text/output/tag_parameters.h"

namespace quire {
namespace {

using R = MarkerRole;

bool is_begin_of_calls(const Marker& marker) {
  return !marker.text.empty() && (marker.role == R::kOpen || marker.role == R::kCall);
}

Json text_format(std::string_view text) {
  return {{"type", "const_string"}, {"value", text}};
}

Json token_format(std::string_view text) {
  return {{"type", "token"}, {"token", text}};
}

// A character class of GBNF, with the number of its characters.
Json characters(std::string_view set) {
  return {{"type", "grammar"}, {"grammar", cat("root ::= ", set)}};
}

Json sequence_of(Json elements) {
  return {{"type", "sequence"}, {"elements", std::move(elements)}};
}

Json one_of(Json elements) {
  return {{"type", "or"}, {"elements", std::move(elements)}};
}

Json repeated_format(const char* type, Json content) {
  return {{"type", type}, {"content", std::move(content)}};
}

Json any_text(const std::vector<std::string>& excludes) {
  Json format = {{"type", "any_text"}};
  if (!excludes.empty()) format["excludes"] = excludes;
  return format;
}

// Where free text ends: at a token, or at one of some texts.
struct TextEnd {
  std::string token = {};
  std::vector<std::string> texts = {};
  std::vector<std::string> excludes = {};  // texts that cannot occur
};

Json text_until(const TextEnd& end) {
  Json last = end.texts;
  if (!end.token.empty()) last = Json{{"type", "token"}, {"token", end.token}};
  return {{"type", "tag"}, {"begin", ""}, {"content", any_text(end.excludes)}, {"end", std::move(last)}};
}

class GrammarWriter {
 public:
  explicit GrammarWriter(const OutputGrammarOptions& options) : o_(options) {
    if (o_.calls != nullptr) text_ = call_text(*o_.calls, o_.token_of);
  }

  Json whole() const {
    Json parts = Json::array();
    if (is_harmony()) {
      parts.push_back(harmony_messages());
    } else {
      add_reasoning(parts);
    }
    parts.push_back(rest());
    return {{"type", "structural_tag"}, {"format", sequence_of(std::move(parts))}};
  }

 private:
  bool is_token(std::string_view text) const { return o_.token_of && o_.token_of(text).has_value(); }
  bool is_harmony() const { return o_.calls != nullptr && o_.calls->machine == CallMachine::kHarmony; }

  // The length of a token's text at the beginning of `text`; 0 if there is none.
  size_t token_at(std::string_view text) const {
    if (text.empty() || (text[0] != '<' && text[0] != '[')) return 0;
    const size_t end = text.find(text[0] == '<' ? '>' : ']');
    if (end == std::string_view::npos || !is_token(text.substr(0, end + 1))) return 0;
    return end + 1;
  }

  // Appends a text, in which markers with tokens are these tokens.
  void add_text(Json& parts, std::string_view text) const {
    size_t begin = 0;
    for (size_t i = 0; i < text.size();) {
      const size_t size = token_at(text.substr(i));
      if (size == 0) {
        ++i;
        continue;
      }
      if (i > begin) parts.push_back(text_format(text.substr(begin, i - begin)));
      parts.push_back(token_format(text.substr(i, size)));
      begin = i += size;
    }
    if (begin < text.size()) parts.push_back(text_format(text.substr(begin)));
  }

  TextEnd end_at(std::string_view marker) const {
    if (is_token(marker)) return {.token = std::string(marker)};
    return {.texts = {std::string(marker)}};
  }

  // ---- Reasoning ----

  TextEnd reasoning_end() const {
    TextEnd end;
    for (const Marker& marker : o_.reasoning->markers) {
      if (marker.role != R::kReasoningEnd || marker.text.empty()) continue;
      if (!is_token(marker.text)) {
        end.texts.emplace_back(marker.text);
      } else if (end.token.empty()) {
        end.token = marker.text;
      }
    }
    if (!end.token.empty()) std::swap(end.texts, end.excludes);
    if (o_.calls == nullptr || !o_.reasoning->calls_end_it) return end;
    for (const Marker& marker : o_.calls->markers) {
      if (is_begin_of_calls(marker) && !is_token(marker.text)) end.excludes.emplace_back(marker.text);
    }
    return end;
  }

  // A complete block, or the rest of the one that the prompt has opened.
  void add_reasoning(Json& parts) const {
    if (o_.reasoning == nullptr || o_.reasoning_is_over) return;
    Json block = Json::array();
    if (o_.start != OutputStart::kReasoning) {
      Json begins = Json::array();
      for (const Marker& marker : o_.reasoning->markers) {
        if (marker.role != R::kReasoningBegin || marker.text.empty()) continue;
        begins.push_back(is_token(marker.text) ? token_format(marker.text) : text_format(marker.text));
      }
      if (begins.empty()) return;
      block.push_back(one_of(std::move(begins)));
    }
    block.push_back(text_until(reasoning_end()));
    if (!o_.answer || o_.answer_is_json) block.push_back(characters("[\\n]{0,2}"));
    if (o_.start == OutputStart::kReasoning) {
      parts.push_back(sequence_of(std::move(block)));
    } else {
      parts.push_back(repeated_format("optional", sequence_of(std::move(block))));
    }
  }

  // Messages of other channels than the final one, each with the beginning of the next message.
  Json harmony_messages() const {
    Json kinds = Json::array();
    for (const char* channel : {"analysis", "commentary"}) {
      Json message = Json::array();
      add_text(message, cat("<|channel|>", channel, "<|message|>"));
      message.push_back(text_until(end_at("<|end|>")));
      add_text(message, "<|start|>assistant");
      kinds.push_back(sequence_of(std::move(message)));
    }
    return repeated_format("star", one_of(std::move(kinds)));
  }

  // ---- Parameters between tags ----

  void add_parameters(Json& parts, const TagParameters& parameters) const {
    if (parameters.any) parts.push_back(repeated_format("star", any_parameter()));
    for (const TagParameter& parameter : parameters.list) {
      Json one = sequence_of(parameter_parts(parameter));
      parts.push_back(parameter.required ? std::move(one) : repeated_format("optional", std::move(one)));
    }
  }

  Json any_parameter() const {
    const ParameterText& text = *text_->parameters;
    Json parts = Json::array();
    add_text(parts, text.before_key);
    parts.push_back(characters("[a-zA-Z0-9_-]{1,64}"));
    add_text(parts, text.after_key);
    add_text_value(parts);
    return sequence_of(std::move(parts));
  }

  Json parameter_parts(const TagParameter& parameter) const {
    const ParameterText& text = *text_->parameters;
    const bool json = parameter.kind == TagParameter::Kind::kJson;
    Json parts = Json::array();
    add_text(parts, cat(text.before_key, parameter.name,
                        json && !text.after_key_of_json.empty() ? text.after_key_of_json : text.after_key));
    if (parameter.kind == TagParameter::Kind::kText) {
      add_text_value(parts);
      return parts;
    }
    if (json) {
      parts.push_back({{"type", "json_schema"}, {"json_schema", parameter.schema}});
    } else {
      Json choices = Json::array();
      for (const std::string& choice : parameter.choices) choices.push_back(text_format(choice));
      parts.push_back(one_of(std::move(choices)));
    }
    if (o_.calls->trim_newlines) parts.push_back(repeated_format("optional", text_format("\n")));
    add_text(parts, text.value_end);
    add_text(parts, text.after_value);
    return parts;
  }

  void add_text_value(Json& parts) const {
    parts.push_back(text_until(end_at(text_->parameters->value_end)));
    add_text(parts, text_->parameters->after_value);
  }

  // ---- Calls ----

  // One call of one of the tools, without the first `skip` bytes.
  Json call(size_t skip) const {
    Json tools = Json::array();
    for (const CallableTool& tool : o_.tools) {
      Json parts = Json::array();
      std::string head = cat(text_->before_name, written_name(*text_, tool.name), text_->indexed ? ":" : "");
      head.erase(0, skip);
      if (text_->indexed) {
        add_text(parts, head);
        parts.push_back(characters("[0-9]{1,3}"));
        head.clear();
      }
      add_text(parts, head + std::string(text_->after_name));
      if (text_->parameters == nullptr) {
        parts.push_back({{"type", "json_schema"}, {"json_schema", tool.arguments}});
      } else if (const auto parameters = read_tag_parameters(tool.arguments)) {
        add_parameters(parts, *parameters);
      }
      add_text(parts, text_->after_arguments);
      tools.push_back(sequence_of(std::move(parts)));
    }
    return one_of(std::move(tools));
  }

  // All calls, without the first `skip` bytes of the text before the first name.
  Json section(size_t skip) const {
    Json parts = Json::array();
    const bool in_begin = !text_->begin.empty();
    add_text(parts, text_->begin.substr(in_begin ? skip : 0));
    Json one = call(in_begin ? 0 : skip);
    const bool several = o_.parallel && o_.calls->parallel && !is_harmony() && (in_begin || skip == 0);
    if (several) {
      const Json tag = {{"type", "tag"}, {"begin", ""}, {"content", std::move(one)}, {"end", ""}};
      one = {{"type", "tags_with_separator"},
             {"tags", Json::array({tag})},
             {"separator", text_->separator},
             {"at_least_one", true}};
    }
    parts.push_back(std::move(one));
    add_text(parts, text_->end);
    return sequence_of(std::move(parts));
  }

  // Texts of markers that would begin a call.
  std::vector<std::string> texts_of_begins() const {
    std::vector<std::string> texts;
    for (const Marker& marker : o_.calls->markers) {
      if (is_begin_of_calls(marker) && token_at(marker.text) == 0) texts.emplace_back(marker.text);
    }
    return texts;
  }

  // Text in which a marker begins calls.
  Json text_with_calls() const {
    const std::string_view first = text_->begin.empty() ? text_->before_name : text_->begin;
    TextEnd end;
    size_t skip = token_at(first);
    if (skip > 0) {
      end.token = first.substr(0, skip);
    } else {
      for (const Marker& marker : o_.calls->markers) {
        if (is_begin_of_calls(marker) && first.starts_with(marker.text)) skip = marker.text.size();
      }
      end.texts.emplace_back(first.substr(0, skip));
    }
    const std::vector<std::string> begins = texts_of_begins();
    for (const std::string& text : begins) {
      if (end.texts.empty() || text != end.texts[0]) end.excludes.push_back(text);
    }
    const Json calls = sequence_of(Json::array({text_until(end), section(skip)}));
    if (!o_.parallel) return one_of(Json::array({calls, any_text(begins)}));
    return sequence_of(Json::array({repeated_format("star", calls), any_text(begins)}));
  }

  // Calls without a marker, or text that is not taken for one.
  Json calls_or_text() const {
    const Json text =
        sequence_of(Json::array({characters("[^ \\t\\r\\n{\\[<`]"), any_text(texts_of_begins())}));
    return one_of(Json::array({section(0), text_format(""), text}));
  }

  Json harmony_answer(Json answer) const {
    Json parts = Json::array();
    add_text(parts, "<|channel|>final<|message|>");
    parts.push_back(std::move(answer));
    return sequence_of(std::move(parts));
  }

  Json rest() const {
    Json choices = Json::array();
    if (o_.any_text && is_harmony()) {
      choices.push_back(harmony_answer(any_text({})));
    } else if (o_.any_text) {
      return o_.calls->bare ? calls_or_text() : text_with_calls();
    }
    if (o_.answer) choices.push_back(is_harmony() ? harmony_answer(*o_.answer) : *o_.answer);
    if (!o_.tools.empty()) choices.push_back(section(0));
    return choices.size() == 1 ? Json(choices[0]) : one_of(std::move(choices));
  }

  const OutputGrammarOptions& o_;
  const CallText* text_ = nullptr;
};

}  // namespace

bool reasoning_is_over(const ReasoningFormat* reasoning, std::string_view prompt) {
  if (reasoning == nullptr) return false;
  prompt = without_spaces(prompt);
  return std::any_of(reasoning->markers.begin(), reasoning->markers.end(), [&](const Marker& marker) {
    return marker.role == R::kReasoningEnd && !marker.text.empty() && prompt.ends_with(marker.text);
  });
}

bool has_grammar(const CallFormat& calls, const FindMarker& token_of) {
  return call_text(calls, token_of) != nullptr;
}

bool can_write_arguments(const CallFormat& calls, const FindMarker& token_of, const Json& schema) {
  const CallText* text = call_text(calls, token_of);
  return text != nullptr && (text->parameters == nullptr || read_tag_parameters(schema).has_value());
}

bool has_grammar_within_text(const CallFormat& calls, const FindMarker& token_of,
                             const std::function<bool(TokenId)>& is_special) {
  const CallText* text = call_text(calls, token_of);
  if (text == nullptr) return false;
  return std::all_of(calls.markers.begin(), calls.markers.end(), [&](const Marker& marker) {
    if (!is_begin_of_calls(marker)) return true;
    // A token that only the parser knows could occur in the text.
    const std::optional<TokenId> token = token_of ? token_of(marker.text) : std::nullopt;
    const bool is_written = text->begin.find(marker.text) != std::string_view::npos ||
                            text->before_name.find(marker.text) != std::string_view::npos;
    if (token) return is_written || is_special(*token);
    // Without markers, the first character distinguishes text from a call.
    return !calls.bare || std::string_view("<[`").find(marker.text[0]) != std::string_view::npos;
  });
}

Json output_grammar(const OutputGrammarOptions& options) {
  return GrammarWriter(options).whole();
}

}  // namespace quire
