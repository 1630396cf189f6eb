// Everything that computes in one process: device, weights, and the executor once the size
// of the KV pool is known. Owned by the engine.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/thread_pool.h"
#include "contract/kv_layout.h"
#include "device/device.h"
#include "exec/kv_groups.h"
#include "exec/local_executor.h"
#include "exec/profile_file.h"
#include "io/checkpoint.h"
#include "lora/load_adapter.h"
#include "models/model.h"
#include "ops/op_table.h"

namespace quire {

// The number format of --kv-cache-dtype; nullopt for "auto". Throws Error with the supported formats.
std::optional<DType> kv_dtype_from_name(const std::string& name);

struct RuntimeOptions;

// The longest sequence unless --max-model-len gives another: the model's limit, or with dynamic NTK scaling
// the length in training, within which the base of RoPE is the same as in transformers.
int64_t default_model_len(const ModelSpec& spec);

// Bytes that the weights will take. spec: read_spec() of the checkpoint. Throws Error if the options name
// unknown formats or the checkpoint does not match its configuration.
int64_t planned_weight_bytes(Checkpoint& checkpoint, const RuntimeOptions& options, const ModelSpec& spec);

// Returns the device with that name; threads of the host: 0 = the physical cores available to this process.
using DeviceOpener = std::function<std::unique_ptr<Device>(std::string_view name, int threads)>;

struct RuntimeOptions {
  std::string dtype = "auto";           // auto = the checkpoint's
  std::string quantization = "auto";    // auto = none; or the format of the checkpoint
  std::string kv_cache_dtype = "auto";  // auto = that of the weights before quantization
  // Activation type in matrix products with quantized weights: float32, int16 or int8; auto = the
  // checkpoint's.
  std::string activation_dtype = "auto";
  std::string kernel_tuning = "measure";  // or off: default variants of kernels (exec/kernel_tuner.h)
  std::string device = "auto";            // a name of backends/open_device.h
  DeviceOpener open_device = nullptr;     // replaces open_device()
  int32_t threads = 0;                    // 0 = all cores that this process may use
  int64_t max_model_len = 0;              // 0 = default_model_len()
  std::string runner = "auto";
  std::string profile;  // file for a profile of the steps; empty = none
  WeightCacheOptions weight_cache = {};
};

class LocalRuntime {
 public:
  // Reads and packs the weights. Throws Error.
  static std::unique_ptr<LocalRuntime> load(std::unique_ptr<Checkpoint> checkpoint,
                                            const RuntimeOptions& options, const LoadProgress& progress);

  ~LocalRuntime();

  const Model& model() const { return *model_; }
  const ModelSpec& spec() const { return model_->spec(); }
  const Checkpoint& checkpoint() const { return *checkpoint_; }
  const Device& device() const { return *device_; }
  int num_threads() const { return device_->threads().num_threads(); }
  DType kv_dtype() const { return kv_dtype_; }

  // Reads an adapter for the model. Fails if it cannot be applied in full. Any thread, also while steps run.
  struct ReadAdapter {
    std::shared_ptr<const AdapterWeights> weights;
    std::string digest;
    lora::AdapterInfo info;
  };
  Result<ReadAdapter> read_adapter(const lora::AdapterSource& source, const lora::AdapterLimits& limits);
  // The same without the weights: reads the configuration and the header only.
  Result<lora::AdapterInfo> examine_adapter(const lora::AdapterSource& source,
                                            const lora::AdapterLimits& limits);

  // num_blocks is 0.
  KvLayout kv_layout(int32_t block_size) const { return make_kv_layout(spec(), kv_dtype_, block_size); }
  // Bytes that an executor needs in addition to weights and KV pool.
  int64_t workspace_bytes(const LocalExecutorOptions& options) const;

  // Allocates the KV pool and the workspaces. Call once.
  void start_executor(const LocalExecutorOptions& options);
  Executor& executor() { return *executor_; }

 private:
  LocalRuntime() = default;
  const AdapterTargets& targets_of_adapters();

  // Only if steps are profiled; written when the runtime is destroyed.
  struct Profiling {
    OpProfile profile;
    ProfileFile file;
  };

  std::unique_ptr<Device> device_;
  std::unique_ptr<Profiling> profiling_;
  std::unique_ptr<Checkpoint> checkpoint_;
  std::unique_ptr<Model> model_;
  DType kv_dtype_ = DType::kF32;
  KernelTuning tuning_;
  std::once_flag adapter_targets_made_;  // by the first adapter
  AdapterTargets adapter_targets_;
  std::optional<DType> dtype_;  // RuntimeOptions::dtype; nullopt = the checkpoint's
  std::mutex reading_;          // of checkpoint_, by read_adapter()
  std::unique_ptr<LocalExecutor> executor_;
};

// The instruction sets of this build, lowest first, and the one this process uses. Throws Error if
// QUIRE_CPU_ISA names one that the machine cannot run.
std::vector<std::string> compiled_isas();
std::vector<std::string> usable_isas();  // those that this machine can run
std::string chosen_isa();

}  // namespace quire
