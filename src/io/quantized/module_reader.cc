#include "io/quantized/module_reader.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.h"
#include "base/strings.h"
#include "quant/codec.h"
#include "quant/quant_layout.h"

namespace quire {
namespace {

class RowMatrix : public QuantizedMatrix {
 public:
  RowMatrix(const QuantFormat& format, int64_t rows, int64_t cols, std::vector<int32_t> order, RowReader read,
            OutlierReader outliers)
      : format_(format),
        rows_(rows),
        cols_(cols),
        order_(std::move(order)),
        read_(std::move(read)),
        outliers_(std::move(outliers)) {}

  const QuantFormat& format() const override { return format_; }
  int64_t rows() const override { return rows_; }
  int64_t cols() const override { return cols_; }
  std::span<const int32_t> column_order() const override { return order_; }
  void read_rows(int64_t first, std::span<const QuantizedRow> out) const override {
    for (size_t i = 0; i < out.size(); ++i) read_(first + static_cast<int64_t>(i), out[i]);
  }
  int64_t num_outliers() const override { return outliers_.count; }
  void read_outliers(int64_t row, std::vector<Outlier>& out) const override {
    if (outliers_.count > 0) outliers_.read(row, out);
  }

 private:
  QuantFormat format_;
  int64_t rows_;
  int64_t cols_;
  std::vector<int32_t> order_;
  RowReader read_;
  OutlierReader outliers_;
};

std::string shape_text(std::span<const int64_t> shape) {
  TensorInfo info;
  info.shape.assign(shape.begin(), shape.end());
  return info.shape_text();
}

std::string types_text(std::initializer_list<DType> types) {
  std::vector<std::string> names;
  for (const DType type : types) names.emplace_back(dtype_name(type));
  return join(names, " or ");
}

int64_t numel(const TensorInfo& info) {
  int64_t n = 1;
  for (const int64_t dim : info.shape) n *= dim;
  return n;
}

}  // namespace

float load_number(DType dtype, const std::byte* at) {
  std::array<std::byte, 8> element = {};
  std::memcpy(element.data(), at, dtype_size(dtype));
  alignas(8) std::array<std::byte, 8> aligned = element;
  return load_f32(dtype, aligned.data(), 0);
}

float ScaleGrid::at(int64_t row, int64_t group) const {
  return load_number(dtype_, bytes_.data() + index(row, group) * dtype_size(dtype_));
}

uint8_t ScaleGrid::byte_at(int64_t row, int64_t group) const {
  return static_cast<uint8_t>(bytes_[index(row, group)]);
}

void ScaleGrid::read(int64_t row, std::span<float> out) const {
  for (size_t g = 0; g < out.size(); ++g) out[g] = at(row, static_cast<int64_t>(g));
}

const TensorInfo* ModuleReader::find(std::string_view suffix) {
  const std::string name = cat(module_, suffix);
  const TensorInfo* info = files_.find(name);
  if (info != nullptr && std::ranges::find(taken_, name) == taken_.end()) taken_.push_back(name);
  return info;
}

const TensorInfo& ModuleReader::need(std::string_view suffix, std::initializer_list<DType> types) {
  const TensorInfo* info = find(suffix);
  if (info == nullptr) fail(suffix, "is missing, although the weight of the module is quantized");
  if (std::ranges::find(types, info->dtype) == types.end())
    fail(suffix, cat("is ", info->type_name(), ", expected ", types_text(types)));
  return *info;
}

const TensorInfo& ModuleReader::need(std::string_view suffix, std::initializer_list<DType> types,
                                     std::initializer_list<int64_t> shape) {
  const TensorInfo& info = need(suffix, types);
  const bool same = std::ranges::equal(info.shape, shape,
                                       [](int64_t have, int64_t want) { return want < 0 || have == want; });
  const bool empty = std::ranges::find(info.shape, 0) != info.shape.end();
  if (!same || empty)
    fail(suffix, cat("is ", info.shape_text(), ", expected ", shape_text({shape.begin(), shape.size()})));
  return info;
}

std::span<const std::byte> ModuleReader::bytes(std::string_view suffix) const {
  return files_.bytes(cat(module_, suffix));
}

ScaleGrid ModuleReader::scales(std::string_view suffix, int64_t n, int64_t k, int64_t group_size,
                               QuantFormat& format, bool transposed, int64_t row_step) {
  const TensorInfo& info = need(suffix, {DType::kF32, DType::kF16, DType::kBF16});
  format.half_scales = info.dtype == DType::kF16;
  format.bfloat_scales = info.dtype == DType::kBF16;
  const auto whole_rows = [&] { format.group_size = format.block_size = 0; };
  if (numel(info) == 1 && !(row_step > 1)) {
    whole_rows();
    return {info.dtype, bytes(suffix), 0, 0};
  }
  const int64_t rows = (n + row_step - 1) / row_step;
  const size_t dims = info.shape.size();
  const int64_t have = dims == 1 ? info.shape[0] : dims == 2 ? info.shape[transposed ? 1 : 0] : -1;
  const int64_t groups = dims == 2 ? info.shape[transposed ? 0 : 1] : 1;
  if (have != rows || groups < 1)
    fail(suffix, cat("is ", info.shape_text(), ", which does not fit a weight of ", rows,
                     row_step > 1 ? " blocks of rows" : " rows"));
  if (groups == 1) {
    whole_rows();
  } else {
    const bool says = group_size > 0 && (k + group_size - 1) / group_size == groups;
    if (!says && k % groups != 0)
      fail(suffix, cat("is ", info.shape_text(), ": ", groups, " groups do not fit ", k, " columns"));
    format.group_size = format.block_size = says ? group_size : k / groups;
  }
  return {info.dtype, bytes(suffix), transposed ? 1 : groups, transposed ? n : 1, row_step};
}

float ModuleReader::number(std::string_view suffix) {
  const TensorInfo& info = need(suffix, {DType::kF32, DType::kF16, DType::kBF16});
  if (numel(info) != 1) fail(suffix, cat("is ", info.shape_text(), ", expected one number"));
  return load_number(info.dtype, bytes(suffix).data());
}

void ModuleReader::fail(std::string_view suffix, std::string_view problem) const {
  throw Error(cat(files_.path().string(), ": ", module_, suffix, " ", problem));
}

QuantizedModule ModuleReader::finish(const QuantFormat& format, int64_t n, int64_t k, RowReader read,
                                     std::vector<int32_t> order, OutlierReader outliers) {
  try {
    check_quant_format(format);
  } catch (const Error& error) {
    fail("", cat("is not supported: ", error.what()));
  }
  return {cat(module_, ".weight"),
          std::make_unique<RowMatrix>(format, n, k, std::move(order), std::move(read), std::move(outliers)),
          std::move(taken_)};
}

std::vector<std::string> modules_with(const Checkpoint& files, std::string_view suffix) {
  std::vector<std::string> modules;
  for (std::string& name : files.names()) {
    if (!name.ends_with(suffix)) continue;
    name.resize(name.size() - suffix.size());
    modules.push_back(std::move(name));
  }
  return modules;
}

}  // namespace quire
