// The prompts of `quire generate` and of benchmarks: from flags, text files, JSON lines or standard input.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "quire/llm.h"

namespace quire::cli {

struct PromptEntry {
  std::string text;  // one of the three is given
  std::vector<TokenId> token_ids;
  std::vector<ChatMessage> messages;
  SamplingParams params;
};

// One prompt a line; empty lines are passed over.
std::vector<PromptEntry> read_text_prompts(std::istream& in, const SamplingParams& defaults);
// One JSON object a line: prompt, prompt_token_ids or messages, and any sampling field over `defaults`.
// Throws Error naming file and line.
std::vector<PromptEntry> read_json_prompts(std::istream& in, const std::string& name,
                                           const SamplingParams& defaults);
// By the file's ending: .jsonl, else text. Throws Error.
std::vector<PromptEntry> read_prompts_file(const std::string& path, const SamplingParams& defaults);

}  // namespace quire::cli
