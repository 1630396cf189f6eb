// The tokenizer in a GGUF file: tokens, scores, types and merges in the metadata, and the name of the
// pre-tokenizer.
#pragma once

#include <span>
#include <string_view>

#include "io/gguf/gguf_file.h"
#include "text/tokenizer/pipeline.h"

namespace quire::tokenizer {

// The meaning of a pre-tokenizer name (tokenizer.ggml.pre).
struct GgufRules {
  std::string_view names;        // separated by spaces
  std::string_view expressions;  // JSON: list of expressions that split text, or steps of "pre_tokenizer"
  bool byte_level_expression = false;  // followed by the expression of GPT-2
  bool nfc = false;
  bool ignore_merges = false;
  bool add_bos = false;  // default if the file does not state it
};
std::span<const GgufRules> gguf_rules();

// Whether the file has a tokenizer.
bool has_gguf_tokenizer(const GgufFile& file);

// Fills an empty pipeline, except for the work of finish(). `config` receives the roles of tokens and the
// chat templates. Throws Error with the file and the key.
void read_gguf_tokenizer(const GgufFile& file, Pipeline& pipeline, TokenizerConfig& config);

}  // namespace quire::tokenizer
