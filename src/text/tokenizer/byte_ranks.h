// Vocabularies that are byte strings by rank, with one expression that cuts a text: Mistral's tekken.json,
// and tiktoken's rank files. Of two neighbours the pair is merged whose bytes have the lowest rank.
#pragma once

#include <string>
#include <string_view>

#include "text/tokenizer/json.h"
#include "text/tokenizer/pipeline.h"

namespace quire::tokenizer {

// Whether a file that stands where tokenizer.json would is a tekken.json.
bool is_tekken(const JsonFile& file);
// Fills an empty pipeline but for what finish() does. Control tokens stand in Pipeline::controls: in plain
// text they are text. Throws Error naming the place in the file.
void read_tekken(const JsonFile& file, Pipeline& pipeline, TokenizerConfig& config);

// Whether a file that stands where tokenizer.model would has lines of base64 and ranks.
bool is_rank_file(std::string_view bytes);
// The same of a rank file, which says nothing of its expression and its special tokens: with special tokens
// in `config` cl100k's expression (Kimi's where its class is theirs), else expression and tokens of Qwen's
// first models. `name` names it in errors.
void read_rank_file(std::string_view bytes, const std::string& name, Pipeline& pipeline,
                    TokenizerConfig& config);

}  // namespace quire::tokenizer
