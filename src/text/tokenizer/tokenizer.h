// Encoding of text to token ids and decoding, exactly like the model's own tokenizer.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/yield_point.h"
#include "contract/ids.h"

namespace quire {

class GgufFile;

namespace tokenizer {
struct Pipeline;
struct Scratch;
struct TokenizerConfig;
}  // namespace tokenizer

// The files of a tokenizer as bytes; empty if a file does not exist. Needed only during loading.
struct TokenizerFiles {
  std::string_view tokenizer_json;   // preferred over tokenizer_model
  std::string_view tokenizer_model;  // SentencePiece
  std::string_view tokenizer_config_json;
  std::string_view special_tokens_map_json;
  std::string_view added_tokens_json;
  std::string_view chat_template;       // chat_template.jinja, preferred over the other templates
  std::string_view chat_template_json;  // a processor's file, preferred over tokenizer_config_json
  std::string origin;                   // origin of the files, for messages
  std::string_view sentence_bert_config_json = {};
  // Without tokenizer.json and tokenizer.model: vocab.json and merges.txt, or vocab.txt; and config.json,
  // which determines the class of a tokenizer that names none.
  std::string_view vocab_json = {};
  std::string_view merges_txt = {};
  std::string_view vocab_txt = {};
  std::string_view model_config_json = {};
};

// A vocabulary and its rules. Immutable after loading; const members are thread-safe.
class Tokenizer {
 public:
  // Reads tokenizer.json, or tokenizer.model if it does not exist, or vocab.json and merges.txt, or
  // vocab.txt, and tokenizer_config.json, special_tokens_map.json, added_tokens.json, chat_template.json,
  // chat_template.jinja and sentence_bert_config.json from a model directory. Null if the class of a
  // tokenizer with a vocab file is not supported. Throws Error with the file and the location in it.
  static std::unique_ptr<Tokenizer> load(const std::filesystem::path& model_dir);
  // Same, from memory.
  static std::unique_ptr<Tokenizer> from_memory(const TokenizerFiles& files);
  // The tokenizer in a GGUF file, which is not needed afterwards. Null if the file has none. Control tokens
  // in texts are recognized.
  static std::unique_ptr<Tokenizer> from_gguf(const GgufFile& file);

  ~Tokenizer();
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  // Encodes a text. Added and special tokens in the text are recognized. For a tokenizer.model, this applies
  // only to tokens of tokenizer_config.json or added_tokens.json; its own control tokens are treated as plain
  // text. Invalid UTF-8 is replaced by one U+FFFD per maximal invalid part. The time is O(n log n).
  // Throws Cancelled soon after `yield_point` is cancelled, like the other functions with a yield point.
  std::vector<TokenId> encode(std::string_view text, bool add_special_tokens,
                              const YieldPoint& yield_point = {}) const;
  // A pair of texts with the special tokens around and between them, for models that compare texts.
  struct Pair {
    std::vector<TokenId> ids;
    size_t second = 0;  // start of the part that belongs to the second text
    // The tokens of the second text itself.
    size_t text_begin = 0;
    size_t text_end = 0;
  };
  Pair encode_pair(std::string_view first, std::string_view second, const YieldPoint& yield_point = {}) const;
  // encode() for a rendered chat template: no special tokens are added, and control tokens of a
  // tokenizer.model are recognized.
  std::vector<TokenId> encode_rendered(std::string_view text, const YieldPoint& yield_point = {}) const;

  // Decodes tokens. The result is always valid UTF-8: invalid bytes become U+FFFD. Ids out of range are
  // ignored.
  std::string decode(std::span<const TokenId> ids, bool skip_special_tokens,
                     const YieldPoint& yield_point = {}) const;

  // The spelling in the vocabulary; "" if there is no such token.
  std::string_view id_to_token(TokenId id) const;
  std::optional<TokenId> token_to_id(std::string_view token) const;
  // The bytes of a token within a text, not always valid UTF-8; "" if there is no such token.
  std::string token_bytes(TokenId id) const;
  // Highest id + 1.
  size_t vocab_size() const;
  // Whether skip_special_tokens omits the token.
  bool is_special(TokenId id) const;
  // Whether the token is special or was added to the vocabulary, so that its text is encoded as this token.
  bool is_added(TokenId id) const;
  // The token with this spelling, if is_added().
  std::optional<TokenId> added_token(std::string_view text) const;

  std::optional<TokenId> bos_id() const { return special_ids_.bos; }
  std::optional<TokenId> eos_id() const { return special_ids_.eos; }
  std::optional<TokenId> unk_id() const { return special_ids_.unk; }
  std::optional<TokenId> pad_id() const { return special_ids_.pad; }
  // Spellings from tokenizer_config.json or special_tokens_map.json, or from the tokenizer.model; "" if there
  // is none.
  const std::string& bos_token() const { return special_tokens_.bos; }
  const std::string& eos_token() const { return special_tokens_.eos; }
  const std::string& unk_token() const { return special_tokens_.unk; }
  const std::string& pad_token() const { return special_tokens_.pad; }

  // All named special tokens with their spellings: bos_token, sep_token, image_token, ...
  const std::map<std::string, std::string>& named_tokens() const { return named_tokens_; }

  // The Jinja source of the default chat template, "" if there is none, and all named templates (including
  // "default").
  const std::string& chat_template() const;
  const std::map<std::string, std::string>& chat_templates() const { return chat_templates_; }

  // Settings in the files that the tokenizer does not follow, one sentence each.
  const std::vector<std::string>& warnings() const { return warnings_; }

  // For the detokenizer.
  const tokenizer::Pipeline& pipeline() const { return *pipeline_; }

 private:
  Tokenizer();
  // Completes a pipeline on which finish() has not been called.
  static std::unique_ptr<Tokenizer> assemble(std::unique_ptr<tokenizer::Pipeline> pipeline,
                                             tokenizer::TokenizerConfig& config);
  std::vector<TokenId> encode_with(std::string_view text, bool add_special_tokens, bool rendered,
                                   const YieldPoint& yield_point) const;
  std::unique_ptr<tokenizer::Scratch> take_scratch() const;

  struct SpecialTokens {
    std::string bos, eos, unk, pad;
  };
  struct SpecialIds {
    std::optional<TokenId> bos, eos, unk, pad;
  };

  std::unique_ptr<const tokenizer::Pipeline> pipeline_;
  SpecialTokens special_tokens_;
  std::map<std::string, std::string> named_tokens_;
  SpecialIds special_ids_;
  std::map<std::string, std::string> chat_templates_;
  std::vector<std::string> warnings_;
  // Buffers and word caches, as many as there were concurrent encodes.
  mutable std::mutex scratch_mutex_;
  mutable std::vector<std::unique_ptr<tokenizer::Scratch>> scratch_;
};

}  // namespace quire
