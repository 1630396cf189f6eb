// The bytes of each format (target.h).
#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/strings.h"
#include "quant/code_tables.h"
#include "quant/codec.h"
#include "quant/float_rounding.h"
#include "quantize/float4.h"
#include "quantize/target.h"

namespace quire {
namespace {

// The quantization state of bitsandbytes is JSON in a tensor whose size is announced before its contents are
// known, so it is padded with spaces.
constexpr int64_t kStateBytes = 320;
constexpr int64_t kFloat8Block = 128;

int64_t words_of(int64_t codes, int32_t bits) {
  return (codes * bits + 31) / 32;
}

template <typename T>
std::vector<std::byte> bytes_of(std::span<const T> values) {
  std::vector<std::byte> bytes(values.size_bytes());
  if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}
std::vector<std::byte> numbers(DType type, std::span<const float> values) {
  std::vector<std::byte> bytes(values.size() * dtype_size(type));
  std::vector<uint32_t> aligned((bytes.size() + 3) / 4);
  for (size_t i = 0; i < values.size(); ++i)
    store_f32(type, aligned.data(), static_cast<int64_t>(i), values[i]);
  if (!bytes.empty()) std::memcpy(bytes.data(), aligned.data(), bytes.size());
  return bytes;
}

// Streams of values in 32-bit words [words, lanes]: value i of a stream is in bits [i * bits, (i + 1) *
// bits).
class WordStreams {
 public:
  WordStreams(int64_t codes, int64_t lanes, int32_t bits)
      : lanes_(lanes), bits_(bits), words_(static_cast<size_t>(words_of(codes, bits) * lanes)) {}

  void put(int64_t lane, int64_t i, uint32_t code) {
    const int64_t bit = i * bits_;
    const int64_t shift = bit % 32;
    word(bit / 32, lane) |= code << shift;
    if (shift + bits_ > 32) word(bit / 32 + 1, lane) |= code >> (32 - shift);
  }
  std::vector<std::byte> bytes() const { return bytes_of<uint32_t>(words_); }

 private:
  uint32_t& word(int64_t index, int64_t lane) { return words_[static_cast<size_t>(index * lanes_ + lane)]; }

