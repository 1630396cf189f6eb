// Two texts as a model reads them that says how well they go together. Any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "contract/ids.h"
#include "engine/engine.h"

namespace quire {

// A text, or a pair of them, as tokens.
struct PooledText {
  std::vector<TokenId> ids;
  int32_t second_text = 0;  // PoolingRequest::second_text
};

// A query and a document: of a decoder with a chat template through that (messages of the roles "query" and
// "document", and a variable `instruction` where there is one), else as the tokenizer puts two texts
// together. The engine has a tokenizer.
Result<PooledText> encode_pair(const Engine& engine, std::string_view query, std::string_view document,
                               std::string_view instruction = {});

// Of vectors of one length; 0 where one of them is 0.
double cosine(std::span<const float> a, std::span<const float> b);

}  // namespace quire
