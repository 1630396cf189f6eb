// All that computing needs in one process, in the order of its life: the instruction set, the threads, the
// weights, and at last an executor once it is known how large the KV pool may be. Owned by the engine.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/thread_pool.h"
#include "contract/kv_layout.h"
#include "exec/local_executor.h"
#include "exec/profile_file.h"
#include "io/checkpoint.h"
#include "models/model.h"
#include "ops/op_table.h"

namespace quire {

// The number format that --kv-cache-dtype names; none: "auto". Throws Error naming those there are.
std::optional<DType> kv_dtype_from_name(const std::string& name);

struct RuntimeOptions;

// Bytes that the weights will take. Throws Error where the options name no formats or the checkpoint is not
// what its configuration says.
int64_t planned_weight_bytes(Checkpoint& checkpoint, const RuntimeOptions& options);

struct RuntimeOptions {
  std::string dtype = "auto";           // auto: as the checkpoint has it
  std::string quantization = "auto";    // auto: none
  std::string kv_cache_dtype = "auto";  // auto: as the weights are, or were
  std::string activation_dtype =
      "auto";  // of products with codes: float32, int16 or int8; auto: as is usual for the checkpoint
  int32_t threads = 0;        // 0: all cores this process may use
  int64_t max_model_len = 0;  // 0: the model's
  std::string runner = "auto";
  std::string profile;  // file for a profile of the steps; empty: none
  WeightCacheOptions weight_cache = {};
};

class LocalRuntime {
 public:
  // Reads and packs the weights. Throws Error.
  static std::unique_ptr<LocalRuntime> load(std::unique_ptr<Checkpoint> checkpoint,
                                            const RuntimeOptions& options, const LoadProgress& progress);

  ~LocalRuntime();

  const Model& model() const { return *model_; }
  const ArchSpec& spec() const { return model_->spec(); }
  const Checkpoint& checkpoint() const { return *checkpoint_; }
  std::string_view isa() const { return isa_; }
  int num_threads() const { return pool_->num_threads(); }
  DType kv_dtype() const { return kv_dtype_; }

  // num_blocks is left 0.
  KvLayout kv_layout(int32_t block_size) const { return make_kv_layout(spec(), kv_dtype_, block_size); }
  // Bytes that an executor takes beyond weights and KV pool.
  int64_t workspace_bytes(const LocalExecutorOptions& options) const;

  // Takes the KV pool and the workspaces. Once.
  void start_executor(const LocalExecutorOptions& options);
  Executor& executor() { return *executor_; }

 private:
  LocalRuntime() = default;

  // Where steps are profiled; written when the runtime ends.
  struct Profiling {
    OpProfile profile;
    ProfileFile file;
  };

  std::string_view isa_;
  const OpTable* ops_ = nullptr;
  std::unique_ptr<ThreadPool> pool_;
  std::unique_ptr<Profiling> profiling_;
  std::unique_ptr<Checkpoint> checkpoint_;
  std::unique_ptr<Model> model_;
  DType kv_dtype_ = DType::kF32;
  std::unique_ptr<LocalExecutor> executor_;
};

// The instruction sets compiled in, lowest first, and the one this process uses. Throws Error where
// QUIRE_CPU_ISA names one that the machine cannot run.
std::vector<std::string> compiled_isas();
std::vector<std::string> usable_isas();  // those of them that this machine can run
std::string chosen_isa();

}  // namespace quire
