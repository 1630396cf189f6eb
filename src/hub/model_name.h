// Names of models on the Hugging Face hub, and checks of names that the hub returns.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace quire::hub {

// Neither the hub nor, without a network, the cache has a model of this name.
class ModelNotFound : public Error {
 public:
  using Error::Error;
};

// "org/name", "org/name:TAG" or "org/name/path/to/file.gguf".
struct ModelName {
  std::string repo;  // "org/name"
  std::string tag;   // quantization of a GGUF file, for example "Q4_K_M"; empty = none given
  std::string file;  // path of a GGUF file in the repository; empty = none given

  std::string text() const;  // the canonical spelling
};

// nullopt if the text is not a model name. The prefixes "https://huggingface.co/", "huggingface.co/" and
// "hf.co/" are removed.
std::optional<ModelName> parse_model_name(std::string_view text);

// Whether the text is a valid repository id with an organization: letters, digits, "-", "_" and ".", no "--"
// or "..", at most 96 characters.
bool is_repo_id(std::string_view text);

// Whether a file name from the hub can be used as a relative path: no empty, "." or ".." component, no
// leading slash, backslash or control character, no component over 255 bytes, valid UTF-8.
bool is_safe_path(std::string_view name);

// Whether the text is a branch, a tag or a commit that can be used as a relative path.
bool is_revision(std::string_view text);

bool is_commit(std::string_view text);  // 40 lowercase hexadecimal digits

// At most `limit` of the candidates, the most similar one first. Candidates that differ in more than half of
// their characters are left out.
std::vector<std::string> similar_names(std::string_view name, const std::vector<std::string>& candidates,
                                       size_t limit);

}  // namespace quire::hub
