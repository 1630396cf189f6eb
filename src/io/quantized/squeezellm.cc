// SqueezeLLM: each module has qweight int32 [k bits / 32, n], packed along K; lookup_table [n, 2^bits], the
// values of a row's codes. Dense-and-sparse modules also have weights that are added: rows int32 [n + 1],
// cols int32 and vals, in CSR format; full_rows [k, count] and full_row_indices int32 [count], dense rows.
// startrows describes the partitioning on a GPU and is unused.
#include <cstring>

#include "base/strings.h"
#include "io/quantized/methods.h"

namespace quire {
namespace {

int32_t integer_at(std::span<const std::byte> bytes, int64_t i) {
  int32_t v;
  std::memcpy(&v, bytes.data() + static_cast<size_t>(i) * sizeof(v), sizeof(v));
  return v;
}

// Sparse weights in CSR format.
struct SparseRows {
  std::span<const std::byte> rows;  // empty if there are none
  std::span<const std::byte> columns;
  ScaleGrid values;
  int64_t count = 0;

  void read(int64_t row, std::vector<Outlier>& out) const {
    if (count == 0) return;
    for (int32_t i = integer_at(rows, row); i < integer_at(rows, row + 1); ++i)
      out.push_back({integer_at(columns, i), values.at(0, i)});
  }
};

SparseRows read_sparse(ModuleReader& reader, int64_t n, int64_t k) {
  SparseRows sparse;
  reader.find(".startrows");
  if (reader.find(".vals") == nullptr) return sparse;
  const TensorInfo& values = reader.need(".vals", {DType::kF32, DType::kF16, DType::kBF16});
  if (values.shape.size() != 1)
    reader.fail(".vals", cat("is ", values.shape_text(), ", expected one dimension"));
  sparse.count = values.shape[0];
  reader.need(".rows", {DType::kI32});
  reader.need(".cols", {DType::kI32});
  sparse.rows = reader.bytes(".rows");
  sparse.columns = reader.bytes(".cols");
  sparse.values = ScaleGrid(values.dtype, reader.bytes(".vals"), 0, 1);
  const auto ints = [](std::span<const std::byte> bytes) { return static_cast<int64_t>(bytes.size() / 4); };
  if (ints(sparse.columns) != sparse.count)
    reader.fail(".cols", cat("has ", ints(sparse.columns), " columns for ", sparse.count, " values"));
  if (ints(sparse.rows) != n + 1)
    reader.fail(".rows", cat("has ", ints(sparse.rows), " row offsets for a weight of ", n, " rows"));
  for (int64_t row = 0; row <= n; ++row) {
    const int32_t bound = integer_at(sparse.rows, row);
    const int32_t previous = row == 0 ? 0 : integer_at(sparse.rows, row - 1);
    if (bound < previous || (row == 0 && bound != 0) || (row == n && bound != sparse.count))
      reader.fail(".rows",
                  cat("has the invalid offset ", bound, " for row ", row, " of ", sparse.count, " values"));
  }
  for (int64_t i = 0; i < sparse.count; ++i) {
    const int32_t column = integer_at(sparse.columns, i);
    if (column < 0 || column >= k) reader.fail(".cols", cat("refers to column ", column, " of ", k));
  }
  return sparse;
}

// Dense rows that are added.
struct FullRows {
  std::span<const std::byte> indices;
  ScaleGrid values;
  int64_t count = 0;
  int64_t k = 0;

  void read(int64_t row, std::vector<Outlier>& out) const {
    for (int64_t i = 0; i < count; ++i) {
      if (integer_at(indices, i) != row) continue;
      for (int64_t c = 0; c < k; ++c) out.push_back({static_cast<int32_t>(c), values.at(c, i)});
    }
  }
};

FullRows read_full(ModuleReader& reader, int64_t n, int64_t k) {
  FullRows full;
  full.k = k;
  if (reader.find(".full_rows") == nullptr) return full;
  const TensorInfo& rows = reader.need(".full_rows", {DType::kF32, DType::kF16, DType::kBF16}, {k, -1});
  full.count = rows.shape[1];
  reader.need(".full_row_indices", {DType::kI32}, {full.count});
  full.indices = reader.bytes(".full_row_indices");
  full.values = ScaleGrid(rows.dtype, reader.bytes(".full_rows"), full.count, 1);
  for (int64_t i = 0; i < full.count; ++i) {
    const int32_t row = integer_at(full.indices, i);
    if (row < 0 || row >= n) reader.fail(".full_row_indices", cat("refers to row ", row, " of ", n));
  }
  return full;
}

QuantizedModule read_module(ModuleReader& reader) {
  const TensorInfo& table = reader.need(".lookup_table", {DType::kF16, DType::kBF16, DType::kF32}, {-1, -1});
  const int64_t n = table.shape[0];
  const int64_t entries = table.shape[1];
  if (entries != 8 && entries != 16)
    reader.fail(".lookup_table", cat("has ", entries, " entries per row; 8 and 16 are supported"));
  QuantFormat format;
  format.code_bits = entries == 8 ? 3 : 4;
  format.group_size = format.block_size = 0;
  format.values = CodeValues::kRowTable;
  format.half_scales = table.dtype == DType::kF16;
  format.bfloat_scales = table.dtype == DType::kBF16;
  const TensorInfo& weight = reader.need(".qweight", {DType::kI32}, {-1, n});
  const int64_t k = weight.shape[0] * 32 / format.code_bits;
  const BitStreams codes(reader.bytes(".qweight"), n, format.code_bits);
  const ScaleGrid tables(table.dtype, reader.bytes(".lookup_table"), entries, 1);
  const SparseRows sparse = read_sparse(reader, n, k);
  const FullRows full = read_full(reader, n, k);
  auto read = [=](int64_t row, const QuantizedRow& out) {
    for (size_t i = 0; i < out.codes.size(); ++i) out.codes[i] = codes.code(row, static_cast<int64_t>(i));
    tables.read(row, out.block_scales);
  };
  auto read_outliers = [=](int64_t row, std::vector<Outlier>& out) {
    sparse.read(row, out);
    full.read(row, out);
  };
  return reader.finish(format, n, k, std::move(read), {},
                       {sparse.count + full.count * k, std::move(read_outliers)});
}

}  // namespace

std::vector<QuantizedModule> read_squeezellm(const Checkpoint& files, const ConfigReader&) {
  std::vector<QuantizedModule> modules;
  read_each(files, ".lookup_table", modules, read_module);
  return modules;
}

}  // namespace quire
