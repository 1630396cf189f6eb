// Two texts as one prompt for a reranker. Any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/yield_point.h"
#include "contract/ids.h"
#include "engine/engine.h"

namespace quire {

// A text, or a pair of texts, as tokens.
struct PooledText {
  std::vector<TokenId> ids;
  int32_t second_text = 0;  // PoolingRequest::second_text
};

// Encodes a query and a document. A decoder with a chat template renders messages of the roles "query" and
// "document", and a variable `instruction` if it is not empty; other models use the tokenizer's pair
// template. Requires an engine with a tokenizer.
Result<PooledText> encode_pair(const Engine& engine, std::string_view query, std::string_view document,
                               std::string_view instruction = {}, const YieldPoint& yield_point = {});

// Cosine similarity of two vectors of the same length; 0 if one of them is zero.
double cosine(std::span<const float> a, std::span<const float> b);

}  // namespace quire
