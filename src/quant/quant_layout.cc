#include "quant/quant_layout.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "base/strings.h"
#include "tensor/dtype.h"

namespace quire {
namespace {

constexpr int64_t kQuantPanel = QuantLayout::kPanel;
constexpr int64_t kLine = QuantLayout::kLine;

// Bits [first, first + width) of a code.
struct Plane {
  int32_t width;
  int32_t first;
};

std::span<const Plane> planes_of(int32_t bits) {
  static constexpr std::array<Plane, 2> kTwo = {{{4, 0}, {2, 4}}};
  static constexpr std::array<Plane, 2> kFive = {{{4, 0}, {1, 4}}};
  static constexpr std::array<Plane, 2> kThree = {{{2, 0}, {1, 2}}};
  static constexpr std::array<Plane, 3> kOne = {{{2, 0}, {4, 0}, {8, 0}}};
  switch (bits) {
    case 3:
      return kThree;
    case 5:
      return kFive;
    case 6:
      return kTwo;
    default:
      return std::span(kOne).subspan(bits == 2 ? 0 : bits == 4 ? 1 : 2, 1);
  }
}

float load_scale(const QuantFormat& format, const std::byte* scales, int64_t i) {
  if (!format.half_scales && !format.bfloat_scales) return reinterpret_cast<const float*>(scales)[i];
  const uint16_t bits = reinterpret_cast<const uint16_t*>(scales)[i];
  return format.half_scales ? f16_to_f32(bits) : bf16_to_f32(bits);
}

void store_scale(const QuantFormat& format, std::byte* scales, int64_t i, float v) {
  if (!format.half_scales && !format.bfloat_scales) {
    reinterpret_cast<float*>(scales)[i] = v;
  } else {
    reinterpret_cast<uint16_t*>(scales)[i] = format.half_scales ? f32_to_f16(v) : f32_to_bf16(v);
  }
}

// out[0, n) = the codes of elements [first, first + n) along K of a block's `row`.
void load_codes(const QuantLayout& at, const std::byte* codes, int64_t row, int64_t first, int64_t n,
                uint8_t* out) {
  for (const int64_t end = first + n; first < end;) {
    const int64_t begin = first % at.unit;  // within its unit
    const int64_t count = std::min(at.unit - begin, end - first);
    const auto* plane_at =
        reinterpret_cast<const uint8_t*>(codes) + first / at.unit * at.unit * kQuantPanel * at.bits / 8;
    std::fill_n(out, count, uint8_t{0});
    for (const auto [width, first_bit] : planes_of(at.bits)) {
      const int64_t in_byte = 8 / width;
      const int32_t mask = (1 << width) - 1;
      const uint8_t* bytes = plane_at + row % kQuantPanel * 4;
      for (int64_t i = 0; i < count; ++i) {
        const int64_t quad = (begin + i) / 4;
        const int32_t bits = bytes[quad / in_byte * kLine + (begin + i) % 4] >> (quad % in_byte * width);
        out[i] = static_cast<uint8_t>(out[i] | (bits & mask) << first_bit);
      }
      plane_at += at.unit / 4 / in_byte * kLine;
    }
    first += count;
    out += count;
  }
}

}  // namespace

void check_quant_format(const QuantFormat& format) {
  const auto require = [](bool ok, const auto&... problem) {
    if (!ok) throw Error(cat("quantized weights: ", problem...));
  };
  require(format.code_bits >= 1 && format.code_bits <= 8, "unsupported code width of ", format.code_bits,
          " bits; 1 to 8 bits are supported");
  require(format.group_size >= 0 && format.group_size % 8 == 0, "unsupported group size ", format.group_size,
          "; 0 (one group per row) and multiples of 8 are supported");
  require(format.block_size >= 0, "unsupported block size ", format.block_size);
  require(format.group_size == 0 ? format.block_size == 0 : format.block_size % format.group_size == 0,
          "block size ", format.block_size, " is not a multiple of group size ", format.group_size);
  require(!format.half_scales || !format.bfloat_scales,
          "half_scales and bfloat_scales are mutually exclusive");
  require(format.values == CodeValues::kLinear || !(format.group_zero_points || format.minima),
          "table codes do not support zero points or mins");
  require(format.values != CodeValues::kRowTable || (format.code_bits >= 2 && format.code_bits <= 4 &&
                                                     format.group_size == 0 && !format.two_levels()),
          "row tables need codes of 2 to 4 bits and one group per row");
  require(format.values != CodeValues::kTable || format.table.size() == size_t{1} << format.code_bits,
          "a table of ", format.table.size(), " values does not fit codes of ", format.code_bits, " bits");
  require(format.group_scale_table.empty() || (format.two_levels() && format.group_scale_table.size() == 256),
          "group_scale_table needs 256 entries and two levels of scales, but has ",
          format.group_scale_table.size(), " entries");
}

QuantLayout::QuantLayout(const QuantFormat& quantized, int64_t row_size) : format(quantized), k(row_size) {
  group = quantized.group_size == 0 ? k : std::min(quantized.group_size, k);
  block = quantized.block_size == 0 ? k : std::min(quantized.block_size, k);
  bits = quantized.code_bits == 1 ? 2 : quantized.code_bits == 7 ? 8 : quantized.code_bits;
  unit = bits == 8 ? 4 : bits == 4 ? 8 : bits == 2 || bits == 6 ? 16 : 32;
  scale_bytes = quantized.half_scales || quantized.bfloat_scales ? 2 : 4;
  num_scales = scales_of_block(quantized);
  const auto bytes = [&](int64_t depth) {
    return header(depth).codes + (depth + unit - 1) / unit * unit * kQuantPanel * bits / 8;
  };
  block_bytes = bytes(block);
  const int64_t whole = k / block;
  panel_bytes = whole * block_bytes + (k % block > 0 ? bytes(k % block) : 0);
}

QuantLayout::Header QuantLayout::header(int64_t depth) const {
  const int64_t groups = groups_of(depth);
  const bool two = format.two_levels();
  Header at;
  at.minima = kQuantPanel * num_scales * scale_bytes;
  at.group_scales = at.minima + (format.minima ? kQuantPanel * scale_bytes : 0);
  at.group_minima = at.group_scales + (two ? groups * kQuantPanel : 0);
  at.group_zero_points = at.group_minima + (two && format.minima ? groups * kQuantPanel : 0);
  at.codes = at.group_zero_points + (format.group_zero_points ? groups * kQuantPanel : 0);
  at.codes = (at.codes + 63) / 64 * 64;
  return at;
}

QuantizedPacker::QuantizedPacker(const QuantLayout& layout)
    : at_(layout),
      codes_(static_cast<size_t>(kQuantPanel * layout.k)),
      block_scales_(static_cast<size_t>(kQuantPanel * layout.num_blocks() * layout.num_scales)),
      block_minima_(layout.format.minima ? block_scales_.size() : 0),
      group_scales_(layout.format.two_levels() ? static_cast<size_t>(kQuantPanel * layout.num_groups()) : 0),
      group_minima_(layout.format.minima ? group_scales_.size() : 0),
      group_zero_points_(
          layout.format.group_zero_points ? static_cast<size_t>(kQuantPanel * layout.num_groups()) : 0) {}

void QuantizedPacker::pack(std::span<const QuantizedMatrix* const> parts, int64_t first, std::byte* panel) {
  read(parts, first);
  for (int64_t b = 0; b < at_.num_blocks(); ++b) {
    std::byte* block = panel + b * at_.block_bytes;
    store_header(b, block);
    store_codes(b, block + at_.header(at_.depth_of(b)).codes);
  }
}

void QuantizedPacker::read(std::span<const QuantizedMatrix* const> parts, int64_t first) {
  const auto row_of = [](auto& all, int64_t row) {
    const size_t size = all.size() / static_cast<size_t>(kQuantPanel);
    return std::span(all).subspan(static_cast<size_t>(row) * size, size);
  };
  std::array<QuantizedRow, kQuantPanel> rows;
  int64_t begin = 0;  // first row of the part in the whole matrix
  int64_t filled = 0;
  for (const QuantizedMatrix* part : parts) {
    const int64_t end = begin + part->rows();
    const int64_t low = std::max(begin, first);
    const int64_t high = std::min(end, first + kQuantPanel);
    for (int64_t r = low; r < high; ++r) {
      const int64_t to = r - first;
      rows[static_cast<size_t>(r - low)] = {row_of(codes_, to),        row_of(block_scales_, to),
                                            row_of(group_scales_, to), row_of(block_minima_, to),
                                            row_of(group_minima_, to), row_of(group_zero_points_, to)};
    }
    if (low < high) {
      part->read_rows(low - begin, std::span(rows).first(static_cast<size_t>(high - low)));
      filled += high - low;
    }
    begin = end;
  }
  for (int64_t r = filled; r < kQuantPanel; ++r) {
    std::ranges::fill(row_of(codes_, r), uint8_t{0});
    std::ranges::fill(row_of(block_scales_, r), 0.0F);
    std::ranges::fill(row_of(block_minima_, r), 0.0F);
    std::ranges::fill(row_of(group_scales_, r), int8_t{0});
    std::ranges::fill(row_of(group_minima_, r), uint8_t{0});
    std::ranges::fill(row_of(group_zero_points_, r), uint8_t{0});
  }
}

void QuantizedPacker::store_header(int64_t index, std::byte* block) const {
  const QuantFormat& format = at_.format;
  const int64_t depth = at_.depth_of(index);
  const QuantLayout::Header header = at_.header(depth);
  const int64_t blocks = at_.num_blocks();
  const int64_t groups = at_.num_groups();
  const int64_t first_group = at_.groups_of(index * at_.block);
  for (int64_t j = 0; j < kQuantPanel; ++j) {
    if (format.values == CodeValues::kRowTable) {
      for (int64_t i = 0; i < at_.num_scales; ++i)
        store_scale(format, block, j * at_.num_scales + i,
                    block_scales_[static_cast<size_t>(j * at_.num_scales + i)]);
      continue;
    }
    float scale = block_scales_[static_cast<size_t>(j * blocks + index)];
    if (format.values == CodeValues::kTable) {
      const uint8_t* codes = codes_.data() + j * at_.k + index * at_.block;
      const bool nan =
          std::any_of(codes, codes + depth, [&](uint8_t c) { return std::isnan(format.table[c]); });
      if (nan) scale = std::numeric_limits<float>::quiet_NaN();
    }
    if (!format.group_scale_table.empty()) {
      const auto* own = group_scales_.data() + j * groups + first_group;
      const bool nan = std::any_of(own, own + at_.groups_of(depth), [&](int8_t c) {
        return std::isnan(format.group_scale_table[static_cast<uint8_t>(c)]);
      });
      if (nan) scale = std::numeric_limits<float>::quiet_NaN();
    }
    store_scale(format, block, j, scale);
    if (format.minima)
      store_scale(format, block + header.minima, j, block_minima_[static_cast<size_t>(j * blocks + index)]);
    for (int64_t g = 0; g < at_.groups_of(depth); ++g) {
      const auto from = static_cast<size_t>(j * groups + first_group + g);
      const int64_t to = g * kQuantPanel + j;
      if (format.two_levels()) {
        block[header.group_scales + to] = static_cast<std::byte>(group_scales_[from]);
        if (format.minima) block[header.group_minima + to] = static_cast<std::byte>(group_minima_[from]);
      }
      if (format.group_zero_points)
        block[header.group_zero_points + to] = static_cast<std::byte>(group_zero_points_[from]);
    }
  }
}

void QuantizedPacker::store_codes(int64_t index, std::byte* codes) const {
  const int64_t depth = at_.depth_of(index);
  const uint8_t max_code = static_cast<uint8_t>((1 << at_.format.code_bits) - 1);
  const int64_t unit_bytes = at_.unit * kQuantPanel * at_.bits / 8;
  const auto planes = planes_of(at_.bits);
  for (int64_t j = 0; j < kQuantPanel; ++j) {
    const uint8_t* row = codes_.data() + j * at_.k + index * at_.block;
    for (int64_t i = 0; i < depth; i += 4) {
      uint32_t quad = 0;
      for (int64_t l = 0; l < std::min<int64_t>(4, depth - i); ++l)
        quad |= static_cast<uint32_t>(row[i + l] & max_code) << (8 * l);
      std::byte* plane_at = codes + i / at_.unit * unit_bytes;
      const int64_t in_unit = i % at_.unit / 4;
      for (const Plane& plane : planes) {
        const int32_t in_byte = 8 / plane.width;
        const uint32_t mask = ((1U << plane.width) - 1U) * 0x01010101U;
        const uint32_t bits = ((quad >> plane.first) & mask) << (in_unit % in_byte * plane.width);
        std::byte* word_at = plane_at + in_unit / in_byte * kLine + 4 * j;
        uint32_t word = 0;
        if (in_unit % in_byte > 0) std::memcpy(&word, word_at, 4);
        word |= bits;
        std::memcpy(word_at, &word, 4);
        plane_at += at_.unit / 4 / in_byte * kLine;
      }
    }
  }
}

namespace {

// Parameters of element `i` of a block and of a column of the panel.
QuantGroup group_of(const QuantLayout& at, const QuantLayout::Header& header, const std::byte* block,
                    int64_t column, int64_t i) {
  const QuantFormat& format = at.format;
  const auto byte_of = [&](int64_t first) {
    return static_cast<uint8_t>(block[first + i / at.group * kQuantPanel + column]);
  };
  QuantGroup group;
  group.scale = load_scale(format, block, column);
  if (format.minima) group.minimum = load_scale(format, block + header.minima, column);
  if (format.two_levels()) {
    const uint8_t code = byte_of(header.group_scales);
    group.scale *= format.group_scale_table.empty() ? static_cast<float>(static_cast<int8_t>(code))
                                                    : format.group_scale_table[code];
    if (format.minima) group.minimum *= static_cast<float>(byte_of(header.group_minima));
  }
  if (format.values == CodeValues::kLinear)
    group.zero_point = format.group_zero_points ? byte_of(header.group_zero_points) : format.zero_point;
  return group;
}

float weight_of(const QuantFormat& format, const QuantGroup& group, int32_t code) {
  const float value = format.values == CodeValues::kTable ? format.table[static_cast<size_t>(code)]
                                                          : static_cast<float>(code - group.zero_point);
  const float product = group.scale * value;
  return format.minima ? product - group.minimum : product;
}

}  // namespace

QuantGroup quant_group(const QuantLayout& at, const std::byte* weights, int64_t row, int64_t i) {
  const int64_t index = i / at.block;
  const std::byte* block = weights + row / kQuantPanel * at.panel_bytes + index * at.block_bytes;
  return group_of(at, at.header(at.depth_of(index)), block, row % kQuantPanel, i % at.block);
}

void load_row_codes(const QuantLayout& at, const std::byte* weights, int64_t row, int64_t begin, int64_t end,
                    uint8_t* out) {
  while (begin < end) {
    const int64_t index = begin / at.block;
    const int64_t count = std::min(end, (index + 1) * at.block) - begin;
    const std::byte* block = weights + row / kQuantPanel * at.panel_bytes + index * at.block_bytes;
    load_codes(at, block + at.header(at.depth_of(index)).codes, row, begin % at.block, count, out);
    begin += count;
    out += count;
  }
}

IntBlocking::IntBlocking(const QuantLayout& at, bool token_scales) {
  constexpr int64_t kLongest = 128;  // sums of activations fit into 16 bits
  constexpr int64_t kMinGroup = 32;
  unit = std::min(at.group, kLongest);
  // Groups are multiples of 8, or full rows.
  while (at.group < at.k && at.group % unit != 0) unit /= 2;
  activation_group = (kMinGroup + unit - 1) / unit * unit;
  if (unit >= kMinGroup) activation_group = unit;
  if (token_scales) activation_group = at.k;
  num_units = (at.k + unit - 1) / unit;
  depth = (at.k + 7) / 8 * 8;
}

std::optional<IntegerValues> integer_values(const QuantFormat& format) {
  if (format.values == CodeValues::kLinear) return IntegerValues{};
  if (format.values == CodeValues::kRowTable || (format.code_bits != 4 && format.code_bits != 3))
    return std::nullopt;
  for (const float step : {1.0F, 0.5F, 0.125F}) {
    IntegerValues found{.table = true, .numbers = {}, .step = step};
    bool whole = true;
    for (size_t i = 0; i < format.table.size(); ++i) {
      const float number = format.table[i] / step;
      if (!(number >= -127.0F && number <= 127.0F && number == std::nearbyint(number))) {
        whole = false;
        break;
      }
      found.numbers[i] = static_cast<int8_t>(number);
    }
    if (whole) return found;
  }
  return std::nullopt;
}

void decode_quantized_column(const QuantLayout& at, const std::byte* weights, int64_t panel, int64_t i,
                             float* out) {
  const int64_t index = i / at.block;
  const std::byte* block = weights + panel * at.panel_bytes + index * at.block_bytes;
  const QuantLayout::Header header = at.header(at.depth_of(index));
  for (int64_t j = 0; j < kQuantPanel; ++j) {
    uint8_t code;
    load_codes(at, block + header.codes, j, i % at.block, 1, &code);
    out[j] = weight_of(at.format, group_of(at, header, block, j, i % at.block), code);
  }
}

void decode_quantized(const QuantLayout& at, const std::byte* weights, int64_t row, int64_t begin,
                      int64_t end, float* out) {
  std::array<uint8_t, 256> codes;
  const std::byte* panel = weights + row / kQuantPanel * at.panel_bytes;
  while (begin < end) {
    const int64_t group_end = std::min((begin / at.block + 1) * at.block, (begin / at.group + 1) * at.group);
    const int64_t count = std::min({end - begin, group_end - begin, std::ssize(codes)});
    load_row_codes(at, weights, row, begin, begin + count, codes.data());
    const std::span found(codes.data(), static_cast<size_t>(count));
    if (at.format.values == CodeValues::kRowTable) {
      for (const uint8_t code : found)
        *out++ = load_scale(at.format, panel, row % kQuantPanel * at.num_scales + code);
    } else {
      const QuantGroup group = quant_group(at, weights, row, begin);
      for (const uint8_t code : found) *out++ = weight_of(at.format, group, code);
    }
    begin += count;
  }
}

}  // namespace quire
