// Text to token ids and back, exactly as the model's own tokenizer does it.
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

#include "contract/ids.h"

namespace quire {

class GgufFile;

namespace tokenizer {
struct Pipeline;
struct Scratch;
struct TokenizerConfig;
}  // namespace tokenizer

// The files of a tokenizer as bytes; empty where there is none. Needed only while loading.
struct TokenizerFiles {
  std::string_view tokenizer_json;   // wins over tokenizer_model
  std::string_view tokenizer_model;  // SentencePiece
  std::string_view tokenizer_config_json;
  std::string_view special_tokens_map_json;
  std::string_view added_tokens_json;
  std::string_view chat_template;  // chat_template.jinja, wins over the one in tokenizer_config_json
  std::string origin;              // where they come from, for messages
};

// A vocabulary with its rules. Immutable after loading; any thread may call the const members at the same
// time.
class Tokenizer {
 public:
  // Reads tokenizer.json, else tokenizer.model, with tokenizer_config.json, special_tokens_map.json,
  // added_tokens.json and chat_template.jinja, from a model's directory. Throws Error naming the file and the
  // place in it.
  static std::unique_ptr<Tokenizer> load(const std::filesystem::path& model_dir);
  // The same from memory.
  static std::unique_ptr<Tokenizer> from_memory(const TokenizerFiles& files);
  // The one inside of a GGUF file, which is not needed afterwards; null: it has none. Control symbols within
  // a text are recognised.
  static std::unique_ptr<Tokenizer> from_gguf(const GgufFile& file);

  ~Tokenizer();
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  // The tokens of a text. Added and special tokens inside the text are recognised; for a tokenizer.model only
  // those that tokenizer_config.json or added_tokens.json add, the model's own control symbols are plain text
  // there. What is not UTF-8 counts as U+FFFD, one for each maximal invalid part. Time grows with n log n at
  // most.
  std::vector<TokenId> encode(std::string_view text, bool add_special_tokens) const;
  // Two texts with the tokens that belong around and between them, as a model reads them that compares them.
  struct Pair {
    std::vector<TokenId> ids;
    size_t second = 0;  // where what belongs to the second text begins
  };
  Pair encode_pair(std::string_view first, std::string_view second) const;
  // encode() for a rendered chat template: nothing is added, and control symbols of a tokenizer.model are
  // recognised too.
  std::vector<TokenId> encode_rendered(std::string_view text) const;

  // The text of tokens. Always valid UTF-8: bytes that are no character give U+FFFD. Ids out of range give
  // nothing.
  std::string decode(std::span<const TokenId> ids, bool skip_special_tokens) const;

  // The vocabulary's spelling, "" if there is no such token.
  std::string_view id_to_token(TokenId id) const;
  std::optional<TokenId> token_to_id(std::string_view token) const;
  // The bytes that a token stands for within a text; "" if there is no such token. Not always UTF-8.
  std::string token_bytes(TokenId id) const;
  // Highest id + 1.
  size_t vocab_size() const;
  // Whether skip_special_tokens leaves the token out.
  bool is_special(TokenId id) const;

  std::optional<TokenId> bos_id() const { return special_ids_.bos; }
  std::optional<TokenId> eos_id() const { return special_ids_.eos; }
  std::optional<TokenId> unk_id() const { return special_ids_.unk; }
  std::optional<TokenId> pad_id() const { return special_ids_.pad; }
  // Spellings from tokenizer_config.json or special_tokens_map.json (for a tokenizer.model else its own), ""
  // when none.
  const std::string& bos_token() const { return special_tokens_.bos; }
  const std::string& eos_token() const { return special_tokens_.eos; }
  const std::string& unk_token() const { return special_tokens_.unk; }
  const std::string& pad_token() const { return special_tokens_.pad; }

  // The Jinja source of the default chat template, "" when there is none, and all named ones ("default" among
  // them).
  const std::string& chat_template() const;
  const std::map<std::string, std::string>& chat_templates() const { return chat_templates_; }

  // The parts, for the detokenizer.
  const tokenizer::Pipeline& pipeline() const { return *pipeline_; }

 private:
  Tokenizer();
  // Of a pipeline that is whole but for finish().
  static std::unique_ptr<Tokenizer> assemble(std::unique_ptr<tokenizer::Pipeline> pipeline,
                                             tokenizer::TokenizerConfig& config);
  std::vector<TokenId> encode_with(std::string_view text, bool add_special_tokens, bool rendered) const;
  std::unique_ptr<tokenizer::Scratch> take_scratch() const;

  struct SpecialTokens {
    std::string bos, eos, unk, pad;
  };
  struct SpecialIds {
    std::optional<TokenId> bos, eos, unk, pad;
  };

  std::unique_ptr<const tokenizer::Pipeline> pipeline_;
  SpecialTokens special_tokens_;
  SpecialIds special_ids_;
  std::map<std::string, std::string> chat_templates_;
  // Buffers and word caches, as many as there were encodes at the same time.
  mutable std::mutex scratch_mutex_;
  mutable std::vector<std::unique_ptr<tokenizer::Scratch>> scratch_;
};

}  // namespace quire
