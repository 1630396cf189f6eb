// The tokens of a GGUF file that end the output.
#pragma once

#include <cstdint>
#include <vector>

#include "io/gguf/gguf_file.h"

namespace quire {

struct GgufEndTokens {
  std::vector<int64_t> ids;  // those that end the output
  // Tokens whose text ends a turn in all vocabularies that contain it. They are control tokens, whatever type
  // the file gives them: conversions of fine-tuned models often call them normal or user-defined.
  std::vector<int64_t> control;
};

// The end tokens that the metadata name, and those with a text that is known to end a turn.
GgufEndTokens gguf_end_tokens(const GgufFile& file);

}  // namespace quire
