// A tokenizer.json: it loads or throws Error; a loaded tokenizer encodes any text and decodes any ids.
#include <array>
#include <memory>

#include "base/error.h"
#include "base/strings.h"
#include "fuzz/fuzz.h"
#include "text/detokenizer.h"
#include "text/tokenizer/tokenizer.h"

namespace quire {
namespace {

constexpr std::array<std::string_view, 6> kTexts = {
    "",
    "Hello, world! It's 2024.",
    "  two  spaces\n\tand a tab ",
    "na\xc3\xafve \xf0\x9f\x99\x82 \xe4\xb8\xad",
    "broken \xff\xc3 text",
    "<s>[INST]</s>aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"};

void use(const Tokenizer& tokenizer) {
  for (const std::string_view text : kTexts) {
    const auto ids = tokenizer.encode(text, true);
    for (const TokenId id : ids) {
      fuzz::require(id >= 0 && static_cast<size_t>(id) < tokenizer.vocab_size(),
                    "an id is of the vocabulary");
      tokenizer.token_bytes(id);
    }
    fuzz::require(is_valid_utf8(tokenizer.decode(ids, false)), "a decoded text is UTF-8");
    Detokenizer detokenizer(tokenizer, true);
    std::string pieces;
    for (const TokenId id : ids) pieces += detokenizer.push(id);
    pieces += detokenizer.flush();
    fuzz::require(is_valid_utf8(pieces), "a streamed text is UTF-8");
  }
}

}  // namespace
}  // namespace quire

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::unique_ptr<quire::Tokenizer> tokenizer;
  try {
    quire::TokenizerFiles files;
    files.tokenizer_json = quire::fuzz::text_of(data, size);
    files.origin = "fuzz";
    tokenizer = quire::Tokenizer::from_memory(files);
  } catch (const quire::Error&) {
    return 0;
  }
  quire::use(*tokenizer);
  return 0;
}
