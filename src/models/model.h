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
#include <utility>
#include <vector>

#include "device/device.h"
#include "io/checkpoint.h"
#include "models/model_spec.h"
#include "models/pooling_files.h"
#include "models/weight_cache.h"
#include "nn/forward_batch.h"
#include "nn/step_tables.h"
#include "ops/op_table.h"
#include "tensor/tensor.h"

namespace quire {

// The part of a model that is loaded. Tools that work layer by layer load less than all of it.
enum class ModelEnds : uint8_t {
  kNone,
  kEmbeddings,  // float embeddings are read in place
  kAll,         // embeddings, final norm and output
};
struct ModelPart {
  ModelEnds ends = ModelEnds::kAll;
  int32_t first_layer = 0;
  int32_t end_layer = std::numeric_limits<int32_t>::max();  // one past the last layer
};

// Called while loading for each packed matrix, with the names of the tensors whose rows it contains.
using PackedListener = std::function<void(std::span<const std::string> tensors, const PackedLinear& matrix)>;

// Where packed weights are cached for the next start.
struct WeightCacheOptions {
  std::filesystem::path directory;  // empty = no cache
  std::string build;                // build id of this program; files of other builds are not read
};

struct ModelOptions {
  std::optional<DType> dtype;                // kF32, kBF16 or kF16: converts matrices; nullopt = as stored
  std::optional<Quantization> quantization;  // quantizes matrices instead
  ActivationFormat quantized_activations =
      ActivationFormat::kFloat;  // for matrices that the checkpoint has quantized
  int64_t max_model_len = 0;     // largest number of positions; 0 = ModelSpec::max_model_len
  Runner runner = Runner::kAuto;
  // read_spec() of the checkpoint for the runner, if the caller has it: reading it compares the bytes of
  // embeddings.
  std::optional<ModelSpec> spec = {};
  ModelPart part = {};
  PackedListener on_packed = nullptr;
  WeightCacheOptions weight_cache = {};
  // The RoPE tables are computed later, by Model::make_rope_tables, when the maximum length of sequences is
  // known.
  bool defer_rope_tables = false;
  // Where weights and activations are stored; null = in memory of the host. Outlives the model.
  Device* device = nullptr;
};

// Called by the loading thread with the bytes of the checkpoint read so far and the total.
using LoadProgress = std::function<void(int64_t bytes_done, int64_t bytes_total)>;

struct Decoder;
struct DecoderScratch;
struct Pooler;

// Activations of one executor, allocated once for steps of at most max_tokens rows. Used by one thread.
struct ActivationBuffers {
  ActivationBuffers();
  ActivationBuffers(ActivationBuffers&&) noexcept;
  ActivationBuffers& operator=(ActivationBuffers&&) noexcept;
  ~ActivationBuffers();

  Buffer data;
  int64_t max_tokens = 0;
  TensorView hidden;  // [max_tokens, hidden_size] float32: the hidden states between layers
  std::unique_ptr<DecoderScratch> scratch;  // views of data
};

// The floating-point type that the configuration of the checkpoint names (of the model before quantization);
// nullopt if it names none.
std::optional<DType> named_dtype(const Checkpoint& checkpoint);

// Immutable after load. If there is a weight cache, it writes the weights on a thread of its own, which the
// destructor waits for. Only one thread at a time may call forward and logits with the same
// ActivationBuffers.
class Model {
 public:
  // Bytes of weights that load would keep, from names and shapes only. Throws as load does.
  static int64_t planned_weight_bytes(Checkpoint& checkpoint, const ModelOptions& options);

  // Reads the tensors of the checkpoint one by one, packs them for `ops` and releases their pages. Throws
  // Error that lists missing, surplus and misshapen tensors. The table must outlive the model, and so must
  // the checkpoint, because an untied embedding is read in place.
  static std::unique_ptr<Model> load(Checkpoint& checkpoint, const OpTable& ops, const OpContext& for_packing,
                                     const ModelOptions& options, const LoadProgress& progress);

