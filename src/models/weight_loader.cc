#include "models/weight_loader.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "base/strings.h"
#include "models/stored_values.h"
#include "ops/outliers.h"
#include "ops/parallel.h"
#include "quant/codec.h"
#include "quant/quant_layout.h"
#include "quant/sparse_24.h"

namespace quire {
namespace {

// dst [cols, rows] = src [rows, cols] transposed, elements of `size` bytes.
void transpose(std::byte* dst, const std::byte* src, int64_t rows, int64_t cols, size_t size) {
  // In square tiles, so that both sides stay in the cache.
  constexpr int64_t kSquare = 64;
  for (int64_t r0 = 0; r0 < rows; r0 += kSquare) {
    for (int64_t c0 = 0; c0 < cols; c0 += kSquare) {
      for (int64_t r = r0; r < std::min(rows, r0 + kSquare); ++r) {
        for (int64_t c = c0; c < std::min(cols, c0 + kSquare); ++c) {
          std::memcpy(dst + static_cast<size_t>(c * rows + r) * size,
                      src + static_cast<size_t>(r * cols + c) * size, size);
        }
      }
    }
  }
}

int64_t bytes_of(const Buffer& buffer) {
  return static_cast<int64_t>(buffer.size());
}
int64_t bytes_of(const PackedLinear& w) {
  return bytes_of(w.data) + bytes_of(w.bias) + bytes_of(w.column_order) + bytes_of(w.outliers) +
         bytes_of(w.outlier_rows);
}
int64_t bytes_of(const Linear& linear) {
  int64_t sum = bytes_of(linear.weight);
  for (const PackedLinear& piece : linear.more) sum += bytes_of(piece);
  return sum;
}

// Reads a tensor with one element of any float type. Throws Error if it is not a positive number.
float read_scale(const Checkpoint& checkpoint, const std::string& name) {
  const TensorInfo& info = *checkpoint.find(name);
  if (!is_storage_dtype(info.dtype) || numel(info.shape) != 1) throw Error(cat(name, ": must be one number"));
  Buffer aligned(info.bytes);
  std::memcpy(aligned.data(), checkpoint.bytes(name).data(), aligned.size());
  const float scale = load_f32(info.dtype, aligned.data(), 0);
  if (!(scale > 0.0F)) throw Error(cat(name, ": is ", scale, ", which is not a valid scale"));
  return scale;
}

}  // namespace

// Reads the sources of derived parameters.
class WeightLoader::Reader : public ParamReader {
 public:
  explicit Reader(const WeightLoader& loader) : loader_(loader) {}

  std::vector<float> read(const ParamSpec& of) override {
    const StoredTensor tensor = loader_.source(of).at(0).weight;
    return of.in > 0 ? loader_.read_floats(tensor) : loader_.read_vector(tensor);
  }
  std::vector<float> read_bias(const ParamSpec& of) override {
    const auto params = loader_.source(of);
    return params.empty() || !params[0].bias ? std::vector<float>() : loader_.read_vector(*params[0].bias);
  }
  std::vector<float> read_row(const ParamSpec& of, int64_t row) override {
    const StoredTensor tensor = loader_.source(of).at(0).weight;
    if (loader_.source_.quantized(tensor.name) != nullptr)
      throw Error(cat(tensor.name, ": scores of a quantized output embedding are not supported"));
    Buffer copy;
    const TensorView table = loader_.float_matrix(tensor, copy);
    std::vector<float> values(static_cast<size_t>(table.shape[1]));
    for (int64_t i = 0; i < table.shape[1]; ++i)
      values[static_cast<size_t>(i)] = load_f32(table.dtype, table.data, row * table.shape[1] + i);
    return values;
  }
  bool has(const ParamSpec& of) const override { return loader_.is_stored(of); }
  const OpTable& ops() const override { return loader_.ops_; }
  const OpContext& context() const override { return loader_.ctx_; }

