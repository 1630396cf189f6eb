// From tokens to text, one token at a time: a list of steps, each from one entry of "decoder", run as a chain
// of small state machines, so that a stream and a whole decode are the same code.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "text/tokenizer/json.h"
#include "text/tokenizer/normalizer.h"

namespace quire::tokenizer {

struct JoinStep {};  // no decoder at all: tokens with spaces between them
struct ByteLevelDecoder {};
struct MetaspaceDecoder {
  std::string replacement;
  bool strip_first = true;  // the first token loses its meta spaces
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

// The decoding of one sequence of tokens. Not thread safe.
class DecodeStream {
 public:
  // The decoder must outlive the stream. eager: bytes of <0xNN> tokens come out as soon as they are whole
  // characters; otherwise a run of them is held until it ends, because one wrong byte makes all of the run
  // U+FFFD.
  DecodeStream(const Decoder& decoder, bool eager);

  // Appends the text that is certain now.
  void push(std::string_view token, std::string& out);
  // Appends the rest, at the end of the sequence.
  void flush(std::string& out);

 private:
  // A part of a token on its way through the chain.
  struct Chunk {
    std::string_view text;
    bool begins;  // the first part of its token
    bool ends;    // the last part of it
  };
  struct State {
    size_t index = 0;     // tokens seen so far
    std::string held;     // what is not certain yet
    std::string scratch;  // the step's output
    bool broken = false;  // ByteFallback: the run of bytes cannot become text any more
    bool first = true;    // Fuse, ByteLevel: nothing passed on yet
    size_t to_strip = 0;  // Strip: how many characters may still go at the start
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
  std::vector<State> states_;           // [steps]
  std::vector<std::string> assembled_;  // [steps] parts of a token that a step wants whole
};

// Appends complete characters of `pending` to `out`, U+FFFD for what can never become one, and leaves what
// may still do.
void take_characters(std::string& pending, std::string& out);

inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";

}  // namespace quire::tokenizer
