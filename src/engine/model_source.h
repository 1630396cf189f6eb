// The location of a model's files: a directory, a GGUF file, or a bundle inside the executable.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/bundle.h"
#include "io/checkpoint.h"
#include "io/mapped_file.h"
#include "text/tokenizer/tokenizer.h"

namespace quire {

// Must outlive everything opened from it: bundled weights are read in place.
class ModelSource {
 public:
  // "" is the embedded model: the bundle at the end of the executable or, without one, the bundle linked into
  // the program. A text that is not a path but a name on the Hugging Face hub ("org/name") stands for its
  // files in the cache; missing ones are downloaded. Throws Error if the model does not exist.
  struct Options {
    std::string revision;    // branch, tag or commit of a name; empty = main
    bool text_only = false;  // a name: the tokenizer and templates are enough
  };
  static ModelSource resolve(const std::string& model, const Options& options);
  static ModelSource resolve(const std::string& model) { return resolve(model, Options{}); }

  const std::string& name() const { return name_; }
  bool embedded() const { return path_.empty(); }
  // The directory, or the (first) GGUF file; empty for the embedded model.
  const std::filesystem::path& path() const { return path_; }

  std::unique_ptr<Checkpoint> open_checkpoint() const;
  // Null if the model has no tokenizer. Files next to a GGUF file override its own metadata.
  std::unique_ptr<Tokenizer> open_tokenizer() const;
  // Names and bytes of all files except config.json and the weights: tokenizer, template,
  // generation_config.json and others, including the folders of modules.json. Weights in other formats, other
  // folders and the model card are left out. Empty for a GGUF file.
  std::vector<std::pair<std::string, std::string>> side_files() const;

 private:
  std::string name_;
  std::filesystem::path path_;  // the directory, or the (first) GGUF file; empty for a bundle
  std::filesystem::path gguf_;  // the (first) GGUF file; empty for other formats
  Bundle bundle_;
  std::shared_ptr<MappedFile> executable_;  // owns the bytes of a bundle in the executable
  FileIdentity program_;                    // the file with the bundle
};

// The name of the embedded model, which can be given instead of a path: "quire-tiny". Empty if this build has
// none.
std::string embedded_model_name();

// The bundle linked into the program; empty if it was built without one.
std::string_view linked_bundle();

}  // namespace quire
