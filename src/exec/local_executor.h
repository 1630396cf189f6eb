// The executor that computes in this process: one model, one device, one KV pool.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "base/thread_pool.h"
#include "contract/kv_layout.h"
#include "device/device.h"
#include "device/mirrored_buffer.h"
#include "exec/batch_builder.h"
#include "exec/disk_cache.h"
#include "exec/executor.h"
#include "exec/kv_store.h"
#include "exec/sequence_store.h"
#include "exec/step_adapters.h"
#include "exec/text_pooler.h"
#include "models/model.h"
#include "ops/profile.h"
#include "sample/sampler.h"

namespace quire {

struct LocalExecutorOptions {
  DType kv_dtype = DType::kF32;
  KvLayout layout;
  int32_t max_num_batched_tokens = 0;
  int32_t max_model_len = 0;
  LogprobsMode logprobs_mode = LogprobsMode::kRawLogprobs;
  bool jump_ahead = true;  // append tokens that a constraint forces without computing logits for them
  std::shared_ptr<DiskCache> disk;  // null = no disk tier
  OpProfile* profile = nullptr;     // computes with its table, or null; outlives the executor
  KernelTuning tuning = {};
};

// Names of profile events: a whole step, and sampling in it.
inline constexpr std::string_view kStepEvent = "step";
inline constexpr std::string_view kSampleEvent = "sample";

class LocalExecutor : public Executor {
 public:
  // Allocates all memory; a step allocates no large memory. The model was loaded for the device, and both
  // outlive the executor.
  LocalExecutor(const Model& model, Device& device, const LocalExecutorOptions& options);

  void begin(const StepPlan& plan) override;
  const StepResult& finish() override;
  void clear_disk_cache() override;
  bool disk_busy() const override { return disk_ != nullptr && disk_->busy(); }
  void wait_for_disk() override {
    if (disk_ != nullptr) disk_->wait();
  }
  void on_disk_outcome(const std::function<void()>& callback) override {
    if (disk_ != nullptr) disk_->on_outcome(callback);
  }

  // Bytes for activations, logits and kernel scratch, in addition to weights and KV pool.
  static int64_t workspace_bytes(const Model& model, Device& device, const LocalExecutorOptions& options);
  size_t num_sequences() const { return sequences_.size(); }

 private:
  // The result of one row of logits, written by the thread that processed it.
  struct RowOutcome {
    std::vector<SampledToken> sampled;  // one per sample that is forked here
    std::vector<float> surprises;       // surprise of each sampled token
    PositionLogprobs prompt;
    std::string failure;
  };

  void copy_blocks(const StepPlan& plan);
  void write_staged_blocks();
  // The rows of logits that are computed together with row `first`.
  std::span<const LogitRow> rows_from(size_t first) const;
  void submit_logits(size_t first);
  void sample(std::span<const LogitRow> rows);
  Result<TokenMask> allowed_tokens(SequenceRecord& record, int thread);
  void process_row(const LogitRow& row, std::span<float> logits, RowOutcome& outcome, int thread);
  void collect(const LogitRow& row, RowOutcome& outcome);
  void note(std::string_view event, double begin_s, int64_t rows);
  void start_beam_searches(const StepPlan& plan);
  void count_row(BeamGroup& group);
  void advance(BeamGroup& group);
  void append_forced(SeqId seq);

  const Model& model_;
  ThreadPool& pool_;
  int32_t vocab_size_;
  int32_t max_model_len_;
  bool jump_ahead_;
  std::unique_ptr<DeviceStream> stream_;
  KvStore kv_;
  bool shares_host_memory_;
  // Blocks on their way to the disk: pinned, [DiskCache::kMaxWrites, bytes per block]; empty without a disk
  // or if the device shares the host's memory.
  Buffer staged_;
  std::shared_ptr<DiskCache> disk_;  // reads into kv_ until it is destroyed
  SequenceStore sequences_;
  BatchBuilder builder_;
  StepAdapters adapters_;
  Buffer workspace_;
  OpContext context_;
  ActivationBuffers activations_;
  std::optional<TextPooler> text_pooler_;             // for pooling models, instead of logits
  MirroredBuffer logits_;                             // [kLogitRowsAtOnce, vocab_size] float32
  std::vector<SamplerWorkspace> sampler_workspaces_;  // one per thread
  std::vector<std::vector<uint32_t>> masks_;          // of constrained sequences, one per thread
  std::vector<RowOutcome> outcomes_;
  const StepPlan* plan_ = nullptr;
  double begin_s_ = 0;  // start of the forward pass
  TensorView hidden_;   // its result
  Event submitted_;     // after the last work that begin() has submitted
  StepResult result_;
};

}  // namespace quire
