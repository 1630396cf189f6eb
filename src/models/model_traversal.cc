#include "models/model_traversal.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/strings.h"
#include "io/safetensors.h"
#include "models/model_param_ids.h"
#include "nn/pooler.h"
#include "quant/codec.h"

namespace quire {
namespace {

// A tensor of a small file as float32. Throws Error if it is missing or does not have the shape.
std::vector<float> read_floats(const Safetensors& file, std::string_view name,
                               const std::vector<int64_t>& shape) {
  const auto tensors = file.tensors();
  const auto info = std::ranges::find(tensors, name, &TensorInfo::name);
  if (info == tensors.end()) throw Error(cat(file.file(), ": has no tensor '", name, "'"));
  if (info->shape != shape) {
    TensorInfo expected;
    expected.shape = shape;
    throw Error(
        cat(file.file(), ": '", name, "' is ", info->shape_text(), ", expected ", expected.shape_text()));
  }
  if (!is_storage_dtype(info->dtype))
    throw Error(cat(file.file(), ": '", name, "' is ", dtype_name(info->dtype),
                    ", expected float32, bfloat16 or float16"));
  const auto bytes = file.data(*info);
  Buffer aligned(bytes.size());
  std::memcpy(aligned.data(), bytes.data(), bytes.size());
  std::vector<float> values(bytes.size() / dtype_size(info->dtype));
  decode_f32(info->dtype, aligned.data(), values.data(), static_cast<int64_t>(values.size()));
  return values;
}

}  // namespace

void describe_model(const ModelToDescribe& model, ParamVisitor& visitor) {
  Decoder unused;
  ModelTraversal(model, visitor, unused).visit();
}

void ModelTraversal::norm(ParamId id, int64_t size, Norm& out) {
  visit_norm(visitor_, id, spec_.norm, size, out);
}

ResidualAdd ModelTraversal::join(const BranchSpec& spec, ParamId norm_id) {
  ResidualAdd out{
      .multiplier = spec.multiplier, .residual = spec.residual_multiplier, .norm_sum = spec.norm_sum};
  if (spec.post_norm) visit_norm(visitor_, norm_id, *spec.post_norm, spec_.hidden_size, out.norm.emplace());
  return out;
}

ParamSpec ModelTraversal::embedding_spec() const {
  ParamSpec spec =
      replicated(model::kEmbedTokens, spec_.vocab_size + spec_.embedding_rest, embedding_size_of(spec_));
  spec.split = {ShardKind::kVocab};
  spec.looked_up = true;
  return spec;
}

ParamSpec ModelTraversal::lm_head_spec() const {
  ParamSpec spec =
      with_bias(replicated(model::kLmHead, spec_.vocab_size, embedding_size_of(spec_)), spec_.lm_head_bias);
  spec.split = {ShardKind::kVocab};
  return with_scope(spec, ParamScope::kHead);
}

void ModelTraversal::visit() {
  Decoder& m = model_;
  if (source_.part.ends != ModelEnds::kNone) embeddings();
  if (source_.part.ends == ModelEnds::kAll) output();
  const AttentionSpec* attention = attention_of(spec_.layers.front());
  if (spec_.relative && !spec_.relative->vectors)
    visit_relative_bias(*spec_.relative, attention->num_heads, visitor_, m.tables.relative_bias);
  if (spec_.position == PositionKind::kAlibi) {
    visit_values(visitor_, alibi_slopes(attention->num_heads, spec_.alibi_max_bias, spec_.alibi_scale),
                 m.tables.alibi_slopes);
  }
  layers();
}

void ModelTraversal::embeddings() {
  Decoder& m = model_;
  const bool is_output = spec_.task == ModelTask::kGenerate && spec_.tie_word_embeddings;
  if (is_output && source_.part.ends == ModelEnds::kAll) {
    visit_matrix(visitor_, "lm_head", embedding_spec(), m.lm_head, Precision::kLmHead);
    if (spec_.lm_head_bias) {
      const ParamSpec bias = replicated(model::kLmHeadBias, spec_.vocab_size);
      visit_vector(visitor_, with_scope(bias, ParamScope::kHead), m.lm_head.weight.bias);
    }
    m.embedding.packed = &m.lm_head.weight;
    m.embedding.site = m.lm_head.site;
  } else {
    visitor_.embedding(embedding_spec(), m.embedding);
  }
  const int64_t summed = spec_.project_embedding_sum ? spec_.embedding_size : spec_.hidden_size;
  if (spec_.embedding_norm) norm(model::kEmbedNorm, summed, m.embedding_norm.emplace());
  if (spec_.token_types > 0) token_types();
  if (spec_.embedding_size > 0) {
    const ParamSpec in = replicated(model::kEmbedProjIn, spec_.hidden_size, spec_.embedding_size);
    visit_matrix(visitor_, "linear", with_bias(in, spec_.project_embedding_sum), m.embedding_in.emplace());
  }
  if (spec_.position == PositionKind::kLearned) position_embeddings();
  if (spec_.per_layer_input) {
    quire::visit(*spec_.per_layer_input, spec_.num_layers(), spec_.hidden_size, spec_.norm, visitor_,
                 m.per_layer_inputs.emplace());
  }
  if (spec_.alt_up) quire::visit(*spec_.alt_up, visitor_, m.alt_up_ends.emplace());
}

// All tokens use the first task, so its embedding is added to those of the token types.
void ModelTraversal::token_types() {
  Embedding& out = model_.token_types.emplace();
  const int64_t size = spec_.project_embedding_sum ? spec_.embedding_size : spec_.hidden_size;
  ParamSpec types = replicated(model::kTokenTypeEmbeddings, spec_.token_types, size);
  if (spec_.task_types == 0) return visitor_.embedding(types, out);
  ParamSpec tasks = replicated(model::kTaskTypeEmbeddings, spec_.task_types, size);
  types.quantizable = tasks.quantizable = false;
  visitor_.derived({.sources = {types, tasks},
                    .count = spec_.token_types * size,
                    .compute =
                        [=](ParamReader& reader, std::span<float> sum) {
                          const auto rows = reader.read(types);
                          const auto first = reader.read(tasks);
                          for (size_t i = 0; i < sum.size(); ++i)
                            sum[i] = rows[i] + first[i % static_cast<size_t>(size)];
                        }},
                   out.owned);
  out.table = make_view(out.owned.as<float>(), DType::kF32, Shape{spec_.token_types, size});
}

void ModelTraversal::position_embeddings() {
  Embedding& out = model_.position_embedding.emplace();
  const int64_t rows = spec_.max_position_embeddings + spec_.position_offset;
  const int64_t size = spec_.project_embedding_sum ? spec_.embedding_size : spec_.hidden_size;
  if (spec_.sinusoid_steps == 0) {
    ParamSpec table = replicated(model::kPositionEmbeddings, rows, size);
    table.quantizable = false;
    visitor_.embedding(table, out);
  } else {
    const int64_t half = size / 2;
    const double step = -std::log(10000.0) / spec_.sinusoid_steps;
    // With the float32 operations of transformers.
    visitor_.derived({.count = rows * size,
                      .compute =
                          [=](ParamReader&, std::span<float> all) {
                            for (int64_t p = 0; p < rows; ++p) {
                              float* row = all.data() + p * size;
                              for (int64_t i = 0; i < half; ++i) {
                                const float angle =
                                    static_cast<float>(p) *
                                    static_cast<float>(std::exp(static_cast<double>(i) * step));
                                row[i] = std::sin(angle);
                                row[half + i] = std::cos(angle);
                              }
                            }
                          }},
                     out.owned);
    out.table = make_view(out.owned.as<float>(), DType::kF32, Shape{rows, size});
  }
  if (out.table.data != nullptr) out.table = row_slice(out.table, spec_.position_offset, out.table.rows());
}

// Everything after the last layer, except for a tied language modeling head.
void ModelTraversal::output() {
  Decoder& m = model_;
  const bool generates = spec_.task == ModelTask::kGenerate;
  if (generates && !spec_.tie_word_embeddings)
    visit_matrix(visitor_, "lm_head", lm_head_spec(), m.lm_head, Precision::kLmHead);
  if (spec_.embedding_size > 0 && !spec_.project_embedding_sum) {
    const ParamSpec out = replicated(model::kEmbedProjOut, spec_.embedding_size, spec_.hidden_size);
    visit_matrix(visitor_, "linear", out, m.embedding_out.emplace());
  }
  if (spec_.final_norm) {
    Norm& final_norm = m.final_norm.emplace(make_norm(*spec_.final_norm, spec_.hidden_size));
    visit_norm(visitor_, with_bias(replicated(model::kFinalNorm, final_norm.size), spec_.norm.bias),
               final_norm);
  }
  if (generates && spec_.output_head) {
    OutputHead& head = m.output_head.emplace();
    const ParamSpec dense = replicated(model::kHeadDense, spec_.hidden_size, spec_.hidden_size);
    visit_matrix(visitor_, "linear", with_scope(with_bias(dense, spec_.output_head->bias), ParamScope::kHead),
                 head.dense);
    head.activation = spec_.output_head->activation;
    head.norm = make_norm(spec_.norm, spec_.hidden_size);
    const ParamSpec scale = replicated(model::kHeadNorm, spec_.hidden_size);
    visit_norm(visitor_, with_scope(with_bias(scale, spec_.norm.bias), ParamScope::kHead), head.norm);
  }
  if (spec_.streams) {
    quire::visit(*spec_.streams, hyper_connection::kHead, spec_.norm.eps, visitor_,
                 m.final_streams.emplace());
  }
  if (!generates) pooler();
}

void ModelTraversal::pooler() {
  model_.pooler = std::make_unique<Pooler>();
  Pooler& out = *model_.pooler;
  out.kinds = spec_.pooling;
  out.hidden_size = spec_.project_embedding_sum ? spec_.hidden_size : embedding_size_of(spec_);
  out.scores = spec_.task == ModelTask::kScore;
  out.activation = spec_.score_activation;
  out.normalize = spec_.normalize && !out.scores;
  if (!out.scores) return pooler_files(out);
  if (!spec_.classifier) return token_scores(out);
  const ClassifierSpec& own = *spec_.classifier;
  const int64_t pooled = static_cast<int64_t>(spec_.pooling.size()) * spec_.hidden_size;
  const auto of_classifier = [](const ParamSpec& spec) { return with_scope(spec, ParamScope::kClassifier); };
  if (!own.dense.empty()) {
    PoolerLayer& layer = out.layers.emplace_back();
    const ParamSpec dense =
        with_bias(replicated(classifier::kDense, spec_.hidden_size, pooled), own.dense_bias);
    visit_matrix(visitor_, "linear", of_classifier(dense), layer.linear.emplace());
    layer.activation = own.activation;
    layer.tanh = own.tanh;
    if (!own.norm.empty()) {
      layer.norm = make_norm(spec_.norm, spec_.hidden_size);
      const ParamSpec scale = with_bias(replicated(classifier::kNorm, spec_.hidden_size), spec_.norm.bias);
      visit_norm(visitor_, of_classifier(scale), *layer.norm);
    }
  }
  if (own.difference) return label_difference(out);
  const ParamSpec labels =
      replicated(classifier::kLabels, own.num_labels, own.dense.empty() ? pooled : spec_.hidden_size);
  visit_matrix(visitor_, "linear", of_classifier(with_bias(labels, own.bias)),
               out.layers.emplace_back().linear.emplace());
}

// Dense layers of a pooling model that have files of their own (sentence-transformers).
void ModelTraversal::pooler_files(Pooler& pooler) {
  if (source_.files == nullptr) return;
  int64_t size = pooler.pooled_size();
  for (const DenseModule& module : source_.files->dense) {
    if (module.in != size) {
      throw Error(cat(module.file, ": takes vectors of ", module.in,
                      " numbers, but the previous module returns ", size));
    }
    PoolerLayer& layer = pooler.layers.emplace_back();
    const auto read = [&module](std::string_view name, const std::vector<int64_t>& shape,
                                std::span<float> out) {
      const Safetensors file(std::as_bytes(std::span(module.weights)), module.file);
      std::ranges::copy(read_floats(file, name, shape), out.begin());
    };
    visitor_.derived({.label = "pooler",
                      .matrices = {{"", module.out, module.in, module.bias}},
                      .float32 = true,
                      .parameters = module.out * module.in + (module.bias ? module.out : 0),
                      .compute =
                          [&](ParamReader&, size_t /*index*/, std::span<float> out) {
                            read("linear.weight", {module.out, module.in}, out);
                          },
                      .compute_bias = [&](ParamReader&, size_t /*index*/,
                                          std::span<float> out) { read("linear.bias", {module.out}, out); }},
                     std::span(&layer.linear.emplace(), 1));
    layer.activation = module.activation;
    layer.tanh = module.tanh;
    size = module.out;
  }
}

// A single label, whose weights are the difference of two rows.
void ModelTraversal::label_difference(Pooler& pooler) {
  const ClassifierSpec& own = *spec_.classifier;
  const int64_t pooled = static_cast<int64_t>(spec_.pooling.size()) * spec_.hidden_size;
  const int64_t size = own.dense.empty() ? pooled : spec_.hidden_size;
  const ParamSpec labels = with_scope(replicated(classifier::kLabels, 2, size), ParamScope::kClassifier);
  Linear& out = pooler.layers.emplace_back().linear.emplace();
  visitor_.derived({.label = "pooler",
                    .sources = {{labels}},
                    .matrices = {{"", 1, size}},
                    .float32 = true,
                    .compute =
                        [=](ParamReader& reader, size_t /*index*/, std::span<float> row) {
                          const auto rows = reader.read(labels);
                          for (size_t i = 0; i < row.size(); ++i) row[i] = rows[i] - rows[row.size() + i];
                        }},
                   std::span(&out, 1));
}

// The difference of the logits of two tokens.
void ModelTraversal::token_scores(Pooler& pooler) {
  const ParamSpec logits = spec_.tie_word_embeddings ? embedding_spec() : lm_head_spec();
  Linear& out = pooler.layers.emplace_back().linear.emplace();
  visitor_.derived({.label = "pooler",
                    .sources = {{logits}},
                    .matrices = {{"", 1, logits.in}},
                    .float32 = true,
                    .compute =
                        [logits, tokens = spec_.score_tokens](ParamReader& reader, size_t /*index*/,
                                                              std::span<float> row) {
                          const auto yes = reader.read_row(logits, tokens[0]);
                          std::ranges::copy(yes, row.begin());
                          if (tokens[1] < 0) return;
                          const auto no = reader.read_row(logits, tokens[1]);
                          for (size_t i = 0; i < row.size(); ++i) row[i] = yes[i] - no[i];
                        }},
                   std::span(&out, 1));
}

bool ModelTraversal::is_wanted(int32_t layer) const {
  if (spec_.layers[static_cast<size_t>(layer)].weight_sharing_layer >= 0) return false;
  const auto has_weights = [&](int32_t i) {
    const LayerSpec& own = spec_.layers[static_cast<size_t>(i)];
    return (own.weight_sharing_layer < 0 ? i : own.weight_sharing_layer) == layer ||
           (own.shared_block && own.shared_block->owner == layer);
  };
  const int32_t end = std::min(source_.part.end_layer, spec_.num_layers());
  for (int32_t i = source_.part.first_layer; i < end; ++i) {
    if (has_weights(i)) return true;
  }
  return false;
}

void ModelTraversal::layers() {
  model_.layers.resize(static_cast<size_t>(spec_.num_layers()));
  visitor_.for_each(Axis::kLayers, spec_.num_layers(), [&](int64_t i) {
    const auto index = static_cast<int32_t>(i);
    if (is_wanted(index)) layer(index, model_.layers[static_cast<size_t>(i)]);
  });
}

void ModelTraversal::layer(int32_t index, DecoderLayer& out) {
  const LayerSpec& own = spec_.layers[static_cast<size_t>(index)];
  // Scales cannot be moved into a norm whose output a router, a parallel branch or the residual also reads.
  const MixerTraits traits = mixer_traits(own);
  const bool movable = !spec_.parallel_residual && !spec_.postnorm && traits.scales_move;
  const bool into_mixer = movable && !own.shared_block && traits.input_scales_move;
  const bool into_mlp = movable && !own.feed_forward.moe;
  InputSpec x{.size = spec_.hidden_size, .layer = index, .num_layers = spec_.num_layers()};

  if (own.mixer_branch.pre_norm) norm(layer::kInputNorm, spec_.hidden_size, out.mixer_norm.emplace());
  if (own.shared_block) shared_block(index, out);
  std::visit(
      [&](const auto& spec) {
        using Spec = std::remove_cvref_t<decltype(spec)>;
        if constexpr (!std::is_same_v<Spec, std::monostate>) out.mixer = make_mixer(spec);
      },
      own.mixer);
  out.mixer_overwrites_input = traits.overwrites_input;
  x.norm = into_mixer ? layer::kInputNorm : ParamId{};
  if (out.mixer) out.mixer->visit(x, visitor_);
  out.mixer_join = join(own.mixer_branch, layer::kPostAttentionNorm);
  if (own.feed_forward_branch.pre_norm)
    norm(layer::kMlpNorm, spec_.hidden_size, out.feed_forward_norm.emplace());
  x.norm = into_mlp ? layer::kMlpNorm : ParamId{};
  out.feed_forward = make_feed_forward(own.feed_forward);
  if (out.feed_forward) out.feed_forward->visit(spec_.norm, x, visitor_);
  out.feed_forward_join = join(own.feed_forward_branch, layer::kPostMlpNorm);
  if (spec_.per_layer_input)
    quire::visit(*spec_.per_layer_input, spec_.hidden_size, spec_.norm, visitor_, out.input.emplace());
  if (spec_.alt_up) {
    quire::visit(*spec_.alt_up, spec_.norm, visitor_, out.alt_up.emplace());
    quire::visit(*spec_.alt_up, spec_.norm, visitor_, out.laurel.emplace());
  }
  if (spec_.streams) {
    quire::visit(*spec_.streams, hyper_connection::kAttention, spec_.norm.eps, visitor_,
                 out.mixer_streams.emplace());
    quire::visit(*spec_.streams, hyper_connection::kMlp, spec_.norm.eps, visitor_,
                 out.feed_forward_streams.emplace());
  }
  if (spec_.layer_scalars) visitor_.scalar(replicated(layer::kScalar, 1), out.scalar);
}

void ModelTraversal::shared_block(int32_t index, DecoderLayer& out) {
  const SharedBlockUseSpec& own = *spec_.layers[static_cast<size_t>(index)].shared_block;
  SharedBlockLayer& layer = out.shared_block.emplace();
  if (own.owner == index) {
    const auto block = make_shared_block(own.attention);
    quire::visit(own, spec_.norm, layer::kMlpNorm, spec_.hidden_size, index, visitor_, *block);
    layer.block = block;
  } else {
    layer.block = model_.layers[static_cast<size_t>(own.owner)].shared_block->block;
  }
  quire::visit(own, spec_.hidden_size, visitor_, layer.use);
}

}  // namespace quire
