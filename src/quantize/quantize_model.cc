#include "quantize/quantize_model.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <set>

#include "base/error.h"
#include "base/strings.h"
#include "io/output_file.h"
#include "io/safetensors_writer.h"
#include "models/linear_modules.h"
#include "quant/codec.h"
#include "quantize/clipping.h"
#include "quantize/float_matrix.h"
#include "quantize/layer_runner.h"
#include "quantize/output_directory.h"
#include "quantize/overlay_checkpoint.h"
#include "quantize/scaling.h"

namespace quire {
namespace {

// The matrices of a model that are quantized, and those that are not.
struct Plan {
  std::map<std::string, LinearModule, std::less<>> quantized;  // by tensor name
  std::vector<std::string> ignored;                            // modules that remain floats
  DType float_type = DType::kBF16;                             // type of the first quantized matrix
};

Plan make_plan(const Checkpoint& checkpoint, QuantizeResult& result) {
  Plan plan;
  // Other engines treat it as a separate module even if it shares the embedding's matrix.
  plan.ignored.emplace_back("lm_head");
  for (const LinearModule& module : linear_modules(checkpoint)) {
    const TensorInfo& info = *checkpoint.find(module.weight);
    if (info.quantized) {
      throw Error(cat(checkpoint.path().string(), ": ", module.weight,
                      " is already quantized; use the original float checkpoint"));
    }
    if (module.layer < 0 || module.keep_float || !module.plain) {
      if (module.name != plan.ignored.front()) plan.ignored.push_back(module.name);
      if (module.layer >= 0 && !module.keep_float) result.kept.push_back(module.name);
      continue;
    }
    if (plan.quantized.empty()) plan.float_type = info.dtype;
    plan.quantized.emplace(module.weight, module);
  }
  if (plan.quantized.empty()) {
    throw Error(cat(checkpoint.path().string(),
                    ": no matrix can be stored in this format, because matrices are transposed or "
                    "all experts are in one tensor; choose another model"));
  }
  return plan;
}

void note_short_groups(const Target& target, const Checkpoint& checkpoint, const Plan& plan,
                       QuantizeResult& result) {
  if (!target.is_integer() || target.group_size == 0) return;
  for (const auto& [tensor, module] : plan.quantized) {
    const int64_t k = checkpoint.find(tensor)->shape[1];
    if (k % target.group_size == 0 || k < target.group_size) continue;
    result.notes.push_back(cat(
        module.name, " has ", k, " columns, which is not a multiple of the group size ", target.group_size,
        ": the last group is shorter, which other engines may not support; change --group-size"));
    return;
  }
}

// Measures the scales of keys and values for fp8 caches: the largest ones of the calibration text just fit.
std::map<std::string, float> measure_kv_scales(Checkpoint& checkpoint, const QuantizeOptions& options,
                                               ThreadPool& pool) {
  constexpr float kLargestE4m3 = 448.0F;  // largest e4m3 value
  constexpr float kMinScale = 1e-6F;
  std::map<std::string, float> scales;
  const std::vector<std::string> modules = attention_modules(checkpoint);
  LayerRunner runner(checkpoint, pool, options.calibration);
  for (int32_t layer = 0; layer < runner.spec().num_layers(); ++layer) {
    const KvLimits limits = runner.advance(layer);
    const std::string& module = modules[static_cast<size_t>(layer)];
    if (module.empty()) continue;
    scales[module + ".k_scale"] = std::max(limits.keys / kLargestE4m3, kMinScale);
    scales[module + ".v_scale"] = std::max(limits.values / kLargestE4m3, kMinScale);
  }
  return scales;
}

// Squared sums over one matrix.
struct Error2 {
  double error = 0.0;
  double weight = 0.0;
};

Error2 error_of(const IntMatrix& codes, const FloatMatrix& w) {
  Error2 sum;
  std::vector<float> row(static_cast<size_t>(w.k));
  for (int64_t r = 0; r < w.n; ++r) {
    codes.decode_row(r, row);
    const float* own = w.values.data() + r * w.k;
    for (size_t i = 0; i < row.size(); ++i) {
      const double difference = static_cast<double>(row[i]) - own[i];
      sum.error += difference * difference;
      sum.weight += static_cast<double>(own[i]) * own[i];
    }
  }
  return sum;
}

// State of one call.
struct Work {
  Checkpoint& checkpoint;
  const QuantizeOptions& options;
  const Target& target;
  const Plan& plan;
  ThreadPool& pool;
  SafetensorsWriter& writer;
  QuantizeResult& result;
  const QuantizeProgress& progress;
  Error2 errors = {};

