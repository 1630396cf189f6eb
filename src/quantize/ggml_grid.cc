#include "quantize/ggml_grid.h"

namespace quire {

GgmlGrid::GgmlGrid(const GgmlType& type, int64_t n, int64_t k, std::span<const float> importance)
    : type_(type),
      k_(k),
      importance_(importance),
      codes_(static_cast<size_t>(n * k)),
      lines_(static_cast<size_t>(n * k / type.format.group_size)),
      blocks_(static_cast<size_t>(n) * type.bytes_of(k)) {}

void GgmlGrid::begin_row(int64_t row, std::span<const float> w) {
  std::byte* blocks = blocks_.data() + static_cast<size_t>(row) * type_.bytes_of(k_);
  encode_ggml(type_, w, blocks, importance_);
  const auto groups = static_cast<size_t>(k_ / type_.format.group_size);
  ggml_lines(type_, blocks, std::span(lines_).subspan(static_cast<size_t>(row) * groups, groups));
}

float GgmlGrid::round(int64_t row, int64_t column, std::span<const float> rest) {
  const GgmlLine& line = lines_[at(row, column) / static_cast<size_t>(type_.format.group_size)];
  const uint8_t code = line.nearest(rest.front(), type_.format.code_bits);
  codes_[at(row, column)] = code;
  return line.value(code);
}

std::vector<std::byte> GgmlGrid::blocks() const {
  std::vector<std::byte> out = blocks_;
  put_ggml_codes(type_, codes_, out.data());
  return out;
}

std::vector<float> GgmlGrid::values() const {
  std::vector<float> out(codes_.size());
  for (size_t i = 0; i < out.size(); ++i)
    out[i] = lines_[i / static_cast<size_t>(type_.format.group_size)].value(codes_[i]);
  return out;
}

}  // namespace quire
