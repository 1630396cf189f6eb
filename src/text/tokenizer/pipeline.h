// A tokenizer as plain data: the steps of tokenizer.json or tokenizer.model in order of their application.
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
  std::vector<AddedToken> controls;      // special tokens that are recognized only in rendered chat templates
  AddedTokenMatcher raw_matcher;         // tokens that are matched in the original text
  AddedTokenMatcher normalized_matcher;  // tokens that are matched in the normalized text
  AddedTokenMatcher rendered_matcher;    // tokens for rendered chat templates: those of raw_matcher and
                                         // controls, if there are controls
  std::vector<bool> special;             // [vocabulary size]
  std::vector<bool> added;               // [vocabulary size]
  std::map<TokenId, std::string> normalized_spellings;  // added tokens that the normalizer changes
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  Model model;
  PostProcessor post_processor;
  Decoder decoder;
  bool prefix_every_segment = true;  // SentencePiece: text after an added token also gets the dummy prefix

  const SentencePiece* sentencepiece() const { return std::get_if<SentencePiece>(&model); }
  // The spelling of a token in decoding. Added tokens that are matched in normalized text have their
  // normalized spelling.
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

// Contents of tokenizer_config.json, special_tokens_map.json, added_tokens.json, chat_template.json and
// sentence_bert_config.json.
struct TokenizerConfig {
  std::optional<std::string> bos_token, eos_token, unk_token, pad_token;
  std::optional<bool> add_bos_token, add_eos_token;
  std::optional<bool> do_lower_case, strip_accents, tokenize_chinese_chars;  // of BERT's classes
  bool legacy = true;
  std::string tokenizer_class;  // tokenizer_class of the configuration
  std::vector<AddedToken> added_tokens;
  std::vector<std::string> special_tokens;          // additional_special_tokens and the named special tokens
  std::map<std::string, std::string> named_tokens;  // variables of chat templates
  std::map<std::string, std::string> chat_templates;
  bool lower_case = false;  // texts are lower-cased before anything else
  std::vector<std::string> warnings;
};
void read_tokenizer_config(const JsonFile& file, TokenizerConfig& config);
void read_special_tokens_map(const JsonFile& file, TokenizerConfig& config);
void read_added_tokens(const JsonFile& file, TokenizerConfig& config);
// The chat template of a processor.
void read_processor_template(const JsonFile& file, TokenizerConfig& config);
void read_sentence_config(const JsonFile& file, TokenizerConfig& config);

// Reads tokenizer.json into an empty pipeline. Names its members that are not read in `warnings`.
void read_tokenizer_json(const JsonFile& file, Pipeline& pipeline, std::vector<std::string>& warnings);
// Reads an entry of "added_tokens" (or of added_tokens_decoder) except its id.
AddedToken read_added_token(const JsonPlace& place);

// Adds a token to the vocabulary and the list. Throws Error with `where` if its id belongs to another token.
void add_token(Pipeline& pipeline, const AddedToken& token, const std::string& where);
// Builds the matchers and the table of special tokens, after all tokens were added.
void finish(Pipeline& pipeline);

}  // namespace quire::tokenizer
