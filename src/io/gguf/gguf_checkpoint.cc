#include "io/gguf/gguf_checkpoint.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/strings.h"
#include "io/gguf/gguf_arch.h"
#include "io/gguf/gguf_fields.h"
#include "io/gguf/gguf_file.h"
#include "io/gguf/gguf_header.h"
#include "io/gguf/gguf_unread.h"
#include "io/mapped_file.h"
#include "quant/codec.h"

namespace quire {
namespace {

namespace fs = std::filesystem;

// The parts of a file name "NAME-00002-of-00003.gguf".
struct SplitName {
  std::string stem;  // including the directory
  int number = 0;    // from 1
  int count = 0;

  fs::path file(int n) const {
    char tail[64];
    std::snprintf(tail, sizeof(tail), "-%05d-of-%05d.gguf", n, count);
    return stem + tail;
  }
};

std::optional<SplitName> split_name(const std::string& path) {
  constexpr size_t kTail = std::string_view("-00001-of-00003.gguf").size();
  if (path.size() <= kTail) return std::nullopt;
  const std::string_view tail = std::string_view(path).substr(path.size() - kTail);
  const auto number = [&](size_t at) {
    int value = -1;
    const auto [end, error] = std::from_chars(tail.data() + at, tail.data() + at + 5, value);
    return error == std::errc() && end == tail.data() + at + 5 ? value : -1;
  };
  if (tail[0] != '-' || tail.substr(6, 4) != "-of-" || tail.substr(15) != ".gguf") return std::nullopt;
  SplitName name{path.substr(0, path.size() - kTail), number(1), number(10)};
  if (name.number < 1 || name.count < name.number) return std::nullopt;
  return name;
}

class GgufShards : public GgufModel {
 public:
  void add_file(const fs::path& path) {
    MappedFile mapping(path);
    GgufFile file(mapping.bytes(), path.string());
    shards_.push_back({std::move(mapping), std::move(file)});
  }
  void add_bytes(std::span<const std::byte> bytes, const std::string& name) {
    shards_.push_back({std::nullopt, GgufFile(bytes, name)});
  }
  // Called after the last shard.
  void build_index() {
    for (size_t s = 0; s < shards_.size(); ++s) {
      const GgufFile& file = shards_[s].file;
      const auto number = file.integer("split.no");
      const auto count = file.integer("split.count");
      if (count && *count > 1 && *count != static_cast<int64_t>(shards_.size()))
        file.fail(cat("is one of ", *count, " files of a split model; name them with the suffix -00001-of-",
                      *count, ".gguf"));
      if (number && shards_.size() > 1 && *number != static_cast<int64_t>(s))
        file.fail(cat("is part ", *number + 1, " of its model according to its metadata, but ", s + 1,
                      " according to its name"));
      for (const GgufTensor& tensor : file.tensors()) {
        const auto [it, added] = where_.emplace(tensor.name, Place{s, &tensor});
        if (!added)
          file.fail(cat("tensor '", tensor.name, "' is in ", file_of(it->second).file(), " as well"));
      }
    }
  }

  const GgufFile& file() const override { return shards_.front().file; }
  const GgufTensor* tensor(std::string_view name) const override {
    const auto it = where_.find(name);
    return it == where_.end() ? nullptr : it->second.tensor;
  }
  std::span<const std::byte> data(std::string_view name) const override {
    const Place& place = where_.find(name)->second;
    return shards_[place.shard].file.data(*place.tensor);
  }

  struct Place {
    size_t shard;
    const GgufTensor* tensor;
  };
  const std::map<std::string_view, Place>& places() const { return where_; }
  const GgufFile& file_of(const Place& place) const { return shards_[place.shard].file; }
  void set_weight_files(std::vector<FileIdentity> files) { weight_files_ = std::move(files); }
  std::vector<FileIdentity> weight_files() const {
    std::vector<FileIdentity> all = weight_files_;
    for (const Shard& shard : shards_) {
      if (shard.mapping) all.push_back(shard.mapping->identity());
    }
    return all;
  }
  void release(size_t shard, size_t offset, size_t bytes) const {
    if (shards_[shard].mapping) shards_[shard].mapping->release(offset, bytes);
  }

