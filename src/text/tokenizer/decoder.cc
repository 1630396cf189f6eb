#include "text/tokenizer/decoder.h"

#include <utility>

#include "text/tokenizer/bpe.h"
#include "text/tokenizer/pre_tokenizer.h"
#include "text/unicode/unicode.h"

namespace quire::tokenizer {

namespace {

namespace u = quire::unicode;

std::string replaced(std::string_view text, std::string_view pattern, std::string_view content) {
  std::string out;
  append_replaced(out, text, pattern, content);
  return out;
}

// Removes the spaces that English tokenizers insert before punctuation, in the order of the reference.
std::string clean_up(std::string_view text) {
  static constexpr std::pair<std::string_view, std::string_view> kRules[] = {
      {" .", "."},   {" ?", "?"},           {" !", "!"},   {" ,", ","},     {" ' ", "'"},    {" n't", "n't"},
      {" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"},
  };
  std::string out(text);
  for (const auto& [pattern, content] : kRules) {
    if (out.find(pattern) != std::string::npos) out = replaced(out, pattern, content);
  }
  return out;
}

}  // namespace

void take_characters(std::string& pending, std::string& out) {
  size_t done = 0, length = 0;
  while (done < pending.size()) {
    const u::Utf8State state = u::scan(std::string_view(pending).substr(done, 4), &length);
    if (state == u::Utf8State::kIncomplete) break;
    if (state == u::Utf8State::kComplete) {
      out.append(pending, done, length);
    } else {
      out += kReplacementCharacter;
    }
    done += length;
  }
  pending.erase(0, done);
}

DecodeStream::DecodeStream(const Decoder& decoder, bool eager)
    : decoder_(&decoder), eager_(eager), states_(decoder.steps.size()), assembled_(decoder.steps.size()) {}

void DecodeStream::push(std::string_view token, std::string& out) {
  feed(0, {token, true, true}, out);
}

void DecodeStream::feed(size_t step, Chunk chunk, std::string& out) {
  if (step == decoder_->steps.size()) {
    out += chunk.text;
    return;
  }
  const DecoderStep& which = decoder_->steps[step];
  const bool takes_parts = std::holds_alternative<ByteLevelDecoder>(which) ||
                           std::holds_alternative<FuseDecoder>(which) ||
                           std::holds_alternative<StripDecoder>(which);
  if (!takes_parts && !(chunk.begins && chunk.ends)) {
    // The step needs whole tokens: collect the parts.
    assembled_[step] += chunk.text;
    if (!chunk.ends) return;
    const std::string whole = std::exchange(assembled_[step], {});
    std::visit([&](const auto& s) { run(s, step, {whole, true, true}, out); }, which);
    return;
  }
  std::visit([&](const auto& s) { run(s, step, chunk, out); }, which);
}

void DecodeStream::flush(std::string& out) {
  for (size_t step = 0; step < decoder_->steps.size(); ++step) finish(step, out);
}

void DecodeStream::finish(size_t step, std::string& out) {
  const DecoderStep& which = decoder_->steps[step];
  State& state = states_[step];
  if (std::holds_alternative<ByteLevelDecoder>(which)) {
    if (!state.held.empty()) state.scratch = kReplacementCharacter;  // an incomplete character
    if (state.held.empty()) state.scratch.clear();
    state.held.clear();
    feed(step + 1, {state.scratch, state.first, true}, out);
  } else if (std::holds_alternative<FuseDecoder>(which)) {
    feed(step + 1, {"", state.first, true}, out);
  } else if (std::holds_alternative<ByteFallbackDecoder>(which)) {
    end_byte_run(step, out);
  } else if (const auto* bpe = std::get_if<BpeDecoder>(&which)) {
    if (state.index > 0) pass_suffixed(*bpe, step, true, out);
  }
}

void DecodeStream::run(const JoinStep&, size_t step, Chunk chunk, std::string& out) {
  if (states_[step].index++ > 0) feed(step + 1, {" ", true, true}, out);
  feed(step + 1, chunk, out);
}

void DecodeStream::run(const ByteLevelDecoder&, size_t step, Chunk chunk, std::string& out) {
  State& state = states_[step];
  state.held += byte_level_bytes(chunk.text);
  state.scratch.clear();
  take_characters(state.held, state.scratch);
  if (state.scratch.empty()) return;
  const bool first = std::exchange(state.first, false);
  feed(step + 1, {state.scratch, first, false}, out);
}

void DecodeStream::run(const MetaspaceDecoder& metaspace, size_t step, Chunk chunk, std::string& out) {
  const bool first = states_[step].index++ == 0;
  const std::string text =
      replaced(chunk.text, metaspace.replacement, first && metaspace.strip_first ? "" : " ");
  feed(step + 1, {text, true, true}, out);
}

void DecodeStream::run(const WordPieceDecoder& word_piece, size_t step, Chunk chunk, std::string& out) {
  std::string text(chunk.text);
  if (states_[step].index++ > 0) {
    if (text.compare(0, word_piece.prefix.size(), word_piece.prefix) == 0) {
      text.erase(0, word_piece.prefix.size());
    } else {
      text.insert(0, " ");
    }
  }
  if (word_piece.cleanup) text = clean_up(text);
  feed(step + 1, {text, true, true}, out);
}

// Passes on the held bytes of a run, as far as they are certain.
void DecodeStream::pass_bytes(size_t step, std::string& out) {
  State& state = states_[step];
  if (!eager_) return;
  size_t length = 0, at = 0;
  u::Utf8State last = u::Utf8State::kComplete;
  while (at < state.held.size() && !state.broken) {
    last = u::scan(std::string_view(state.held).substr(at, 4), &length);
    if (last == u::Utf8State::kIncomplete) return;
    if (last == u::Utf8State::kInvalid) state.broken = true;
    at += length;
  }
  if (!state.broken) {
    const std::string text = std::exchange(state.held, {});
    if (!text.empty()) feed(step + 1, {text, true, true}, out);
    return;
  }
  for (size_t n = std::exchange(state.held, {}).size(); n > 0; --n)
    feed(step + 1, {kReplacementCharacter, true, true}, out);
}

void DecodeStream::end_byte_run(size_t step, std::string& out) {
  State& state = states_[step];
  const std::string bytes = std::exchange(state.held, {});
  const bool broken = std::exchange(state.broken, false) || !u::is_valid(bytes);
  if (bytes.empty()) return;
  if (!broken) return feed(step + 1, {bytes, true, true}, out);
  for (size_t i = 0; i < bytes.size(); ++i) feed(step + 1, {kReplacementCharacter, true, true}, out);
}

void DecodeStream::run(const ByteFallbackDecoder&, size_t step, Chunk chunk, std::string& out) {
  const int byte = byte_token_value(chunk.text);
  if (byte >= 0) {
    states_[step].held.push_back(static_cast<char>(byte));
    return pass_bytes(step, out);
  }
  end_byte_run(step, out);
  feed(step + 1, chunk, out);
}

void DecodeStream::run(const FuseDecoder&, size_t step, Chunk chunk, std::string& out) {
  const bool first = std::exchange(states_[step].first, false);
  feed(step + 1, {chunk.text, first, false}, out);
}

void DecodeStream::run(const StripDecoder& strip, size_t step, Chunk chunk, std::string& out) {
  State& state = states_[step];
  if (chunk.begins) {
    state.to_strip = strip.start;
    state.held.clear();
  }
  std::string_view text = chunk.text;
  const size_t size = strip.content.size();
  while (state.to_strip > 0 && !text.empty()) {
    if (text.substr(0, size) != strip.content) {
      state.to_strip = 0;
      break;
    }
    text.remove_prefix(size);
    --state.to_strip;
  }
  // Up to `stop` characters at the end are held back; they are removed if nothing follows.
  state.held += text;
  size_t keep = state.held.size();
  for (size_t n = 0;
       n < strip.stop && keep >= size && state.held.compare(keep - size, size, strip.content) == 0; ++n)
    keep -= size;
  const std::string sure = state.held.substr(0, keep);
  state.held.erase(0, keep);
  if (chunk.ends) state.held.clear();
  feed(step + 1, {sure, chunk.begins, chunk.ends}, out);
}

void DecodeStream::run(const ReplaceDecoder& replace, size_t step, Chunk chunk, std::string& out) {
  std::string text;
  std::visit([&](const auto& what) { append_replaced(text, chunk.text, what.pattern, what.content); },
             replace.what);
  feed(step + 1, {text, true, true}, out);
}

// Passes on the held token, replacing its suffix by a space, or by nothing in the last token.
void DecodeStream::pass_suffixed(const BpeDecoder& bpe, size_t step, bool last, std::string& out) {
  const std::string text = replaced(states_[step].held, bpe.suffix, last ? "" : " ");
  feed(step + 1, {text, true, true}, out);
}

void DecodeStream::run(const BpeDecoder& bpe, size_t step, Chunk chunk, std::string& out) {
  State& state = states_[step];
  if (state.index++ > 0) pass_suffixed(bpe, step, false, out);
  state.held = chunk.text;
}

void DecodeStream::run(const CtcDecoder& ctc, size_t step, Chunk chunk, std::string& out) {
  State& state = states_[step];
  if (state.index++ > 0 && state.held == chunk.text) return;
  state.held = chunk.text;
  std::string text = replaced(chunk.text, ctc.pad_token, "");
  if (ctc.cleanup) text = replaced(clean_up(text), ctc.word_delimiter, " ");
  if (!text.empty()) feed(step + 1, {text, true, true}, out);
}

namespace {

DecoderStep read_strip(const JsonPlace& place) {
  constexpr uint64_t kMost = 1u << 16;
  StripDecoder step{std::string(place.member("content").string()), place.member("start").integer(kMost),
                    place.member("stop").integer(kMost)};
  if (u::count(step.content) != 1) place.member("content").fail("must be one character");
  return step;
}

DecoderStep read_replace(const JsonPlace& place) {
  const Pattern pattern = read_pattern(place.member("pattern"));
  const std::string content(place.member("content").string());
  if (pattern.is_regex)
    return ReplaceDecoder{ReplaceRegex{Regex::compile(pattern.regex, place.path()), content}};
  return ReplaceDecoder{ReplaceString{std::string(pattern.literal), content}};
}

using ReadDecoderStep = DecoderStep (*)(const JsonPlace&);
struct DecoderStepType {
  std::string_view type;
  ReadDecoderStep read;
};
constexpr DecoderStepType kDecoderTypes[] = {
    {"ByteLevel", [](const JsonPlace&) -> DecoderStep { return ByteLevelDecoder{}; }},
    {"Metaspace",
     [](const JsonPlace& p) -> DecoderStep {
       const MetaspaceStep step = read_metaspace(p);
       return MetaspaceDecoder{step.replacement, step.prepend != MetaspaceStep::Prepend::kNever};
     }},
    {"WordPiece",
     [](const JsonPlace& p) -> DecoderStep {
       return WordPieceDecoder{std::string(p.member("prefix").string_or("##")),
                               p.member("cleanup").boolean_or(true)};
     }},
    {"ByteFallback", [](const JsonPlace&) -> DecoderStep { return ByteFallbackDecoder{}; }},
    {"Fuse", [](const JsonPlace&) -> DecoderStep { return FuseDecoder{}; }},
    {"Strip", read_strip},
    {"Replace", read_replace},
    {"BPEDecoder",
     [](const JsonPlace& p) -> DecoderStep {
       return BpeDecoder{std::string(p.member("suffix").string_or("</w>"))};
     }},
    {"CTC",
     [](const JsonPlace& p) -> DecoderStep {
       return CtcDecoder{std::string(p.member("pad_token").string_or("<pad>")),
                         std::string(p.member("word_delimiter_token").string_or("|")),
                         p.member("cleanup").boolean_or(true)};
     }},
};

void read_steps(const JsonPlace& place, Decoder& decoder, int depth) {
  const std::string_view type = place.type();
  if (type == "Sequence") {
    if (depth == kDeepestSequence) place.fail("Sequences are nested too deep");
    const JsonPlace list = place.member("decoders");
    list.expect_array();
    for (rapidjson::SizeType i = 0; i < list.value().Size(); ++i)
      read_steps(list.element(i), decoder, depth + 1);
    return;
  }
  for (const DecoderStepType& known : kDecoderTypes) {
    if (known.type != type) continue;
    decoder.steps.push_back(known.read(place));
    return;
  }
  place.fail("the decoder type \"" + std::string(type) + "\" is not supported");
}

}  // namespace

Decoder read_decoder(const JsonPlace& place) {
  Decoder decoder;
  if (place.present()) {
    read_steps(place, decoder, 0);
  } else {
    decoder.steps.push_back(JoinStep{});
  }
  constexpr size_t kMostSteps = 64;
  if (decoder.steps.size() > kMostSteps) place.fail("has more than 64 steps");
  return decoder;
}

}  // namespace quire::tokenizer
