#include "server/openai/answer_format.h"

#include <algorithm>
#include <cmath>

#include "base/strings.h"

namespace quire {
namespace {

// JSON has no minus infinity; vLLM writes this value.
constexpr float kLowestLogprob = -9999.0F;

float finite_logprob(float value) {
  return std::isfinite(value) ? std::max(value, kLowestLogprob) : kLowestLogprob;
}

// Characters that begin in `bytes`, so that a character that is split between two tokens counts once.
int64_t num_characters(std::string_view bytes) {
  return std::count_if(bytes.begin(), bytes.end(),
                       [](char c) { return (static_cast<uint8_t>(c) & 0xC0) != 0x80; });
}

std::string bytes_of(const ServingEngine& engine, TokenId id) {
  return engine.has_tokenizer() ? engine.token_bytes(id) : std::string();
}

void write_chat_token(JsonOut& out, const ServingEngine& engine, const TokenLogprob& token, bool as_id) {
  out.key("token").string(token_label(engine, token.token, as_id));
  out.key("logprob").number(finite_logprob(token.logprob));
  out.key("bytes").begin_array();
  for (const char c : bytes_of(engine, token.token)) out.integer(static_cast<int>(static_cast<uint8_t>(c)));
  out.end_array();
}

std::span<const TokenLogprob> first_alternatives(const PositionLogprobs& position, int32_t count) {
  const std::span<const TokenLogprob> all(position.top);
  return count < 0 ? all : all.first(std::min(all.size(), static_cast<size_t>(count)));
}

}  // namespace

std::string_view finish_reason_name(FinishReason reason) {
  return to_string(reason);
}

void write_usage(JsonOut& out, const Usage& usage) {
  out.begin_object();
  out.key("prompt_tokens").integer(usage.prompt_tokens);
  out.key("total_tokens").integer(usage.prompt_tokens + usage.completion_tokens);
  out.key("completion_tokens").integer(usage.completion_tokens);
  out.key("prompt_tokens_details")
      .begin_object()
      .key("cached_tokens")
      .integer(usage.cached_tokens)
      .end_object();
  if (usage.reasoning_tokens) {
    out.key("completion_tokens_details").begin_object();
    out.key("reasoning_tokens").integer(*usage.reasoning_tokens).end_object();
  }
  out.end_object();
}

void write_stop_reason(JsonOut& out, const std::variant<std::monostate, std::string, TokenId>& reason) {
  if (const auto* text = std::get_if<std::string>(&reason)) {
    out.string(*text);
  } else if (const auto* id = std::get_if<TokenId>(&reason)) {
    out.integer(*id);
  } else {
    out.null();
  }
}

void write_token_ids(JsonOut& out, std::span<const TokenId> ids, const YieldPoint& yield_point) {
  constexpr size_t kIdsPerCheck = 1 << 15;
  out.begin_array();
  for (size_t i = 0; i < ids.size(); ++i) {
    if (i % kIdsPerCheck == 0) yield_point.check();
    out.integer(ids[i]);
  }
  out.end_array();
}

std::string token_label(const ServingEngine& engine, TokenId id, bool as_id) {
  if (as_id || !engine.has_tokenizer()) return cat("token_id:", id);
  std::string bytes = engine.token_bytes(id);
  if (bytes.empty()) return engine.token_name(id);
  if (is_valid_utf8(bytes)) return bytes;
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string label = "bytes:";
  for (const char c : bytes) {
    const auto b = static_cast<uint8_t>(c);
    label += "\\x";
    label += kDigits[b >> 4];
    label += kDigits[b & 15];
  }
  return label;
}

void write_chat_logprobs(JsonOut& out, const ServingEngine& engine,
                         std::span<const PositionLogprobs> positions, const GenerationSpec& spec) {
  out.begin_object().key("content").begin_array();
  for (const PositionLogprobs& position : positions) {
    out.begin_object();
    write_chat_token(out, engine, position.chosen, spec.tokens_as_ids);
    out.key("top_logprobs").begin_array();
    for (const TokenLogprob& alternative : first_alternatives(position, spec.logprobs.value_or(0))) {
      out.begin_object();
      write_chat_token(out, engine, alternative, spec.tokens_as_ids);
      out.end_object();
    }
    out.end_array().end_object();
  }
  out.end_array().key("refusal").null().end_object();
}

void write_completion_logprobs(JsonOut& out, const ServingEngine& engine,
                               std::span<const CompletionToken> tokens, const GenerationSpec& spec,
                               int64_t& offset) {
  out.begin_object().key("text_offset").begin_array();
  for (const CompletionToken& t : tokens) {
    out.integer(offset);
    offset += t.num_characters;
  }
  out.end_array().key("token_logprobs").begin_array();
  for (const CompletionToken& t : tokens) {
    if (t.has_logprob) {
      out.number(finite_logprob(t.position.chosen.logprob));
    } else {
      out.null();
    }
  }
  out.end_array().key("tokens").begin_array();
  for (const CompletionToken& t : tokens)
    out.string(token_label(engine, t.position.chosen.token, spec.tokens_as_ids));
  out.end_array().key("top_logprobs").begin_array();
  for (const CompletionToken& t : tokens) {
    if (!t.has_logprob) {
      out.null();
      continue;
    }
    // The chosen token is always included, so that there may be one more than requested.
    bool chosen_seen = false;
    out.begin_object();
    for (const TokenLogprob& alternative : first_alternatives(t.position, spec.logprobs.value_or(0))) {
      chosen_seen = chosen_seen || alternative.token == t.position.chosen.token;
      out.key(token_label(engine, alternative.token, spec.tokens_as_ids))
          .number(finite_logprob(alternative.logprob));
    }
    if (!chosen_seen) {
      out.key(token_label(engine, t.position.chosen.token, spec.tokens_as_ids))
          .number(finite_logprob(t.position.chosen.logprob));
    }
    out.end_object();
  }
  out.end_array().end_object();
}

void write_prompt_logprobs(JsonOut& out, const ServingEngine& engine,
                           std::span<const PositionLogprobs> positions, int32_t num_alternatives) {
  const auto entry = [&](const TokenLogprob& token, std::optional<int64_t> rank) {
    out.key(std::to_string(token.token)).begin_object();
    out.key("logprob").number(finite_logprob(token.logprob)).key("rank");
    if (rank) {
      out.integer(*rank);
    } else {
      out.null();
    }
    out.key("decoded_token").string(token_label(engine, token.token, false)).end_object();
  };
  out.begin_array().null();
  for (const PositionLogprobs& position : positions) {
    out.begin_object();
    entry(position.chosen, position.rank);
    int64_t rank = 0;
    for (const TokenLogprob& alternative : first_alternatives(position, num_alternatives)) {
      ++rank;
      if (alternative.token == position.chosen.token) continue;
      entry(alternative, position.given ? std::nullopt : std::optional<int64_t>(rank));
    }
    out.end_object();
  }
  out.end_array();
}

int64_t count_characters(const ServingEngine& engine, TokenId token, bool skip_special_tokens) {
  if (!engine.has_tokenizer() || (skip_special_tokens && engine.is_special(token))) return 0;
  return num_characters(engine.token_bytes(token));
}

namespace {

// Follows the tokens of a prompt through its text.
class TextAligner {
 public:
  explicit TextAligner(std::string_view text) : text_(text) {}

