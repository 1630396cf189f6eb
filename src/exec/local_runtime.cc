#include "exec/local_runtime.h"

#include <algorithm>
#include <optional>

#include "backends/cpu/cpu_backend.h"
#include "backends/open_device.h"
#include "base/error.h"
#include "base/log.h"
#include "base/strings.h"
#include "contract/checkpoint_quantization.h"
#include "exec/kernel_tuner.h"
#include "io/quantized/quantized_checkpoint.h"
#include "models/adapter_targets.h"
#include "models/base_biases.h"
#include "quant/codec.h"

namespace quire {
namespace {

// One of the float formats by its name; none for "auto".
std::optional<DType> float_dtype(const std::string& name, std::string_view flag) {
  if (name == "auto") return std::nullopt;
  const auto dtype = dtype_from_name(name);
  if (dtype != DType::kF32 && dtype != DType::kBF16 && dtype != DType::kF16) {
    throw Error(cat(flag, ": '", name, "' is not known; use auto, float32, bfloat16 or float16"));
  }
  return dtype;
}

// Some tens of thousands of steps of a small model, 90 MB.
constexpr size_t kMaxProfileEvents = size_t{1} << 20;

ActivationFormat activations_of(const std::string& name, const Checkpoint& checkpoint) {
  if (name == "auto") return checkpoint.default_activations();
  if (name == "float32") return ActivationFormat::kFloat;
  if (name == "int16") return ActivationFormat::kInt16;
  if (name == "int8") return ActivationFormat::kInt8;
  throw Error(cat("--activation-dtype: '", name, "' is not known; use auto, float32, int16 or int8"));
}

// The format of the checkpoint's weights; empty if they are not quantized.
std::string checkpoint_method(const Checkpoint& checkpoint) {
  if (checkpoint.path().extension() == ".gguf") return "gguf";
  if (std::string method = quantization_method(checkpoint.config()); !method.empty()) return method;
  return checkpoint.file("quantize_config.json") ? "gptq" : "";
}

// The quantization at load time, if the option names one. Throws Error if it names another format than that
// of the checkpoint.
std::optional<Quantization> quantization_of_option(const std::string& name, const Checkpoint& checkpoint) {
  const auto expected = checkpoint_quantization(name);
  if (!expected) return quantization_from_name(name);
  const std::string method = checkpoint_method(checkpoint);
  if (method == *expected) return std::nullopt;
  throw Error(cat("--quantization ", name, ": ", checkpoint.path().string(),
                  method.empty() ? " is not quantized; int8 and int4 quantize weights while they are loaded"
                                 : cat(" is quantized with ", method, "; omit the flag")));
}

ModelOptions model_options_of(const RuntimeOptions& options, const Checkpoint& checkpoint) {
  return {.dtype = float_dtype(options.dtype, "--dtype"),
          .quantization = quantization_of_option(options.quantization, checkpoint),
          .quantized_activations = activations_of(options.activation_dtype, checkpoint),
          .max_model_len = options.max_model_len,
          .runner = runner_from_name(options.runner),
          .weight_cache = options.weight_cache,
          .defer_rope_tables = true};
}

bool measures_kernels(const std::string& name) {
  if (name != "measure" && name != "off")
    throw Error(cat("--kernel-tuning: '", name, "' is not known; use measure or off"));
  return name == "measure";
}

}  // namespace

LocalRuntime::~LocalRuntime() {
  if (profiling_ == nullptr) return;
  try {
    profiling_->file.write(profiling_->profile);
    log_info("profile of the steps: ", profiling_->file.path(), " (open it in a trace viewer)");
    log_lines(LogLevel::kInfo, profile_table(profiling_->profile));
  } catch (const Error& error) {
    log_error(error.what());
  }
}

int64_t default_model_len(const ModelSpec& spec) {
  const bool dynamic = std::ranges::any_of(
      spec.ropes, [](const RopeSpec& rope) { return rope.scaling == RopeScaling::kDynamic; });
  return dynamic ? std::min(spec.max_model_len, spec.max_position_embeddings) : spec.max_model_len;
}

int64_t planned_weight_bytes(Checkpoint& checkpoint, const RuntimeOptions& options, const ModelSpec& spec) {
  ModelOptions model_options = model_options_of(options, checkpoint);
  model_options.spec = spec;
  return Model::planned_weight_bytes(checkpoint, model_options);
}

std::optional<DType> kv_dtype_from_name(const std::string& name) {
  if (name == "auto") return std::nullopt;
  const auto dtype = dtype_from_name(name);
  if (!dtype || !is_kv_dtype(*dtype)) {
    throw Error(cat("--kv-cache-dtype: '", name,
                    "' is not known; use auto, float32, bfloat16, float16, fp8_e4m3, fp8_e5m2 or int8"));
  }
  return dtype;
}

std::unique_ptr<LocalRuntime> LocalRuntime::load(std::unique_ptr<Checkpoint> checkpoint,
                                                 const RuntimeOptions& options,
                                                 const LoadProgress& progress) {
  ModelOptions model_options = model_options_of(options, *checkpoint);
  const auto kv_dtype = kv_dtype_from_name(options.kv_cache_dtype);

  model_options.spec = read_spec(*checkpoint, model_options.runner);
  const ModelSpec& spec = *model_options.spec;
  if (options.max_model_len > spec.max_model_len) {
    throw Error(cat("--max-model-len ", options.max_model_len, ": the model supports sequences of at most ",
                    spec.max_model_len, " tokens"));
  }
  if (model_options.max_model_len == 0) model_options.max_model_len = default_model_len(spec);

  std::unique_ptr<LocalRuntime> runtime(new LocalRuntime);
  runtime->device_ = options.open_device ? options.open_device(options.device, options.threads)
                                         : open_device(options.device, options.threads);
  Device& device = *runtime->device_;
  runtime->checkpoint_ = std::move(checkpoint);
  runtime->dtype_ = model_options.dtype;
  model_options.device = &device;
  const OpTable* ops = &device.ops();
  OpContext packing{&device.threads(), {}};
  if (!options.profile.empty()) {
    runtime->profiling_.reset(new Profiling{{device.ops(), device.measure_limits(), kMaxProfileEvents},
                                            ProfileFile(options.profile)});
    packing.profile = &runtime->profiling_->profile;
    ops = &packing.profile->table();
  }
  KernelTuner tuner;
  if (measures_kernels(options.kernel_tuning))
    model_options.on_packed = [&](std::span<const std::string>, const PackedLinear& w) { tuner.add(w); };
  runtime->model_ = Model::load(*runtime->checkpoint_, *ops, packing, model_options, progress);
  const KernelTuner::Choice choice = tuner.choose(device.ops(), device.threads());
  runtime->tuning_ = choice.tuning;
  if (choice.bytes > 0) {
    log_debug("kernels prefetch weights into ", choice.tuning.prefetch_into_l2 ? "L2" : "L1",
              "; the other variant takes ", fixed(choice.gain, 2), " times as long");
  }
  runtime->kv_dtype_ = kv_dtype.value_or(runtime->model_->weight_dtype());
  return runtime;
}

const AdapterTargets& LocalRuntime::targets_of_adapters() {
  std::call_once(adapter_targets_made_, [&] { adapter_targets_ = adapter_targets(*checkpoint_, spec()); });
  return adapter_targets_;
}

Result<lora::AdapterInfo> LocalRuntime::examine_adapter(const lora::AdapterSource& source,
                                                        const lora::AdapterLimits& limits) {
  return lora::examine_adapter(source, &targets_of_adapters(), limits);
}

Result<LocalRuntime::ReadAdapter> LocalRuntime::read_adapter(const lora::AdapterSource& source,
                                                             const lora::AdapterLimits& limits) {
  Result<lora::LoadedAdapter> loaded =
      lora::load_adapter(source, targets_of_adapters(), limits,
                         {.ops = &device_->ops(),
                          .dtype = dtype_,
                          .checkpoint = checkpoint_.get(),
                          .reading = &reading_,
                          .biases = [this](std::span<const int32_t> sites) {
                            const std::lock_guard lock(reading_);
                            return read_site_biases(*checkpoint_, spec(), sites);
                          }});
  if (!loaded.ok()) return loaded.failure();
  std::string digest = digest_of(*loaded->adapter);
  return ReadAdapter{std::move(loaded->adapter), std::move(digest), std::move(loaded->info)};
}

int64_t LocalRuntime::workspace_bytes(const LocalExecutorOptions& options) const {
  return LocalExecutor::workspace_bytes(*model_, *device_, options);
}

void LocalRuntime::start_executor(const LocalExecutorOptions& options) {
  LocalExecutorOptions own = options;
  own.tuning = tuning_;
  if (profiling_ != nullptr) own.profile = &profiling_->profile;
  model_->make_rope_tables({&device_->threads(), {}}, options.max_model_len);
  executor_ = std::make_unique<LocalExecutor>(*model_, *device_, own);
}

std::vector<std::string> compiled_isas() {
  std::vector<std::string> names;
  for (const auto& isa : cpu_isas()) names.emplace_back(isa.name);
  return names;
}

std::vector<std::string> usable_isas() {
  std::vector<std::string> names;
  for (const auto& isa : cpu_isas()) {
    if (isa.supported) names.emplace_back(isa.name);
  }
  return names;
}

std::string chosen_isa() {
  return std::string(select_cpu_isa().name);
}

}  // namespace quire
