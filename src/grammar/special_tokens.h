// The special tokens that a text grammar can name. The caller provides them from the tokenizer.
#pragma once

#include <functional>
#include <optional>
#include <string_view>

#include "contract/ids.h"

namespace quire::grammar {

struct SpecialTokens {
  // The special token with this text. Empty if tokens are not available: grammars that name one are refused.
  std::function<std::optional<TokenId>(std::string_view text)> find = {};
  // Whether the id is that of a special token.
  std::function<bool(int64_t id)> contains = {};
};

}  // namespace quire::grammar