  void write(const LinearModule& module, int64_t n, int64_t k, const TensorBytes& bytes) {
    const auto tensors = target_tensors(target, module.name, n, k);
    for (size_t i = 0; i < tensors.size(); ++i) {
      writer.write(tensors[i].name, bytes[i]);
      result.quantized_bytes += static_cast<int64_t>(bytes[i].size());
    }
    result.num_quantized += n * k;
  }
  // Writes the quantized values of weights w and adds their error to the total.
  void write_codes(const LinearModule& module, const IntMatrix& codes, const FloatMatrix& w) {
    const Error2 own = error_of(codes, w);
    errors.error += own.error;
    errors.weight += own.weight;
    write(module, w.n, w.k, pack_ints(target, codes));
  }
  void report(double done) const {
    if (progress) progress(done);
  }

  // Rounds one tensor after another.
  void round_tensors() {
    int64_t done = 0;
    for (const std::string& name : checkpoint.names()) {
      const auto quantized = plan.quantized.find(name);
      if (quantized == plan.quantized.end()) {
        writer.write(name, checkpoint.bytes(name));
      } else {
        const FloatMatrix w = read_matrix(checkpoint, name);
        if (target.is_integer()) {
          write_codes(quantized->second,
                      round_to_nearest(pool, target.rounding(), w.values, w.n, w.k, target.group_size), w);
        } else {
          write(quantized->second, w.n, w.k, pack_floats(target, pool, w.values, w.n, w.k));
        }
      }
      done += static_cast<int64_t>(checkpoint.find(name)->bytes);
      checkpoint.release(name);
      report(static_cast<double>(done) / static_cast<double>(result.bytes_before));
    }
  }

  // Rounds one layer after another. The inputs of a layer are computed by the layers before it in quantized
  // form.
  void calibrate() {
    OverlayCheckpoint overlay(checkpoint);
    std::set<std::string> written;
    std::vector<std::set<std::string>> layers(parse_checkpoint(checkpoint).layers.size());
    for (const auto& [tensor, module] : plan.quantized)
      layers[static_cast<size_t>(module.layer)].insert(tensor);
    change_layers(overlay, pool, options.calibration, layers,
                  [&](int32_t layer, std::vector<InputStats>& inputs) {
                    for (const std::string& name : scale(overlay, layer, inputs)) {
                      if (plan.quantized.contains(name)) continue;
                      write_floats(overlay, name);
                      written.insert(name);
                    }
                    for (const InputStats& stats : inputs) round_layer(overlay, stats);
                    report(static_cast<double>(layer + 1) / static_cast<double>(layers.size()));
                  });
    for (const std::string& name : checkpoint.names()) {
      if (plan.quantized.contains(name) || written.contains(name)) continue;
      writer.write(name, checkpoint.bytes(name));
      checkpoint.release(name);
    }
  }

  // Rounds the matrices that have these inputs.
  void round_layer(OverlayCheckpoint& overlay, const InputStats& stats) {
    GptqInputs shared;
    if (options.method == Method::kGptq && stats.rows > 0)
      shared = prepare_gptq(pool, stats.h, stats.k, options.gptq);
    for (const std::string& tensor : stats.tensors) {
      const FloatMatrix w = read_matrix(overlay, tensor);
      const IntMatrix codes = choose_codes(w, stats, shared);
      write_codes(plan.quantized.at(tensor), codes, w);
      std::vector<float> decoded(w.values.size());
      for (int64_t r = 0; r < w.n; ++r)
        codes.decode_row(r,
                         std::span(decoded).subspan(static_cast<size_t>(r * w.k), static_cast<size_t>(w.k)));
      overlay.replace(tensor, decoded);
    }
  }

  // shared: derived from `stats`, for GPTQ.
  IntMatrix choose_codes(const FloatMatrix& w, const InputStats& stats, const GptqInputs& shared) const {
    const IntRounding rounding = target.rounding();
    if (options.method == Method::kGptq && stats.rows > 0)
      return round_gptq(pool, rounding, w.values, w.n, target.group_size, shared);
    if (options.method == Method::kAwq && stats.rows > 0)
      return round_to_products(pool, rounding, w.values, w.n, w.k, target.group_size, stats.h);
    // Experts without tokens are rounded without calibration.
    return round_to_nearest(pool, rounding, w.values, w.n, w.k, target.group_size);
  }

