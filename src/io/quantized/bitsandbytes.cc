// bitsandbytes. 4 bits: weight uint8 [n k / 2, 1], concatenated rows, the first of two codes in the high
// half; weight.absmax, one scale per block, float32 or quantized to 8 bits in blocks; weight.quant_map, the
// values of codes; weight.quant_state.bitsandbytes__nf4 (or __fp4), JSON in bytes.
// 8 bits: weight int8 [n, k], SCB float32 [n]: weight = value * SCB / 127.
#include <algorithm>
#include <memory>
#include <numeric>

#include "base/strings.h"
#include "io/json_file.h"
#include "io/quantized/methods.h"
#include "quant/code_tables.h"

namespace quire {
namespace {

struct State {
  int64_t n = 0;
  int64_t k = 0;
  int64_t block = 0;
  int64_t nested_block = 0;
  float nested_offset = 0;
};

State read_state(ModuleReader& reader, const std::string& suffix) {
  reader.need(suffix, {DType::kU8}, {-1});
  const auto bytes = reader.bytes(suffix);
  const nlohmann::json document =
      parse_json(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()), suffix);
  const auto integer = [&](const nlohmann::json& value, const char* field) {
    if (!value.is_number_integer() || value.get<int64_t>() < 1 || value.get<int64_t>() > int64_t{1} << 40)
      reader.fail(suffix, cat("has no positive integer '", field, "'"));
    return value.get<int64_t>();
  };
  const auto shape = document.is_object() ? document.find("shape") : document.end();
  if (shape == document.end() || !shape->is_array() || shape->size() != 2)
    reader.fail(suffix, "has no 'shape' of two dimensions");
  State state;
  state.n = integer((*shape)[0], "shape");
  state.k = integer((*shape)[1], "shape");
  state.block = integer(document.value("blocksize", nlohmann::json()), "blocksize");
  if (document.contains("nested_blocksize")) {
    state.nested_block = integer(document["nested_blocksize"], "nested_blocksize");
    const auto offset = document.find("nested_offset");
    if (offset == document.end() || !offset->is_number())
      reader.fail(suffix, "has no numeric 'nested_offset'");
    state.nested_offset = offset->get<float>();
  }
  return state;
}

std::span<const float> table_of(ModuleReader& reader, std::span<const float> known) {
  reader.need(".weight.quant_map", {DType::kF32}, {16});
  std::vector<float> map(16);
  std::memcpy(map.data(), reader.bytes(".weight.quant_map").data(), 64);
  for (size_t i = 0; i < map.size(); ++i) {
    if (map[i] != known[i])
      reader.fail(".weight.quant_map", cat("has ", map[i], " for code ", i, ", expected ", known[i]));
  }
  return known;
}

// The scale of each block, dequantized.
std::vector<float> block_scales(ModuleReader& reader, const State& state, int64_t blocks) {
  reader.need(".weight.absmax", {DType::kF32, DType::kU8}, {blocks});
  const auto bytes = reader.bytes(".weight.absmax");
  std::vector<float> scales(static_cast<size_t>(blocks));
  if (bytes.size() == scales.size() * sizeof(float)) {
    std::memcpy(scales.data(), bytes.data(), bytes.size());
    return scales;
  }
  if (state.nested_block == 0)
    reader.fail(".weight.absmax", "is quantized, but its state has no 'nested_blocksize'");
  const int64_t outer = (blocks + state.nested_block - 1) / state.nested_block;
  reader.need(".weight.nested_absmax", {DType::kF32}, {outer});
  reader.need(".weight.nested_quant_map", {DType::kF32}, {256});
  const auto map = reader.bytes(".weight.nested_quant_map");
  const auto absmax = reader.bytes(".weight.nested_absmax");
  for (size_t i = 0; i < scales.size(); ++i) {
    const float code = load_number(DType::kF32, map.data() + 4 * static_cast<size_t>(bytes[i]));
    const size_t block = i / static_cast<size_t>(state.nested_block);
    scales[i] = code * load_number(DType::kF32, absmax.data() + 4 * block) + state.nested_offset;
  }
  return scales;
}

QuantizedModule read_4bit(ModuleReader& reader, const std::string& suffix, std::span<const float> known) {
  const State state = read_state(reader, suffix);
  const int64_t n = state.n;
  const int64_t k = state.k;
  if (n > (int64_t{1} << 62) / k || (n * k) % 2 != 0)
    reader.fail(suffix, "has a shape that is too large or an odd number of weights");
  const TensorInfo& weight = reader.need(".weight", {DType::kU8});
  if (static_cast<int64_t>(weight.bytes) != n * k / 2)
    reader.fail(".weight", cat("has ", weight.bytes, " bytes, expected ", n * k / 2));
  QuantFormat format;
  format.code_bits = 4;
  format.values = CodeValues::kTable;
  format.table = table_of(reader, known);
  // Blocks continue across rows.
  format.group_size = format.block_size = std::gcd(k, state.block);
  const int64_t group = format.group_size;
  const auto scales = std::make_shared<const std::vector<float>>(
      block_scales(reader, state, (n * k + state.block - 1) / state.block));
  const auto bytes = reader.bytes(".weight");
  return reader.finish(format, n, k, [=](int64_t row, const QuantizedRow& out) {
    for (size_t i = 0; i < out.codes.size(); ++i) {
      const size_t at = static_cast<size_t>(row * k) + i;
      const auto byte = static_cast<uint8_t>(bytes[at / 2]);
      out.codes[i] = at % 2 == 0 ? byte >> 4 : byte & 15;
    }
    for (size_t g = 0; g < out.block_scales.size(); ++g)
      out.block_scales[g] =
          (*scales)[static_cast<size_t>((row * k + static_cast<int64_t>(g) * group) / state.block)];
  });
}

QuantizedModule read_8bit(ModuleReader& reader) {
  const TensorInfo& weight = reader.need(".weight", {DType::kI8}, {-1, -1});
  const int64_t n = weight.shape[0];
  const int64_t k = weight.shape[1];
  reader.need(".SCB", {DType::kF32}, {n});
  reader.find(".weight_format");
  QuantFormat format;
  format.code_bits = 8;
  format.zero_point = 128;
  format.group_size = format.block_size = 0;
  const ScaleGrid absmax(DType::kF32, reader.bytes(".SCB"), 1, 0);
  const auto bytes = reader.bytes(".weight");
  return reader.finish(format, n, k, [=](int64_t row, const QuantizedRow& out) {
    for (size_t i = 0; i < out.codes.size(); ++i)
      out.codes[i] =
          static_cast<uint8_t>(static_cast<uint8_t>(bytes[static_cast<size_t>(row * k) + i]) ^ 0x80);
    out.block_scales[0] = absmax.at(row, 0) / 127.0F;
  });
}

}  // namespace

std::vector<QuantizedModule> read_bitsandbytes(const Checkpoint& files, const ConfigReader&) {
  std::vector<QuantizedModule> modules;
  const auto read_all = [&](const std::string& suffix, std::span<const float> table) {
    read_each(files, suffix, modules, [&](ModuleReader& reader) { return read_4bit(reader, suffix, table); });
  };
  read_all(".weight.quant_state.bitsandbytes__nf4", nf4_values());
  read_all(".weight.quant_state.bitsandbytes__fp4", fp4_values());
  read_each(files, ".SCB", modules, read_8bit);
  return modules;
}

}  // namespace quire
