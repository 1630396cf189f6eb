// Takes a checkpoint apart into a Model. Used by Model::load only.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "models/model.h"
#include "models/pooling_files.h"
#include "models/weight_names.h"
#include "quant/coded_rows.h"

namespace quire {

// Elements of a shape.
int64_t numel(std::span<const int64_t> shape);

// Bytes that weights take in memory.
int64_t bytes_of(const Buffer& buffer);
int64_t bytes_of(const PackedLinear& w);
int64_t bytes_of(const Linear& linear);

// A tensor that the model needs, under the name that this checkpoint uses.
struct ExpectedTensor {
  std::string name;
  std::vector<int64_t> shape;  // as stored; stacked: the experts outermost
  bool transposed = false;     // a matrix stored [in, out]
  RowOrder order = RowOrder::kPlain;
  bool stacked = false;  // holds this for all experts, or for all groups of heads
  bool flat = false;     // of a stacked one: a matrix, the parts' rows one below the other
};

// Of a tensor, of a stacked one of each expert's part.
int64_t elements(const ExpectedTensor& tensor);
// Of a matrix that is multiplied with.
int64_t out_features(const ExpectedTensor& matrix);

// Everything a model of this spec needs, by role, layer (-1: not of a layer) and expert (-1: not of an
// expert).
class TensorPlan {
 public:
  TensorPlan(const ArchSpec& spec, const WeightNames& names, const Checkpoint& checkpoint);

  // Throws one Error that names every missing, misshapen and surplus tensor, the first twenty of them.
  void check(const Checkpoint& checkpoint) const;

  // Null: the model has none there. Of an expert: its own tensor, or the one that holds all experts'.
  const ExpectedTensor* weight(Role role, int32_t layer = -1, int32_t expert = -1) const;
  const ExpectedTensor* bias(Role role, int32_t layer = -1, int32_t expert = -1) const;
  int64_t num_parameters() const;
  int64_t stored_bytes(const Checkpoint& checkpoint) const;  // of the planned tensors; after check()

 private:
  struct Module {
    ExpectedTensor weight;
    std::optional<ExpectedTensor> bias;
  };
  using Key = std::tuple<Role, int32_t, int32_t>;
  // Whether the checkpoint has the module's matrix as a part of another's, or its parts instead of it.
  bool is_otherwise_there(const ModuleName& module, bool stacked, const Checkpoint& checkpoint) const;
  // Whether the checkpoint stacks its experts.
  bool stacks_experts(const ArchSpec& spec, const Checkpoint& checkpoint) const;
  void add_layer(const ArchSpec& spec, const ModuleName& module, int32_t layer, bool stacked,
                 const Checkpoint& checkpoint);
  void add(const ArchSpec& spec, const ModuleName& module, int32_t layer, int32_t expert,
           const Checkpoint& checkpoint);
  const Module* find(Role role, int32_t layer, int32_t expert) const;
  bool is_ignored(const std::string& name) const;
  bool is_of_text(std::string_view name) const;
  bool is_of_head(std::string_view name) const;

  std::string architecture_;
  std::string prefix_;
  std::string head_prefix_;
  WeightNames names_;
  bool tied_;
  bool headless_;
  int32_t num_layers_;
  int32_t num_experts_;
  std::vector<bool> idle_;  // by layer: it does nothing, whatever the checkpoint has for it
  std::map<Key, Module> modules_;
};

// The module that a layer's projections of keys are in: "model.layers.0.self_attn".
std::string attention_module(const TensorPlan& plan, int32_t layer);

class ModelLoader {
 public:
  ModelLoader(Checkpoint& checkpoint, const OpTable& ops, const OpContext& ctx, const ModelOptions& options,
              const LoadProgress& progress);
  std::unique_ptr<Model> load();
  // Of the model that load would make.
  int64_t planned_bytes() const;

 private:
  int64_t planned_pooler_bytes() const;  // beyond what the checkpoint's own tensors take

