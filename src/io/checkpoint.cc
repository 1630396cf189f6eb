#include "io/checkpoint.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/shard_names.h"
#include "base/strings.h"
#include "io/config_fields.h"
#include "io/gguf/gguf_checkpoint.h"
#include "io/json_file.h"
#include "io/mapped_file.h"
#include "io/quantized/quantized_checkpoint.h"

namespace quire {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSingleFile = "model.safetensors";
constexpr const char* kIndexFile = "model.safetensors.index.json";

// One safetensors file, and its mapping if this class created it.
struct Shard {
  std::optional<MappedFile> mapping;
  Safetensors tensors;
};

struct Location {
  size_t shard;
  const TensorInfo* info;
};

using WeightMap = std::map<std::string, std::string, std::less<>>;  // tensor name -> shard's file name

class SafetensorsCheckpoint : public Checkpoint {
 public:
  SafetensorsCheckpoint(fs::path path, nlohmann::json config, std::optional<nlohmann::json> generation_config)
      : path_(std::move(path)),
        config_(std::move(config)),
        generation_config_(std::move(generation_config)) {}

  const fs::path& path() const override { return path_; }
  const nlohmann::json& config() const override { return config_; }
  std::optional<nlohmann::json> generation_config() const override { return generation_config_; }

  std::optional<std::string> file(std::string_view name) const override {
    if (const auto it = files_.find(name); it != files_.end()) return std::string(it->second);
    std::error_code error;
    if (!on_disk_ || !fs::is_regular_file(path_ / name, error)) return std::nullopt;
    return read_text_file(path_ / name);
  }
  std::vector<FileIdentity> weight_files() const override {
    std::vector<FileIdentity> all = weight_files_;
    for (const Shard& shard : shards_) {
      if (shard.mapping) all.push_back(shard.mapping->identity());
    }
    return all;
  }
  std::optional<std::string> metadata(std::string_view name) const override {
    for (const Shard& shard : shards_) {
      const auto& all = shard.tensors.metadata();
      if (const auto it = all.find(name); it != all.end()) return it->second;
    }
    return std::nullopt;
  }
  std::vector<std::string> warnings() const override { return warnings_; }
  void warn(std::string warning) {
    if (!warning.empty()) warnings_.push_back(std::move(warning));
  }
  // For a checkpoint in memory. A checkpoint in a directory uses the files of the directory.
  void set_files(const CheckpointBytes& in_memory) {
    files_ = in_memory.files;
    weight_files_ = in_memory.weight_files;
    on_disk_ = false;
  }

  std::vector<std::string> names() const override {
    std::vector<std::string> all;
    all.reserve(where_.size());
    for (const auto& [name, location] : where_) all.push_back(name);
    return all;
  }

  const TensorInfo* find(std::string_view name) const override {
    const auto it = where_.find(name);
    return it == where_.end() ? nullptr : it->second.info;
  }

  std::span<const std::byte> bytes(std::string_view name) const override {
    const auto it = where_.find(name);
    if (it == where_.end()) throw Error(cat(path_.string(), ": has no tensor '", name, "'"));
    return shards_[it->second.shard].tensors.data(*it->second.info);
  }

  int64_t total_bytes() const override {
    int64_t sum = 0;
    for (const auto& [name, location] : where_) sum += static_cast<int64_t>(location.info->bytes);
    return sum;
  }

  void release(std::string_view name) override {
    const auto it = where_.find(name);
    if (it == where_.end()) return;
    const auto& mapping = shards_[it->second.shard].mapping;
    if (mapping) mapping->release(it->second.info->offset, it->second.info->bytes);
  }

  void add_file(const fs::path& file) {
    MappedFile mapping(file);
    Safetensors tensors(mapping.bytes(), file.string());
    shards_.push_back({std::move(mapping), std::move(tensors)});
  }

  void add_bytes(std::span<const std::byte> bytes, const std::string& file) {
    shards_.push_back({std::nullopt, Safetensors(bytes, file)});
  }

  // Called once, after the last shard. Several shards may contain a tensor if all of them have the same
  // bytes: transformers uses that of the last one, for any index.
  void build_index() {
    for (size_t s = 0; s < shards_.size(); ++s) {
      const Safetensors& tensors = shards_[s].tensors;
      for (const auto& info : tensors.tensors()) {
        const auto [it, inserted] = where_.emplace(info.name, Location{s, &info});
        if (inserted || is_copy(it->second, {s, &info})) continue;
        throw Error(cat(tensors.file(), ": tensor '", info.name, "' is in ",
                        shards_[it->second.shard].tensors.file(), " as well, with other values"));
      }
    }
  }

