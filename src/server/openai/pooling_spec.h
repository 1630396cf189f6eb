// Pooling requests after parsing: /v1/embeddings, /rerank, /score, /classify, /pooling. Plain data.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/yield_point.h"
#include "contract/pooling.h"
#include "server/openai/generation_spec.h"
#include "server/serving_engine.h"

namespace quire {

enum class PoolingAnswer : uint8_t { kEmbeddings, kRerank, kScores, kClasses, kPooled };

struct PoolingSpec : RequestLabels {
  PoolingAnswer answer = PoolingAnswer::kEmbeddings;
  std::vector<PooledText> texts;
  PoolingParams params;
  bool base64 = false;  // embeddings as base64 of their float32 values
  // kRerank and kScores with an embedding model: texts holds the left texts, followed by the right texts.
  // Right text i is compared with left text i, or with the only left text.
  bool compare = false;
  size_t num_left = 0;
  std::vector<std::string> documents;  // kRerank: as given
  size_t top_n = 0;                    // kRerank: number of results; 0 = all
  bool return_documents = true;
};

using ParsePooling = Result<PoolingSpec> (*)(const Json&, const ServingEngine&, const ApiOptions&,
                                             const std::string& request_id, const YieldPoint& yield_point);

// All of them tokenize, and throw Cancelled soon after `yield_point` is cancelled.
// OpenAI's endpoint with vLLM's fields: {input | messages, encoding_format, dimensions,
// truncate_prompt_tokens, …}.
Result<PoolingSpec> parse_embeddings(const Json& body, const ServingEngine& engine, const ApiOptions& options,
                                     const std::string& request_id, const YieldPoint& yield_point = {});
// {query, documents, top_n, return_documents}
Result<PoolingSpec> parse_rerank(const Json& body, const ServingEngine& engine, const ApiOptions& options,
                                 const std::string& request_id, const YieldPoint& yield_point = {});
// {text_1 | queries, text_2 | documents}
Result<PoolingSpec> parse_score(const Json& body, const ServingEngine& engine, const ApiOptions& options,
                                const std::string& request_id, const YieldPoint& yield_point = {});
// {input}
Result<PoolingSpec> parse_classify(const Json& body, const ServingEngine& engine, const ApiOptions& options,
                                   const std::string& request_id, const YieldPoint& yield_point = {});
Result<PoolingSpec> parse_pooling(const Json& body, const ServingEngine& engine, const ApiOptions& options,
                                  const std::string& request_id, const YieldPoint& yield_point = {});

}  // namespace quire
