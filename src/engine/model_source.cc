#include "engine/model_source.h"

#include "base/error.h"
#include "base/strings.h"

// The linked bundle's first byte and the byte behind its last (engine/embedded/linked_bundle.S.in).
extern "C" {
extern const char quire_linked_bundle_begin[];
extern const char quire_linked_bundle_end[];
}

namespace quire {
namespace {

std::string directory_name(const std::filesystem::path& dir) {
  const auto absolute = std::filesystem::weakly_canonical(dir);
  return absolute.filename().empty() ? absolute.parent_path().filename().string()
                                     : absolute.filename().string();
}

std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

std::string_view linked_bundle() {
  return {quire_linked_bundle_begin,
          static_cast<size_t>(quire_linked_bundle_end - quire_linked_bundle_begin)};
}

ModelSource ModelSource::resolve(const std::string& model) {
  ModelSource source;
  if (!model.empty()) {
    if (std::filesystem::is_regular_file(model)) {
      throw Error(cat(
          model, ": is a file; a model is a directory with config.json, *.safetensors and tokenizer files"));
    }
    if (!std::filesystem::is_directory(model)) {
      throw Error(cat(
          model,
          ": no such directory; give the path of a model directory from the Hugging Face hub, or no model "
          "at all for the embedded one"));
    }
    source.directory_ = model;
    source.name_ = directory_name(source.directory_);
    return source;
  }
  const std::filesystem::path self = "/proc/self/exe";
  auto executable = std::make_shared<MappedFile>(std::filesystem::canonical(self));
  if (auto bundle = find_bundle(as_text(executable->bytes()), "this executable")) {
    source.bundle_ = std::move(*bundle);
    source.executable_ = std::move(executable);
  } else if (auto linked = find_bundle(linked_bundle(), "the embedded model")) {
    source.bundle_ = std::move(*linked);
  } else {
    throw Error("this build of quire carries no model; give the path of a model directory");
  }
  source.name_ = source.bundle_.model_name;
  return source;
}

std::unique_ptr<Checkpoint> ModelSource::open_checkpoint() const {
  if (!embedded()) return Checkpoint::open(directory_);
  CheckpointBytes files;
  files.name = name_;
  files.config = bundle_.file("config.json");
  files.generation_config = bundle_.file("generation_config.json");
  for (const auto& file : bundle_.files) {
    if (!file.name.ends_with(".safetensors")) continue;
    const auto bytes = std::as_bytes(std::span<const char>(file.bytes.data(), file.bytes.size()));
    if (files.safetensors.empty()) {
      files.safetensors = bytes;
    } else {
      files.more_safetensors.push_back(bytes);
    }
  }
  return Checkpoint::from_memory(files);
}

std::unique_ptr<Tokenizer> ModelSource::open_tokenizer() const {
  if (!embedded()) {
    const bool has_files = std::filesystem::exists(directory_ / "tokenizer.json") ||
                           std::filesystem::exists(directory_ / "tokenizer.model");
    return has_files ? Tokenizer::load(directory_) : nullptr;
  }
  TokenizerFiles files;
  files.tokenizer_json = bundle_.file("tokenizer.json");
  files.tokenizer_model = bundle_.file("tokenizer.model");
  files.tokenizer_config_json = bundle_.file("tokenizer_config.json");
  files.special_tokens_map_json = bundle_.file("special_tokens_map.json");
  files.added_tokens_json = bundle_.file("added_tokens.json");
  files.chat_template = bundle_.file("chat_template.jinja");
  files.origin = name_;
  if (files.tokenizer_json.empty() && files.tokenizer_model.empty()) return nullptr;
  return Tokenizer::from_memory(files);
}

}  // namespace quire
