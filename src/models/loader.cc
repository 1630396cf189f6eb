#include "models/loader.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstring>
#include <numeric>

#include "base/error.h"
#include "base/strings.h"
#include "models/config_reader.h"
#include "models/registry.h"
#include "nn/alibi.h"
#include "ops/parallel.h"
#include "quant/codec.h"
#include "quant/coded_layout.h"
#include "quant/two_of_four.h"

namespace quire {
namespace {

// dst [cols, rows] = src [rows, cols] transposed, elements of `size` bytes.
void transpose(std::byte* dst, const std::byte* src, int64_t rows, int64_t cols, size_t size) {
  // In squares, so that neither side strides through more lines than a cache holds.
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

// src is `groups` groups, each of parts of so many rows of `size` bytes; dst has the first part of all
// groups, the second of all …
void part_groups(std::byte* dst, const std::byte* src, size_t groups, std::initializer_list<size_t> parts,
                 size_t size) {
  const size_t rows = std::accumulate(parts.begin(), parts.end(), size_t{0});
  size_t begin = 0;
  for (const size_t part : parts) {
    for (size_t g = 0; g < groups; ++g, dst += part * size)
      std::memcpy(dst, src + (g * rows + begin) * size, part * size);
    begin += part;
  }
}

struct RoleLabel {
  Role role;
  std::string_view label;
};
// What a profile calls the matrices, by the first role in them.
constexpr std::array<RoleLabel, 23> kLabels = {{{Role::kRouter, "router"},
                                                {Role::kStateSelect, "state steps"},
                                                {Role::kStateStep, "state steps"},
                                                {Role::kStateIn, "state in"},
                                                {Role::kDeltaInGate, "state in"},
                                                {Role::kDeltaIn, "state in"},
                                                {Role::kDeltaQuery, "state in"},
                                                {Role::kDeltaShareStep, "state steps"},
                                                {Role::kDeltaShare, "state steps"},
                                                {Role::kDeltaStep, "state steps"},
                                                {Role::kDeltaGate, "state gates"},
                                                {Role::kStateOut, "state out"},
                                                {Role::kExpertGate, "expert up"},
                                                {Role::kExpertDown, "expert down"},
                                                {Role::kSharedExpertGate, "shared expert up"},
                                                {Role::kSharedExpertDown, "shared expert down"},
                                                {Role::kSharedExpertRouter, "shared expert gate"},
                                                {Role::kEmbedding, "lm_head"},
                                                {Role::kLmHead, "lm_head"},
                                                {Role::kQuery, "qkv"},
                                                {Role::kAttentionOut, "attention out"},
                                                {Role::kGate, "mlp up"},
                                                {Role::kDown, "mlp down"}}};

std::string_view role_label(Role role) {
  const auto at = std::find_if(kLabels.begin(), kLabels.end(), [&](const auto& l) { return l.role == role; });
  return at == kLabels.end() ? "linear" : at->label;
}

int64_t bytes_of(const Norm& norm) {
  return bytes_of(norm.weight) + bytes_of(norm.bias);
}
int64_t bytes_of(const Embedding& e) {
  if (e.own_packed != nullptr) return bytes_of(*e.own_packed);
  return e.packed != nullptr ? 0 : e.table.shape.numel() * static_cast<int64_t>(dtype_size(e.table.dtype));
}

}  // namespace

std::optional<DType> named_dtype(const Checkpoint& checkpoint) {
  for (const auto* field : {"dtype", "torch_dtype"}) {
    const auto it = checkpoint.config().find(field);
    if (it == checkpoint.config().end() || !it->is_string()) continue;
    const auto named = dtype_from_name(it->get<std::string>());
    if (named && is_storage_dtype(*named)) return *named;
  }
  return std::nullopt;
}

int64_t out_features(const ExpectedTensor& matrix) {
  return matrix.shape[matrix.shape.size() - (matrix.transposed ? 1 : 2)];
}

int64_t elements(const ExpectedTensor& tensor) {
  return numel(std::span(tensor.shape).subspan(tensor.stacked ? 1 : 0));
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

ModelLoader::ModelLoader(Checkpoint& checkpoint, const OpTable& ops, const OpContext& ctx,
                         const ModelOptions& options, const LoadProgress& progress)
    : checkpoint_(checkpoint),
      ops_(ops),
      ctx_(ctx),
      options_(options),
      progress_(progress),
      pooling_files_(read_pooling_files(checkpoint)),
      spec_(read_spec(checkpoint, options.runner)),
      plan_(spec_, find_weight_names(ConfigReader(checkpoint.config())), checkpoint) {
  if (options.dtype && !is_storage_dtype(*options.dtype)) {
    throw Error(cat("weights cannot be kept as ", dtype_name(*options.dtype),
                    "; float32, bfloat16 and float16 are supported"));
  }
}

void ModelLoader::copy_rows(const ExpectedTensor& tensor, std::byte* dst, std::span<const std::byte> source,
                            size_t row_bytes) const {
  const auto heads = static_cast<size_t>(spec_.num_heads);
  const auto kv_heads = static_cast<size_t>(spec_.num_kv_heads);
  const auto head_dim = static_cast<size_t>(spec_.head_dim);
  const auto key_heads = spec_.delta_net ? static_cast<size_t>(spec_.delta_net->sizes.key_heads) : size_t{1};
  switch (tensor.order) {
    case RowOrder::kPlain:
      std::memcpy(dst, source.data(), source.size());
      break;
    case RowOrder::kByKvHead:
      part_groups(dst, source.data(), kv_heads, {heads / kv_heads * head_dim, head_dim, head_dim}, row_bytes);
      break;
    case RowOrder::kFourParts: {
      constexpr size_t kParts = 4;
      const size_t part = heads / kParts * head_dim;
      part_groups(dst, source.data(), kParts, {part, part, part}, row_bytes);
      std::swap_ranges(dst + source.size() / 3, dst + source.size() / 3 * 2, dst + source.size() / 3 * 2);
      break;
    }
    case RowOrder::kPairs:
      part_groups(dst, source.data(), source.size() / row_bytes / 2, {1, 1}, row_bytes);
      break;
    case RowOrder::kUpFirst: {
      const size_t half = source.size() / 2;
      std::memcpy(dst, source.data() + half, half);
      std::memcpy(dst + half, source.data(), half);
      break;
    }
    case RowOrder::kGatedHeads:
      part_groups(dst, source.data(), heads, {head_dim, head_dim}, row_bytes);
      break;
    case RowOrder::kHeadParts:
      part_groups(dst, source.data(), heads, {head_dim, head_dim, head_dim}, row_bytes);
      break;
    case RowOrder::kDeltaHeads: {
      const auto keys = static_cast<size_t>(spec_.delta_net->sizes.key_dim);
      const auto values = static_cast<size_t>(spec_.delta_net->sizes.values()) / key_heads;
      part_groups(dst, source.data(), key_heads, {keys, keys, values, values}, row_bytes);
      break;
    }
    case RowOrder::kDeltaSteps: {
      const auto each = static_cast<size_t>(spec_.delta_net->sizes.value_heads) / key_heads;
      part_groups(dst, source.data(), key_heads, {each, each}, row_bytes);
      break;
    }
    case RowOrder::kTurnLast: {
      const size_t first = static_cast<size_t>(spec_.mla->latent) * row_bytes;
      std::memcpy(dst, source.data() + first, source.size() - first);
      std::memcpy(dst + (source.size() - first), source.data(), first);
      break;
    }
  }
}

std::span<const std::byte> ModelLoader::piece(const ExpectedTensor& tensor, int32_t expert) const {
  const auto all = checkpoint_.bytes(tensor.name);
  if (!tensor.stacked) return all;
  const size_t size = all.size() / static_cast<size_t>(tensor.shape[0]);
  return all.subspan(static_cast<size_t>(expert) * size, size);
}

TensorView ModelLoader::matrix(const ExpectedTensor& tensor, int32_t expert, Buffer& copy) const {
  const auto source = piece(tensor, expert);
  const DType dtype = checkpoint_.find(tensor.name)->dtype;
  const int64_t rows = tensor.shape[tensor.shape.size() - 2];
  const int64_t columns = tensor.shape.back();
  const bool as_it_lies = !tensor.transposed && tensor.order == RowOrder::kPlain;
  if (as_it_lies && checkpoint_.aligned(tensor.name)) {
    // A view to read from: nobody writes through it.
    return make_view(const_cast<std::byte*>(source.data()), dtype, Shape{rows, columns});
  }
  copy = Buffer(source.size());
  if (!tensor.transposed) {
    copy_rows(tensor, copy.data(), source, source.size() / static_cast<size_t>(rows));
    return make_view(copy.data(), dtype, Shape{rows, columns});
  }
  transpose(copy.data(), source.data(), rows, columns, dtype_size(dtype));
  if (tensor.order != RowOrder::kPlain) {
    Buffer ordered(copy.size());
    copy_rows(tensor, ordered.data(), {copy.data(), copy.size()}, copy.size() / static_cast<size_t>(columns));
    copy = std::move(ordered);
  }
  return make_view(copy.data(), dtype, Shape{columns, rows});
}

void ModelLoader::read_vector(const ExpectedTensor& tensor, int32_t expert, float* out) const {
  const auto source = piece(tensor, expert);
  const DType dtype = checkpoint_.find(tensor.name)->dtype;
  Buffer aligned(source.size());
  copy_rows(tensor, aligned.data(), source, dtype_size(dtype));
  decode_f32(dtype, aligned.data(), out, elements(tensor));
}

void ModelLoader::done(const ExpectedTensor& tensor, bool release) {
  bytes_done_ += static_cast<int64_t>(checkpoint_.find(tensor.name)->bytes);
  if (release) checkpoint_.release(tensor.name);
  if (progress_) progress_(bytes_done_, bytes_total_);
}

// One type for the whole matrix. Where the file mixes types, float32 holds them all.
DType ModelLoader::float_type(std::span<const DType> parts) const {
  if (options_.dtype) return *options_.dtype;
  for (const DType part : parts) {
    if (part != parts.front()) return DType::kF32;
  }
  return parts.front();
}

WeightFormat ModelLoader::format(std::span<const DType> parts, Role role) const {
  // A router's choice is worth more than the little memory it takes.
  if (role == Role::kRouter || role == Role::kSharedExpertRouter || role == Role::kStreamRouter)
    return {DType::kF32};
  if (role == Role::kStreamPredict || role == Role::kStreamCorrect) return {DType::kF32};
  // Nor is what decides how fast a state fades.
  if (role == Role::kIndexWeights || role == Role::kAttentionMix || role == Role::kMlpMix ||
      role == Role::kFinalMix)
    return {DType::kF32};
  if (role == Role::kDeltaShareStep || role == Role::kDeltaStep || role == Role::kStateSelect ||
      role == Role::kStateStep)
    return {DType::kF32};
  if (!options_.quantization) return {float_type(parts)};
  const bool head = role == Role::kLmHead || role == Role::kEmbedding;
  return head ? options_.quantization->head : options_.quantization->layers;
}

bool ModelLoader::may_be_pruned(const WeightFormat& format, int64_t k, Role role) const {
  // Rows are looked up in an embedding, which may be the head.
  if (is_integer(format) || is_coded(format) || role == Role::kEmbedding || role == Role::kLmHead)
    return false;
  return ops_.keeps_two_of_four(format.dtype, k);
}

DType ModelLoader::latent_type(int32_t layer) const {
  const ExpectedTensor* stored = plan_.weight(Role::kLatentUp, layer);
  if (stored == nullptr) stored = plan_.weight(Role::kLatentKeys, layer);
  const TensorInfo& info = *checkpoint_.find(stored->name);
  const DType dtype = info.coded ? stored_type() : info.dtype;
  return float_type(std::span(&dtype, 1));
}

DType ModelLoader::stored_type() const {
  if (options_.dtype) return *options_.dtype;
  if (const auto named = named_dtype(checkpoint_)) return *named;
  const ExpectedTensor* norm = plan_.weight(Role::kFinalNorm);
  if (norm == nullptr) norm = plan_.weight(Role::kEmbedding);
  return checkpoint_.find(norm->name)->dtype;
}

size_t ModelLoader::alike(std::span<const ExpectedTensor* const> tensors) const {
  const CodedMatrix* first = checkpoint_.coded(tensors[0]->name);
  const auto same = [&](const ExpectedTensor* tensor) {
    const CodedMatrix* other = checkpoint_.coded(tensor->name);
    if (first == nullptr || other == nullptr) return first == other;
    return first->format() == other->format() &&
           std::ranges::equal(first->column_order(), other->column_order());
  };
  return static_cast<size_t>(std::ranges::find_if_not(tensors, same) - tensors.begin());
}

PackedLinear ModelLoader::outline(std::span<const ExpectedTensor* const> tensors, Role role) const {
  PackedLinear out;
  std::vector<DType> types;
  const CodedMatrix* coded = nullptr;
  for (const ExpectedTensor* tensor : tensors) {
    coded = checkpoint_.coded(tensor->name);
    if (coded != nullptr) {
      out.n += coded->rows() / (tensor->stacked ? tensor->shape[0] : 1);
      out.k = coded->cols();
    } else {
      types.push_back(checkpoint_.find(tensor->name)->dtype);
      const auto dims = std::span(tensor->shape).last(2);
      out.n += dims[tensor->transposed ? 1 : 0];
      out.k = dims[tensor->transposed ? 0 : 1];
    }
  }
  if (coded == nullptr) {
    out.format = format(types, role);
  } else {
    out.format = {.dtype = DType::kU8, .coded = coded->format()};
    // Codes that stand for no whole numbers meet floats whatever is wanted.
    if (coded_numbers(out.format.coded)) out.format.activations = options_.coded_activations;
    out.format.outlier_threshold = checkpoint_.outlier_threshold();
    if (const auto order = coded->column_order(); !order.empty()) {
      out.column_order = Buffer(order.size_bytes());
      std::memcpy(out.column_order.data(), order.data(), order.size_bytes());
    }
  }
  out.label = role_label(role);
  return out;
}

ModelLoader::FloatParts ModelLoader::float_parts(std::span<const ExpectedTensor* const> tensors,
                                                 int32_t expert) const {
  FloatParts parts;
  for (const ExpectedTensor* tensor : tensors) {
    Buffer copy;
    parts.views.push_back(matrix(*tensor, expert, copy));
    parts.copies.push_back(std::move(copy));
  }
  return parts;
}

bool ModelLoader::is_pruned(std::span<const TensorView> parts) const {
  std::atomic<bool> all = true;
  for (const TensorView& part : parts) {
    parallel_ranges(ctx_, part.rows(), row_grain(part.row_size()), [&](int64_t begin, int64_t end, int) {
      if (all && !is_two_of_four(part, begin, end)) all = false;
    });
  }
  return all;
}

std::vector<const CodedMatrix*> ModelLoader::coded_parts(std::span<const ExpectedTensor* const> tensors,
                                                         int32_t expert,
                                                         std::vector<CodedRows>& ordered) const {
  ordered.reserve(tensors.size());
  std::vector<const CodedMatrix*> parts;
  for (const ExpectedTensor* tensor : tensors) {
    const CodedMatrix* matrix = checkpoint_.coded(tensor->name);
    if (tensor->order != RowOrder::kPlain || tensor->stacked) {
      // Codes of all experts are one matrix, its rows those of the first, of the second …
      const int64_t count = tensor->stacked ? matrix->rows() / tensor->shape[0] : matrix->rows();
      std::vector<int64_t> rows(static_cast<size_t>(count));
      std::iota(rows.begin(), rows.end(), tensor->stacked ? expert * count : 0);
      std::vector<int64_t> order(rows.size());
      copy_rows(*tensor, std::as_writable_bytes(std::span(order)).data(), std::as_bytes(std::span(rows)),
                sizeof(int64_t));
      matrix = &ordered.emplace_back(*matrix, std::move(order));
    }
    parts.push_back(matrix);
  }
  return parts;
}

PackedLinear ModelLoader::pack_codes(std::span<const ExpectedTensor* const> tensors, int32_t expert) const {
  std::vector<CodedRows> ordered;
  return ops_.pack_coded(ctx_, coded_parts(tensors, expert, ordered));
}

int64_t ModelLoader::num_outliers(std::span<const ExpectedTensor* const> tensors) const {
  int64_t sum = 0;
  for (const ExpectedTensor* tensor : tensors) {
    if (const CodedMatrix* coded = checkpoint_.coded(tensor->name)) sum += coded->num_outliers();
  }
  return sum;
}

Linear ModelLoader::pack(std::span<const ExpectedTensor* const> tensors, Role role, int32_t expert) {
  std::vector<PackedLinear> pieces;
  while (!tensors.empty()) {
    const auto run = tensors.first(alike(tensors));
    tensors = tensors.subspan(run.size());
    pieces.push_back(kept_matrix(run, role, expert));
    if (options_.on_packed) {
      std::vector<std::string> names;
      for (const ExpectedTensor* tensor : run) names.push_back(tensor->name);
      options_.on_packed(names, pieces.back());
    }
  }
  Linear out{std::move(pieces[0])};
  std::move(pieces.begin() + 1, pieces.end(), std::back_inserter(out.more));
  return out;
}

// The roles' matrices one below the other; those that the model does not have are left out.
Linear ModelLoader::linear(std::initializer_list<Role> roles, int32_t layer, int32_t expert) {
  std::vector<const ExpectedTensor*> tensors;
  std::vector<const ExpectedTensor*> biases;
  for (const Role role : roles) {
    const ExpectedTensor* tensor = plan_.weight(role, layer, expert);
    if (tensor == nullptr) continue;
    tensors.push_back(tensor);
    biases.push_back(plan_.bias(role, layer, expert));
  }
  // A stacked tensor is done with its last expert, one that is there twice with its second.
  const ExpectedTensor* last = nullptr;
  const auto taken = [&](const ExpectedTensor& tensor) {
    if (&tensor != last && (!tensor.stacked || expert + 1 == tensor.shape[0])) done(tensor);
    last = &tensor;
  };

  if (layer >= 0 && !layer_dtype_) {
    std::vector<DType> types;
    for (const auto* tensor : tensors) {
      const TensorInfo& info = *checkpoint_.find(tensor->name);
      types.push_back(info.coded ? stored_type() : info.dtype);
    }
    layer_dtype_ = float_type(types);
  }

  Linear out = pack(tensors, *roles.begin(), expert);
  for (const auto* tensor : tensors) taken(*tensor);
  if (std::ranges::any_of(biases, [](const auto* bias) { return bias != nullptr; })) {
    std::vector<float> all(static_cast<size_t>(out.out_features()));
    float* values = all.data();
    for (size_t i = 0; i < biases.size(); ++i) {
      if (biases[i] != nullptr) {
        read_vector(*biases[i], expert, values);
        taken(*biases[i]);
      }
      values += out_features(*tensors[i]);
    }
    values = all.data();
    const auto take = [&](PackedLinear& piece) {
      piece.bias = Buffer(static_cast<size_t>(piece.n) * sizeof(float));
      std::memcpy(piece.bias.data(), values, piece.bias.size());
      values += piece.n;
    };
    take(out.weight);
    for (PackedLinear& piece : out.more) take(piece);
  }
  model_->weight_bytes_ += bytes_of(out);
  return out;
}

Buffer ModelLoader::weights_of_heads(Role role, int32_t layer) {
  const int32_t heads = role == Role::kQueryNorm ? spec_.num_heads : spec_.num_kv_heads;
  Buffer out(static_cast<size_t>(heads) * static_cast<size_t>(spec_.head_dim) * sizeof(float));
  for (int32_t h = 0; h < heads; ++h) {
    const ExpectedTensor& tensor = *plan_.weight(role, layer, h);
    read_vector(tensor, -1, out.as<float>() + int64_t{h} * spec_.head_dim);
    done(tensor);
  }
  return out;
}

Norm ModelLoader::norm(Role role, int32_t layer, int64_t size) {
  Norm out;
  const bool of_heads = role == Role::kQueryNorm || role == Role::kKeyNorm;
  out.kind = of_heads ? spec_.qk_norm_kind : spec_.norm;
  out.eps = spec_.norm_eps;
  out.weight_offset = spec_.norm_weight_offset;
  if (role == Role::kFinalNorm) out.weight_offset += spec_.final_norm_offset;
  if (role == Role::kPostAttentionNorm || role == Role::kPostMlpNorm)
    out.eps = spec_.post_norm_eps.value_or(spec_.norm_eps);
  out.size = size;
  const auto take = [&](const ExpectedTensor* tensor, Buffer& into) {
    if (tensor == nullptr) return;
    into = Buffer(static_cast<size_t>(elements(*tensor)) * sizeof(float));
    read_vector(*tensor, -1, into.as<float>());
    done(*tensor);
  };
  take(plan_.weight(role, layer), out.weight);
  if (out.weight.size() == 0 && plan_.weight(role, layer, 0) != nullptr)
    out.weight = weights_of_heads(role, layer);
  if (out.weight.size() == 0) {
    // A norm without weights.
    out.weight = Buffer(static_cast<size_t>(size) * sizeof(float));
    std::fill_n(out.weight.as<float>(), size, 1.0F - out.weight_offset);
    model_->weight_bytes_ -= bytes_of(out.weight);  // which the checkpoint has not
  }
  take(plan_.bias(role, layer), out.bias);
  if (out.kind == NormKind::kLayer && out.weight_offset != 0.0F) {
    for (int64_t i = 0; i < size; ++i) out.weight.as<float>()[i] += out.weight_offset;
  }
  model_->weight_bytes_ += bytes_of(out);
  return out;
}

// A table that is only looked up in: left where it lies, or packed where it is codes.
Embedding ModelLoader::embedding(Role role) {
  const ExpectedTensor& tensor = *plan_.weight(role);
  const std::array<const ExpectedTensor*, 1> tensors = {&tensor};
  Embedding out;
  if (checkpoint_.coded(tensor.name) != nullptr) {
    out.own_packed = std::make_unique<PackedLinear>(kept_matrix(tensors, role, -1));
    out.packed = out.own_packed.get();
    done(tensor);
  } else {
    out.table = matrix(tensor, -1, out.owned);
    done(tensor, out.owned.size() > 0);
  }
  model_->weight_bytes_ += bytes_of(out);
  return out;
}

// The positions' vectors where they are computed, in float32 steps as transformers does it.
Embedding ModelLoader::sinusoids() {
  const int64_t rows = spec_.max_position_embeddings + spec_.position_offset;
  const int64_t half = spec_.hidden_size / 2;
  Embedding out;
  out.owned = Buffer(static_cast<size_t>(rows * spec_.hidden_size) * sizeof(float));
  out.table = make_view(out.owned.as<float>(), DType::kF32, Shape{rows, spec_.hidden_size});
  const double step = -std::log(10000.0) / spec_.sinusoid_steps;
  for (int64_t p = 0; p < rows; ++p) {
    float* row = out.table.row<float>(p);
    for (int64_t i = 0; i < half; ++i) {
      const float angle = static_cast<float>(p) * static_cast<float>(std::exp(static_cast<double>(i) * step));
      row[i] = std::sin(angle);
      row[half + i] = std::cos(angle);
    }
  }
  model_->weight_bytes_ += bytes_of(out);
  return out;
}

// Each token has one type and the first task: their vectors are one.
Embedding ModelLoader::token_types() {
  if (spec_.task_types == 0) return embedding(Role::kTokenTypes);
  Embedding out;
  out.owned = vector(Role::kTokenTypes, -1);
  const Buffer tasks = vector(Role::kTaskTypes, -1);
  model_->weight_bytes_ -= bytes_of(tasks);
  const int64_t size = elements(*plan_.weight(Role::kTokenTypes)) / spec_.token_types;
  out.table = make_view(out.owned.as<float>(), DType::kF32, Shape{spec_.token_types, size});
  for (int64_t type = 0; type < spec_.token_types; ++type) {
    for (int64_t i = 0; i < size; ++i) out.table.row<float>(type)[i] += tasks.as<float>()[i];
  }
  return out;
}

// What stands before the first layer.
void ModelLoader::embeddings() {
  Model& m = *model_;
  const bool is_output = spec_.task == ModelTask::kGenerate && spec_.tie_word_embeddings;
  if (is_output && options_.part.ends == ModelEnds::kAll) {
    m.lm_head_ = linear({Role::kEmbedding}, -1);
    if (plan_.weight(Role::kLmHeadBias) != nullptr) m.lm_head_.weight.bias = vector(Role::kLmHeadBias, -1);
    m.embedding_.packed = &m.lm_head_.weight;
  } else {
    m.embedding_ = embedding(Role::kEmbedding);
  }
  const int64_t summed = spec_.narrow_embeddings ? spec_.embedding_size : spec_.hidden_size;
  if (spec_.embedding_norm) m.embedding_norm_ = norm(Role::kEmbeddingNorm, -1, summed);
  if (spec_.token_types > 0) m.token_types_ = token_types();
  if (spec_.embedding_size > 0) m.embedding_in_ = linear({Role::kEmbeddingIn}, -1);
  if (spec_.position == PositionKind::kLearned) {
    m.position_embedding_ = spec_.sinusoid_steps > 0 ? sinusoids() : embedding(Role::kPositionEmbedding);
    TensorView& table = m.position_embedding_->table;
    table = row_slice(table, spec_.position_offset, table.rows());
  }
  m.layer_inputs_ = layer_inputs();
  m.alt_up_ends_ = alt_up_ends();
}

// What stands behind the last layer, but for a matrix that is the embedding's too.
void ModelLoader::output() {
  Model& m = *model_;
  const bool generates = spec_.task == ModelTask::kGenerate;
  if (generates && !spec_.tie_word_embeddings) m.lm_head_ = linear({Role::kLmHead}, -1);
  if (spec_.embedding_size > 0 && !spec_.narrow_embeddings)
    m.embedding_out_ = linear({Role::kEmbeddingOut}, -1);
  m.final_norm_ = norm_if(spec_.final_norm, Role::kFinalNorm, -1);
  if (generates && spec_.output_head) {
    m.output_head_ = Model::OutputHead{linear({Role::kHeadDense}, -1), spec_.output_head->activation,
                                       norm(Role::kHeadNorm, -1, spec_.hidden_size)};
  }
  if (spec_.streams)
    m.final_mix_ = stream_mix(Role::kFinalMix, Role::kFinalMixBase, Role::kFinalMixScale, -1);
  if (!generates) m.pooler_ = pooler();
}

bool ModelLoader::is_wanted(int32_t layer) const {
  const auto has_weights = [&](int32_t i) {
    const LayerSpec& own = spec_.layers[static_cast<size_t>(i)];
    return (own.weight_source < 0 ? i : own.weight_source) == layer || own.block_source == layer;
  };
  const int32_t end = std::min(options_.part.end_layer, spec_.num_layers);
  for (int32_t i = options_.part.first_layer; i < end; ++i) {
    if (has_weights(i)) return true;
  }
  return false;
}

std::unique_ptr<Model> ModelLoader::load() {
  const int64_t max_len = options_.max_model_len > 0 ? options_.max_model_len : spec_.max_model_len;
  if (spec_.position == PositionKind::kLearned && max_len > spec_.max_position_embeddings) {
    throw Error(cat("the model has positions for ", spec_.max_position_embeddings, " tokens, not for ",
                    max_len, " (--max-model-len)"));
  }
  plan_.check(checkpoint_);
  model_ = std::unique_ptr<Model>(new Model());
  Model& m = *model_;
  m.ops_ = &ops_;
  m.max_model_len_ = max_len;
  m.num_parameters_ = plan_.num_parameters();
  bytes_total_ = plan_.stored_bytes(checkpoint_);
  if (progress_) progress_(0, bytes_total_);
  open_weight_cache();

  if (options_.part.ends != ModelEnds::kNone) embeddings();
  if (options_.part.ends == ModelEnds::kAll) output();
  if (spec_.position == PositionKind::kAlibi)
    m.alibi_slopes_ = alibi_slopes(spec_.num_heads, spec_.alibi_max_bias, spec_.alibi_scale);
  for (const RopeSpec& rope : spec_.ropes) m.ropes_.push_back(make_rope(ctx_, rope, max_len));
  if (spec_.relative) relative_tables();
  m.layers_.reserve(static_cast<size_t>(spec_.num_layers));
  for (int32_t i = 0; i < spec_.num_layers; ++i) {
    m.layers_.push_back(is_wanted(i) ? layer(i) : Model::Layer{});
  }
  m.state_layers_ = std::ranges::any_of(spec_.layers, [](const LayerSpec& own) {
    return own.recurrence != Recurrence::kNone || own.compressed_tokens > 0;
  });
  m.weight_dtype_ = layer_dtype_.value_or(DType::kF32);
  if (options_.quantization) m.quantization_ = options_.quantization->name;
  m.spec_ = std::move(spec_);
  if (m.weight_cache_) m.weight_cache_->finish();
  return std::move(model_);
}

int64_t Model::planned_weight_bytes(Checkpoint& checkpoint, const ModelOptions& options) {
  const OpTable none{};
  return ModelLoader(checkpoint, none, {}, options, {}).planned_bytes();
}

std::unique_ptr<Model> Model::load(Checkpoint& checkpoint, const OpTable& ops, const OpContext& for_packing,
                                   const ModelOptions& options, const LoadProgress& progress) {
  return ModelLoader(checkpoint, ops, for_packing, options, progress).load();
}

}  // namespace quire
