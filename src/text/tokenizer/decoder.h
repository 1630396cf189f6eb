// Decodes tokens to text, one token at a time. Each entry of "decoder" is a step, and steps form a chain of
// small state machines, so that streaming and decoding a whole sequence use the same code.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "text/tokenizer/json.h"
#include "text/tokenizer/normalizer.h"

namespace quire::tokenizer {

struct JoinStep {};  // no decoder: tokens joined by spaces
struct ByteLevelDecoder {};
struct MetaspaceDecoder {
  std::string replacement;
  bool strip_first = true;  // the first token loses its leading meta spaces
};
struct WordPieceDecoder {
  std::string prefix = "##";
  bool cleanup = true;
};
struct ByteFallbackDecoder {};
struct FuseDecoder {};
struct StripDecoder {
  std::string content;  // one character
  size_t start = 0, stop = 0;
};
struct ReplaceDecoder {
  std::variant<ReplaceString, ReplaceRegex> what;
};
struct BpeDecoder {
  std::string suffix = "</w>";
};
struct CtcDecoder {
  std::string pad_token = "<pad>", word_delimiter = "|";
  bool cleanup = true;
};
using DecoderStep =
    std::variant<JoinStep, ByteLevelDecoder, MetaspaceDecoder, WordPieceDecoder, ByteFallbackDecoder,
                 FuseDecoder, StripDecoder, ReplaceDecoder, BpeDecoder, CtcDecoder>;

struct Decoder {
  std::vector<DecoderStep> steps;
};

// Reads the "decoder" entry, which may be null.
Decoder read_decoder(const JsonPlace& place);

// Decodes one sequence of tokens. Not thread-safe.
class DecodeStream {
 public:
  // The decoder must outlive the stream. eager: bytes of <0xNN> tokens are returned as soon as they are
  // complete characters. Otherwise a run of them is held until it ends, because one invalid byte turns the
  // whole run into U+FFFD.
  DecodeStream(const Decoder& decoder, bool eager);

  // Appends the text that is certain so far.
  void push(std::string_view token, std::string& out);
  // Appends the rest, at the end of the sequence.
  void flush(std::string& out);

 private:
  // A part of a token in the chain of steps.
  struct Chunk {
    std::string_view text;
    bool begins;  // first part of its token
    bool ends;    // last part of its token
  };
  struct State {
    size_t index = 0;     // number of previous tokens
    std::string held;     // text that is not certain yet
    std::string scratch;  // output of the step
    bool broken = false;  // ByteFallback: the run of bytes is invalid
    bool first = true;    // Fuse, ByteLevel: no output yet
    size_t to_strip = 0;  // Strip: number of characters that may still be removed at the start
  };

  void feed(size_t step, Chunk chunk, std::string& out);
  void finish(size_t step, std::string& out);

  void run(const JoinStep&, size_t step, Chunk chunk, std::string& out);
  void run(const ByteLevelDecoder&, size_t step, Chunk chunk, std::string& out);
  void run(const MetaspaceDecoder&, size_t step, Chunk chunk, std::string& out);
  void run(const WordPieceDecoder&, size_t step, Chunk chunk, std::string& out);
  void run(const ByteFallbackDecoder&, size_t step, Chunk chunk, std::string& out);
  void run(const FuseDecoder&, size_t step, Chunk chunk, std::string& out);
  void run(const StripDecoder&, size_t step, Chunk chunk, std::string& out);
  void run(const ReplaceDecoder&, size_t step, Chunk chunk, std::string& out);
  void run(const BpeDecoder&, size_t step, Chunk chunk, std::string& out);
  void run(const CtcDecoder&, size_t step, Chunk chunk, std::string& out);
  void pass_bytes(size_t step, std::string& out);
  void end_byte_run(size_t step, std::string& out);
  void pass_suffixed(const BpeDecoder& bpe, size_t step, bool last, std::string& out);

  const Decoder* decoder_;
  bool eager_;
  std::vector<State> states_;  // [steps]
  std::vector<std::string>
      assembled_;  // [steps] collected parts of a token, for steps that need whole tokens
};

// Appends complete characters of `pending` to `out`, with U+FFFD for invalid bytes, and keeps incomplete
// ones.
void take_characters(std::string& pending, std::string& out);

inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";

}  // namespace quire::tokenizer
