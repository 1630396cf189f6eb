// The constraint on a whole output whose answer is constrained: what may precede the answer, and the answer.
#pragma once

#include <optional>

#include "base/error.h"
#include "contract/sampling_params.h"
#include "text/output/output_grammar.h"
#include "text/output/output_parser.h"

namespace quire {

// Makes the answer a part of `options`, and passes its settings on to `language`, whose text is still to be
// written. Fails if the constraint has no form that can be a part of another one.
Status add_answer(const StructuredOutputs& answer, OutputGrammarOptions& options,
                  StructuredOutputs& language);

// The language of an output that is read like this: reasoning that the prompt has opened or that the model
// opens, then the answer. The answer alone if the prompt ends with the end of reasoning.
Result<StructuredOutputs> answer_after_reasoning(const StructuredOutputs& answer,
                                                 const OutputParserOptions& reading, bool reasoning_is_over);

}  // namespace quire
