// Writes valid and invalid GGUF files for tests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "io/gguf/gguf_file.h"

namespace quire::test {

class GgufWriter {
 public:
  uint32_t version = 3;
  size_t alignment = 32;

  template <typename T>
  static std::string raw(T value) {
    std::string bytes(sizeof(T), '\0');
    std::memcpy(bytes.data(), &value, sizeof(T));
    return bytes;
  }
  static std::string string(std::string_view text) { return raw<uint64_t>(text.size()) + std::string(text); }

  void entry(std::string_view key, GgufType type, const std::string& bytes) {
    entries_ += string(key) + raw(static_cast<uint32_t>(type)) + bytes;
    ++num_entries_;
  }
  void text(std::string_view key, std::string_view value) { entry(key, GgufType::kString, string(value)); }
  void u32(std::string_view key, uint32_t value) { entry(key, GgufType::kU32, raw(value)); }
  void f32(std::string_view key, float value) { entry(key, GgufType::kF32, raw(value)); }
  void boolean(std::string_view key, bool value) { entry(key, GgufType::kBool, raw<uint8_t>(value ? 1 : 0)); }
  void texts(std::string_view key, const std::vector<std::string>& values) {
    std::string bytes;
    for (const auto& value : values) bytes += string(value);
    array(key, GgufType::kString, values.size(), bytes);
  }
  template <typename T>
  void numbers(std::string_view key, GgufType type, const std::vector<T>& values) {
    std::string bytes;
    for (const auto value : values) bytes += raw(static_cast<T>(value));
    array(key, type, values.size(), bytes);
  }
  void array(std::string_view key, GgufType type, uint64_t count, const std::string& bytes) {
    entry(key, GgufType::kArray, raw(static_cast<uint32_t>(type)) + raw(count) + bytes);
  }
  // A value as JSON, with the type names of the PyPI package: "UINT32", or "ARRAY" and the type of its
  // elements.
  void json(std::string_view key, const std::vector<std::string>& types, const nlohmann::json& value) {
    const std::string& type = types.back();
    std::string bytes;
    GgufType id = GgufType::kU32;
    const auto append = [&](const nlohmann::json& v) {
      if (type == "STRING") {
        id = GgufType::kString;
        bytes += string(v.get<std::string>());
      } else if (type == "BOOL") {
        id = GgufType::kBool;
        bytes += raw<uint8_t>(v.get<bool>() ? 1 : 0);
      } else if (type == "FLOAT32") {
        id = GgufType::kF32;
        bytes += raw(v.get<float>());
      } else if (type == "INT32") {
        id = GgufType::kI32;
        bytes += raw(v.get<int32_t>());
      } else if (type == "UINT32") {
        bytes += raw(v.get<uint32_t>());
      } else {
        throw std::runtime_error("the test writer does not support the metadata type " + type);
      }
    };
    if (types.size() == 1) {
      append(value);
      return entry(key, id, bytes);
    }
    for (const auto& v : value) append(v);
    array(key, id, value.size(), bytes);
  }

  // Dimensions in the order of the file: innermost first.
  void tensor(std::string_view name, std::span<const uint64_t> dims, uint32_t type, std::string_view data) {
    data_.resize((data_.size() + alignment - 1) / alignment * alignment, '\0');
    tensor_at(name, dims, type, data_.size());
    data_ += data;
  }
  void tensor_at(std::string_view name, std::span<const uint64_t> dims, uint32_t type, uint64_t offset) {
    tensors_ += string(name) + raw(static_cast<uint32_t>(dims.size()));
    for (const uint64_t dim : dims) tensors_ += raw(dim);
    tensors_ += raw(type) + raw(offset);
    ++num_tensors_;
  }
  void f32_tensor(std::string_view name, const std::vector<uint64_t>& dims,
                  const std::vector<float>& values) {
    tensor(name, dims, 0, {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)});
  }

  std::string file() const {
    std::string all = "GGUF" + raw(version) + raw<uint64_t>(num_tensors_) + raw<uint64_t>(num_entries_) +
                      entries_ + tensors_;
    all.resize((all.size() + alignment - 1) / alignment * alignment, '\0');
    return all + data_;
  }

 private:
  std::string entries_, tensors_, data_;
  uint64_t num_entries_ = 0, num_tensors_ = 0;
};

}  // namespace quire::test
