// Reads the prompts of `quire generate` and of benchmarks from text files, JSON lines or standard input.
#pragma once

#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "quire/llm.h"

namespace quire::cli {

struct PromptEntry {
  std::string text;  // exactly one of text, token_ids and chat is set
  std::vector<TokenId> token_ids;
  std::string chat;  // a JSON object with messages, for LLM::chat_prompt_json()
  SamplingParams params;
  // An adapter; empty = the base model, nullopt = that of the command line.
  std::optional<std::string> lora = std::nullopt;
};

// Reads one prompt per line; empty lines are ignored.
std::vector<PromptEntry> read_text_prompts(std::istream& in, const SamplingParams& defaults);
// Reads one JSON object per line: prompt, prompt_token_ids or messages, and sampling fields that override
// `defaults`. Throws Error with file and line.
std::vector<PromptEntry> read_json_prompts(std::istream& in, const std::string& name,
                                           const SamplingParams& defaults);
// Reads JSON lines from a .jsonl file, text lines from any other. Throws Error.
std::vector<PromptEntry> read_prompts_file(const std::string& path, const SamplingParams& defaults);

}  // namespace quire::cli