 private:
  bool is_copy(const Location& a, const Location& b) const {
    const TensorInfo& one = *a.info;
    const TensorInfo& other = *b.info;
    return one.dtype == other.dtype && one.other_type == other.other_type && one.shape == other.shape &&
           std::ranges::equal(shards_[a.shard].tensors.data(one), shards_[b.shard].tensors.data(other));
  }

  fs::path path_;
  nlohmann::json config_;
  std::optional<nlohmann::json> generation_config_;
  std::map<std::string, std::string_view, std::less<>> files_;
  std::vector<FileIdentity> weight_files_;
  std::vector<std::string> warnings_;
  bool on_disk_ = true;
  std::vector<Shard> shards_;  // complete before where_ points into it
  std::map<std::string, Location, std::less<>> where_;
};

// Lists names for a message: at most `limit`, then the number of the others.
std::string list_names(const std::vector<std::string>& names, size_t limit) {
  std::vector<std::string> shown(names.begin(),
                                 names.begin() + static_cast<std::ptrdiff_t>(std::min(limit, names.size())));
  std::string text = join(shown, ", ");
  if (names.size() > limit) text += cat(" and ", names.size() - limit, " more");
  return text;
}

WeightMap read_weight_map(const nlohmann::json& index, const fs::path& index_path) {
  const auto it = index.is_object() ? index.find("weight_map") : index.end();
  if (it == index.end() || !it->is_object())
    throw Error(cat(index_path.string(), ": 'weight_map' is missing or not an object"));
  if (it->empty()) throw Error(cat(index_path.string(), ": 'weight_map' is empty"));
  WeightMap map;
  for (const auto& [tensor, value] : it->items()) {
    if (!value.is_string())
      throw Error(cat(index_path.string(), ": 'weight_map' has no file name for tensor '", tensor, "'"));
    const auto& file = value.get_ref<const std::string&>();
    // Shards must be in the same directory as the index. Otherwise a checkpoint could read files elsewhere.
    if (file.empty() || file == "." || file == ".." || file.find('/') != std::string::npos ||
        file.find('\0') != std::string::npos) {
      throw Error(cat(index_path.string(), ": 'weight_map' names '", file, "' for tensor '", tensor,
                      "', which is not a file name in the directory"));
    }
    map.emplace(tensor, file);
  }
  return map;
}

void add_shards(SafetensorsCheckpoint& checkpoint, const fs::path& dir) {
  const fs::path index_path = dir / kIndexFile;
  const nlohmann::json index = read_json_file(index_path);
  const WeightMap map = read_weight_map(index, index_path);
  checkpoint.warn(unread_warning(ConfigFile::kIndex, kIndexFile, {}, index));
  std::set<std::string> files;
  for (const auto& [tensor, file] : map) files.insert(file);
  std::vector<std::string> missing;
  for (const auto& file : files) {
    if (!fs::exists(dir / file)) missing.push_back(file);
  }
  if (!missing.empty()) {
    throw Error(
        cat(dir.string(), ": shards listed in ", kIndexFile, " are missing: ", list_names(missing, 20)));
  }
  for (const auto& file : files) checkpoint.add_file(dir / file);
  checkpoint.build_index();
  std::vector<std::string> absent;
  for (const auto& [tensor, file] : map) {
    if (checkpoint.find(tensor) == nullptr) absent.push_back(cat("'", tensor, "' in ", file));
  }
  if (!absent.empty()) {
    throw Error(
        cat(index_path.string(), ": listed tensors are missing in their shards: ", list_names(absent, 20)));
  }
}

std::vector<std::string> safetensors_files(const fs::path& dir) {
  std::vector<std::string> files;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(dir, error)) {
    if (entry.path().extension() == ".safetensors") files.push_back(entry.path().filename().string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

// The first file in the format of torch.save(); empty if there is none.
std::string find_pickle(const fs::path& dir) {
  std::vector<std::string> files;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(dir, error)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("pytorch_model") && name.ends_with(".bin")) files.push_back(name);
  }
  return files.empty() ? "" : *std::ranges::min_element(files);
}

void add_weights(SafetensorsCheckpoint& checkpoint, const fs::path& dir) {
  if (fs::exists(dir / kSingleFile)) {
    checkpoint.add_file(dir / kSingleFile);
    checkpoint.build_index();
    return;
  }
  if (fs::exists(dir / kIndexFile)) return add_shards(checkpoint, dir);
  const ShardSet shards = shards_without_index(safetensors_files(dir));
  if (shards.files.empty()) {
    if (const std::string pickle = find_pickle(dir); !pickle.empty()) {
      throw Error(cat(dir.string(), ": the weights are a pickle file (", pickle,
                      "), which can execute arbitrary code and is not supported; load the model with "
                      "transformers and use save_pretrained() to write safetensors to another directory"));
    }
    throw Error(cat(dir.string(), ": has neither ", kSingleFile, " nor ", kIndexFile,
                    "; convert weights in other formats to safetensors"));
  }
  if (!shards.missing.empty())
    throw Error(cat(dir.string(), ": shards are missing: ", list_names(shards.missing, 20)));
  for (const std::string& file : shards.files) checkpoint.add_file(dir / file);
  checkpoint.build_index();
}

nlohmann::json require_object(nlohmann::json value, const std::string& name) {
  if (!value.is_object()) throw Error(cat(name, ": not a JSON object"));
  return value;
}

// generation_config.json; nullopt if it is empty, which means the same as a missing one in transformers.
std::optional<nlohmann::json> parse_generation_config(std::string_view text, const std::string& name) {
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos) return std::nullopt;
  return require_object(parse_json(text, name), name);
}

}  // namespace

