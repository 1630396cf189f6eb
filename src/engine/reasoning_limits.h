// Makes constraints that limit reasoning, for requests with a thinking_token_budget. Owned by the engine;
// called on the threads of callers, several at once.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>

#include "base/error.h"
#include "contract/output_constraint.h"
#include "contract/request.h"
#include "text/chat/chat_templates.h"
#include "text/output/detect_format.h"
#include "text/output/output_parser.h"

namespace quire {

class ConstraintCompiler;
class Tokenizer;

class ReasoningLimits {
 public:
  // tokenizer: null for a model without one, whose reasoning cannot be limited. It and the templates outlive
  // this and the constraints.
  ReasoningLimits(const Tokenizer* tokenizer, const ChatTemplates& templates, int32_t vocab_size)
      : tokenizer_(tokenizer), templates_(templates), vocab_size_(vocab_size) {}

  // reading: how the output is read; its tokens of markers are found here. within: the constraint on the
  // whole output; null for none. Fails if the format of reasoning has no end, or there is none.
  Result<SharedConstraint> limit(int32_t tokens, OutputParserOptions reading, SharedConstraint within);
  // For a request whose caller does not read the output: the format is that of the chat template.
  // structured_outputs are then a constraint on the answer after the reasoning; `constraints` compiles them.
  Result<SharedConstraint> limit(const Request& request, ConstraintCompiler& constraints);

 private:
  const DetectedFormat& formats();

  const Tokenizer* tokenizer_;
  const ChatTemplates& templates_;
  int32_t vocab_size_;
  std::mutex mutex_;                       // guards formats_
  std::optional<DetectedFormat> formats_;  // once they have been detected
};

}  // namespace quire
