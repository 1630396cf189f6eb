#include "io/gguf/gguf_end_tokens.h"

#include <algorithm>
#include <array>
#include <map>
#include <string_view>

namespace quire {

GgufEndTokens gguf_end_tokens(const GgufFile& file) {
  constexpr std::array<std::string_view, 23> kTexts = {"<|eot_id|>",
                                                       "<|im_end|>",
                                                       "<|end|>",
                                                       "<end_of_turn>",
                                                       "<|endoftext|>",
                                                       "<|end_of_text|>",
                                                       "<|eom_id|>",
                                                       "<|return|>",
                                                       "<|call|>",
                                                       "<|calls|>",
                                                       "<|flush|>",
                                                       "<turn|>",
                                                       "[e~[",
                                                       "<|tool_response>",
                                                       "<end_of_utterance>",
                                                       "</s>",
                                                       "<eos>",
                                                       "<EOT>",
                                                       "_<EOT>",
                                                       "[EOT]",
                                                       "[EOS]",
                                                       "<|end_of_turn|>",
                                                       "<\uFF5Cend\u2581of\u2581sentence\uFF5C>"};
  GgufEndTokens ends;
  const auto add = [&](int64_t id) {
    if (std::ranges::find(ends.ids, id) == ends.ids.end()) ends.ids.push_back(id);
  };
  constexpr int64_t kNormal = 1;
  const auto tokens = file.texts("tokenizer.ggml.tokens");
  const auto types = file.integers("tokenizer.ggml.token_type");
  for (const std::string_view key :
       {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"}) {
    const auto id = file.integer(key);
    if (id && *id >= 0 && *id < static_cast<int64_t>(tokens.size())) add(*id);
  }
  std::map<std::string_view, int64_t> found;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (std::ranges::find(kTexts, tokens[i]) == kTexts.end()) continue;
    // A tag of HTML in vocabularies such as that of Qwen2.
    if (tokens[i] == "</s>" && (i >= types.size() || types[i] == kNormal)) continue;
    const auto id = static_cast<int64_t>(i);
    ends.control.push_back(id);
    found[tokens[i]] = id;
    add(id);
  }
  const auto remove = [&](std::string_view text) {
    if (const auto it = found.find(text); it != found.end()) std::erase(ends.ids, it->second);
  };
  // <|end|> ends one message of several where another token ends the turn.
  if (found.contains("<|return|>") || (found.contains("<|calls|>") && found.contains("<|flush|>")))
    remove("<|end|>");
  // In vocabularies of Gemma 4, </s> is a tag of HTML, too.
  if (found.contains("<|tool_response>")) remove("</s>");
  return ends;
}

}  // namespace quire