std::unique_ptr<Checkpoint> Checkpoint::open(const fs::path& dir) {
  std::error_code error;
  if (!fs::exists(dir, error)) throw Error(cat(dir.string(), ": no such directory or file"));
  if (!fs::is_directory(dir, error)) return open_gguf(dir);
  const fs::path config_path = dir / "config.json";
  const bool has_safetensors = !safetensors_files(dir).empty() || fs::exists(dir / kIndexFile, error);
  if (const fs::path gguf = has_safetensors ? fs::path() : find_gguf(dir); !gguf.empty())
    return open_gguf(gguf);
  if (!fs::exists(config_path, error)) {
    throw Error(
        cat(dir.string(), ": has no config.json; pass a Hugging Face model directory or a GGUF file"));
  }
  nlohmann::json config = require_object(read_json_file(config_path), config_path.string());
  std::optional<nlohmann::json> generation;
  const fs::path generation_path = dir / "generation_config.json";
  if (fs::exists(generation_path, error)) {
    generation = parse_generation_config(read_text_file(generation_path), generation_path.string());
  }
  auto checkpoint = std::make_unique<SafetensorsCheckpoint>(dir, std::move(config), std::move(generation));
  add_weights(*checkpoint, dir);
  // The location of the configuration of older GPTQ checkpoints.
  const fs::path old_path = dir / "quantize_config.json";
  if (!checkpoint->config().contains("quantization_config") && fs::exists(old_path, error)) {
    nlohmann::json quantization = require_object(read_json_file(old_path), old_path.string());
    if (!quantization.contains("quant_method")) quantization["quant_method"] = "gptq";
    return with_old_quantization(std::move(checkpoint), std::move(quantization));
  }
  return with_quantized(std::move(checkpoint));
}

std::unique_ptr<Checkpoint> Checkpoint::from_memory(const CheckpointBytes& files) {
  const std::string config_name = files.name + "/config.json";
  nlohmann::json config = require_object(parse_json(files.config, config_name), config_name);
  auto generation = parse_generation_config(files.generation_config, files.name + "/generation_config.json");
  auto checkpoint =
      std::make_unique<SafetensorsCheckpoint>(files.name, std::move(config), std::move(generation));
  checkpoint->set_files(files);
  checkpoint->add_bytes(files.safetensors, files.name + "/model.safetensors");
  for (size_t i = 0; i < files.more_safetensors.size(); ++i) {
    checkpoint->add_bytes(files.more_safetensors[i], cat(files.name, "/shard ", i + 2));
  }
  checkpoint->build_index();
  return with_quantized(std::move(checkpoint));
}

bool Checkpoint::aligned(std::string_view name) const {
  const TensorInfo* info = find(name);
  if (info == nullptr) return false;
  return reinterpret_cast<uintptr_t>(bytes(name).data()) % dtype_size(info->dtype) == 0;
}

std::optional<std::string> Checkpoint::file(std::string_view) const {
  return std::nullopt;
}

const QuantizedMatrix* Checkpoint::quantized(std::string_view) const {
  return nullptr;
}

TensorView Checkpoint::view(std::string_view name) const {
  const auto data = bytes(name);
  const TensorInfo& info = *find(name);
  if (info.shape.size() > Shape::kMaxRank) {
    throw Error(cat(path().string(), ": tensor '", name, "' has ", info.shape.size(), " dimensions; at most ",
                    Shape::kMaxRank, " are supported"));
  }
  if (!aligned(name))
    throw Error(cat(path().string(), ": tensor '", name, "' is not aligned to its element size"));
  // TensorView has no const variant; users of this view must not write to it.
  return make_view(const_cast<std::byte*>(data.data()), info.dtype,
                   Shape(std::span<const int64_t>(info.shape)));
}

}  // namespace quire