 private:
  struct Shard {
    std::optional<MappedFile> mapping;
    GgufFile file;
  };
  std::vector<Shard> shards_;               // complete before where_ points into it
  std::vector<FileIdentity> weight_files_;  // files of a model in memory
  std::map<std::string_view, Place> where_;
};

// A tensor under its Hugging Face name: a range of rows of a tensor in the file.
struct Entry {
  TensorInfo info;
  size_t shard = 0;
  std::span<const std::byte> stored;
  const GgmlType* type = nullptr;
  std::vector<int32_t> order;  // row i is row order[i] of the stored rows; empty if the order is unchanged
  float (*value)(float) = nullptr;  // converts stored values; null if they are unchanged
  std::unique_ptr<QuantizedMatrix> matrix;
  mutable std::vector<std::byte> copy;  // for tensors that differ from the file, once they were requested

  bool as_it_lies() const { return order.empty() && value == nullptr; }
};

// Permutation of rows from interleaved RoPE order to NeoX order.
std::vector<int32_t> pair_order(int64_t rows, int64_t head_dim) {
  std::vector<int32_t> order(static_cast<size_t>(rows));
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t in_head = r % head_dim;
    const int64_t half = head_dim / 2;
    order[static_cast<size_t>(r)] = static_cast<int32_t>(r - in_head + 2 * (in_head % half) + in_head / half);
  }
  return order;
}

float without_one(float stored) {
  return stored - 1.0F;
}
float logarithm_of_rate(float stored) {
  return std::log(-stored);
}

// "blk.12.attn_q.weight" -> "blk.{}.attn_q.weight" and 12.
std::string layer_pattern(std::string_view name, std::string& layer) {
  constexpr std::string_view kLayer = "blk.";
  if (!name.starts_with(kLayer)) return std::string(name);
  const size_t end = std::min(name.find('.', kLayer.size()), name.size());
  layer = name.substr(kLayer.size(), end - kLayer.size());
  return cat("blk.{}", name.substr(end));
}

// The shape in the checkpoint of a tensor that has this shape in the file.
std::vector<int64_t> changed_shape(GgufChange change, std::vector<int64_t> shape) {
  if (change == GgufChange::kRow && shape.size() == 1) shape.insert(shape.begin(), 1);
  if (change == GgufChange::kConvKernel && shape.size() == 2) shape.insert(shape.begin() + 1, 1);
  if (change == GgufChange::kConvKernel && shape.size() == 4 && shape[0] == 1) shape.erase(shape.begin());
  if (change == GgufChange::kMatrices && shape.size() == 3) shape = {shape[0] * shape[1], shape[2]};
  // In Mamba 1, A is a matrix [channels, state size].
  const bool matrix =
      change == GgufChange::kALog && std::ranges::count_if(shape, [](auto n) { return n > 1; }) > 1;
  if ((change == GgufChange::kVector || change == GgufChange::kALog) && !matrix) {
    int64_t count = 1;
    for (const int64_t dim : shape) count *= dim;
    shape = {count};
  }
  return shape;
}

std::string replaced(std::string_view pattern, std::string_view place, std::string_view value) {
  std::string text(pattern);
  const size_t at = text.find(place);
  if (at != std::string::npos) text.replace(at, place.size(), value);
  return text;
}

class GgufCheckpoint : public Checkpoint {
 public:
  GgufCheckpoint(fs::path path, std::unique_ptr<GgufShards> shards)
      : path_(std::move(path)), shards_(std::move(shards)) {
    if (is_gguf_adapter(shards_->file()))
      shards_->file().fail("is an adapter (LoRA) without a base model; pass the base model");
    arch_ = &find_gguf_arch(*shards_);
    config_ = gguf_config(*shards_, *arch_);
    config_["_gguf"] = true;  // its fields are those of the conversion, not of a file
    generation_config_ = gguf_generation_config(*shards_);
    files_ = gguf_pooling_files(*shards_);
    layers_ = gguf_layers(*shards_);
    for (const auto& [name, place] : shards_->places()) add_tensor(place);
    for (const GgufName& row : arch_->numbers) add_numbers(row);
    unread_ = unread_model_metadata(shards_->file());
  }

  const fs::path& path() const override { return path_; }
  const nlohmann::json& config() const override { return config_; }
  ConfigOrigin config_origin() const override { return {path_.string(), shards_->sources(), unread_}; }
  std::optional<nlohmann::json> generation_config() const override { return generation_config_; }

  std::optional<std::string> file(std::string_view name) const override {
    const auto it = files_.find(name);
    return it == files_.end() ? std::nullopt : std::optional(it->second);
  }

