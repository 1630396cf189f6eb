// The tokenizer inside of a GGUF file: tokens, scores, types and merges in the metadata, and the name of the
// rules that text is split by.
#pragma once

#include "io/gguf/gguf_file.h"
#include "text/tokenizer/pipeline.h"

namespace quire::tokenizer {

// Whether the file has a tokenizer.
bool has_gguf_tokenizer(const GgufFile& file);

// Fills an empty pipeline but for what finish() does; `config` gets the roles of tokens and the chat
// templates. Throws Error naming the file and the key.
void read_gguf_tokenizer(const GgufFile& file, Pipeline& pipeline, TokenizerConfig& config);

}  // namespace quire::tokenizer
