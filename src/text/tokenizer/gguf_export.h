// A tokenizer as metadata of a GGUF file.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "io/gguf/gguf_writer.h"
#include "text/tokenizer/tokenizer.h"

namespace quire {

// Adds the tokenizer.* keys for a tokenizer.json with byte-level BPE ("gpt2") or SentencePiece BPE ("llama"),
// padded to vocab_size tokens, and the tokenizer.json itself, which quire prefers. Returns a note for the
// user if other programs may split text differently, otherwise an empty string. Throws Error if there is no
// tokenizer.json or it has another type.
std::string add_gguf_tokenizer(const TokenizerFiles& files, const Tokenizer& tokenizer, int64_t vocab_size,
                               GgufMetadata& out);

}  // namespace quire
