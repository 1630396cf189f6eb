#include "hub/file_selection.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/shard_names.h"
#include "base/strings.h"

namespace quire::hub {
namespace {

constexpr const char* kSingleFile = "model.safetensors";
constexpr const char* kIndexFile = "model.safetensors.index.json";
constexpr const char* kDefaultTag = "Q4_K_M";

bool contains(const std::vector<std::string>& files, std::string_view name) {
  return std::ranges::find(files, name) != files.end();
}

// "1_Pooling/config.json" and "2_Dense/model.safetensors", the modules of sentence-transformers.
bool is_module_file(const std::string& file) {
  const size_t slash = file.find('/');
  if (slash == std::string::npos || std::isdigit(static_cast<unsigned char>(file[0])) == 0) return false;
  const std::string name = file.substr(slash + 1);
  return file.find('_') < slash && (name == "config.json" || name == "model.safetensors");
}

bool is_template(const std::string& file) {
  constexpr std::string_view kFolder = "additional_chat_templates/";
  return file.starts_with(kFolder) && file.ends_with(".jinja") &&
         file.find('/', kFolder.size()) == std::string::npos;
}

// Projectors of multimodal models and importance matrices are GGUF files without a language model.
bool is_language_model(const std::string& file) {
  const std::string name = lowercase(file.substr(file.rfind('/') + 1));
  return name.ends_with(".gguf") && name.find("mmproj") == std::string::npos &&
         name.find("imatrix") == std::string::npos;
}

// "model-Q4_K_M" of "Q4_K_M/model-Q4_K_M-00001-of-00003.gguf" with its folder, and whether it has parts.
struct GgufStem {
  std::string stem;
  int part = 0;
  int parts = 1;
};

GgufStem stem_of(const std::string& file) {
  const std::string stem = file.substr(0, file.size() - std::string_view(".gguf").size());
  constexpr size_t kTail = std::string_view("-00001-of-00003").size();
  if (stem.size() <= kTail) return {stem};
  const std::string tail = stem.substr(stem.size() - kTail);
  const auto is_number = [&](size_t at) {
    return std::all_of(tail.begin() + static_cast<std::ptrdiff_t>(at),
                       tail.begin() + static_cast<std::ptrdiff_t>(at) + 5,
                       [](unsigned char c) { return std::isdigit(c) != 0; });
  };
  if (tail[0] != '-' || tail.substr(6, 4) != "-of-" || !is_number(1) || !is_number(10)) return {stem};
  return {stem.substr(0, stem.size() - kTail), std::stoi(tail.substr(1, 5)), std::stoi(tail.substr(10, 5))};
}

// GGUF models of a repository: the files of each by its stem, in order.
std::map<std::string, std::vector<std::string>> gguf_models(const std::vector<std::string>& files) {
  std::map<std::string, std::vector<std::string>> models;
  for (const std::string& file : files) {
    if (is_language_model(file)) models[stem_of(file).stem].push_back(file);
  }
  for (auto& [stem, parts] : models) std::ranges::sort(parts);
  return models;
}

// Whether the stem has the tag as its last component ("model-Q4_K_M", "model.q4_k_m") or as its folder.
bool has_tag(const std::string& stem, const std::string& tag) {
  const std::string text = lowercase(stem);
  const std::string end = lowercase(tag);
  const size_t slash = text.rfind('/');
  if (slash != std::string::npos && text.substr(0, slash) == end) return true;
  if (!text.ends_with(end)) return false;
  if (text.size() == end.size()) return true;
  const char before = text[text.size() - end.size() - 1];
  return before == '-' || before == '.' || before == '_' || before == '/';
}

// The quantization in a stem, for a list of alternatives; the stem itself if it has none.
std::string tag_of(const std::string& stem) {
  const std::string name = stem.substr(stem.rfind('/') + 1);
  const size_t at = name.find_last_of("-.");
  return at == std::string::npos ? name : name.substr(at + 1);
}

std::string alternatives(const std::map<std::string, std::vector<std::string>>& models) {
  std::set<std::string> tags;
  for (const auto& [stem, parts] : models) tags.insert(tag_of(stem));
  return join({tags.begin(), tags.end()}, ", ");
}

void require_all_parts(const ModelName& name, const std::vector<std::string>& parts) {
  const int expected = std::max(1, stem_of(parts.front()).parts);
  if (static_cast<int>(parts.size()) != expected)
    throw Error(cat(name.repo, ": ", parts.front(), " is one of ", expected,
                    " files, but the repository has ", parts.size(), " of them"));
}

FileSelection select_gguf(const ModelName& name, const std::vector<std::string>& files) {
  const auto models = gguf_models(files);
  FileSelection selection;
  std::vector<std::string> found;
  if (!name.file.empty()) {
    const auto it = models.find(stem_of(name.file).stem);
    if (it == models.end() || !contains(it->second, name.file)) {
      std::vector<std::string> all;
      for (const auto& [stem, parts] : models) all.insert(all.end(), parts.begin(), parts.end());
      const auto similar = similar_names(name.file, all, 3);
      throw Error(cat(name.repo, ": has no file ", name.file,
                      similar.empty() ? "" : "; similar names: " + join(similar, ", ")));
    }
    found.push_back(it->first);
  } else {
    for (const auto& [stem, parts] : models) {
      if (has_tag(stem, name.tag.empty() ? kDefaultTag : name.tag)) found.push_back(stem);
    }
    if (found.empty() && name.tag.empty() && models.size() == 1) found.push_back(models.begin()->first);
  }
  if (found.empty()) {
    if (models.empty())
      throw Error(cat(name.repo, ": has no GGUF files; use the name without ':", name.tag, "'"));
    throw Error(cat(name.repo, ": has no ", name.tag.empty() ? kDefaultTag : name.tag, " file; use ",
                    name.repo, ":TAG with one of ", alternatives(models)));
  }
  if (found.size() > 1) {
    throw Error(cat(name.repo, ": several files match: ", join(found, ".gguf, "), ".gguf; use ", name.repo,
                    "/", models.at(found.front()).front()));
  }
  selection.weights = models.at(found.front());
  require_all_parts(name, selection.weights);
  selection.gguf = selection.weights.front();
  return selection;
}

[[noreturn]] void fail_without_config(const ModelName& name, const std::vector<std::string>& files) {
  if (contains(files, "adapter_config.json"))
    throw Error(
        cat(name.repo, ": is an adapter (LoRA) without a base model; give the name of its base model"));
  throw Error(cat(name.repo, ": has no config.json; it is not a model that quire can run"));
}

// Explains why a repository cannot be used.
[[noreturn]] void fail_without_weights(const ModelName& name, const std::vector<std::string>& files) {
  if (!contains(files, "config.json") && contains(files, "adapter_config.json"))
    fail_without_config(name, files);
  for (const std::string& file : files) {
    if (file.ends_with(".bin") || file.ends_with(".pth") || file.ends_with(".pt")) {
      throw Error(cat(name.repo, ": its weights are pickles (", file,
                      "), which can run any program and are not loaded; look for a revision or a repository "
                      "with safetensors, for example --revision refs/pr/1"));
    }
  }
  throw Error(cat(name.repo, ": has no model weights (safetensors or GGUF)"));
}

}  // namespace

FileSelection select_files(const ModelName& name, const std::vector<std::string>& files) {
  if (!name.tag.empty() || !name.file.empty()) return select_gguf(name, files);
  FileSelection selection;
  std::vector<std::string> safetensors;
  for (const std::string& file : files) {
    if (file.find('/') == std::string::npos && file.ends_with(".safetensors")) safetensors.push_back(file);
    const bool vocabulary = file == "vocab.json" || file == "merges.txt" || file == "vocab.txt";
    const bool known = std::ranges::find(kModelFiles, file) != kModelFiles.end() &&
                       !(vocabulary && contains(files, "tokenizer.json"));
    const bool module = is_module_file(file) && contains(files, "modules.json");
    if (known || module || is_template(file)) selection.small.push_back(file);
  }
  if (contains(files, kSingleFile)) {
    selection.weights = {kSingleFile};
  } else if (contains(files, kIndexFile)) {
    selection.index = kIndexFile;
    selection.small.emplace_back(kIndexFile);
  } else if (!safetensors.empty()) {
    const ShardSet shards = shards_without_index(safetensors);
    if (!shards.missing.empty())
      throw Error(cat(name.repo, ": shards are missing: ", join(shards.missing, ", ")));
    selection.weights = shards.files;
  } else if (!gguf_models(files).empty()) {
    return select_gguf(name, files);
  } else {
    fail_without_weights(name, files);
  }
  if (!contains(files, "config.json")) fail_without_config(name, files);
  return selection;
}

std::vector<std::string> files_of_index(const std::string& json, const std::vector<std::string>& files) {
  const nlohmann::json index = nlohmann::json::parse(json, nullptr, false);
  const auto map = index.is_object() ? index.find("weight_map") : index.end();
  if (!index.is_object() || map == index.end() || !map->is_object() || map->empty())
    throw Error(cat(kIndexFile, ": has no 'weight_map'"));
  std::set<std::string> names;
  for (const auto& [tensor, file] : map->items()) {
    if (!file.is_string()) throw Error(cat(kIndexFile, ": 'weight_map' names no file for a tensor"));
    names.insert(file.get<std::string>());
  }
  for (const std::string& name : names) {
    if (name.find('/') != std::string::npos || !contains(files, name))
      throw Error(cat(kIndexFile, ": names the file '", is_safe_path(name) ? name : "?",
                      "', which is not in the repository"));
  }
  return {names.begin(), names.end()};
}

}  // namespace quire::hub
