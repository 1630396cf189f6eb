// The special tokens around a text: from "post_processor", or bos and eos of tokenizer_config.json.
#pragma once

#include <vector>

#include "contract/ids.h"
#include "text/tokenizer/json.h"

namespace quire::tokenizer {

// Tokens before and after the text, the outermost first and last.
struct PostProcessor {
  struct Part {
    bool is_text = false;
    TokenId id = -1;
  };
  // What each processor makes of one text, in the order they are applied; each has the text exactly once.
  std::vector<std::vector<Part>> templates;
};

// Reads the "post_processor" entry, which may be null.
PostProcessor read_post_processor(const JsonPlace& place);

// Adds the special tokens.
void post_process(const PostProcessor& processor, std::vector<TokenId>& ids);

}  // namespace quire::tokenizer