  // Returns the names of the changed tensors.
  std::vector<std::string> scale(OverlayCheckpoint& overlay, int32_t layer,
                                 std::vector<InputStats>& inputs) const {
    std::vector<std::string> changed;
    if (options.method == Method::kGptq) return changed;
    for (const ScalableInput& input : scalable_inputs(checkpoint, layer)) {
      if (options.method == Method::kSmoothQuant && !input.norm) continue;
      const auto stats = std::ranges::find_if(inputs, [&](const InputStats& s) {
        return std::ranges::find(s.tensors, input.matrices.front()) != s.tensors.end();
      });
      if (stats == inputs.end() || stats->tensors.size() != input.matrices.size()) continue;
      std::vector<float> factors =
          options.method == Method::kAwq
              ? awq_factors(pool, target, overlay, input.matrices, *stats)
              : smooth_factors(overlay, input.matrices, *stats, options.smooth_strength);
      for (std::string& name : apply_factors(overlay, input, std::move(factors), *stats))
        changed.push_back(std::move(name));
    }
    return changed;
  }

  // Writes a tensor in the type that it has in the checkpoint.
  void write_floats(const OverlayCheckpoint& overlay, const std::string& name) {
    const DType type = checkpoint.find(name)->dtype;
    const std::vector<float> values = read_floats(overlay, name);
    std::vector<std::byte> bytes(values.size() * dtype_size(type));
    Buffer stored(bytes.size());
    encode_f32(type, values.data(), stored.data(), static_cast<int64_t>(values.size()));
    std::memcpy(bytes.data(), stored.data(), bytes.size());
    writer.write(name, bytes);
  }
};

void write_config(const Checkpoint& checkpoint, const Target& target, const Plan& plan,
                  const QuantizeOptions& options, const std::filesystem::path& dir) {
  nlohmann::ordered_json config = nlohmann::ordered_json::parse(checkpoint.config().dump());
  config["quantization_config"] = quantization_config(target, plan.ignored, options.kv_scales);
  write_file(dir / "config.json", config.dump(2) + "\n");
  write_side_files(dir, options.files);
}

}  // namespace

int64_t longest_sequence(const Checkpoint& checkpoint) {
  return parse_checkpoint(checkpoint).max_model_len;
}

QuantizeResult quantize_model(Checkpoint& checkpoint, const QuantizeOptions& options, ThreadPool& pool,
                              const QuantizeProgress& progress) {
  if (options.method != Method::kNearest && !options.target.is_integer()) {
    throw Error(cat("--method: the format ", options.target.format->name,
                    " stores floats; calibration methods need an integer format"));
  }
  if (options.method == Method::kImportance)
    throw Error(
        "--method: imatrix is supported for GGUF only; use awq or gptq, which also weight errors by the "
        "inputs");
  QuantizeResult result;
  const Plan plan = make_plan(checkpoint, result);
  Target target = options.target;
  target.float_type = plan.float_type;
  note_short_groups(target, checkpoint, plan, result);

  std::vector<TensorInfo> announced;
  const std::vector<std::string> names = checkpoint.names();
  for (const std::string& name : names) {
    const TensorInfo& info = *checkpoint.find(name);
    const auto quantized = plan.quantized.find(name);
    if (quantized == plan.quantized.end()) {
      announced.push_back(info);
      continue;
    }
    for (TensorInfo& tensor : target_tensors(target, quantized->second.name, info.shape[0], info.shape[1]))
      announced.push_back(std::move(tensor));
  }
  result.bytes_before = checkpoint.total_bytes();
  std::map<std::string, float> kv_scales;
  if (options.kv_scales) {
    if (!target.compressed_tensors())
      throw Error(cat("--kv-scales: the format ", target.format->name,
                      " cannot store them; use a format of compressed-tensors"));
    kv_scales = measure_kv_scales(checkpoint, options, pool);
  }
  for (const auto& [name, scale] : kv_scales)
    announced.push_back({.name = name, .dtype = DType::kF32, .shape = {1}});

  OutputDirectory output(options.output);
  SafetensorsWriter writer(output.working(), std::move(announced));
  result.bytes_after = writer.total_bytes();
  write_config(checkpoint, target, plan, options, output.working());

  Work work{checkpoint, options, target, plan, pool, writer, result, progress};
  if (options.method == Method::kNearest) {
    work.round_tensors();
  } else {
    work.calibrate();
  }
  for (const auto& [name, scale] : kv_scales) writer.write(name, std::as_bytes(std::span(&scale, 1)));
  writer.finish();
  output.finish();
  if (work.errors.weight > 0.0) result.relative_error = std::sqrt(work.errors.error / work.errors.weight);
  return result;
}

}  // namespace quire
