// Incremental detokenization: the concatenated pieces must equal the decoding of all token ids at once. The
// input's bytes are ids; the first one selects the tokenizer and whether special tokens are skipped.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <vector>

#include "base/strings.h"
#include "fuzz/fuzz.h"
#include "text/detokenizer.h"
#include "text/tokenizer/tokenizer.h"

namespace quire {
namespace {

std::vector<std::unique_ptr<Tokenizer>> load_fixtures() {
  std::vector<std::unique_ptr<Tokenizer>> tokenizers;
  // Not with byte fallback, where emitted characters are not replaced later (text/detokenizer.h).
  for (const char* name : {"byte-level", "metaspace", "suffix-bpe", "unigram", "word-piece"}) {
    const auto dir = std::filesystem::path(QUIRE_SOURCE_DIR) / "tests/fixtures/tokenizers" / name;
    tokenizers.push_back(Tokenizer::load(dir));
  }
  return tokenizers;
}

}  // namespace
}  // namespace quire

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto tokenizers = quire::load_fixtures();
  if (size == 0) return 0;
  const auto& tokenizer = *tokenizers[(data[0] >> 1) % tokenizers.size()];
  const bool skip_special = (data[0] & 1) != 0;
  std::vector<quire::TokenId> ids;
  for (size_t i = 1; i + 1 < size; i += 2) ids.push_back(data[i] | (data[i + 1] << 8));

  quire::Detokenizer detokenizer(tokenizer, skip_special);
  std::string pieces;
  for (const quire::TokenId id : ids) {
    const std::string piece = detokenizer.push(id);
    quire::fuzz::require(quire::is_valid_utf8(piece), "a piece is UTF-8");
    pieces += piece;
  }
  pieces += detokenizer.flush();
  quire::fuzz::require(pieces == tokenizer.decode(ids, skip_special), "the pieces are the decoded text");
  return 0;
}
