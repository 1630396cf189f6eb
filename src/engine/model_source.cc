#include "engine/model_source.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/executable_path.h"
#include "base/log.h"
#include "base/strings.h"
#include "engine/model_fetch.h"
#include "hub/model_name.h"
#include "io/gguf/gguf_checkpoint.h"
#include "io/gguf/gguf_file.h"
#include "io/json_file.h"

// First byte and end of the linked bundle (engine/embedded/linked_bundle.S.in).
extern "C" {
extern const char quire_linked_bundle_begin[];
extern const char quire_linked_bundle_end[];
}

namespace quire {
namespace {

// The name of a model directory. A snapshot in the Hugging Face cache, models--ORG--NAME/snapshots/COMMIT,
// has the name ORG/NAME.
std::string directory_name(const std::filesystem::path& dir) {
  auto absolute = std::filesystem::weakly_canonical(dir);
  if (absolute.filename().empty()) absolute = absolute.parent_path();
  constexpr std::string_view kPrefix = "models--";
  std::string repo = absolute.parent_path().parent_path().filename().string();
  if (absolute.parent_path().filename() == "snapshots" && repo.starts_with(kPrefix)) {
    repo.erase(0, kPrefix.size());
    if (const size_t separator = repo.find("--"); separator != std::string::npos)
      repo.replace(separator, 2, "/");
    if (hub::is_repo_id(repo)) return repo;
  }
  return absolute.filename().string();
}

std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::span<const std::byte> as_bytes(std::string_view text) {
  return std::as_bytes(std::span(text));
}

// The GGUF file of a directory without weights in another format; empty if there is none.
std::filesystem::path gguf_of_directory(const std::filesystem::path& dir) {
  for (const auto& entry : std::filesystem::directory_iterator(dir)) {
    if (entry.path().extension() == ".safetensors") return {};
  }
  return find_gguf(dir);
}

// The GGUF file of a bundle; empty if its model has another format.
std::span<const std::byte> bundled_gguf(const Bundle& bundle) {
  for (const auto& file : bundle.files) {
    if (file.name.ends_with(".gguf")) return as_bytes(file.bytes);
  }
  return {};
}

// Returns whether a file must accompany the weights regardless of their format.
bool is_side_file(const std::string& name) {
  constexpr std::array<std::string_view, 5> kOthers = {"config.json", "quantize_config.json", "README.md",
                                                       ".gitattributes", ".gitignore"};
  constexpr std::array<std::string_view, 11> kWeights = {".safetensors", ".safetensors.index.json",
                                                         ".bin",         ".bin.index.json",
                                                         ".pt",          ".pth",
                                                         ".gguf",        ".h5",
                                                         ".onnx",        ".msgpack",
                                                         ".partial"};
  return std::ranges::find(kOthers, name) == kOthers.end() &&
         std::ranges::none_of(kWeights, [&](std::string_view end) { return name.ends_with(end); });
}

}  // namespace

std::string_view linked_bundle() {
  return {quire_linked_bundle_begin,
          static_cast<size_t>(quire_linked_bundle_end - quire_linked_bundle_begin)};
}

ModelSource ModelSource::resolve(const std::string& model, const Options& options) {
  ModelSource source;
  if (const auto name = model_name_of(model)) {
    const hub::PulledModel pulled =
        fetch_model_or_path(model, *name, {.revision = options.revision, .text_only = options.text_only}, {});
    source = resolve(pulled.path.string(), Options{});
    source.name_ = name->text();
    return source;
  }
  if (!model.empty()) {
    if (std::filesystem::is_regular_file(model)) {
      source.path_ = source.gguf_ = first_gguf_file(model);
      source.name_ = gguf_model_name(source.gguf_);
      return source;
    }
    if (!std::filesystem::is_directory(model)) {
      if (model == embedded_model_name()) return resolve("", options);
      throw Error(cat(
          model,
          ": no such directory or file, and not the name of a model; give the path of a model directory or "
          "GGUF file, a name on the Hugging Face hub (org/name), or nothing for the embedded model",
          similar_paths_text(model)));
    }
    source.path_ = model;
    source.gguf_ = gguf_of_directory(model);
    source.name_ = directory_name(model);
    return source;
  }
  std::shared_ptr<MappedFile> executable;
  if (const std::filesystem::path self = executable_path(); !self.empty()) {
    executable = std::make_shared<MappedFile>(self);
    source.program_ = executable->identity();
  } else {
    log_warning(
        "the file of this program was not found, so that a model added by quire bundle cannot be read");
  }
  if (auto bundle =
          executable ? find_bundle(as_text(executable->bytes()), "this executable") : std::nullopt) {
    source.bundle_ = std::move(*bundle);
    source.executable_ = std::move(executable);
  } else if (auto linked = find_bundle(linked_bundle(), "the embedded model")) {
    source.bundle_ = std::move(*linked);
  } else {
    throw Error("this build of quire has no embedded model; pass the path of a model directory");
  }
  source.name_ = source.bundle_.model_name;
  return source;
}

std::string embedded_model_name() {
  try {
    return ModelSource::resolve("").name();
  } catch (const Error&) {
    return {};
  }
}

std::unique_ptr<Checkpoint> ModelSource::open_checkpoint() const {
  if (!gguf_.empty()) return open_gguf(gguf_);
  if (!embedded()) return Checkpoint::open(path_);
  if (const auto gguf = bundled_gguf(bundle_); !gguf.empty())
    return gguf_from_memory(gguf, name_, {program_});
  CheckpointBytes files;
  files.name = name_;
  files.weight_files = {program_};
  files.config = bundle_.file("config.json");
  files.generation_config = bundle_.file("generation_config.json");
  for (const auto& file : bundle_.files) {
    const bool weights = file.name.ends_with(".safetensors") && file.name.find('/') == std::string::npos;
    if (!weights) {
      files.files[file.name] = file.bytes;
      continue;
    }
    const auto bytes = as_bytes(file.bytes);
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
    for (const char* file :
         {"tokenizer.json", "tokenizer.model", "tekken.json", "tiktoken.model", "qwen.tiktoken"}) {
      if (std::filesystem::exists(path_ / file)) return Tokenizer::load(path_);
    }
    if (gguf_.empty()) {
      const bool has_vocabulary =
          std::filesystem::exists(path_ / "vocab.json") || std::filesystem::exists(path_ / "vocab.txt");
      return has_vocabulary ? Tokenizer::load(path_) : nullptr;
    }
    const MappedFile file(gguf_);
    return Tokenizer::from_gguf(GgufFile(file.bytes(), gguf_.string()));
  }
  if (const auto gguf = bundled_gguf(bundle_); !gguf.empty())
    return Tokenizer::from_gguf(GgufFile(gguf, name_));
  TokenizerFiles files;
  const auto first_of = [&](std::initializer_list<std::string_view> names) {
    for (const std::string_view name : names) {
      if (const auto bytes = bundle_.file(name); !bytes.empty()) return bytes;
    }
    return std::string_view();
  };
  files.tokenizer_json = first_of({"tokenizer.json", "tekken.json"});
  files.tokenizer_model = first_of({"tokenizer.model", "tiktoken.model", "qwen.tiktoken"});
  files.tokenizer_config_json = bundle_.file("tokenizer_config.json");
  files.special_tokens_map_json = bundle_.file("special_tokens_map.json");
  files.added_tokens_json = bundle_.file("added_tokens.json");
  files.chat_template = bundle_.file("chat_template.jinja");
  files.chat_template_json = bundle_.file("chat_template.json");
  files.sentence_bert_config_json = first_of(
      {"sentence_bert_config.json", "sentence_roberta_config.json", "sentence_xlm-roberta_config.json"});
  files.origin = name_;
  if (files.tokenizer_json.empty() && files.tokenizer_model.empty()) {
    files.vocab_json = bundle_.file("vocab.json");
    files.merges_txt = bundle_.file("merges.txt");
    files.vocab_txt = bundle_.file("vocab.txt");
    files.model_config_json = bundle_.file("config.json");
    if (files.vocab_json.empty() && files.vocab_txt.empty()) return nullptr;
  }
  return Tokenizer::from_memory(files);
}

std::vector<std::pair<std::string, std::string>> ModelSource::side_files() const {
  std::vector<std::pair<std::string, std::string>> files;
  if (embedded()) {
    for (const auto& file : bundle_.files) {
      const bool of_module = file.name.find('/') != std::string::npos;
      if (of_module || is_side_file(file.name)) files.emplace_back(file.name, file.bytes);
    }
    return files;
  }
  if (!gguf_.empty()) return files;
  for (const auto& entry : std::filesystem::directory_iterator(path_)) {
    const std::string name = entry.path().filename().string();
    if (entry.is_regular_file() && is_side_file(name)) files.emplace_back(name, read_text_file(entry.path()));
  }
  for (const std::string& name : module_files(path_)) files.emplace_back(name, read_text_file(path_ / name));
  return files;
}

}  // namespace quire