  ~Model();
  const ModelSpec& spec() const;
  int64_t weight_bytes() const { return weight_bytes_; }  // all weights as they are kept
  // The part of them that is a mapped weight cache, which the system counts as available memory.
  int64_t mapped_bytes() const { return weight_cache_ ? weight_cache_->mapped_bytes() : 0; }
  // See WeightCache::verify; null without a weight cache.
  std::unique_ptr<WeightVerification> verify_weights(
      std::function<void(const std::string&)> on_damage) const {
    return weight_cache_ ? weight_cache_->verify(std::move(on_damage)) : nullptr;
  }
  int64_t num_parameters() const { return num_parameters_; }  // a tied embedding counts once
  // Type of the layers' matrices, before quantization.
  DType weight_dtype() const { return weight_dtype_; }
  std::string_view quantization() const { return quantization_; }  // its name; empty = none
  int64_t max_model_len() const;
  // Computes the RoPE tables for sequences of up to max_len tokens, if that was deferred. To be called before
  // the first forward pass. The model may support longer sequences than the KV cache can hold.
  void make_rope_tables(const OpContext& ctx, int64_t max_len);

  // The tables that a batch needs (ForwardBatch::tables), with a KV cache of blocks of block_size tokens.
  // Must not outlive the model.
  std::vector<ModelStepTable> step_tables(int32_t block_size) const;

  ActivationBuffers make_buffers(int64_t max_tokens) const;
  int64_t activation_bytes(int64_t max_tokens) const;

  // Runs the layers. Returns the normalized hidden states [num_tokens, hidden_size], or [num_tokens,
  // embedding_size] if embeddings have another size: a view into buffers that is valid until the next
  // forward. Allocates nothing. Throws Error if the batch does not fit the buffers or the model. groups:
  // block tables for layers in several KV groups.
  TensorView forward(const OpContext& ctx, const ForwardBatch& batch, ActivationBuffers& buffers,
                     const KvGroupBatches& groups = {}) const;

  // The steps of forward, for a model that is loaded in part. embed sets buffers.hidden to the input of the
  // first layer; run_layer replaces buffers.hidden, the input of the layer, by its output. They throw as
  // forward does.
  void embed(const OpContext& ctx, const ForwardBatch& batch, ActivationBuffers& buffers) const;
  void run_layer(const OpContext& ctx, int32_t layer, const ForwardBatch& batch,
                 ActivationBuffers& buffers) const;

  // The pooler of a model that does not generate; null if it generates.
  const Pooler* pooler() const;
  // Dimensions of the pooled output, and whether it depends on more than the last token's hidden state. 0 and
  // false without a pooler.
  int64_t pooled_size() const;
  bool pools_all_tokens() const;

  // For models that generate: logits[i, :] = lm_head(hidden[rows[i], :]). hidden: the result of forward;
  // rows: at most max_tokens; logits: [rows.size(), vocab_size] float32. device_rows: the rows in memory of
  // the device; empty = it shares the host's. adapters: of the rows of logits, or null.
  void logits(const OpContext& ctx, const TensorView& hidden, std::span<const int32_t> rows,
              ActivationBuffers& buffers, const TensorView& logits, std::span<const int32_t> device_rows = {},
              const AdapterRows* adapters = nullptr) const;

 private:
  Model();
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  void check_batch(const ForwardBatch& batch, const ActivationBuffers& buffers) const;

  Buffer allocate(int64_t bytes) const;  // memory of the device

  const OpTable* ops_ = nullptr;
  Device* device_ = nullptr;  // null = memory of the host
  std::unique_ptr<Decoder> decoder_;
  int64_t weight_bytes_ = 0;
  int64_t num_parameters_ = 0;
  DType weight_dtype_ = DType::kF32;
  std::string_view quantization_;
  bool state_layers_ = false;                  // the model has recurrent layers
  std::unique_ptr<WeightCache> weight_cache_;  // destroyed first: it may still read what it writes
};

}  // namespace quire
