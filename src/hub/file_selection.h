// Which files of a repository a model needs.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "hub/model_name.h"

namespace quire::hub {

// Files of a model in its own folder, apart from the weights: configuration, tokenizer, chat template, and
// the list of sentence-transformers modules.
inline constexpr std::array<std::string_view, 21> kModelFiles = {"config.json",
                                                                 "generation_config.json",
                                                                 "quantize_config.json",
                                                                 "tokenizer.json",
                                                                 "tokenizer.model",
                                                                 "vocab.json",
                                                                 "merges.txt",
                                                                 "vocab.txt",
                                                                 "tekken.json",
                                                                 "tiktoken.model",
                                                                 "qwen.tiktoken",
                                                                 "tokenizer_config.json",
                                                                 "special_tokens_map.json",
                                                                 "chat_template.jinja",
                                                                 "chat_template.json",
                                                                 "added_tokens.json",
                                                                 "modules.json",
                                                                 "config_sentence_transformers.json",
                                                                 "sentence_bert_config.json",
                                                                 "sentence_roberta_config.json",
                                                                 "sentence_xlm-roberta_config.json"};

struct FileSelection {
  std::vector<std::string> small;    // configuration, tokenizer, templates, modules; fetched first
  std::vector<std::string> weights;  // safetensors or GGUF files; empty while the index has not been read
  std::string index;                 // one of `small` that lists the weights; empty = none
  std::string gguf;                  // GGUF models: the first of `weights`
};

// Chooses from all files of the repository (or of a snapshot). Safetensors are preferred to GGUF; a name with
// a tag or file needs GGUF. Throws Error with the reason and the alternatives if the repository has no usable
// weights.
FileSelection select_files(const ModelName& name, const std::vector<std::string>& files);

// The weight files that model.safetensors.index.json names. Throws Error if it is malformed, or names a file
// that is not in `files`.
std::vector<std::string> files_of_index(const std::string& json, const std::vector<std::string>& files);

}  // namespace quire::hub
