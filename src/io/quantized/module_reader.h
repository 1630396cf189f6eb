// Shared by the readers of quantized checkpoints: access to the tensors of a module, with checks; grids of
// scales; bit streams of codes. Load time only; single-threaded, except that matrices may be read by several
// threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/checkpoint.h"
#include "quant/quantized_matrix.h"

namespace quire {

// A quantized weight of a checkpoint, and the tensors that store it.
struct QuantizedModule {
  std::string name;  // name of the weight, "model.layers.0.mlp.up_proj.weight"
  std::unique_ptr<QuantizedMatrix> matrix;
  std::vector<std::string> tensors;
  std::vector<int64_t> shape = {};  // shape of the tensor; empty = [rows, columns]
};

using RowReader = std::function<void(int64_t row, const QuantizedRow& out)>;

// QuantizedMatrix::read_outliers, and the total number of outliers.
struct OutlierReader {
  int64_t count = 0;
  std::function<void(int64_t row, std::vector<Outlier>& out)> read;
};

// Values [rows / row_step, groups] in the file: scales or zero points of groups. A stride of 0 means that all
// share one value.
class ScaleGrid {
 public:
  ScaleGrid() = default;
  ScaleGrid(DType dtype, std::span<const std::byte> bytes, int64_t row_stride, int64_t group_stride,
            int64_t row_step = 1)
      : dtype_(dtype),
        bytes_(bytes),
        row_stride_(row_stride),
        group_stride_(group_stride),
        row_step_(row_step) {}

  DType dtype() const { return dtype_; }
  bool empty() const { return bytes_.empty(); }
  float at(int64_t row, int64_t group) const;
  uint8_t byte_at(int64_t row, int64_t group) const;
  void read(int64_t row, std::span<float> out) const;

 private:
  size_t index(int64_t row, int64_t group) const {
    return static_cast<size_t>(row / row_step_ * row_stride_ + group * group_stride_);
  }

  DType dtype_ = DType::kF32;
  std::span<const std::byte> bytes_;
  int64_t row_stride_ = 0;
  int64_t group_stride_ = 0;
  int64_t row_step_ = 1;
};

// Stream `lane` of codes in little-endian 32-bit words [words, lanes]: code i is in bits [i * bits, (i + 1) *
// bits).
class BitStreams {
 public:
  BitStreams() = default;
  BitStreams(std::span<const std::byte> words, int64_t lanes, int32_t bits)
      : words_(words), lanes_(lanes), bits_(bits) {}

  // For contiguous streams: stream `index` of `length` words.
  static BitStreams row(std::span<const std::byte> words, int64_t index, int64_t length, int32_t bits) {
    const auto bytes = static_cast<size_t>(length) * 4;
    return {words.subspan(static_cast<size_t>(index) * bytes, bytes), 1, bits};
  }
  uint8_t code(int64_t lane, int64_t i) const {
    const int64_t bit = i * bits_;
    const int64_t offset = bit % 32;
    uint64_t word = word_at(bit / 32, lane);
    if (offset + bits_ > 32) word |= uint64_t{word_at(bit / 32 + 1, lane)} << 32;
    return static_cast<uint8_t>((word >> offset) & ((1U << bits_) - 1U));
  }
  static int64_t words_of(int64_t codes, int32_t bits) { return (codes * bits + 31) / 32; }

 private:
  uint32_t word_at(int64_t word, int64_t lane) const {
    uint32_t v;
    std::memcpy(&v, words_.data() + static_cast<size_t>(word * lanes_ + lane) * 4, 4);
    return v;
  }

  std::span<const std::byte> words_;
  int64_t lanes_ = 1;
  int32_t bits_ = 4;
};

class ModuleReader {
 public:
  // `module`: "model.layers.0.mlp.up_proj". The checkpoint must outlive the created matrices.
  ModuleReader(const Checkpoint& files, std::string module) : files_(files), module_(std::move(module)) {}

  const std::string& module() const { return module_; }

  // Finds a tensor of the module and records it as part of the weight; null if it does not exist.
  const TensorInfo* find(std::string_view suffix);
  // Same, but throws Error if it does not exist or has another type or shape. A dimension of -1 matches any
  // size.
  const TensorInfo& need(std::string_view suffix, std::initializer_list<DType> types,
                         std::initializer_list<int64_t> shape);
  const TensorInfo& need(std::string_view suffix, std::initializer_list<DType> types);  // any shape
  std::span<const std::byte> bytes(std::string_view suffix) const;
  // The tensor as a grid of scales for a matrix [n, k]: one value, [n, 1], [n], or [blocks of rows, groups];
  // `transposed`: [groups, n]. Sets the group size, block size and scale type of the format. `group_size`:
  // from the configuration, 0 if not given.
  ScaleGrid scales(std::string_view suffix, int64_t n, int64_t k, int64_t group_size, QuantFormat& format,
                   bool transposed = false, int64_t row_step = 1);
  // A tensor with one float.
  float number(std::string_view suffix);

  [[noreturn]] void fail(std::string_view suffix, std::string_view problem) const;
  // Errors about the format contain the module.
  QuantizedModule finish(const QuantFormat& format, int64_t n, int64_t k, RowReader read,
                         std::vector<int32_t> order = {}, OutlierReader outliers = {});

 private:
  const Checkpoint& files_;
  std::string module_;
  std::vector<std::string> taken_;
};

// Loads an element of the file at any alignment.
float load_number(DType dtype, const std::byte* at);

// The modules X for which a tensor X + suffix exists.
std::vector<std::string> modules_with(const Checkpoint& files, std::string_view suffix);

// Calls read(reader) for each of them and appends the results to `modules`.
template <typename Read>
void read_each(const Checkpoint& files, std::string_view suffix, std::vector<QuantizedModule>& modules,
               Read read) {
  for (const std::string& name : modules_with(files, suffix)) {
    ModuleReader reader(files, name);
    modules.push_back(read(reader));
  }
}

}  // namespace quire
