// A checkpoint with replaced values for some tensors. The underlying checkpoint must outlive it.
#pragma once

#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "io/checkpoint.h"
#include "tensor/tensor.h"

namespace quire {

class OverlayCheckpoint : public Checkpoint {
 public:
  explicit OverlayCheckpoint(Checkpoint& below) : below_(below) {}

  // Replaces the tensor by float32 values of the same shape until it is removed.
  void replace(const std::string& name, std::span<const float> values) {
    Entry& entry = entries_[name];
    entry.info = *below_.find(name);
    entry.info.dtype = DType::kF32;
    entry.info.quantized = false;
    entry.info.bytes = values.size_bytes();
    entry.data = Buffer(values.size_bytes());
    std::memcpy(entry.data.data(), values.data(), values.size_bytes());
  }
  void clear() { entries_.clear(); }

  const std::filesystem::path& path() const override { return below_.path(); }
  const nlohmann::json& config() const override { return below_.config(); }
  std::optional<nlohmann::json> generation_config() const override { return below_.generation_config(); }
  std::vector<std::string> names() const override { return below_.names(); }
  const TensorInfo* find(std::string_view name) const override {
    const auto it = entries_.find(name);
    return it == entries_.end() ? below_.find(name) : &it->second.info;
  }
  std::span<const std::byte> bytes(std::string_view name) const override {
    const auto it = entries_.find(name);
    if (it == entries_.end()) return below_.bytes(name);
    return {it->second.data.data(), it->second.data.size()};
  }
  const QuantizedMatrix* quantized(std::string_view name) const override {
    return entries_.contains(name) ? nullptr : below_.quantized(name);
  }
  int64_t total_bytes() const override { return below_.total_bytes(); }
  void release(std::string_view name) override {
    if (!entries_.contains(name)) below_.release(name);
  }

 private:
  struct Entry {
    TensorInfo info;
    Buffer data;
  };
  Checkpoint& below_;
  std::map<std::string, Entry, std::less<>> entries_;
};

}  // namespace quire
