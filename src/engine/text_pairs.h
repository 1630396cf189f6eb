// Two texts as one prompt for a reranker. Any thread.
#pragma once

#include <cstdint>
#include <optional>
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

struct PairOptions {
  std::string_view instruction = {};  // a variable of the chat template; empty = undefined
  std::optional<int64_t> keep = {};   // highest number of tokens; more are removed
  bool cut_left = false;              // from the beginning of the document instead of its end
};

// Encodes a query and a document. A decoder with a chat template renders messages of the roles "query" and
// "document"; other models use the tokenizer's pair template. Truncation removes tokens of the document and,
// if the query alone is too long, those before it; what follows the document stays, because the score is read
// there. Fails if only that would be left. Requires an engine with a tokenizer.
Result<PooledText> encode_pair(const Engine& engine, std::string_view query, std::string_view document,
                               const PairOptions& options = {}, const YieldPoint& yield_point = {});

// Removes tokens of a pair whose document is the tokens `begin` to `end`.
Status truncate_pair(PooledText& pair, size_t begin, size_t end, const PairOptions& options);

// Cosine similarity of two vectors of the same length; 0 if one of them is zero.
double cosine(std::span<const float> a, std::span<const float> b);

}  // namespace quire
