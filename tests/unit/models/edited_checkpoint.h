// A golden checkpoint with changes: tensors renamed, dropped, added, misshapen, or moved by a byte.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/checkpoint.h"
#include "io/json_file.h"
#include "io/mapped_file.h"
#include "io/safetensors.h"
#include "tensor/dtype.h"

namespace quire::test {

struct EditedTensor {
  std::string dtype;  // name in safetensors
  std::vector<int64_t> shape;
  std::vector<std::byte> bytes;
};

inline EditedTensor zeros(std::vector<int64_t> shape, DType dtype = DType::kF32) {
  size_t n = dtype_size(dtype);
  for (const int64_t dim : shape) n *= static_cast<size_t>(dim);
  constexpr const char* kNames[] = {"F64", "F32", "BF16", "F16", "F8_E4M3", "F8_E5M2",
                                    "I64", "I32", "I16",  "I8",  "U8",      "BOOL"};
  return {kNames[static_cast<size_t>(dtype)], std::move(shape), std::vector<std::byte>(n)};
}

// float32 [n, a, b] as [n, b, a].
inline EditedTensor transposed(const EditedTensor& tensor) {
  EditedTensor out = tensor;
  std::swap(out.shape[1], out.shape[2]);
  const auto [n, a, b] = std::array{tensor.shape[0], tensor.shape[1], tensor.shape[2]};
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t r = 0; r < a; ++r) {
      for (int64_t c = 0; c < b; ++c)
        std::memcpy(out.bytes.data() + 4 * ((i * b + c) * a + r),
                    tensor.bytes.data() + 4 * ((i * a + r) * b + c), 4);
    }
  }
  return out;
}

class EditedCheckpoint {
 public:
  EditedCheckpoint() = default;
  // The tensors as they are stored, also those of quantized weights.
  explicit EditedCheckpoint(const std::filesystem::path& dir) : config(read_json_file(dir / "config.json")) {
    for (const auto& entry : std::filesystem::directory_iterator(dir)) {
      if (entry.path().extension() == ".safetensors") add_file(entry.path());
    }
  }

  nlohmann::json config;
  std::map<std::string, EditedTensor> tensors;

  // Every tensor begins `shift` bytes after a multiple of eight. The result refers to this object.
  std::unique_ptr<Checkpoint> open(size_t shift = 0) {
    nlohmann::json header = nlohmann::json::object();
    size_t at = 0;
    for (const auto& [name, tensor] : tensors) {
      header[name] = {
          {"dtype", tensor.dtype}, {"shape", tensor.shape}, {"data_offsets", {at, at + tensor.bytes.size()}}};
      at += tensor.bytes.size();
    }
    std::string text = header.dump();
    while (text.size() % 8 != shift) text += ' ';
    file_.assign(8 + text.size() + at, std::byte{0});
    for (size_t i = 0; i < 8; ++i) file_[i] = static_cast<std::byte>((text.size() >> (8 * i)) & 0xff);
    std::memcpy(file_.data() + 8, text.data(), text.size());
    size_t end = 8 + text.size();
    for (const auto& [name, tensor] : tensors) {
      std::memcpy(file_.data() + end, tensor.bytes.data(), tensor.bytes.size());
      end += tensor.bytes.size();
    }
    config_ = config.dump();
    return Checkpoint::from_memory({"edited", config_, "", file_});
  }

 private:
  void add_file(const std::filesystem::path& path) {
    const MappedFile mapping(path);
    const Safetensors file(mapping.bytes(), path.string());
    for (const TensorInfo& info : file.tensors()) {
      const auto bytes = file.data(info);
      EditedTensor tensor = zeros({}, info.dtype);
      tensor.shape = info.shape;
      tensor.bytes.assign(bytes.begin(), bytes.end());
      tensors.emplace(info.name, std::move(tensor));
    }
  }

  std::vector<std::byte> file_;
  std::string config_;
};

}  // namespace quire::test