  int64_t lanes_;
  int32_t bits_;
  std::vector<uint32_t> words_;
};

// The scales as [groups, n] or [n, groups].
std::vector<float> scales_of(const IntMatrix& m, bool by_group) {
  std::vector<float> scales;
  scales.reserve(m.groups.size());
  if (by_group) {
    for (int64_t g = 0; g < m.num_groups(); ++g) {
      for (int64_t row = 0; row < m.n; ++row) scales.push_back(m.group(row, g).scale);
    }
  } else {
    for (const IntGroup& group : m.groups) scales.push_back(group.scale);
  }
  return scales;
}

TensorBytes pack_gptq(const Target& target, const IntMatrix& m) {
  WordStreams codes(m.k, m.n, m.rounding.bits);
  for (int64_t row = 0; row < m.n; ++row) {
    for (int64_t i = 0; i < m.k; ++i) codes.put(row, i, m.code(row, i));
  }
  // The first version of the format stores zero points minus one.
  const int32_t less = target.zero_points ? 0 : 1;
  std::vector<std::byte> zero_points;
  for (int64_t g = 0; g < m.num_groups(); ++g) {
    WordStreams line(m.n, 1, m.rounding.bits);
    for (int64_t row = 0; row < m.n; ++row)
      line.put(0, row, static_cast<uint32_t>(m.group(row, g).zero_point - less));
    const auto bytes = line.bytes();
    zero_points.insert(zero_points.end(), bytes.begin(), bytes.end());
  }
  std::vector<int32_t> groups(static_cast<size_t>(m.k));
  for (int64_t i = 0; i < m.k; ++i) groups[static_cast<size_t>(i)] = static_cast<int32_t>(m.group_at(i));
  return {codes.bytes(), std::move(zero_points), numbers(DType::kF16, scales_of(m, true)),
          bytes_of<int32_t>(groups)};
}

// Column 8 j + c of a line is stored in 4-bit field kAwqPlace[c] of word j.
constexpr std::array<int64_t, 8> kAwqPlace = {0, 4, 1, 5, 2, 6, 3, 7};

TensorBytes pack_awq(const IntMatrix& m) {
  const auto place = [](int64_t row) { return row / 8 * 8 + kAwqPlace[static_cast<size_t>(row % 8)]; };
  std::vector<std::byte> codes;
  std::vector<std::byte> zero_points;
  for (int64_t i = 0; i < m.k; ++i) {
    WordStreams line(m.n, 1, 4);
    for (int64_t row = 0; row < m.n; ++row) line.put(0, place(row), m.code(row, i));
    const auto bytes = line.bytes();
    codes.insert(codes.end(), bytes.begin(), bytes.end());
  }
  for (int64_t g = 0; g < m.num_groups(); ++g) {
    WordStreams line(m.n, 1, 4);
    for (int64_t row = 0; row < m.n; ++row)
      line.put(0, place(row), static_cast<uint32_t>(m.group(row, g).zero_point));
    const auto bytes = line.bytes();
    zero_points.insert(zero_points.end(), bytes.begin(), bytes.end());
  }
  return {std::move(codes), std::move(zero_points), numbers(DType::kF16, scales_of(m, true))};
}

TensorBytes pack_words(const Target& target, const IntMatrix& m) {
  std::vector<std::byte> codes;
  for (int64_t row = 0; row < m.n; ++row) {
    WordStreams line(m.k, 1, m.rounding.bits);
    for (int64_t i = 0; i < m.k; ++i) line.put(0, i, m.code(row, i));
    const auto bytes = line.bytes();
    codes.insert(codes.end(), bytes.begin(), bytes.end());
  }
  const std::array<int64_t, 2> shape = {m.n, m.k};
  TensorBytes out = {std::move(codes), numbers(target.rounding().scales, scales_of(m, false)),
                     bytes_of<int64_t>(shape)};
  if (target.zero_points) {
    WordStreams zero_points(m.n, m.num_groups(), m.rounding.bits);
    for (int64_t row = 0; row < m.n; ++row) {
      for (int64_t g = 0; g < m.num_groups(); ++g)
        zero_points.put(g, row, static_cast<uint32_t>(m.group(row, g).zero_point));
    }
    out.push_back(zero_points.bytes());
  }
  if (target.act_order) {
    std::vector<int32_t> groups(static_cast<size_t>(m.k));
    for (int64_t i = 0; i < m.k; ++i) groups[static_cast<size_t>(i)] = static_cast<int32_t>(m.group_at(i));
    out.push_back(bytes_of<int32_t>(groups));
  }
  return out;
}

TensorBytes pack_int8(const IntMatrix& m) {
  std::vector<std::byte> codes(m.codes.size());
  for (size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<std::byte>(m.codes[i] ^ 0x80);
  return {std::move(codes), numbers(DType::kF32, scales_of(m, false))};
}

TensorBytes pack_table(const Target& target, ThreadPool& pool, std::span<const float> w, int64_t n,
                       int64_t k) {
  const auto table = target.format->table == "nf4" ? nf4_values() : fp4_values();
  const TableBlocks blocks = round_to_table(pool, w, table, target.group_size);
  std::vector<std::byte> codes(w.size() / 2);
  for (size_t i = 0; i < codes.size(); ++i)
    codes[i] = static_cast<std::byte>(blocks.codes[2 * i] << 4 | blocks.codes[2 * i + 1]);
  nlohmann::ordered_json state = {{"quant_type", target.format->table},
                                  {"blocksize", target.group_size},
                                  {"dtype", dtype_name(target.float_type)},
                                  {"shape", {n, k}}};
  TensorBytes out = {std::move(codes)};
  if (target.nested_scales) {
    const NestedScales nested = round_scales(blocks.scales);
    state["nested_blocksize"] = kNestedBlock;
    state["nested_dtype"] = "float32";
    state["nested_offset"] = static_cast<double>(nested.offset);
    out.push_back(bytes_of<uint8_t>(nested.codes));
    out.push_back(bytes_of(table));
    out.push_back(bytes_of<float>(nested.scales));
    out.push_back(bytes_of(dynamic_values()));
  } else {
    out.push_back(bytes_of<float>(blocks.scales));
    out.push_back(bytes_of(table));
  }
  std::string text = state.dump();
  text.resize(static_cast<size_t>(kStateBytes), ' ');
  out.push_back(bytes_of<char>(std::span<const char>(text)));
  return out;
}

}  // namespace

std::vector<TensorInfo> target_tensors(const Target& target, const std::string& module, int64_t n,
                                       int64_t k) {
  std::vector<TensorInfo> out;
  const auto add = [&](std::string_view suffix, DType type, std::vector<int64_t> shape) {
    out.push_back({.name = cat(module, suffix), .dtype = type, .shape = std::move(shape)});
  };
  const int64_t group = target.group_size == 0 ? k : std::min(k, target.group_size);
  const int64_t groups = (k + group - 1) / group;
  const auto blocks = [](int64_t size, int64_t block) { return (size + block - 1) / block; };
  switch (target.format->packing) {
    case Packing::kGptq:
      add(".qweight", DType::kI32, {words_of(k, target.bits), n});
      add(".qzeros", DType::kI32, {groups, words_of(n, target.bits)});
      add(".scales", DType::kF16, {groups, n});
      add(".g_idx", DType::kI32, {k});
      break;
    case Packing::kAwq:
      if (n % 8 != 0)
        throw Error(cat(module, ".weight: AWQ needs a multiple of 8 rows, but the matrix has ", n));
      add(".qweight", DType::kI32, {k, n / 8});
      add(".qzeros", DType::kI32, {groups, n / 8});
      add(".scales", DType::kF16, {groups, n});
      break;
    case Packing::kPackedInts:
      add(".weight_packed", DType::kI32, {n, words_of(k, target.bits)});
      add(".weight_scale", target.rounding().scales, {n, groups});
      add(".weight_shape", DType::kI64, {2});
      if (target.zero_points) add(".weight_zero_point", DType::kI32, {words_of(n, target.bits), groups});
      if (target.act_order) add(".weight_g_idx", DType::kI32, {k});
      break;
    case Packing::kInt8:
      add(".weight", DType::kI8, {n, k});
      add(".weight_scale", DType::kF32, {n, 1});
      break;
    case Packing::kFloat8Rows:
      add(".weight", DType::kF8E4M3, {n, k});
      add(".weight_scale", DType::kF32, {n, 1});
      break;
    case Packing::kFloat8Blocks:
      add(".weight", DType::kF8E4M3, {n, k});
      add(".weight_scale_inv", DType::kF32, {blocks(n, kFloat8Block), blocks(k, kFloat8Block)});
      break;
    case Packing::kNvFp4:
    case Packing::kMxFp4:
      if (k % target.group_size != 0)
        throw Error(cat(module, ".weight: the format ", target.format->name, " needs a multiple of ",
                        target.group_size, " columns, but the matrix has ", k));
      add(".weight_packed", DType::kU8, {n, k / 2});
      if (target.format->packing == Packing::kMxFp4) {
        add(".weight_scale", DType::kU8, {n, groups});
      } else {
        add(".weight_scale", DType::kF8E4M3, {n, groups});
        add(".weight_global_scale", DType::kF32, {1});
      }
      break;
    case Packing::kTable: {
      // Blocks continue across rows. With other widths they would start between two values that share a byte.
      if (k % 8 != 0)
        throw Error(cat(module, ".weight: the format ", target.format->name,
                        " needs a multiple of 8 columns, but the matrix has ", k));
      const int64_t count = blocks(n * k, target.group_size);
      add(".weight", DType::kU8, {n * k / 2, 1});
      add(".weight.absmax", target.nested_scales ? DType::kU8 : DType::kF32, {count});
      add(".weight.quant_map", DType::kF32, {16});
      if (target.nested_scales) {
        add(".weight.nested_absmax", DType::kF32, {blocks(count, kNestedBlock)});
        add(".weight.nested_quant_map", DType::kF32, {256});
      }
      add(cat(".weight.quant_state.bitsandbytes__", target.format->table), DType::kU8, {kStateBytes});
      break;
    }
  }
  return out;
}

TensorBytes pack_ints(const Target& target, const IntMatrix& matrix) {
  switch (target.format->packing) {
    case Packing::kGptq:
      return pack_gptq(target, matrix);
    case Packing::kAwq:
      return pack_awq(matrix);
    case Packing::kPackedInts:
      return pack_words(target, matrix);
    default:
      return pack_int8(matrix);
  }
}

TensorBytes pack_floats(const Target& target, ThreadPool& pool, std::span<const float> w, int64_t n,
                        int64_t k) {
  if (target.format->packing == Packing::kTable) return pack_table(target, pool, w, n, k);
  const bool nvfp4 = target.format->packing == Packing::kNvFp4;
  if (nvfp4 || target.format->packing == Packing::kMxFp4) {
    const Float4Matrix m = nvfp4 ? round_to_nvfp4(pool, w, n, k) : round_to_mxfp4(pool, w, n, k);
    std::vector<std::byte> codes(w.size() / 2);
    for (size_t i = 0; i < codes.size(); ++i)
      codes[i] = static_cast<std::byte>(m.codes[2 * i] | m.codes[2 * i + 1] << 4);
    TensorBytes out = {std::move(codes), bytes_of<uint8_t>(m.scales)};
    if (nvfp4) out.push_back(numbers(DType::kF32, std::span(&m.divisor, 1)));
    return out;
  }
  const bool blocks = target.format->packing == Packing::kFloat8Blocks;
  const Float8Matrix m = round_to_e4m3(pool, w, n, k, blocks ? kFloat8Block : 1, blocks ? kFloat8Block : k);
  return {bytes_of<uint8_t>(m.codes), numbers(DType::kF32, m.scales)};
}

}  // namespace quire
