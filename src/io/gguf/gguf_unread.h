// Metadata of GGUF files that nothing asked for and that could change an output, for a warning.
#pragma once

#include <string>
#include <vector>

#include "io/gguf/gguf_file.h"

namespace quire {

// Called after the readers. Other keys than those of the architecture, of the tokenizer and of sampling
// describe the file or how it was made.
std::vector<std::string> unread_model_metadata(const GgufFile& file);
std::vector<std::string> unread_tokenizer_metadata(const GgufFile& file);

}  // namespace quire
