#include "io/quantized/sparse_checkpoint.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/strings.h"
#include "io/quantized/module_reader.h"

namespace quire {
namespace {

constexpr std::string_view kKept = ".compressed";
constexpr std::string_view kMask = ".bitmask";
constexpr std::string_view kShape = ".shape";
constexpr std::string_view kRowOffsets = ".row_offsets";

// Reads and checks the description of a module's weight.
TensorInfo read_info(const Checkpoint& files, const std::string& module) {
  ModuleReader reader(files, module);
  const TensorInfo& kept = reader.need(kKept, {DType::kF32, DType::kF16, DType::kBF16});
  const TensorInfo& shape = reader.need(kShape, {DType::kI64});
  std::array<int64_t, 2> size = {};
  if (shape.bytes != sizeof(size))
    reader.fail(kShape, cat("is ", shape.shape_text(), ", expected two numbers"));
  std::memcpy(size.data(), reader.bytes(kShape).data(), sizeof(size));
  const TensorInfo& mask = reader.need(kMask, {DType::kU8}, {-1, -1});
  const auto [n, k] = size;
  if (n != mask.shape[0] || k < 1 || k > 8 * mask.shape[1] || k <= 8 * (mask.shape[1] - 1))
    reader.fail(kMask, cat("is ", mask.shape_text(), ", which does not fit a weight of ", n, " x ", k));
  size_t count = 0;
  const auto bits = reader.bytes(kMask);
  const auto line = static_cast<size_t>(mask.shape[1]);
  for (size_t i = 0; i < bits.size(); ++i) {
    const auto byte = static_cast<uint8_t>(bits[i]);
    const bool last = i % line == line - 1;
    if (last && k % 8 != 0 && byte >> (k % 8) != 0) reader.fail(kMask, cat("has more than ", k, " columns"));
    count += static_cast<size_t>(std::popcount(byte));
  }
  const size_t element = dtype_size(kept.dtype);
  if (kept.bytes != count * element)
    reader.fail(kKept, cat("has ", kept.bytes / element, " values, but the mask has ", count));
  return {.name = cat(module, ".weight"),
          .dtype = kept.dtype,
          .shape = {n, k},
          .bytes = static_cast<size_t>(n) * static_cast<size_t>(k) * element};
}

class SparseCheckpoint : public Checkpoint {
 public:
  explicit SparseCheckpoint(std::unique_ptr<Checkpoint> files) : files_(std::move(files)) {
    for (const std::string& module : modules_with(*files_, kMask)) {
      TensorInfo info = read_info(*files_, module);
      if (files_->find(info.name) != nullptr)
        throw Error(cat(path().string(), ": ", info.name, " is stored both dense and with a mask"));
      for (const std::string_view suffix : {kKept, kMask, kShape, kRowOffsets})
        hidden_.insert(cat(module, suffix));
      std::string name = info.name;
      weights_.emplace(std::move(name), Weight{std::move(info), module, {}});
    }
  }

  const std::filesystem::path& path() const override { return files_->path(); }
  const nlohmann::json& config() const override { return files_->config(); }
  std::optional<nlohmann::json> generation_config() const override { return files_->generation_config(); }
  std::optional<std::string> file(std::string_view name) const override { return files_->file(name); }
  std::vector<FileIdentity> weight_files() const override { return files_->weight_files(); }
  std::vector<std::string> names() const override {
    std::vector<std::string> all;
    for (auto& name : files_->names()) {
      if (!hidden_.contains(name)) all.push_back(std::move(name));
    }
    for (const auto& [name, weight] : weights_) all.push_back(name);
    std::ranges::sort(all);
    return all;
  }
  const TensorInfo* find(std::string_view name) const override {
    const auto it = weights_.find(name);
    if (it != weights_.end()) return &it->second.info;
    return hidden_.contains(name) ? nullptr : files_->find(name);
  }
  std::span<const std::byte> bytes(std::string_view name) const override {
    const auto it = weights_.find(name);
    if (it == weights_.end()) return files_->bytes(name);
    if (it->second.dense.empty()) expand(it->second);
    return it->second.dense;
  }
  const QuantizedMatrix* quantized(std::string_view name) const override {
    return weights_.contains(name) ? nullptr : files_->quantized(name);
  }
  int64_t total_bytes() const override { return files_->total_bytes(); }
  void release(std::string_view name) override {
    const auto it = weights_.find(name);
    if (it == weights_.end()) return files_->release(name);
    it->second.dense = {};
    for (const std::string_view suffix : {kKept, kMask}) files_->release(cat(it->second.module, suffix));
  }

 private:
  struct Weight {
    TensorInfo info;
    std::string module;
    mutable std::vector<std::byte> dense;  // from bytes() to release()
  };

  void expand(const Weight& weight) const {
    const auto kept = files_->bytes(cat(weight.module, kKept));
    const auto mask = files_->bytes(cat(weight.module, kMask));
    const size_t element = dtype_size(weight.info.dtype);
    const auto rows = static_cast<size_t>(weight.info.shape[0]);
    const auto columns = static_cast<size_t>(weight.info.shape[1]);
    const size_t line = mask.size() / rows;
    weight.dense.assign(weight.info.bytes, std::byte{0});
    const std::byte* from = kept.data();
    for (size_t r = 0; r < rows; ++r) {
      for (size_t i = 0; i < columns; ++i) {
        if ((static_cast<uint8_t>(mask[r * line + i / 8]) >> (i % 8) & 1) == 0) continue;
        std::memcpy(weight.dense.data() + (r * columns + i) * element, from, element);
        from += element;
      }
    }
  }

  std::unique_ptr<Checkpoint> files_;
  std::map<std::string, Weight, std::less<>> weights_;
  std::set<std::string, std::less<>> hidden_;
};

}  // namespace

std::unique_ptr<Checkpoint> with_sparse(std::unique_ptr<Checkpoint> files, const nlohmann::json& config) {
  const auto sparsity = config.find("sparsity_config");
  if (sparsity == config.end() || !sparsity->is_object()) return files;
  const auto format = sparsity->find("format");
  if (format == sparsity->end() || *format == "dense") return files;
  if (*format != "sparse-bitmask" && *format != "sparse-24-bitmask")
    throw Error(cat(files->path().string(), ": 'sparsity_config.format' is ", format->dump(),
                    "; supported are sparse-bitmask, sparse-24-bitmask and dense"));
  return std::make_unique<SparseCheckpoint>(std::move(files));
}

}  // namespace quire
