// A tokenizer as metadata of a GGUF file.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "io/gguf/gguf_writer.h"
#include "text/tokenizer/tokenizer.h"

namespace quire {

// Adds the keys tokenizer.* of a tokenizer.json with byte-level BPE ("gpt2") or SentencePiece's BPE
// ("llama"), filled up to vocab_size tokens, and the tokenizer.json itself, which quire reads in place of
// them. Returns a sentence for people where other programs may cut texts otherwise; empty: they do not.
// Throws Error where there is no tokenizer.json or it is of another kind.
std::string add_gguf_tokenizer(const TokenizerFiles& files, const Tokenizer& tokenizer, int64_t vocab_size,
                               GgufMetadata& out);

}  // namespace quire
