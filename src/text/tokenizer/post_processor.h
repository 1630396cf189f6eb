// The special tokens around a text: from "post_processor", or bos and eos of tokenizer_config.json.
#pragma once

#include <span>
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
  // What is made of two texts; empty: they stand one behind the other.
  struct PairPart {
    int text = -1;  // 0: the first, 1: the second; -1: the token `id`
    TokenId id = -1;
    int type = 0;  // 1: belongs to the second text
  };
  std::vector<PairPart> pair;
};

// Reads the "post_processor" entry, which may be null.
PostProcessor read_post_processor(const JsonPlace& place);

// Adds the special tokens.
void post_process(const PostProcessor& processor, std::vector<TokenId>& ids);
// Both texts with their special tokens; returns where what belongs to the second begins.
size_t post_process_pair(const PostProcessor& processor, std::span<const TokenId> first,
                         std::span<const TokenId> second, std::vector<TokenId>& out);

}  // namespace quire::tokenizer