  // Number of characters of the text that begin in the token.
  int64_t advance(std::string_view bytes, bool is_special) {
    const std::string_view rest = text_.substr(position_);
    if (rest.starts_with(bytes)) return take(bytes.size());
    // SentencePiece puts a space before the text.
    if (bytes.starts_with(' ') && rest.starts_with(bytes.substr(1))) return take(bytes.size() - 1);
    // Not in the text at all, or the tokenizer has normalized the text.
    return is_special ? 0 : take(std::min(bytes.size(), rest.size()));
  }

 private:
  int64_t take(size_t num_bytes) {
    const int64_t count = num_characters(text_.substr(position_, num_bytes));
    position_ += num_bytes;
    return count;
  }

  std::string_view text_;
  size_t position_ = 0;
};

}  // namespace

std::vector<CompletionToken> echoed_tokens(const ServingEngine& engine, const PromptInput& prompt,
                                           std::span<const PositionLogprobs> prompt_logprobs) {
  std::vector<CompletionToken> tokens;
  tokens.reserve(prompt.ids.size());
  TextAligner aligner(prompt.text);
  for (size_t i = 0; i < prompt.ids.size(); ++i) {
    CompletionToken t;
    t.has_logprob = i > 0 && i - 1 < prompt_logprobs.size();
    if (t.has_logprob) t.position = prompt_logprobs[i - 1];
    t.position.chosen.token = prompt.ids[i];
    if (engine.has_tokenizer())
      t.num_characters = aligner.advance(engine.token_bytes(prompt.ids[i]), engine.is_special(prompt.ids[i]));
    tokens.push_back(std::move(t));
  }
  return tokens;
}

// Field names come from the client: characters that a header may not contain are replaced, and the list is
// bounded.
std::string ignored_header(const std::vector<std::string>& names) {
  constexpr size_t kMaxIgnoredHeaderBytes = 1024;
  std::string out;
  for (const std::string& name : names) {
    if (out.size() + name.size() > kMaxIgnoredHeaderBytes) return out + (out.empty() ? "..." : ", ...");
    if (!out.empty()) out += ", ";
    for (const char c : name) out += c > ' ' && c < 0x7F && c != ',' ? c : '?';
  }
  return out;
}

}  // namespace quire
