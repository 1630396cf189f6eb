// What the readers of quantized checkpoints share: the tensors that one module's weight is made of, checked;
// grids of scales; codes in streams of bits. Load time only; one thread, except that matrices may be read by
// several.
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
#include "quant/coded_matrix.h"

namespace quire {

// A weight that a checkpoint stores as codes, and the tensors that it is made of.
struct QuantizedModule {
  std::string name;  // the weight's: "model.layers.0.mlp.up_proj.weight"
  std::unique_ptr<CodedMatrix> matrix;
  std::vector<std::string> tensors;
  std::vector<int64_t> shape = {};  // the tensor's; empty: [rows, columns]
};

using RowReader = std::function<void(int64_t row, const CodedRow& out)>;

// CodedMatrix::read_outliers, and how many there are of all rows.
struct OutlierReader {
  int64_t count = 0;
  std::function<void(int64_t row, std::vector<Outlier>& out)> read;
};

// Numbers [rows / row_step, groups] in the file: scales or zeros of groups. A stride of 0: all share one.
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

// Stream `lane` of codes in little-endian 32-bit words [words, lanes]: code i is bits [i bits, (i + 1) bits)
// of it.
class BitStreams {
 public:
  BitStreams() = default;
  BitStreams(std::span<const std::byte> words, int64_t lanes, int32_t bits)
      : words_(words), lanes_(lanes), bits_(bits) {}

  // Where words of one stream follow each other: stream `index` of `length` words.
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
  // `module`: "model.layers.0.mlp.up_proj". The checkpoint outlives what is made here.
  ModuleReader(const Checkpoint& files, std::string module) : files_(files), module_(std::move(module)) {}

  const std::string& module() const { return module_; }

  // The module's tensor, which is then one of those that the weight is made of; null: it has none.
  const TensorInfo* find(std::string_view suffix);
  // The same; Error where there is none, or its type or shape is another. A dimension of -1 may have any
  // size.
  const TensorInfo& need(std::string_view suffix, std::initializer_list<DType> types,
                         std::initializer_list<int64_t> shape);
  const TensorInfo& need(std::string_view suffix, std::initializer_list<DType> types);  // of any shape
  std::span<const std::byte> bytes(std::string_view suffix) const;
  // The tensor as a grid of scales of a matrix [n, k]: one number, [n, 1], [n], or [blocks of rows, groups]
  // where it has so many of both; `transposed`: [groups, n]. Sets the format's group and block size and type
  // of scales. `group_size`: what the configuration says, 0 where nothing.
  ScaleGrid scales(std::string_view suffix, int64_t n, int64_t k, int64_t group_size, CodedFormat& format,
                   bool transposed = false, int64_t row_step = 1);
  // A tensor of one float32.
  float number(std::string_view suffix);

  [[noreturn]] void fail(std::string_view suffix, std::string_view problem) const;
  // Names the module in complaints about the format.
  QuantizedModule finish(const CodedFormat& format, int64_t n, int64_t k, RowReader read,
                         std::vector<int32_t> order = {}, OutlierReader outliers = {});

 private:
  const Checkpoint& files_;
  std::string module_;
  std::vector<std::string> taken_;
};

// An element of the file, which may lie at any address.
float load_number(DType dtype, const std::byte* at);

// The modules X for which there is a tensor X + suffix.
std::vector<std::string> modules_with(const Checkpoint& files, std::string_view suffix);

// read(reader) of each of them, behind what `modules` has.
template <typename Read>
void read_each(const Checkpoint& files, std::string_view suffix, std::vector<QuantizedModule>& modules,
               Read read) {
  for (const std::string& name : modules_with(files, suffix)) {
    ModuleReader reader(files, name);
    modules.push_back(read(reader));
  }
}

}  // namespace quire
