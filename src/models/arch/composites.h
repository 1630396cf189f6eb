// Multimodal models, of which only the language model is read.
#pragma once

#include <span>
#include <string_view>

namespace quire {

struct Composite {
  std::string_view name;  // as in `architectures` of config.json
  std::string_view text;  // model_type of its language model, if config.json does not have a known one
};

std::span<const Composite> composites();

// Prefixes of the language model's tensors in their checkpoints.
std::span<const std::string_view> text_prefixes();

}  // namespace quire