  std::vector<FileIdentity> weight_files() const override { return shards_->weight_files(); }
  std::vector<std::string> names() const override {
    std::vector<std::string> all;
    all.reserve(entries_.size());
    for (const auto& [name, entry] : entries_) all.push_back(name);
    return all;
  }
  const TensorInfo* find(std::string_view name) const override {
    const auto it = entries_.find(name);
    return it == entries_.end() ? nullptr : &it->second.info;
  }
  std::span<const std::byte> bytes(std::string_view name) const override {
    const auto it = entries_.find(name);
    if (it == entries_.end()) throw Error(cat(path_.string(), ": has no tensor '", name, "'"));
    const Entry& entry = it->second;
    if (entry.info.quantized || entry.as_it_lies()) return entry.stored;
    if (entry.copy.empty()) make_copy(entry);
    return entry.copy;
  }
  const QuantizedMatrix* quantized(std::string_view name) const override {
    const auto it = entries_.find(name);
    return it == entries_.end() ? nullptr : it->second.matrix.get();
  }
  // llama.cpp quantizes activations to 8 bits in products with these weights.
  ActivationFormat default_activations() const override { return ActivationFormat::kInt8; }
  int64_t total_bytes() const override {
    int64_t sum = 0;
    for (const auto& [name, entry] : entries_) sum += static_cast<int64_t>(entry.info.bytes);
    return sum;
  }
  void release(std::string_view name) override {
    const auto it = entries_.find(name);
    if (it == entries_.end()) return;
    it->second.copy = {};
    shards_->release(it->second.shard, it->second.info.offset, it->second.stored.size());
  }

 private:
  const GgufName* find_name(std::string_view pattern) const {
    const auto at = std::find_if(arch_->names.begin(), arch_->names.end(),
                                 [&](const GgufName& row) { return row.gguf == pattern; });
    return at == arch_->names.end() ? nullptr : &*at;
  }

  void add_tensor(const GgufShards::Place& place) {
    const GgufTensor& tensor = *place.tensor;
    if (tensor.name.starts_with("rope_f")) return;  // RoPE factors: part of the configuration
    std::string layer;
    const std::string pattern = layer_pattern(tensor.name, layer);
    if (tensor.name.starts_with("dense_")) return;  // layers after pooling: part of the other files
    if (!layer.empty() && std::atoll(layer.c_str()) >= layers_) return;  // multi-token prediction
    if (const GgufName* row = find_name(pattern)) return add_named(place, *row, layer, "");
    const size_t dot = pattern.rfind('.');
    const std::string suffix = dot == std::string::npos ? "" : pattern.substr(dot);
    const std::string module = pattern.substr(0, dot);
    const bool has_suffix = suffix == ".weight" || suffix == ".bias";
    const GgufName* row = has_suffix ? find_name(module) : nullptr;
    if (row == nullptr && has_suffix && add_single_expert(place, module, layer, suffix)) return;
    if (row != nullptr) {
      add_named(place, *row, layer, suffix);
    } else if (has_suffix && module == "blk.{}.attn_qkv" && find_name("blk.{}.attn_q") != nullptr) {
      add_split_qkv(place, layer, suffix);
    } else {
      // The model has no such tensor; the check for unused tensors reports it.
      add_rows(place, tensor.name, 0, tensor.shape[0], tensor.shape);
    }
  }

  void add_named(const GgufShards::Place& place, const GgufName& row, std::string_view layer,
                 std::string_view suffix) {
    const GgufTensor& tensor = *place.tensor;
    const std::string name = cat(replaced(row.name, "{}", layer), suffix);
    if (name.find(kExpert) == std::string::npos)
      return add_rows(place, name, 0, tensor.shape[0], changed_shape(row.change, tensor.shape), row.change);
    const size_t dims = suffix == ".bias" ? 2 : 3;
    if (tensor.shape.size() != dims)
      shards_->file_of(place).fail(
          cat("tensor '", tensor.name, "' has ", tensor.shape.size(), " dimensions, expected ", dims));
    for (int64_t e = 0; e < tensor.shape[0]; ++e) {
      add_rows(place, replaced(name, kExpert, std::to_string(e)), e, 1,
               {tensor.shape.begin() + 1, tensor.shape.end()});
    }
  }

  // Old files have one tensor per expert, "blk.0.ffn_gate.3.weight". Returns false for other tensors.
  bool add_single_expert(const GgufShards::Place& place, std::string_view module, std::string_view layer,
                         std::string_view suffix) {
    const size_t dot = module.rfind('.');
    const std::string_view number = module.substr(dot + 1);
    if (number.empty() || number.find_first_not_of("0123456789") != std::string_view::npos) return false;
    const GgufName* row = find_name(cat(module.substr(0, dot), "_exps"));
    if (row == nullptr) return false;
    const GgufTensor& tensor = *place.tensor;
    add_rows(place, cat(replaced(replaced(row->name, "{}", layer), kExpert, number), suffix), 0,
             tensor.shape[0], tensor.shape);
    return true;
  }

