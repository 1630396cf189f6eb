// The weights of one model, and its forward pass through an op table.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/checkpoint.h"
#include "models/arch_spec.h"
#include "models/pooling_files.h"
#include "models/weight_cache.h"
#include "nn/alt_up.h"
#include "nn/compressed_attention.h"
#include "nn/delta_net.h"
#include "nn/forward_batch.h"
#include "nn/indexer.h"
#include "nn/kimi_delta.h"
#include "nn/layer_input.h"
#include "nn/layers.h"
#include "nn/lightning.h"
#include "nn/mamba.h"
#include "nn/mamba1.h"
#include "nn/mla.h"
#include "nn/moe.h"
#include "nn/pooler.h"
#include "nn/shared_block.h"
#include "nn/short_conv.h"
#include "nn/streams.h"
#include "ops/op_table.h"
#include "tensor/tensor.h"

namespace quire {

// What of a model is loaded: all of it, or a part, for work that must not hold more.
enum class ModelEnds : uint8_t {
  kNone,
  kEmbeddings,  // read where they lie, if they are floats
  kAll,         // with the final norm and the output
};
struct ModelPart {
  ModelEnds ends = ModelEnds::kAll;
  int32_t first_layer = 0;
  int32_t end_layer = std::numeric_limits<int32_t>::max();  // behind the last
};

// Called while loading for each matrix that is made, with the names of the tensors whose rows it has.
using PackedListener = std::function<void(std::span<const std::string> tensors, const PackedLinear& matrix)>;

// Where packed weights are kept from one start to the next.
struct WeightCacheOptions {
  std::filesystem::path directory;  // empty: nowhere
  std::string build;                // of this program: what another one has packed is not read
};

struct ModelOptions {
  std::optional<DType> dtype;  // kF32, kBF16 or kF16: what matrices are converted to; none: as stored
  std::optional<Quantization> quantization;  // what they are rounded to in its place
  ActivationFormat coded_activations =
      ActivationFormat::kFloat;  // of matrices that the checkpoint has as codes
  int64_t max_model_len = 0;     // positions that can occur; 0: ArchSpec::max_model_len
  Runner runner = Runner::kAuto;
  ModelPart part = {};
  PackedListener on_packed = nullptr;
  WeightCacheOptions weight_cache = {};
};

// Called while loading, by the loading thread, with bytes of the checkpoint read so far and in all.
using LoadProgress = std::function<void(int64_t bytes_done, int64_t bytes_total)>;

// Scratch of one executor, allocated once for steps of at most max_tokens rows. All float32.
struct ActivationBuffers {
  Buffer data;
  int64_t max_tokens = 0;
  TensorView hidden;  // [max_tokens, hidden_size]
  TensorView words;   // [max_tokens, hidden_size], the tokens' vectors in the same rows behind hidden; where
                      // layers share blocks
  TensorView normed;  // [max_tokens, hidden_size]
  TensorView branch;  // [max_tokens, hidden_size]; of parallel branches
  TensorView qkv;     // [max_tokens, (num_heads + 2 num_kv_heads) head_dim], shares memory with up
  TensorView heads;   // [max_tokens, num_heads head_dim], shares memory with act
  TensorView up;      // [mlp_rows, 2 intermediate] or [mlp_rows, intermediate]; mlp_rows: at most max_tokens
  TensorView act;     // [mlp_rows, intermediate]; not there for a plain MLP
  MoeScratch moe;     // for mlp_rows; where the model has experts
  TensorView beside;  // [2 mlp_rows, hidden_size]; where experts stand beside an MLP
  TensorView
      layer_inputs;  // [max_tokens, num_layers 2 layer_input_size]; where layers have inputs of their own
  TensorView layer_input;              // [max_tokens, num_layers layer_input_size], for making and using them
  std::span<int32_t> layer_input_ids;  // [max_tokens]; where not all tokens have one
  AltUpScratch alt_up;                 // where there are streams of hidden states
  StreamScratch streams;               // of the other kind; hidden lies in it
  MlaScratch mla;                      // in the place of qkv and heads; of latent attention
  CompressedScratch compressed;        // of attention to compressed keys, in the same place
  IndexerScratch indexer;              // of other attention
  BlockScratch block;                  // in the same place but for what adapters need; of shared blocks
  RecurrentScratch recurrent;          // in the same place; of layers that carry a state
};

// The type of floats that a checkpoint's configuration names, what its codes were before they were; none: it
// names none.
std::optional<DType> named_dtype(const Checkpoint& checkpoint);

// Immutable after load. Its weight cache, where it has one, writes the weights in a thread of its own, which
// the destructor waits for. forward and logits are called by one thread at a time for one ActivationBuffers.
class Model {
 public:
  // Bytes that load would keep; nothing but names and shapes is read. Throws as load does.
  static int64_t planned_weight_bytes(Checkpoint& checkpoint, const ModelOptions& options);

