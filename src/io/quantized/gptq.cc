// GPTQ: each module has qweight int32 [k bits / 32, n], packed along K; scales [groups, n]; qzeros int32
// [groups, n bits / 32], packed along n; g_idx int32 [k], the group of each input feature.
#include <algorithm>
#include <cstdint>
#include <numeric>

#include "base/strings.h"
#include "io/quantized/methods.h"

namespace quire {
namespace {

// Input features sorted by group; empty if they are in this order already.
std::vector<int32_t> order_of(ModuleReader& reader, int64_t k, int64_t group_size, int64_t groups) {
  if (reader.find(".g_idx") == nullptr) return {};
  reader.need(".g_idx", {DType::kI32}, {k});
  std::vector<int32_t> group(static_cast<size_t>(k));
  std::memcpy(group.data(), reader.bytes(".g_idx").data(), group.size() * sizeof(int32_t));
  for (const int32_t g : group) {
    if (g < 0 || g >= groups) reader.fail(".g_idx", cat("refers to group ", g, " of ", groups));
  }
  std::vector<int32_t> order(group.size());
  std::iota(order.begin(), order.end(), 0);
  if (groups == 1 || std::ranges::is_sorted(group)) {
    // Sorted already; the loop below checks the size of each group.
  } else {
    std::ranges::stable_sort(order, {}, [&](int32_t i) { return group[static_cast<size_t>(i)]; });
  }
  for (size_t i = 0; i < order.size(); ++i) {
    if (group[static_cast<size_t>(order[i])] != static_cast<int64_t>(i) / group_size)
      reader.fail(".g_idx", cat("has groups that do not have ", group_size, " features each"));
  }
  if (std::ranges::is_sorted(order)) order.clear();
  return order;
}

// With desc_act, the order of quantization decides which features share a scale, and only g_idx tells it.
// static_groups assigns the scales before.
void require_order(ModuleReader& reader, const ConfigReader& config, int64_t groups) {
  if (!config.boolean("desc_act", false) || groups == 1 || reader.find(".g_idx") != nullptr) return;
  // The older and the newer place.
  const bool outer = config.boolean("static_groups", false);
  if (!config.object("meta").boolean("static_groups", outer)) {
    reader.fail(".g_idx", cat("is missing, but 'desc_act' of the quantization is true: the ", groups,
                              " groups of input features are unknown"));
  }
}

}  // namespace

QuantizedModule read_gptq_module(ModuleReader& reader, const ConfigReader& config) {
  const TensorInfo& weight = reader.need(".qweight", {DType::kI32}, {-1, -1});
  const int64_t n = weight.shape[1];
  auto bits = static_cast<int32_t>(config.integer("bits", 1, 32, 4));
  int64_t k = weight.shape[0] * 32 / bits;
  // Modules may have a different bit width than the configuration; g_idx determines the size of K.
  if (const TensorInfo* index = reader.find(".g_idx"); index != nullptr && index->shape.size() == 1) {
    k = std::max<int64_t>(1, index->shape[0]);
    bits = static_cast<int32_t>(weight.shape[0] * 32 / k);
  }
  if (bits != 2 && bits != 3 && bits != 4 && bits != 8)
    reader.fail(".qweight", cat("has values of ", bits, " bits; 2, 3, 4 and 8 are supported"));
  reader.need(".qweight", {DType::kI32}, {BitStreams::words_of(k, bits), n});

  QuantFormat format;
  format.code_bits = bits;
  const ScaleGrid scales =
      reader.scales(".scales", n, k, config.integer("group_size", -1, INT32_MAX, 0), format, true);
  const int64_t group_size = format.group_size == 0 ? k : format.group_size;
  const int64_t groups = (k + group_size - 1) / group_size;
  require_order(reader, config, groups);
  std::vector<int32_t> order = order_of(reader, k, group_size, groups);

  // Symmetric values have their zero point in the middle, regardless of what is stored: some tools store it
  // in the format of the other version.
  const bool symmetric = config.boolean("sym", true);
  format.zero_point = 1 << (bits - 1);
  format.group_zero_points = !symmetric;
  const int64_t zero_words = BitStreams::words_of(n, bits);
  if (symmetric) {
    reader.find(".qzeros");
  } else {
    reader.need(".qzeros", {DType::kI32}, {groups, zero_words});
  }
  const auto zero_bytes = symmetric ? std::span<const std::byte>() : reader.bytes(".qzeros");
  // The first version of the format stores zero points minus one.
  const std::string version = config.text("checkpoint_format", "gptq");
  if (version != "gptq" && version != "gptq_v2")
    config.fail("checkpoint_format", cat("is '", version, "'; gptq and gptq_v2 are supported"));
  const int add = version == "gptq_v2" ? 0 : 1;
  const int mask = (1 << bits) - 1;

  const BitStreams codes(reader.bytes(".qweight"), n, bits);
  auto read = [=](int64_t row, const QuantizedRow& out) {
    for (size_t i = 0; i < out.codes.size(); ++i)
      out.codes[i] = codes.code(row, order.empty() ? static_cast<int64_t>(i) : order[i]);
    scales.read(row, out.block_scales);
    for (size_t g = 0; g < out.group_zero_points.size(); ++g) {
      const auto words = BitStreams::row(zero_bytes, static_cast<int64_t>(g), zero_words, bits);
      out.group_zero_points[g] = static_cast<uint8_t>((words.code(0, row) + add) & mask);
    }
  };
  return reader.finish(format, n, k, std::move(read), order);
}

std::vector<QuantizedModule> read_gptq(const Checkpoint& files, const ConfigReader& config) {
  std::vector<QuantizedModule> modules;
  read_each(files, ".qweight", modules,
            [&](ModuleReader& reader) { return read_gptq_module(reader, config); });
  return modules;
}

}  // namespace quire