  // Stacked queries, keys and values, for models that have separate matrices in Hugging Face checkpoints.
  void add_split_qkv(const GgufShards::Place& place, std::string_view layer, std::string_view suffix) {
    const GgufTensor& tensor = *place.tensor;
    const int64_t head = config_.value("head_dim", int64_t{0});
    const int64_t queries = config_.value("num_attention_heads", int64_t{0}) * head;
    const int64_t keys =
        config_.value("num_key_value_heads", config_.value("num_attention_heads", int64_t{0})) * head;
    if (tensor.shape[0] != queries + 2 * keys) {
      shards_->file_of(place).fail(cat("tensor '", tensor.name, "' has ", tensor.shape[0], " rows, expected ",
                                       queries + 2 * keys, " for all queries, keys and values"));
    }
    int64_t first = 0;
    for (const auto& [part, rows] : {std::pair("q", queries), std::pair("k", keys), std::pair("v", keys)}) {
      const GgufName& row = *find_name(cat("blk.{}.attn_", part));
      std::vector<int64_t> shape = tensor.shape;
      shape[0] = rows;
      add_rows(place, cat(replaced(row.name, "{}", layer), suffix), first, rows, std::move(shape));
      first += rows;
    }
  }

  // Adds rows of the outermost dimension as a separate tensor.
  void add_rows(const GgufShards::Place& place, const std::string& name, int64_t first, int64_t rows,
                std::vector<int64_t> shape, GgufChange change = GgufChange::kNone) {
    const GgufTensor& tensor = *place.tensor;
    const GgufFile& file = shards_->file_of(place);
    Entry entry;
    entry.type = tensor.type;
    entry.shard = place.shard;
    const size_t all = static_cast<size_t>(tensor.shape[0]);
    const size_t row_bytes = tensor.bytes / all;
    entry.stored = file.data(tensor).subspan(static_cast<size_t>(first) * row_bytes,
                                             static_cast<size_t>(rows) * row_bytes);
    entry.info.name = name;
    entry.info.shape = std::move(shape);
    entry.info.offset = tensor.offset + static_cast<size_t>(first) * row_bytes;
    entry.info.bytes = entry.stored.size();
    entry.info.quantized = tensor.type->quantized();
    if (tensor.type->dtype) entry.info.dtype = *tensor.type->dtype;
    if (arch_->style == GgufStyle::kPairs) entry.order = order_of(file, entry.info);
    const bool plus_one = arch_->style == GgufStyle::kNormsPlusOne && name.ends_with("norm.weight");
    if (plus_one && change != GgufChange::kPlainNorm) entry.value = without_one;
    if (change == GgufChange::kALog) entry.value = logarithm_of_rate;
    if (entry.value != nullptr) entry.info.dtype = DType::kF32;
    if (entry.info.quantized) {
      if (entry.info.shape.size() != 2 || entry.value != nullptr) {
        file.fail(cat("tensor '", tensor.name, "' is quantized as ", tensor.type->name,
                      ", which is supported for matrices only"));
      }
      entry.matrix =
          make_ggml_matrix(*tensor.type, entry.stored, entry.info.shape[0], entry.info.shape[1], entry.order);
    }
    if (!entries_.emplace(name, std::move(entry)).second)
      file.fail(cat("tensor '", tensor.name, "': duplicate of '", name, "'"));
  }

  // Adds metadata with one value per layer as one-element tensors.
  void add_numbers(const GgufName& row) {
    const GgufFile& file = shards_->file();
    const std::vector<double> values = file.numbers(row.gguf);
    if (static_cast<int64_t>(values.size()) < layers_)
      file.fail(cat("metadata '", row.gguf, "' has ", values.size(), " numbers, expected ", layers_,
                    ", one per layer"));
    for (int64_t layer = 0; layer < layers_; ++layer) {
      const float& value = numbers_.emplace_back(static_cast<float>(values[static_cast<size_t>(layer)]));
      Entry entry;
      entry.type = find_ggml_type("F32");
      entry.stored = std::as_bytes(std::span(&value, 1));
      entry.info.name = replaced(row.name, "{}", std::to_string(layer));
      entry.info.shape = {1};
      entry.info.bytes = sizeof(float);
      entries_.emplace(entry.info.name, std::move(entry));
    }
  }

