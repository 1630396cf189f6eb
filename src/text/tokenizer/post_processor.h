// Special tokens around a text: from "post_processor", or bos and eos of tokenizer_config.json.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "contract/ids.h"
#include "text/tokenizer/json.h"

namespace quire::tokenizer {

// Tokens before and after the text, in order.
struct PostProcessor {
  struct Part {
    bool is_text = false;
    TokenId id = -1;
  };
  // Result of each processor for one text, in order of application; each contains the text exactly once.
  std::vector<std::vector<Part>> templates;
  // Result for a pair of texts; empty = the texts are concatenated.
  struct PairPart {
    int text = -1;  // 0 = the first text, 1 = the second text, -1 = the token `id`
    TokenId id = -1;
    int type = 0;  // 1 = belongs to the second text
  };
  std::vector<PairPart> pair;
};

// Reads the "post_processor" entry, which may be null.
PostProcessor read_post_processor(const JsonPlace& place);

// Throws Error if a special token is not in a vocabulary of this size. where: the file, for the message.
void check_ids(const PostProcessor& processor, size_t vocab_size, const std::string& where);

// Adds the special tokens.
void post_process(const PostProcessor& processor, std::vector<TokenId>& ids);
// Adds the special tokens for a pair of texts.
struct PairPlaces {
  size_t second_part = 0;  // start of the part that belongs to the second text, which may be a special token
  size_t second_text = 0;  // start of the second text
};
PairPlaces post_process_pair(const PostProcessor& processor, std::span<const TokenId> first,
                             std::span<const TokenId> second, std::vector<TokenId>& out);

}  // namespace quire::tokenizer
