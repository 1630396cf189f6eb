// Vocabularies of byte strings ordered by rank, with one expression that splits text: Mistral's tekken.json
// and tiktoken's rank files. Neighbors whose concatenated bytes have the lowest rank are merged first.
#pragma once

#include <string>
#include <string_view>

#include "text/tokenizer/json.h"
#include "text/tokenizer/pipeline.h"

namespace quire::tokenizer {

// Whether a file at the location of tokenizer.json is a tekken.json.
bool is_tekken(const JsonFile& file);
// Fills an empty pipeline, except for the work of finish(). Control tokens go to Pipeline::controls: in plain
// text they are not recognized. Throws Error with the location in the file.
void read_tekken(const JsonFile& file, Pipeline& pipeline, TokenizerConfig& config);

// Whether a file at the location of tokenizer.model has lines of base64 and ranks.
bool is_rank_file(std::string_view bytes);
// Same, for a rank file, which contains neither its expression nor its special tokens. If `config` has
// special tokens, the expression is that of cl100k, or that of Kimi for its tokenizer class; otherwise
// expression and special tokens are those of the first Qwen models. `name` appears in errors.
void read_rank_file(std::string_view bytes, const std::string& name, Pipeline& pipeline,
                    TokenizerConfig& config);

}  // namespace quire::tokenizer