  std::vector<int32_t> order_of(const GgufFile& file, const TensorInfo& info) const {
    const bool query = info.name.find(".q_proj.") != std::string::npos;
    if (!query && info.name.find(".k_proj.") == std::string::npos) return {};
    const int64_t heads = config_.value("num_attention_heads", int64_t{1});
    const int64_t count = query ? heads : config_.value("num_key_value_heads", heads);
    const int64_t rows = info.shape[0];
    if (count <= 0 || rows % (2 * count) != 0)
      file.fail(cat("tensor '", info.name, "' has ", rows, " rows, which cannot be divided into ", count,
                    " heads of even width"));
    return pair_order(rows, rows / count);
  }

  void make_copy(const Entry& entry) const {
    const auto rows = static_cast<size_t>(entry.info.shape[0]);
    const size_t row_bytes = entry.stored.size() / rows;
    if (!entry.order.empty()) {
      entry.copy.resize(entry.stored.size());
      for (size_t i = 0; i < rows; ++i) {
        std::memcpy(entry.copy.data() + i * row_bytes,
                    entry.stored.data() + static_cast<size_t>(entry.order[i]) * row_bytes, row_bytes);
      }
      return;
    }
    const DType stored = *entry.type->dtype;
    const size_t count = entry.stored.size() / dtype_size(stored);
    std::vector<float> values(count);
    decode_f32(stored, entry.stored.data(), values.data(), static_cast<int64_t>(count));
    for (float& value : values) value = entry.value(value);
    entry.copy.resize(count * sizeof(float));
    std::memcpy(entry.copy.data(), values.data(), entry.copy.size());
  }

  static constexpr std::string_view kExpert = "{e}";

  fs::path path_;
  std::unique_ptr<GgufShards> shards_;
  const GgufArch* arch_ = nullptr;
  int64_t layers_ = 0;
  nlohmann::json config_;
  nlohmann::json generation_config_;
  std::vector<std::string> unread_;                        // metadata
  std::map<std::string, std::string, std::less<>> files_;  // files next to config.json
  std::deque<float> numbers_;  // values from metadata; a deque, because tensors point to them
  std::map<std::string, Entry, std::less<>> entries_;
};

}  // namespace

std::unique_ptr<Checkpoint> open_gguf(const fs::path& file) {
  auto shards = std::make_unique<GgufShards>();
  if (const auto split = split_name(file.string()); split && split->count > 1) {
    std::vector<std::string> missing;
    for (int n = 1; n <= split->count; ++n) {
      if (!fs::exists(split->file(n))) missing.push_back(split->file(n).filename().string());
      if (missing.size() == 20) break;
    }
    if (!missing.empty())
      throw Error(cat(file.string(), ": other files of the model are missing: ", join(missing, ", ")));
    for (int n = 1; n <= split->count; ++n) shards->add_file(split->file(n));
  } else {
    shards->add_file(file);
  }
  shards->build_index();
  return std::make_unique<GgufCheckpoint>(file, std::move(shards));
}

std::unique_ptr<Checkpoint> gguf_from_memory(std::span<const std::byte> bytes, const std::string& name,
                                             std::vector<FileIdentity> weight_files) {
  auto shards = std::make_unique<GgufShards>();
  shards->add_bytes(bytes, name);
  shards->set_weight_files(std::move(weight_files));
  shards->build_index();
  return std::make_unique<GgufCheckpoint>(name, std::move(shards));
}

fs::path find_gguf(const fs::path& dir) {
  std::set<std::string> files;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(dir, error)) {
    const std::string name = entry.path().filename().string();
    // Some models come with projectors for images (mmproj), which are not models.
    if (entry.path().extension() != ".gguf" || name.starts_with("mmproj")) continue;
    const auto split = split_name(name);
    files.insert(split ? split->file(1).string() : name);
  }
  if (files.empty()) return {};
  if (files.size() > 1) {
    throw Error(cat(dir.string(), ": contains several GGUF models; pass the path of one: ",
                    join(std::vector<std::string>(files.begin(), files.end()), ", ")));
  }
  return dir / *files.begin();
}

fs::path first_gguf_file(const fs::path& file) {
  const auto split = split_name(file.string());
  return split ? split->file(1) : file;
}

std::string gguf_model_name(const fs::path& file) {
  const std::string name = file.filename().string();
  const auto split = split_name(name);
  return split ? split->stem : file.stem().string();
}

}  // namespace quire
