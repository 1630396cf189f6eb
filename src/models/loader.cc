#include "models/loader.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>

#include "base/error.h"
#include "base/strings.h"
#include "models/config_reader.h"
#include "models/registry.h"
#include "nn/alibi.h"
#include "quant/codec.h"
#include "quant/coded_layout.h"
#include "quant/coded_rows.h"
#include "quant/int_layout.h"

namespace quire {
namespace {

// Of a packed matrix in whole panels; all op tables have those of 32 rows.
int64_t packed_bytes(const WeightFormat& format, int64_t n, int64_t k) {
  const int64_t panels = (n + IntLayout::kPanel - 1) / IntLayout::kPanel;
  if (is_coded(format)) return panels * CodedLayout(format.coded, k).panel_bytes;
  if (is_integer(format)) return panels * IntLayout(format, k).panel_bytes;
  return panels * IntLayout::kPanel * k * static_cast<int64_t>(dtype_size(format.dtype));
}

// The same of n rows of codes as those of `matrix`.
int64_t packed_bytes(const CodedMatrix& matrix, int64_t n) {
  const WeightFormat format = {.dtype = DType::kU8, .coded = matrix.format()};
  const auto order = static_cast<int64_t>(matrix.column_order().size_bytes());
  return packed_bytes(format, n, matrix.cols()) + order;
}

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

// dst: all queries, all keys, all values; src: RowOrder::kByKvHead. A row has `size` bytes.
void order_rows(std::byte* dst, const std::byte* src, const ArchSpec& spec, size_t size) {
  const auto head = static_cast<size_t>(spec.head_dim) * size;
  const auto num_kv_heads = static_cast<size_t>(spec.num_kv_heads);
  const size_t group = static_cast<size_t>(spec.num_heads) / num_kv_heads;
  std::byte* queries = dst;
  std::byte* keys = queries + num_kv_heads * group * head;
  std::byte* values = keys + num_kv_heads * head;
  for (size_t h = 0; h < num_kv_heads; ++h, src += (group + 2) * head) {
    std::memcpy(queries + h * group * head, src, group * head);
    std::memcpy(keys + h * head, src + group * head, head);
    std::memcpy(values + h * head, src + (group + 1) * head, head);
  }
}

struct RoleLabel {
  Role role;
  std::string_view label;
};
// What a profile calls the matrices, by the first role in them.
constexpr std::array<RoleLabel, 6> kLabels = {{{Role::kEmbedding, "lm_head"},
                                               {Role::kLmHead, "lm_head"},
                                               {Role::kQuery, "qkv"},
                                               {Role::kAttentionOut, "attention out"},
                                               {Role::kGate, "mlp up"},
                                               {Role::kDown, "mlp down"}}};

std::string_view role_label(Role role) {
  const auto at = std::find_if(kLabels.begin(), kLabels.end(), [&](const auto& l) { return l.role == role; });
  return at == kLabels.end() ? "linear" : at->label;
}

int64_t bytes_of(const Buffer& buffer) {
  return static_cast<int64_t>(buffer.size());
}
int64_t bytes_of(const PackedLinear& w) {
  return bytes_of(w.data) + bytes_of(w.bias) + bytes_of(w.column_order);
}
int64_t bytes_of(const Linear& linear) {
  int64_t sum = bytes_of(linear.weight);
  for (const PackedLinear& piece : linear.more) sum += bytes_of(piece);
  return sum;
}
int64_t bytes_of(const Norm& norm) {
  return bytes_of(norm.weight) + bytes_of(norm.bias);
}
int64_t bytes_of(const Embedding& e) {
  if (e.own_packed != nullptr) return bytes_of(*e.own_packed);
  return e.packed != nullptr ? 0 : e.table.shape.numel() * static_cast<int64_t>(dtype_size(e.table.dtype));
}

}  // namespace

ModelLoader::ModelLoader(Checkpoint& checkpoint, const OpTable& ops, const OpContext& ctx,
                         const ModelOptions& options, const LoadProgress& progress)
    : checkpoint_(checkpoint),
      ops_(ops),
      ctx_(ctx),
      options_(options),
      progress_(progress),
      spec_(parse_arch(checkpoint.config())),
      plan_(spec_, find_architecture(ConfigReader(checkpoint.config())).weight_names(), checkpoint) {
  if (options.dtype && !is_storage_dtype(*options.dtype)) {
    throw Error(cat("weights cannot be kept as ", dtype_name(*options.dtype),
                    "; float32, bfloat16 and float16 are supported"));
  }
}

void ModelLoader::copy_rows(const ExpectedTensor& tensor, std::byte* dst, std::span<const std::byte> source,
                            size_t row_bytes) const {
  if (tensor.order == RowOrder::kPlain) {
    std::memcpy(dst, source.data(), source.size());
  } else {
    order_rows(dst, source.data(), spec_, row_bytes);
  }
}

TensorView ModelLoader::matrix(const ExpectedTensor& tensor, Buffer& copy) const {
  const bool as_it_lies = !tensor.transposed && tensor.order == RowOrder::kPlain;
  if (as_it_lies && checkpoint_.aligned(tensor.name)) return checkpoint_.view(tensor.name);
  const auto source = checkpoint_.bytes(tensor.name);
  const TensorInfo& info = *checkpoint_.find(tensor.name);
  copy = Buffer(source.size());
  if (!tensor.transposed) {
    copy_rows(tensor, copy.data(), source, source.size() / static_cast<size_t>(info.shape[0]));
    return make_view(copy.data(), info.dtype, Shape{info.shape[0], info.shape[1]});
  }
  transpose(copy.data(), source.data(), info.shape[0], info.shape[1], dtype_size(info.dtype));
  return make_view(copy.data(), info.dtype, Shape{info.shape[1], info.shape[0]});
}

void ModelLoader::append_vector(const ExpectedTensor& tensor, float* out) const {
  const auto source = checkpoint_.bytes(tensor.name);
  const TensorInfo& info = *checkpoint_.find(tensor.name);
  Buffer aligned(source.size());
  copy_rows(tensor, aligned.data(), source, dtype_size(info.dtype));
  decode_f32(info.dtype, aligned.data(), out, info.shape[0]);
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
  if (!options_.quantization) return {float_type(parts)};
  const bool head = role == Role::kLmHead || role == Role::kEmbedding;
  return head ? options_.quantization->head : options_.quantization->layers;
}

DType ModelLoader::stored_type() const {
  if (options_.dtype) return *options_.dtype;
  for (const auto* field : {"dtype", "torch_dtype"}) {
    const auto it = checkpoint_.config().find(field);
    if (it == checkpoint_.config().end() || !it->is_string()) continue;
    const auto named = dtype_from_name(it->get<std::string>());
    if (named && is_storage_dtype(*named)) return *named;
  }
  return checkpoint_.find(plan_.weight(Role::kFinalNorm)->name)->dtype;
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

PackedLinear ModelLoader::pack_codes(std::span<const ExpectedTensor* const> tensors) const {
  std::vector<CodedRows> ordered;
  ordered.reserve(tensors.size());
  std::vector<const CodedMatrix*> parts;
  for (const ExpectedTensor* tensor : tensors) {
    const CodedMatrix* matrix = checkpoint_.coded(tensor->name);
    if (tensor->order != RowOrder::kPlain) {
      std::vector<int64_t> rows(static_cast<size_t>(matrix->rows()));
      std::iota(rows.begin(), rows.end(), int64_t{0});
      std::vector<int64_t> order(rows.size());
      copy_rows(*tensor, std::as_writable_bytes(std::span(order)).data(), std::as_bytes(std::span(rows)),
                sizeof(int64_t));
      matrix = &ordered.emplace_back(*matrix, std::move(order));
    }
    parts.push_back(matrix);
  }
  return ops_.pack_coded(ctx_, parts);
}

Linear ModelLoader::pack(std::span<const ExpectedTensor* const> tensors, Role role) {
  std::vector<PackedLinear> pieces;
  while (!tensors.empty()) {
    const auto run = tensors.first(alike(tensors));
    tensors = tensors.subspan(run.size());
    if (checkpoint_.coded(run[0]->name) != nullptr) {
      pieces.push_back(pack_codes(run));
    } else {
      std::vector<Buffer> copies(run.size());
      std::vector<TensorView> parts;
      for (size_t i = 0; i < run.size(); ++i) parts.push_back(matrix(*run[i], copies[i]));
      std::vector<DType> types;
      for (const auto& part : parts) types.push_back(part.dtype);
      pieces.push_back(ops_.pack_linear(ctx_, parts, format(types, role)));
    }
    pieces.back().label = role_label(role);
  }
  Linear out{std::move(pieces[0])};
  std::move(pieces.begin() + 1, pieces.end(), std::back_inserter(out.more));
  return out;
}

// The roles' matrices one below the other; those that the model does not have are left out.
Linear ModelLoader::linear(std::initializer_list<Role> roles, int32_t layer) {
  std::vector<const ExpectedTensor*> tensors;
  std::vector<const ExpectedTensor*> biases;
  for (const Role role : roles) {
    const ExpectedTensor* tensor = plan_.weight(role, layer);
    if (tensor == nullptr) continue;
    tensors.push_back(tensor);
    if (const ExpectedTensor* bias = plan_.bias(role, layer)) biases.push_back(bias);
  }

  if (layer >= 0 && !layer_dtype_) {
    std::vector<DType> types;
    for (const auto* tensor : tensors) {
      const TensorInfo& info = *checkpoint_.find(tensor->name);
      types.push_back(info.coded ? stored_type() : info.dtype);
    }
    layer_dtype_ = float_type(types);
  }

  Linear out = pack(tensors, *roles.begin());
  for (const auto* tensor : tensors) done(*tensor);
  if (!biases.empty()) {
    std::vector<float> all(static_cast<size_t>(out.out_features()));
    float* values = all.data();
    for (const auto* bias : biases) {
      append_vector(*bias, values);
      values += bias->shape[0];
      done(*bias);
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

Norm ModelLoader::norm(Role role, int32_t layer, int64_t size) {
  Norm out;
  // The norms of single heads are RMS norms whatever the layers have.
  const bool of_heads = role == Role::kQueryNorm || role == Role::kKeyNorm;
  out.kind = of_heads ? NormKind::kRms : spec_.norm;
  out.eps = spec_.norm_eps;
  out.weight_offset = spec_.norm_weight_offset;
  out.size = size;
  const auto take = [&](const ExpectedTensor* tensor, Buffer& into) {
    if (tensor == nullptr) return;
    into = Buffer(static_cast<size_t>(size) * sizeof(float));
    append_vector(*tensor, into.as<float>());
    done(*tensor);
  };
  take(plan_.weight(role, layer), out.weight);
  take(plan_.bias(role, layer), out.bias);
  model_->weight_bytes_ += bytes_of(out);
  return out;
}

// A table that is only looked up in: left where it lies, or packed where it is codes.
Embedding ModelLoader::embedding(Role role) {
  const ExpectedTensor& tensor = *plan_.weight(role);
  const std::array<const ExpectedTensor*, 1> tensors = {&tensor};
  Embedding out;
  if (checkpoint_.coded(tensor.name) != nullptr) {
    out.own_packed = std::make_unique<PackedLinear>(pack_codes(tensors));
    out.packed = out.own_packed.get();
    done(tensor);
  } else {
    out.table = matrix(tensor, out.owned);
    done(tensor, out.owned.size() > 0);
  }
  model_->weight_bytes_ += bytes_of(out);
  return out;
}

std::optional<Norm> ModelLoader::norm_if(bool wanted, Role role, int32_t layer) {
  if (!wanted) return std::nullopt;
  return norm(role, layer, spec_.hidden_size);
}

Join ModelLoader::join(Role norm_role, int32_t layer) {
  return {norm_if(spec_.post_norms, norm_role, layer), spec_.residual_multiplier};
}

Attention ModelLoader::attention(int32_t layer) {
  const LayerSpec& own = spec_.layers[static_cast<size_t>(layer)];
  Attention out;
  // Checkpoints have either three matrices or one.
  out.qkv = linear({Role::kQuery, Role::kKey, Role::kValue, Role::kQkv}, layer);
  out.out = linear({Role::kAttentionOut}, layer);
  out.qk_norm = spec_.qk_norm;
  if (spec_.qk_norm != QkNorm::kNone) {
    const bool whole = spec_.qk_norm == QkNorm::kWhole;
    const int64_t head_dim = spec_.head_dim;
    out.q_norm = norm(Role::kQueryNorm, layer, whole ? spec_.num_heads * head_dim : head_dim);
    out.k_norm = norm(Role::kKeyNorm, layer, whole ? spec_.num_kv_heads * head_dim : head_dim);
  }
  out.params.scale = own.attention_scale;
  out.params.window = own.window;
  out.params.logit_softcap = spec_.attention_softcap;
  if (!model_->alibi_slopes_.empty()) out.params.alibi_slopes = model_->alibi_slopes_.data();
  out.num_heads = spec_.num_heads;
  out.num_kv_heads = spec_.num_kv_heads;
  out.head_dim = spec_.head_dim;
  return out;
}

Model::Layer ModelLoader::layer(int32_t index) {
  const LayerSpec& own = spec_.layers[static_cast<size_t>(index)];
  Model::Layer out;
  out.input_norm = norm_if(spec_.input_norm, Role::kInputNorm, index);
  out.attention = attention(index);
  if (own.rope != kNoRope && !model_->ropes_.empty())
    out.rope = &model_->ropes_[static_cast<size_t>(own.rope)];
  out.attention_join = join(Role::kPostAttentionNorm, index);
  out.mlp_norm = norm_if(spec_.mlp_norm, Role::kMlpNorm, index);
  out.mlp.up = linear({Role::kGate, Role::kUp, Role::kGateUp}, index);
  out.mlp.down = linear({Role::kDown}, index);
  out.mlp.activation = spec_.activation;
  out.mlp.gated = spec_.gated_mlp;
  out.mlp_join = join(Role::kPostMlpNorm, index);
  return out;
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

  if (spec_.tie_word_embeddings) {
    m.lm_head_ = linear({Role::kEmbedding}, -1);
    m.embedding_.packed = &m.lm_head_.weight;
  } else {
    m.embedding_ = embedding(Role::kEmbedding);
    m.lm_head_ = linear({Role::kLmHead}, -1);
  }
  m.embedding_norm_ = norm_if(spec_.embedding_norm, Role::kEmbeddingNorm, -1);
  if (spec_.position == PositionKind::kLearned) {
    m.position_embedding_ = embedding(Role::kPositionEmbedding);
    TensorView& table = m.position_embedding_->table;
    table = row_slice(table, spec_.position_offset, table.rows());
  }
  if (spec_.position == PositionKind::kAlibi)
    m.alibi_slopes_ = alibi_slopes(spec_.num_heads, spec_.alibi_max_bias);
  for (const RopeSpec& rope : spec_.ropes) m.ropes_.push_back(make_rope(ctx_, rope, max_len));
  m.layers_.reserve(static_cast<size_t>(spec_.num_layers));
  for (int32_t i = 0; i < spec_.num_layers; ++i) m.layers_.push_back(layer(i));
  m.final_norm_ = norm(Role::kFinalNorm, -1, spec_.hidden_size);
  m.weight_dtype_ = *layer_dtype_;
  if (options_.quantization) m.quantization_ = options_.quantization->name;
  m.spec_ = std::move(spec_);
  return std::move(model_);
}

int64_t ModelLoader::planned_bytes() const {
  plan_.check(checkpoint_);
  constexpr auto kFloat = static_cast<int64_t>(sizeof(float));
  int64_t sum = 0;
  const auto numel = [](const ExpectedTensor& tensor) {
    int64_t n = 1;
    for (const int64_t dim : tensor.shape) n *= dim;
    return n;
  };
  const auto add_vector = [&](const ExpectedTensor* tensor) {
    if (tensor != nullptr) sum += numel(*tensor) * kFloat;
  };
  const auto add_table = [&](Role role) {
    const ExpectedTensor& tensor = *plan_.weight(role);
    const CodedMatrix* coded = checkpoint_.coded(tensor.name);
    sum += coded == nullptr ? static_cast<int64_t>(checkpoint_.find(tensor.name)->bytes)
                            : packed_bytes(*coded, coded->rows());
  };
  const auto add_matrix = [&](std::initializer_list<Role> roles, int32_t layer) {
    std::vector<const ExpectedTensor*> all;
    for (const Role role : roles) {
      const ExpectedTensor* tensor = plan_.weight(role, layer);
      if (tensor == nullptr) continue;
      all.push_back(tensor);
      add_vector(plan_.bias(role, layer));
    }
    for (std::span<const ExpectedTensor* const> rest = all; !rest.empty();) {
      const auto run = rest.first(alike(rest));
      rest = rest.subspan(run.size());
      std::vector<DType> types;
      int64_t n = 0;
      int64_t k = 0;
      for (const ExpectedTensor* tensor : run) {
        types.push_back(checkpoint_.find(tensor->name)->dtype);
        n += tensor->shape[tensor->transposed ? 1 : 0];
        k = tensor->shape[tensor->transposed ? 0 : 1];
      }
      const CodedMatrix* coded = checkpoint_.coded(run[0]->name);
      sum += coded == nullptr ? packed_bytes(format(types, *roles.begin()), n, k) : packed_bytes(*coded, n);
    }
  };
  if (spec_.tie_word_embeddings) {
    add_matrix({Role::kEmbedding}, -1);
  } else {
    add_table(Role::kEmbedding);
    add_matrix({Role::kLmHead}, -1);
  }
  if (spec_.position == PositionKind::kLearned) add_table(Role::kPositionEmbedding);
  add_vector(plan_.weight(Role::kEmbeddingNorm));
  add_vector(plan_.bias(Role::kEmbeddingNorm));
  for (int32_t i = 0; i < spec_.num_layers; ++i) {
    for (const Role role : {Role::kInputNorm, Role::kPostAttentionNorm, Role::kMlpNorm, Role::kPostMlpNorm,
                            Role::kQueryNorm, Role::kKeyNorm}) {
      add_vector(plan_.weight(role, i));
      add_vector(plan_.bias(role, i));
    }
    add_matrix({Role::kQuery, Role::kKey, Role::kValue, Role::kQkv}, i);
    add_matrix({Role::kAttentionOut}, i);
    add_matrix({Role::kGate, Role::kUp, Role::kGateUp}, i);
    add_matrix({Role::kDown}, i);
  }
  add_vector(plan_.weight(Role::kFinalNorm));
  add_vector(plan_.bias(Role::kFinalNorm));
  return sum;
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
