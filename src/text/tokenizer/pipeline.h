// Everything a tokenizer does, as data: the steps of tokenizer.json or tokenizer.model in the order they are
// applied.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "text/tokenizer/added_tokens.h"
#include "text/tokenizer/bpe.h"
#include "text/tokenizer/decoder.h"
#include "text/tokenizer/json.h"
#include "text/tokenizer/normalizer.h"
#include "text/tokenizer/pieces.h"
#include "text/tokenizer/post_processor.h"
#include "text/tokenizer/pre_tokenizer.h"
#include "text/tokenizer/sentencepiece.h"
#include "text/tokenizer/vocabulary.h"

namespace quire::tokenizer {

using Model = std::variant<Bpe, WordPiece, Unigram, WordLevel, SentencePiece>;

// Immutable after loading.
struct Pipeline {
  Vocabulary vocabulary;
  std::vector<AddedToken> added_tokens;
  std::vector<AddedToken> controls;      // special tokens that count in rendered chat templates alone
  AddedTokenMatcher raw_matcher;         // those looked for in the text as it came
  AddedTokenMatcher normalized_matcher;  // those looked for in the normalized text
  AddedTokenMatcher rendered_matcher;    // raw ones and control symbols (where there are some)
  std::vector<bool> special;             // [vocabulary size]
  std::vector<bool> added;               // [vocabulary size]
  std::map<TokenId, std::string> normalized_spellings;  // of added tokens that the normalizer changes
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  Model model;
  PostProcessor post_processor;
  Decoder decoder;
  bool prefix_every_segment =
      true;  // SentencePiece: also the text behind an added token gets the dummy prefix

  const SentencePiece* sentencepiece() const { return std::get_if<SentencePiece>(&model); }
  // What a token is called when it is decoded: an added token that is looked for in normalized text by its
  // normal form.
  std::string_view spelling(TokenId id) const {
    if (!normalized_spellings.empty()) {
      const auto found = normalized_spellings.find(id);
      if (found != normalized_spellings.end()) return found->second;
    }
    return vocabulary.token(id);
  }
  bool is_special(TokenId id) const {
    return id >= 0 && static_cast<size_t>(id) < special.size() && special[static_cast<size_t>(id)];
  }
};

// What tokenizer_config.json, special_tokens_map.json and added_tokens.json say.
struct TokenizerConfig {
  std::optional<std::string> bos_token, eos_token, unk_token, pad_token;
  std::optional<bool> add_bos_token, add_eos_token;
  bool legacy = true;
  std::string tokenizer_class;  // as the configuration says it
  std::vector<AddedToken> added_tokens;
  std::vector<std::string> special_tokens;  // additional_special_tokens and the named ones
  std::map<std::string, std::string> chat_templates;
};
void read_tokenizer_config(const JsonFile& file, TokenizerConfig& config);
void read_special_tokens_map(const JsonFile& file, TokenizerConfig& config);
void read_added_tokens(const JsonFile& file, TokenizerConfig& config);

// Reads tokenizer.json into an empty pipeline.
void read_tokenizer_json(const JsonFile& file, Pipeline& pipeline);
// One entry of "added_tokens" (or of the config's added_tokens_decoder) but its id.
AddedToken read_added_token(const JsonPlace& place);

// Adds a token to vocabulary and list. Throws Error naming `where` when its id belongs to another token.
void add_token(Pipeline& pipeline, const AddedToken& token, const std::string& where);
// Builds the matchers and the table of special tokens, when all tokens are there.
void finish(Pipeline& pipeline);

}  // namespace quire::tokenizer
