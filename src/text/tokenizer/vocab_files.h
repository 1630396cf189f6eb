// Tokenizers without tokenizer.json: vocab.json with merges.txt (byte-level BPE of GPT-2, Qwen2 and RoBERTa),
// or vocab.txt (WordPiece of BERT). Their class determines the other steps.
#pragma once

#include <string>
#include <string_view>

#include "text/tokenizer/pipeline.h"

namespace quire::tokenizer {

struct VocabFiles {
  std::string_view vocab_json;
  std::string_view merges_txt;
  std::string_view vocab_txt;
  std::string_view tokenizer_config_json;
  std::string_view special_tokens_map_json;
  std::string_view model_config_json;  // config.json: the class of a model whose tokenizer names none
  std::string origin;                  // for messages
};

// Fills an empty pipeline, except for added tokens and the work of finish(), as transformers converts such
// files. `config` receives the roles and the special tokens that the class has by default. Returns the name
// of the class if it is not supported; the pipeline is then empty. Throws Error with the file and the
// location.
std::string read_vocab_files(const VocabFiles& files, Pipeline& pipeline, TokenizerConfig& config);

}  // namespace quire::tokenizer
