#include "text/detokenizer.h"

#include <variant>

#include "text/tokenizer/pipeline.h"

namespace quire {

struct Detokenizer::State {
  std::variant<tokenizer::DecodeStream, tokenizer::SentencePieceStream> stream;
};

namespace {

std::variant<tokenizer::DecodeStream, tokenizer::SentencePieceStream> make_stream(
    const tokenizer::Pipeline& pipeline) {
  if (const auto* model = pipeline.sentencepiece())
    return tokenizer::SentencePieceStream(*model, pipeline.vocabulary);
  return tokenizer::DecodeStream(pipeline.decoder, true);
}

}  // namespace

Detokenizer::Detokenizer(const Tokenizer& tokenizer, bool skip_special_tokens, bool)
    : tokenizer_(&tokenizer),
      skip_special_tokens_(skip_special_tokens),
      state_(std::make_unique<State>(State{make_stream(tokenizer.pipeline())})) {}
Detokenizer::~Detokenizer() = default;
Detokenizer::Detokenizer(Detokenizer&&) noexcept = default;
Detokenizer& Detokenizer::operator=(Detokenizer&&) noexcept = default;

void Detokenizer::push_to(TokenId id, std::string& out) {
  const tokenizer::Pipeline& pipeline = tokenizer_->pipeline();
  if (!pipeline.vocabulary.has(id) || (skip_special_tokens_ && pipeline.is_special(id))) return;
  if (auto* stream = std::get_if<tokenizer::DecodeStream>(&state_->stream)) {
    stream->push(pipeline.spelling(id), out);
  } else {
    std::get<tokenizer::SentencePieceStream>(state_->stream).push(id, out);
  }
}

void Detokenizer::seed(std::span<const TokenId> prompt_ids) {
  std::string ignored;
  for (const TokenId id : prompt_ids) {
    push_to(id, ignored);
    ignored.clear();
  }
}

std::string Detokenizer::push(TokenId id) {
  std::string out;
  push_to(id, out);
  return out;
}

std::string Detokenizer::flush() {
  std::string out;
  std::visit([&](auto& stream) { stream.flush(out); }, state_->stream);
  return out;
}

}  // namespace quire
