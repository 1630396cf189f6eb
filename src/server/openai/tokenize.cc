// /tokenize and /detokenize, with the fields of vLLM and of llama.cpp (`content` instead of `prompt`).
#include <algorithm>

#include "base/strings.h"
#include "server/openai/api.h"
#include "server/openai/common_fields.h"

namespace quire {
namespace {

// The texts of this many tokens take about a millisecond to write.
constexpr size_t kTokensPerCheck = 1 << 13;

void write_piece(JsonOut& out, const ServingEngine& engine, TokenId id) {
  const std::string bytes = engine.token_bytes(id);
  out.begin_object().key("id").integer(id).key("piece");
  if (is_valid_utf8(bytes)) {
    out.string(bytes);
  } else {
    out.begin_array();
    for (const char c : bytes) out.integer(static_cast<int>(static_cast<uint8_t>(c)));
    out.end_array();
  }
  out.end_object();
}

// llama.cpp: {content, add_special, with_pieces} -> {tokens}
Result<std::string> tokenize_content(FieldReader& fields, const ServingEngine& engine,
                                     const YieldPoint& yield_point) {
  const auto content = fields.text("content");
  const bool add_special = fields.boolean("add_special").value_or(false);
  const bool with_pieces = fields.boolean("with_pieces").value_or(false);
  if (!fields.ok()) return fields.failure();
  std::string body;
  JsonOut out(body);
  out.begin_object().key("tokens");
  const auto ids = engine.encode(content.value_or(""), add_special, yield_point);
  if (with_pieces) {
    out.begin_array();
    for (size_t i = 0; i < ids.size(); ++i) {
      if (i % kTokensPerCheck == 0) yield_point.check();
      write_piece(out, engine, ids[i]);
    }
    out.end_array();
  } else {
    write_token_ids(out, ids, yield_point);
  }
  out.end_object();
  return body;
}

Result<std::vector<TokenId>> encode_chat(FieldReader& fields, const ApiState& state,
                                         const YieldPoint& yield_point) {
  const bool add_special = fields.boolean("add_special_tokens").value_or(false);
  auto prompt = read_chat_fields(fields, state.options, yield_point);
  if (!prompt.ok()) return prompt.failure();
  if (!state.engine.has_chat_template() && prompt->chat_template.empty()) {
    return invalid_argument(
        "The model has no chat template: start the server with --chat-template FILE, or send a prompt.",
        "messages");
  }
  auto text = state.engine.render_chat(std::move(prompt).value());
  if (!text.ok()) return text.failure();
  return add_special ? state.engine.encode(*text, true, yield_point)
                     : state.engine.encode_rendered(*text, yield_point);
}

}  // namespace

Result<std::string> tokenize(const Json& body, const ApiState& state, const YieldPoint& yield_point) {
  const ServingEngine& engine = state.engine;
  FieldReader fields(body);
  (void)read_model(fields, state.options, state.engine);
  if (!fields.ok()) return fields.failure();
  if (!engine.has_tokenizer()) return invalid_argument("The model has no tokenizer.");
  if (fields.any("content") != nullptr) return tokenize_content(fields, engine, yield_point);

  const bool token_strs = fields.boolean("return_token_strs").value_or(false);
  std::vector<TokenId> ids;
  if (fields.any("messages") != nullptr) {
    auto chat = encode_chat(fields, state, yield_point);
    if (!chat.ok()) return chat.failure();
    ids = std::move(chat).value();
  } else {
    const auto prompt = fields.text("prompt");
    const bool add_special = fields.boolean("add_special_tokens").value_or(true);
    if (!fields.ok()) return fields.failure();
    if (!prompt) return invalid_argument("prompt, messages or content is missing.", "prompt");
    ids = engine.encode(*prompt, add_special, yield_point);
  }
  if (!fields.ok()) return fields.failure();
  std::string text;
  JsonOut out(text);
  out.begin_object()
      .key("count")
      .integer(ids.size())
      .key("max_model_len")
      .integer(engine.model().max_model_len)
      .key("tokens");
  write_token_ids(out, ids, yield_point);
  out.key("token_strs");
  if (token_strs) {
    out.begin_array();
    for (size_t i = 0; i < ids.size(); ++i) {
      if (i % kTokensPerCheck == 0) yield_point.check();
      out.string(engine.token_name(ids[i]));
    }
    out.end_array();
  } else {
    out.null();
  }
  out.end_object();
  return text;
}

Result<std::string> detokenize(const Json& body, const ApiState& state, const YieldPoint& yield_point) {
  FieldReader fields(body);
  (void)read_model(fields, state.options, state.engine);
  const auto ids = fields.tokens("tokens", state.engine.model().vocab_size);
  if (!fields.ok()) return fields.failure();
  if (!ids) return invalid_argument("tokens is missing.", "tokens");
  if (!state.engine.has_tokenizer()) return invalid_argument("The model has no tokenizer.");
  const std::string text = state.engine.decode(*ids, false, yield_point);
  std::string response;
  JsonOut(response).begin_object().key("prompt").string(text).key("content").string(text).end_object();
  return response;
}

}  // namespace quire