  Linear linear(std::initializer_list<Role> roles, int32_t layer, int32_t expert = -1);
  // The matrices one below the other; those stored alike, one behind the other, share a piece.
  Linear pack(std::span<const ExpectedTensor* const> tensors, Role role, int32_t expert);
  // Of tensors that are stored alike: what the matrix of all their rows is, without its data and outliers,
  // and this data; of codes with the outliers.
  PackedLinear outline(std::span<const ExpectedTensor* const> tensors, Role role) const;
  // Floats as matrices that lie somewhere; copies: those that could not be read in place.
  struct FloatParts {
    std::vector<Buffer> copies;
    std::vector<TensorView> views;
  };
  FloatParts float_parts(std::span<const ExpectedTensor* const> tensors, int32_t expert) const;
  // Whether at most two of four weights of their rows are not zero.
  bool is_pruned(std::span<const TensorView> parts) const;
  PackedLinear pack_codes(std::span<const ExpectedTensor* const> tensors, int32_t expert) const;
  // Their codes, the rows as the model has them. `ordered` holds those that are stored in another order.
  std::vector<const CodedMatrix*> coded_parts(std::span<const ExpectedTensor* const> tensors, int32_t expert,
                                              std::vector<CodedRows>& ordered) const;
  int64_t num_outliers(std::span<const ExpectedTensor* const> tensors) const;  // of their codes
  // All of it, the data out of the weight cache where it has it.
  PackedLinear kept_matrix(std::span<const ExpectedTensor* const> tensors, Role role, int32_t expert);
  // The data of such a matrix, or so many bytes, that `make` returns; out of the weight cache where it has
  // it.
  Buffer kept(const std::string& name, const PackedLinear& matrix, const std::function<Buffer()>& make);
  Buffer kept(const std::string& name, int64_t bytes, const std::function<Buffer()>& make);
  void open_weight_cache();
  // How many of the first tensors are stored alike: as floats, or as codes of one format.
  size_t alike(std::span<const ExpectedTensor* const> tensors) const;
  Norm norm(Role role, int32_t layer, int64_t size);
  // [heads, head_dim] of tensors that are each a head's.
  Buffer weights_of_heads(Role role, int32_t layer);
  std::optional<Norm> norm_if(bool wanted, Role role, int32_t layer);  // over the hidden states
  Join join(Role norm_role, int32_t layer);
  Attention attention(int32_t layer);
  // What scores that depend on distances have in all layers, and in one.
  void relative_tables();
  void relate(Attention& attention, int32_t layer);
  // Of keys and values in an 8-bit cache, where the checkpoint has them.
  std::optional<KvScales> kv_scales(int32_t layer) const;
  Mla mla(int32_t layer);
  Indexer indexer(int32_t layer);
  CompressedAttention compressed_attention(int32_t layer);
  StreamMix stream_mix(Role scores, Role base, Role scale, int32_t layer);
  Norm plain_norm(int64_t size) const;  // without weights
  // The experts of each token, as Moe::by_token.
  Buffer expert_table(int32_t layer);
  // Sets mla's absorb and expand: of each head what makes its keys and values.
  void split_latent(Mla& mla, int32_t layer);
  // For each head the matrix that makes keys of the short vector, [latent, still], then the one that makes
  // values, [value, latent].
  std::vector<float> latent_heads(const MlaSizes& sizes, int32_t layer);
  Moe moe(int32_t layer);
  Model::Beside beside(int32_t layer);
  // A vector as float32, counted.
  Buffer vector(Role role, int32_t layer);
  Embedding sinusoids();
  // How fast states fade: -e^x of what is stored.
  Buffer rates(int32_t layer);
  CausalConv causal_conv(int32_t layer, const RecurrentSizes& sizes, Activation activation);
  SharedBlock shared_block(int32_t layer);
  BlockUse block_use(int32_t layer);
  Mlp mlp(int32_t layer);
  Mamba mamba(int32_t layer);
  Mamba1 mamba1(int32_t layer);
  DeltaNet delta_net(int32_t layer);
  KimiDelta kimi_delta(int32_t layer);
  ShortConv short_conv(int32_t layer);
  Lightning lightning(int32_t layer);
  Embedding embedding(Role role);
  Embedding token_types();
  // What becomes of the hidden states of a model that does not generate.
  Pooler pooler();
  // The logit of one token minus another's, as the only row.
  Linear score_of_tokens();
  Linear score_of_difference();  // ClassifierSpec::difference
  Linear score_row(Buffer row, int64_t size);
  Linear dense(const DenseModule& module);
  std::optional<LayerInputs> layer_inputs();
  std::optional<LayerInput> layer_input(int32_t layer);
  std::optional<AltUpEnds> alt_up_ends();
  AltUp alt_up(int32_t layer);
  Laurel laurel(int32_t layer);
  float number(Role role, int32_t layer, float fallback);  // a tensor of one; fallback: it is not there
  XieluParams xielu(int32_t layer);
  Model::Layer layer(int32_t index);
  void embeddings();
  void output();
  bool is_wanted(int32_t layer) const;  // the part that is loaded runs with its weights
  // What a matrix of parts of these types is kept as, without quantization and with it.
  DType float_type(std::span<const DType> parts) const;
  WeightFormat format(std::span<const DType> parts, Role role) const;
  // Whether matrices stored so are kept without their zeros where they are pruned.
  bool may_be_pruned(const WeightFormat& format, int64_t k, Role role) const;
  // What the matrices of latent attention's heads are kept as.
  DType latent_type(int32_t layer) const;
  // What the model would be without quantization: its type of activations, as far as the checkpoint says it.
  DType stored_type() const;

  // dst = the rows of source, in the order in which the model has them.
  void copy_rows(const ExpectedTensor& tensor, std::byte* dst, std::span<const std::byte> source,
                 size_t row_bytes) const;
  // The tensor, of a stacked one the expert's part: its bytes, and its shape.
  std::span<const std::byte> piece(const ExpectedTensor& tensor, int32_t expert) const;
  // The tensor as a matrix [out, in]; `copy` holds it where it cannot be read in place.
  TensorView matrix(const ExpectedTensor& tensor, int32_t expert, Buffer& copy) const;
  // All of a matrix as float32, decoded where it is codes.
  std::vector<float> floats(const ExpectedTensor& tensor);
  // out = the tensor's elements as float32.
  void read_vector(const ExpectedTensor& tensor, int32_t expert, float* out) const;
  // The tensor has been taken over: counts it and lets its pages go.
  void done(const ExpectedTensor& tensor, bool release = true);

  Checkpoint& checkpoint_;
  const OpTable& ops_;
  const OpContext& ctx_;
  const ModelOptions& options_;
  const LoadProgress& progress_;
  std::optional<PoolingFiles> pooling_files_;
  ArchSpec spec_;
  TensorPlan plan_;
  Buffer relative_rows_;              // [buckets, hidden] float32: RelativeSpec::vectors, normed
  std::optional<DType> layer_dtype_;  // float_type of the first matrix of a layer
  std::unique_ptr<Model> model_;
  int64_t bytes_done_ = 0;
  int64_t bytes_total_ = 0;
};

}  // namespace quire
