#include "contract/request.h"

#include "base/counted.h"
#include "base/strings.h"

namespace quire {

Status check_prompt_length(int64_t num_tokens, bool generates, int32_t max_model_len) {
  if (num_tokens == 0)
    return invalid_argument("The prompt cannot be empty; it must have at least one token.", "prompt");
  const int64_t limit = generates ? int64_t{max_model_len} - 1 : max_model_len;
  if (num_tokens <= limit) return {};
  return Failure{ErrorKind::kContextLength,
                 cat("The prompt has ", counted(num_tokens, "token"), "; the maximum is ", limit,
                     generates ? cat(", which leaves room for one generated token (--max-model-len ",
                                     max_model_len, ").")
                               : std::string(" (--max-model-len).")),
                 "prompt"};
}

}  // namespace quire
