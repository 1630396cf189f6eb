// The tokenizer inside of a GGUF file: tokens, scores, types and merges in the metadata, and the name of the
// rules that text is split by.
#pragma once

#include <span>
#include <string_view>

#include "io/gguf/gguf_file.h"
#include "text/tokenizer/pipeline.h"

namespace quire::tokenizer {

// What a file's name of rules (tokenizer.ggml.pre) means.
struct GgufRules {
  std::string_view names;  // separated by spaces
  std::string_view
      expressions;  // JSON: a list of expressions that text is cut by, or steps of "pre_tokenizer"
  bool byte_level_expression = false;  // GPT-2's own expression at the end
  bool nfc = false;
  bool ignore_merges = false;
  bool add_bos = false;  // where the file does not say
};
std::span<const GgufRules> gguf_rules();

// Whether the file has a tokenizer.
bool has_gguf_tokenizer(const GgufFile& file);

// Fills an empty pipeline but for what finish() does; `config` gets the roles of tokens and the chat
// templates. Throws Error naming the file and the key.
void read_gguf_tokenizer(const GgufFile& file, Pipeline& pipeline, TokenizerConfig& config);

}  // namespace quire::tokenizer
