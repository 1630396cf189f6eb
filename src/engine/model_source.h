// Where a model's files are: a directory, a GGUF file, or a bundle that the executable carries.
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

// Must outlive what was opened from it: bundled weights are read where they lie.
class ModelSource {
 public:
  // "" is the embedded model: the bundle at the end of the executable, else the one linked into the program.
  // Throws Error where there is no such directory or file, or no embedded model.
  static ModelSource resolve(const std::string& model);

  const std::string& name() const { return name_; }
  bool embedded() const { return path_.empty(); }

  std::unique_ptr<Checkpoint> open_checkpoint() const;
  // Null where the model has no tokenizer. Files beside a GGUF file win over what it says of its own.
  std::unique_ptr<Tokenizer> open_tokenizer() const;
  // Name and bytes of the files beside config.json and the weights: tokenizer, template,
  // generation_config.json and whatever else lies there, the folders of modules.json too, but for weights in
  // other formats, other folders and the page about the model. None of a GGUF file.
  std::vector<std::pair<std::string, std::string>> side_files() const;

 private:
  std::string name_;
  std::filesystem::path path_;  // the directory, or the (first) GGUF file; empty for a bundle
  std::filesystem::path gguf_;  // the (first) GGUF file, where the model is one
  Bundle bundle_;
  std::shared_ptr<MappedFile> executable_;  // keeps bundle_'s bytes, where they are the executable's
  FileIdentity program_;                    // what carries the bundle
};

// The bundle linked into the program; empty where it was built without one.
std::string_view linked_bundle();

}  // namespace quire