 private:
  const WeightLoader& loader_;
};

WeightLoader::WeightLoader(const TensorResolver& resolver, const ExpectedTensors& expected,
                           Checkpoint& checkpoint, const OpTable& ops, const OpContext& ctx,
                           const ModelOptions& options, const LoadProgress& progress, WeightCache* cache)
    : ResolvingVisitor(resolver),
      formats_(resolver, options),
      source_(checkpoint),
      ops_(ops),
      ctx_(ctx),
      options_(options),
      progress_(progress),
      cache_(cache),
      stream_(options.device != nullptr ? options.device->create_stream() : nullptr),
      expected_(expected),
      num_parameters_(expected.num_parameters()),
      bytes_total_(expected.stored_bytes()) {
  if (progress_) progress_(0, bytes_total_);
}

std::span<const std::byte> WeightLoader::bytes_of_own_part(const StoredTensor& tensor) const {
  return bytes_of_part(source_, tensor, std::max(place_.index, 0));
}

TensorView WeightLoader::float_matrix(const StoredTensor& tensor, Buffer& copy) const {
  const auto source = bytes_of_own_part(tensor);
  const DType dtype = source_.find(tensor.name)->dtype;
  const int64_t rows = tensor.shape[tensor.shape.size() - 2];
  const int64_t columns = tensor.shape.back();
  const bool in_order = !tensor.transposed && tensor.row_layout == nullptr;
  if (in_order && source_.aligned(tensor.name)) {
    // Callers only read the view.
    return make_view(const_cast<std::byte*>(source.data()), dtype, Shape{rows, columns});
  }
  copy = Buffer(source.size());
  if (!tensor.transposed) {
    copy_rows(tensor, copy.data(), source, source.size() / static_cast<size_t>(rows));
    return make_view(copy.data(), dtype, Shape{rows, columns});
  }
  transpose(copy.data(), source.data(), rows, columns, dtype_size(dtype));
  if (tensor.row_layout != nullptr) {
    Buffer ordered(copy.size());
    copy_rows(tensor, ordered.data(), {copy.data(), copy.size()}, copy.size() / static_cast<size_t>(columns));
    copy = std::move(ordered);
  }
  return make_view(copy.data(), dtype, Shape{columns, rows});
}

void WeightLoader::read_vector(const StoredTensor& tensor, float* out) const {
  quire::read_vector(source_, tensor, std::max(place_.index, 0), out);
}

std::vector<float> WeightLoader::read_vector(const StoredTensor& tensor) const {
  std::vector<float> values(static_cast<size_t>(elements(tensor)));
  read_vector(tensor, values.data());
  return values;
}

std::vector<float> WeightLoader::read_floats(const StoredTensor& tensor) const {
  std::vector<float> all(static_cast<size_t>(numel(tensor.shape)));
  if (source_.quantized(tensor.name) != nullptr) {
    const std::array<const StoredTensor*, 1> tensors = {&tensor};
    const PackedLinear packed = pack_quantized(tensors);
    std::vector<int32_t> rows(static_cast<size_t>(packed.n));
    std::iota(rows.begin(), rows.end(), 0);
    ops_.run(ctx_, ops::PackedEmbedding{.out = make_view(all.data(), DType::kF32, Shape{packed.n, packed.k}),
                                        .table = packed,
                                        .ids = rows});
  } else {
    Buffer copy;
    const TensorView stored = float_matrix(tensor, copy);
    decode_f32(stored.dtype, stored.data, all.data(), static_cast<int64_t>(all.size()));
  }
  return all;
}

void WeightLoader::finish_use(const StoredTensor& tensor, bool release) {
  const auto [at, first] = uses_left_.try_emplace(tensor.name, 0);
  if (first) at->second = expected_.num_uses(tensor.name);
  if (--at->second != 0) return;
  bytes_done_ += static_cast<int64_t>(source_.find(tensor.name)->bytes);
  if (release) source_.release(tensor.name);
  if (progress_) progress_(bytes_done_, bytes_total_);
}

void WeightLoader::finish_use(const StoredParam& param) {
  finish_use(param.weight);
  if (param.bias) finish_use(*param.bias);
}

void WeightLoader::upload(Buffer& weight) {
  if (stream_ != nullptr && weight.size() > 0) weight = options_.device->upload(std::move(weight), *stream_);
}

void WeightLoader::upload(PackedLinear& matrix) {
  for (Buffer* part :
       {&matrix.data, &matrix.bias, &matrix.column_order, &matrix.outliers, &matrix.outlier_rows})
    upload(*part);
}

void WeightLoader::upload(Embedding& embedding) {
  if (options_.device == nullptr || options_.device->shares_host_memory()) return;
  const TensorView& table = embedding.table;
  if (embedding.owned.size() == 0) {
    const auto bytes = static_cast<size_t>(table.shape.numel()) * dtype_size(table.dtype);
    // The checkpoint keeps the table, and outlives the model.
    const std::shared_ptr<const void> no_owner(table.data, [](const void*) {});
    embedding.owned = Buffer::borrowed({table.as<const std::byte>(), bytes}, no_owner);
  }
  upload(embedding.owned);
  embedding.table.data = embedding.owned.data();
}

void WeightLoader::wait_for_uploads() {
  if (stream_ != nullptr) stream_->synchronize(stream_->record());
}

Buffer WeightLoader::cached(const std::string& name, int64_t bytes, const std::function<Buffer()>& make) {
  return cache_ != nullptr && !name.empty() ? cache_->next(name, bytes, make) : make();
}

WeightLoader::FloatParts WeightLoader::float_parts(std::span<const StoredTensor* const> tensors) const {
  FloatParts parts;
  for (const StoredTensor* tensor : tensors) {
    Buffer copy;
    parts.views.push_back(float_matrix(*tensor, copy));
    parts.copies.push_back(std::move(copy));
  }
  return parts;
}

bool WeightLoader::may_be_sparse(const PackedLinear& matrix, Precision precision) const {
  // Rows of a tied language modeling head are also looked up, which 2:4 matrices do not support.
  if (is_integer(matrix.format) || is_quantized(matrix.format) || precision == Precision::kLmHead)
    return false;
  return ops_.keeps_sparse_24(matrix.format.dtype, matrix.k);
}

bool WeightLoader::is_sparse(std::span<const TensorView> parts) const {
  std::atomic<bool> all = true;
  for (const TensorView& part : parts) {
    parallel_ranges(ctx_, part.rows(), row_grain(part.row_size()), [&](int64_t begin, int64_t end, int) {
      if (all && !is_sparse_24(part, begin, end)) all = false;
    });
  }
  return all;
}

std::vector<const QuantizedMatrix*> WeightLoader::quantized_parts(
    std::span<const StoredTensor* const> tensors, std::vector<QuantizedRows>& ordered) const {
  ordered.reserve(tensors.size());
  std::vector<const QuantizedMatrix*> parts;
  for (const StoredTensor* tensor : tensors) {
    const QuantizedMatrix* matrix = source_.quantized(tensor->name);
    if (tensor->row_layout != nullptr || tensor->stacked) {
      // Stacked experts are one quantized matrix: the rows of the first expert, of the second …
      const int64_t count = tensor->stacked ? matrix->rows() / tensor->shape[0] : matrix->rows();
      std::vector<int64_t> order = stored_rows(*tensor, count);
      if (tensor->stacked) {
        for (int64_t& row : order) row += place_.index * count;
      }
      matrix = &ordered.emplace_back(*matrix, std::move(order));
    }
    parts.push_back(matrix);
  }
  return parts;
}

PackedLinear WeightLoader::pack_quantized(std::span<const StoredTensor* const> tensors) const {
  std::vector<QuantizedRows> ordered;
  return ops_.pack_quantized(ctx_, quantized_parts(tensors, ordered));
}

PackedLinear WeightLoader::pack(std::span<const StoredTensor* const> tensors, const MatrixSpec& spec) {
  PackedLinear packed = formats_.outline(tensors, spec.precision);
  packed.label = spec.label;
  std::vector<std::string> names;
  for (const StoredTensor* tensor : tensors) names.push_back(tensor->name);
  std::string name = quire::join(names, "+");
  if (tensors[0]->stacked) name += cat("#", place_.index);
  FloatParts parts;
  if (may_be_sparse(packed, spec.precision)) {
    WeightFormat sparse = packed.format;
    sparse.sparse_24 = true;
    const std::string sparse_name = name + " 2:4";
    // If the weight cache has the matrix, the weights need not be read to decide.
    std::optional<bool> known;
    if (cache_ != nullptr)
      known = cache_->holds_next(sparse_name, ops_.packed_bytes(sparse, packed.n, packed.k));
    if (!known) parts = float_parts(tensors);
    if (known ? *known : is_sparse(parts.views)) {
      packed.format = sparse;
      name = sparse_name;
    }
  }
  packed.data = cached(name, ops_.packed_bytes(packed.format, packed.n, packed.k), [&] {
    if (is_quantized(packed.format)) return std::move(pack_quantized(tensors).data);
    if (parts.views.empty()) parts = float_parts(tensors);
    return std::move(ops_.pack_linear(ctx_, parts.views, packed.format).data);
  });
  if (formats_.num_outliers(tensors) > 0) {
    // Outliers are few, so they are not cached but read from the checkpoint at each start.
    std::vector<QuantizedRows> ordered;
    pack_outliers(quantized_parts(tensors, ordered), packed);
  }
  upload(packed);
  return packed;
}

void WeightLoader::read_biases(std::span<const StoredParam> params, Linear& linear) {
  if (std::ranges::none_of(params, [](const StoredParam& param) { return param.bias.has_value(); })) return;
  std::vector<float> all(static_cast<size_t>(linear.out_features()));
  float* values = all.data();
  for (const StoredParam& param : params) {
    if (param.bias) read_vector(*param.bias, values);
    values += out_features(param.weight);
  }
  values = all.data();
  const auto take = [&](PackedLinear& piece) {
    piece.bias = Buffer(static_cast<size_t>(piece.n) * sizeof(float));
    std::memcpy(piece.bias.data(), values, piece.bias.size());
    upload(piece.bias);
    values += piece.n;
  };
  take(linear.weight);
  for (PackedLinear& piece : linear.more) take(piece);
}

void WeightLoader::matrix(const MatrixSpec& spec, Linear& result) {
  const std::vector<StoredParam> params = matrices(spec.fused);
  std::vector<const StoredTensor*> tensors;
  std::vector<DType> types;
  for (const StoredParam& param : params) {
    tensors.push_back(&param.weight);
    types.push_back(formats_.float_type_of(param.weight));
  }
  if (place_.layer >= 0 && !layer_dtype_) layer_dtype_ = formats_.float_type(types);
  std::vector<PackedLinear> pieces;
  for (std::span<const StoredTensor* const> rest = tensors; !rest.empty();) {
    const auto alike = rest.first(formats_.num_alike(rest));
    rest = rest.subspan(alike.size());
    pieces.push_back(pack(alike, spec));
    if (!options_.on_packed) continue;
    std::vector<std::string> names;
    for (const StoredTensor* tensor : alike) names.push_back(tensor->name);
    options_.on_packed(names, pieces.back());
  }
  result.weight = std::move(pieces.at(0));
  result.more.assign(std::make_move_iterator(pieces.begin() + 1), std::make_move_iterator(pieces.end()));
  result.site = num_sites_++;
  read_biases(params, result);
  for (const StoredParam& param : params) finish_use(param);
  weight_bytes_ += bytes_of(result);
}

void WeightLoader::norm(const VectorSpec& spec, Norm& result) {
  result.site = num_norms_++;
  vector(spec, result.weight, &result.bias);
}

void WeightLoader::vector(const VectorSpec& spec, Buffer& result, Buffer* bias) {
  const std::vector<StoredParam> params = vectors(spec.fused);
  if (params.empty()) {
    // The name table of the architecture has no row for it.
    const ParamSpec& only = spec.fused.front();
    if (!only.fill) throw Error(cat("the architecture has no name for ", only.id.name));
    result = filled(only.out, *only.fill);
  } else {
    int64_t count = 0;
    for (const StoredParam& param : params) count += elements(param.weight);
    result = Buffer(static_cast<size_t>(count) * sizeof(float));
    float* values = result.as<float>();
    for (const StoredParam& param : params) {
      read_vector(param.weight, values);
      values += elements(param.weight);
    }
    weight_bytes_ += bytes_of(result);
  }
  if (bias != nullptr && params.size() == 1 && params[0].bias) {
    *bias = Buffer(static_cast<size_t>(elements(*params[0].bias)) * sizeof(float));
    read_vector(*params[0].bias, bias->as<float>());
    weight_bytes_ += bytes_of(*bias);
    upload(*bias);
  }
  if (spec.transform) result = spec.transform(std::move(result));
  upload(result);
  for (const StoredParam& param : params) finish_use(param);
}

void WeightLoader::scalar(const ParamSpec& spec, float& result) {
  for (const StoredParam& param : vectors(std::span(&spec, 1))) {
    read_vector(param.weight, &result);
    finish_use(param);
  }
}

void WeightLoader::integers(const ParamSpec& spec, int64_t limit, Buffer& result) {
  const StoredParam param = matrices(std::span(&spec, 1)).at(0);
  const StoredTensor& tensor = param.weight;
  const auto source = source_.bytes(tensor.name);
  const bool wide = source_.find(tensor.name)->dtype == DType::kI64;
  const auto count = static_cast<size_t>(elements(tensor));
  result = Buffer(count * sizeof(int32_t));
  for (size_t i = 0; i < count; ++i) {
    int64_t value = 0;
    int32_t narrow = 0;
    if (wide) {
      std::memcpy(&value, source.data() + i * sizeof(value), sizeof(value));
    } else {
      std::memcpy(&narrow, source.data() + i * sizeof(narrow), sizeof(narrow));
      value = narrow;
    }
    if (value < 0 || value >= limit)
      throw Error(cat(tensor.name, ": contains ", value, ", which is not in [0, ", limit, ")"));
    result.as<int32_t>()[i] = static_cast<int32_t>(value);
  }
  weight_bytes_ += bytes_of(result);
  upload(result);
  finish_use(param);
}

void WeightLoader::embedding(const ParamSpec& spec, Embedding& result) {
  result.site = num_sites_++;
  const StoredParam param = matrices(std::span(&spec, 1)).at(0);
  const std::array<const StoredTensor*, 1> tensors = {&param.weight};
  if (source_.quantized(param.weight.name) != nullptr) {
    result.own_packed = std::make_unique<PackedLinear>(
        pack(tensors, {.label = "embedding", .fused = {spec}, .precision = Precision::kLmHead}));
    result.packed = result.own_packed.get();
    weight_bytes_ += bytes_of(*result.own_packed);
    finish_use(param);
    return;
  }
  result.table = float_matrix(param.weight, result.owned);
  weight_bytes_ += result.table.shape.numel() * static_cast<int64_t>(dtype_size(result.table.dtype));
  upload(result);
  finish_use(param.weight, result.owned.size() > 0);  // a table that is read in place keeps its pages
}

void WeightLoader::derived(const DerivedSpec& spec, std::span<Linear> results) {
  const std::vector<StoredParam> stored = sources(stored_sources(spec));
  const WeightFormat format = {formats_.derived_type(spec.float32, stored)};
  Reader reader(*this);
  for (size_t i = 0; i < spec.matrices.size(); ++i) {
    const DerivedMatrix& matrix = spec.matrices[i];
    PackedLinear packed{.format = format, .n = matrix.out, .k = matrix.in};
    packed.label = spec.label;
    const auto make = [&] {
      std::vector<float> values(static_cast<size_t>(matrix.out * matrix.in));
      spec.compute(reader, i, values);
      const std::array<TensorView, 1> parts = {
          make_view(values.data(), DType::kF32, Shape{matrix.out, matrix.in})};
      return std::move(ops_.pack_linear(ctx_, parts, format).data);
    };
    packed.data = cached(matrix.name.empty() ? "" : cat("layers.", place_.layer, ".", matrix.name),
                         ops_.packed_bytes(format, matrix.out, matrix.in), make);
    if (matrix.bias) {
      packed.bias = Buffer(static_cast<size_t>(matrix.out) * sizeof(float));
      spec.compute_bias(reader, i, {packed.bias.as<float>(), static_cast<size_t>(matrix.out)});
    }
    weight_bytes_ += bytes_of(packed);
    upload(packed);
    results[i].weight = std::move(packed);
    results[i].site = num_sites_++;
  }
  num_parameters_ += spec.parameters;
  for (const StoredParam& param : stored) finish_use(param);
}

void WeightLoader::derived(const DerivedTable& spec, Buffer& result) {
  Reader reader(*this);
  const auto make = [&] {
    Buffer made(static_cast<size_t>(spec.count) * sizeof(float));
    spec.compute(reader, {made.as<float>(), static_cast<size_t>(spec.count)});
    return made;
  };
  const int64_t bytes = spec.count * static_cast<int64_t>(sizeof(float));
  result = cached(spec.name.empty() ? "" : cat("layers.", place_.layer, ".", spec.name), bytes, make);
  weight_bytes_ += bytes_of(result);
  upload(result);
  for (const StoredParam& param : sources(spec.sources)) finish_use(param);
}

void WeightLoader::kv_scales(int32_t layer, std::optional<KvScales>& result) {
  const std::string module = resolver_.attention_module(layer);
  // The scales are next to the projections, or in their modules under one of two names.
  const auto read = [&](std::string_view next_to, std::string_view within) -> std::optional<float> {
    for (const std::string& name :
         {cat(module, next_to), cat(module, within, next_to), cat(module, within, ".output_scale")}) {
      if (source_.find(name) != nullptr) return read_scale(source_, name);
    }
    return std::nullopt;
  };
  const auto keys = read(".k_scale", ".k_proj");
  const auto values = read(".v_scale", ".v_proj");
  if (keys || values) result = KvScales{keys.value_or(1.0F), values.value_or(1.0F)};
}

}  // namespace quire