  // Takes the checkpoint's tensors one by one, packs them for `ops` and releases their pages. Throws Error
  // that names each missing, surplus and misshapen tensor. The table must outlive the model. The checkpoint
  // must outlive the model too where the embedding is not tied (it is read where it lies).
  static std::unique_ptr<Model> load(Checkpoint& checkpoint, const OpTable& ops, const OpContext& for_packing,
                                     const ModelOptions& options, const LoadProgress& progress);

  const ArchSpec& spec() const { return spec_; }
  int64_t weight_bytes() const { return weight_bytes_; }  // of all weights as they are kept
  // Those of them that lie in a mapped weight cache: memory that the system counts as free.
  int64_t mapped_bytes() const { return weight_cache_ ? weight_cache_->mapped_bytes() : 0; }
  int64_t num_parameters() const { return num_parameters_; }  // a tied embedding counts once
  // Of the layers' matrices; where they are quantized, what they would be without.
  DType weight_dtype() const { return weight_dtype_; }
  std::string_view quantization() const { return quantization_; }  // its name; empty: none
  int64_t max_model_len() const { return max_model_len_; }

  ActivationBuffers make_buffers(int64_t max_tokens) const;
  int64_t activation_bytes(int64_t max_tokens) const;

  // Runs the layers. Returns the final, normed hidden states [num_tokens, hidden_size] (where the tokens'
  // vectors have another size, embedding_size), a view into buffers that stays valid until the next forward.
  // Allocates nothing. Throws Error where the batch does not fit the buffers or the model.
  TensorView forward(const OpContext& ctx, const ForwardBatch& batch, ActivationBuffers& buffers) const;

  // The parts of forward, where only a part of the model was loaded. Of the tokens' rows: buffers.hidden =
  // what goes into the first layer, or what comes out of a layer that buffers.hidden went into. Throw as
  // forward does.
  void embed(const OpContext& ctx, const ForwardBatch& batch, ActivationBuffers& buffers) const;
  void run_layer(const OpContext& ctx, int32_t layer, const ForwardBatch& batch,
                 ActivationBuffers& buffers) const;

  // What becomes of the hidden states of a model that does not generate; null: it does.
  const Pooler* pooler() const { return pooler_ ? &*pooler_ : nullptr; }

  // Of a model that generates. logits[i, :] = lm_head(hidden[rows[i], :]). hidden: what forward returned;
  // rows: at most max_tokens; logits: [rows.size(), vocab_size] float32.
  void logits(const OpContext& ctx, const TensorView& hidden, std::span<const int32_t> rows,
              ActivationBuffers& buffers, const TensorView& logits) const;

 private:
  friend class ModelLoader;
  // Norms of a layer whose experts stand beside its MLP (MoeSpec::beside).
  struct Beside {
    Norm router;
    Norm experts;
    Norm out;
    Norm mlp;
  };
  // ArchSpec::output_head.
  struct OutputHead {
    Linear dense;
    Activation activation;
    Norm norm;
  };
  struct Layer {
    std::optional<Norm> input_norm;
    std::optional<Attention> attention;
    std::optional<Mla> mla;                         // in its place
    std::optional<CompressedAttention> compressed;  // the same
    std::optional<Indexer> indexer;                 // of the keys that attention looks at
    // In their place, or beside attention; one of them at the most.
    std::optional<Mamba> mamba;
    std::optional<Mamba1> mamba1;
    std::optional<DeltaNet> delta_net;
    std::optional<ShortConv> short_conv;
    std::optional<Lightning> lightning;
    std::optional<KimiDelta> kimi_delta;
    // Of a layer that recurs and uses a block: what the block gives is what the recurrence reads besides the
    // hidden states.
    const SharedBlock* block = nullptr;  // one of blocks_
    BlockUse block_use;
    const Rope* rope = nullptr;  // one of ropes_
    Join attention_join;
    bool has_mlp = true;
    std::optional<Norm> mlp_norm;
    Mlp mlp;
    std::optional<Moe> moe;  // in its place, or
    std::optional<Beside> beside;
    bool shortcut = false;  // LayerSpec::shortcut
    Join mlp_join;
    std::optional<LayerInput> input;
    std::optional<AltUp> alt_up;
    std::optional<Laurel> laurel;
    std::optional<StreamMix> attention_mix;  // before attention and before the MLP, or neither
    std::optional<StreamMix> mlp_mix;
    float scalar = 1.0F;  // the hidden states are multiplied with it at the end

    bool attends() const { return attention || mla || compressed; }
    bool carries() const { return recurs() || (compressed && compressed->compressor); }
    bool recurs() const { return mamba || mamba1 || delta_net || short_conv || lightning || kimi_delta; }
  };
  // What a layer computes with: views of the step's rows.
  struct Scratch;
  Model() = default;
  Model(const Model&) = delete;  // embedding_ points into it
  Model& operator=(const Model&) = delete;

  void check_batch(const ForwardBatch& batch, const ActivationBuffers& buffers) const;
  void embed(const OpContext& ctx, const ForwardBatch& batch, const Scratch& at) const;
  void run_layer(const OpContext& ctx, size_t index, const ForwardBatch& batch, const Scratch& at) const;
  void run_sequential(const OpContext& ctx, const Layer& layer, const ForwardBatch& batch,
                      const KvCacheView& kv, const LayerState& state, const Scratch& at) const;
  void run_parallel(const OpContext& ctx, const Layer& layer, const ForwardBatch& batch,
                    const KvCacheView& kv, const LayerState& state, const Scratch& at) const;
  void run_mixed(const OpContext& ctx, const Layer& layer, const ForwardBatch& batch, const KvCacheView& kv,
                 const LayerState& state, const Scratch& at) const;
  // branch = hidden + what the layer's block makes of the step's tokens.
  void run_block(const OpContext& ctx, const Layer& layer, const ForwardBatch& batch, const KvCacheView& kv,
                 const Scratch& at) const;
  // out = attention(x) (+ residual).
  void run_attention(const OpContext& ctx, const Layer& layer, const TensorView& out, const TensorView& x,
                     const TensorView& residual, const ForwardBatch& batch, const KvCacheView& kv,
                     const LayerState& state, const Scratch& at) const;
  // out = the MLP's part and the experts'; x: what the MLP reads, which may be out; hidden: what both are
  // made of.
  void run_beside(const OpContext& ctx, const Layer& layer, const TensorView& out, const TensorView& x,
                  const TensorView& hidden, std::span<const int32_t> tokens, const Scratch& at) const;
  // The same of what carries a state.
  void run_recurrence(const OpContext& ctx, const Layer& layer, const TensorView& out, const TensorView& x,
                      const TensorView& residual, const ForwardBatch& batch, const LayerState& state,
                      const Scratch& at) const;
  // hidden += attention and recurrence of x, which is changed.
  void run_both(const OpContext& ctx, const Layer& layer, const TensorView& x, const ForwardBatch& batch,
                const KvCacheView& kv, const LayerState& state, const Scratch& at) const;
  void run_mlp(const OpContext& ctx, const Layer& layer, const TensorView& x, std::span<const int32_t> tokens,
               const Scratch& at) const;

  const OpTable* ops_ = nullptr;
  ArchSpec spec_;
  int64_t max_model_len_ = 0;
  int64_t weight_bytes_ = 0;
  int64_t num_parameters_ = 0;
  DType weight_dtype_ = DType::kF32;
  std::string_view quantization_;
  Embedding embedding_;
  std::optional<Embedding> position_embedding_;
  std::optional<LayerInputs> layer_inputs_;
  std::optional<AltUpEnds> alt_up_ends_;
  std::optional<StreamMix> final_mix_;
  std::optional<Norm> embedding_norm_;
  std::vector<float> alibi_slopes_;                   // [num_heads] or empty; layers point into it
  Buffer relative_bias_;                              // [num_heads, buckets] or empty; layers point into it
  std::vector<Rope> ropes_;                           // as ArchSpec::ropes; layers point into it
  std::vector<std::unique_ptr<SharedBlock>> blocks_;  // layers point to them
  std::vector<Layer> layers_;
  bool state_layers_ = false;  // some carry states
  std::optional<Norm> final_norm_;
  std::optional<OutputHead> output_head_;
  Linear lm_head_;  // the embedding too where they are tied
  std::optional<Embedding> token_types_;
  std::optional<Linear> embedding_in_;
  std::optional<Linear> embedding_out_;
  std::optional<Pooler> pooler_;
  std::unique_ptr<WeightCache> weight_cache_;  // ends first: it may still read what it writes
};

}  // namespace quire
