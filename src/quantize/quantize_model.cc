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

// What becomes of a model's matrices.
struct Plan {
  std::map<std::string, LinearModule, std::less<>> quantized;  // by the tensor
  std::vector<std::string> ignored;                            // modules that stay floats
  DType float_type = DType::kBF16;                             // of the first matrix that is quantized
};

Plan make_plan(const Checkpoint& checkpoint, QuantizeResult& result) {
  Plan plan;
  // Other engines make it a module of its own even where its matrix is the embedding's.
  plan.ignored.emplace_back("lm_head");
  for (const LinearModule& module : linear_modules(checkpoint)) {
    const TensorInfo& info = *checkpoint.find(module.weight);
    if (info.coded) {
      throw Error(cat(checkpoint.path().string(), ": ", module.weight,
                      " is quantized already; quantize the model that this one was made of"));
    }
    if (module.layer < 0 || module.router || !module.plain) {
      if (module.name != plan.ignored.front()) plan.ignored.push_back(module.name);
      if (module.layer >= 0 && !module.router) result.kept.push_back(module.name);
      continue;
    }
    if (plan.quantized.empty()) plan.float_type = info.dtype;
    plan.quantized.emplace(module.weight, module);
  }
  if (plan.quantized.empty()) {
    throw Error(cat(checkpoint.path().string(),
                    ": has no matrices that this format can store (they are transposed, or those of all "
                    "experts are one tensor)"));
  }
  return plan;
}

void note_short_groups(const Target& target, const Checkpoint& checkpoint, const Plan& plan,
                       QuantizeResult& result) {
  if (!target.whole_numbers() || target.group_size == 0) return;
  for (const auto& [tensor, module] : plan.quantized) {
    const int64_t k = checkpoint.find(tensor)->shape[1];
    if (k % target.group_size == 0 || k < target.group_size) continue;
    result.notes.push_back(cat(module.name, " has ", k, " columns, which are no whole groups of ",
                               target.group_size,
                               ": the last group is shorter, which other engines may refuse (--group-size)"));
    return;
  }
}

// The tensors that scale keys and values in caches of 8-bit floats, so that the largest ones of the
// calibration text just fit.
std::map<std::string, float> measure_kv_scales(Checkpoint& checkpoint, const QuantizeOptions& options,
                                               ThreadPool& pool) {
  constexpr float kLargest = 448.0F;  // of e4m3
  constexpr float kLeast = 1e-6F;
  std::map<std::string, float> scales;
  const std::vector<std::string> modules = attention_modules(checkpoint);
  LayerRunner runner(checkpoint, pool, options.calibration);
  for (int32_t layer = 0; layer < runner.spec().num_layers; ++layer) {
    const KvLimits limits = runner.advance(layer);
    const std::string& module = modules[static_cast<size_t>(layer)];
    if (module.empty()) continue;
    scales[module + ".k_scale"] = std::max(limits.keys / kLargest, kLeast);
    scales[module + ".v_scale"] = std::max(limits.values / kLargest, kLeast);
  }
  return scales;
}

// Of one matrix.
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

// What one call works with.
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
  // The codes of weights w, which are written and counted.
  void write_codes(const LinearModule& module, const IntMatrix& codes, const FloatMatrix& w) {
    const Error2 own = error_of(codes, w);
    errors.error += own.error;
    errors.weight += own.weight;
    write(module, w.n, w.k, pack_ints(target, codes));
  }
  void report(double done) const {
    if (progress) progress(done);
  }

  // One tensor after the other.
  void round_tensors() {
    int64_t done = 0;
    for (const std::string& name : checkpoint.names()) {
      const auto quantized = plan.quantized.find(name);
      if (quantized == plan.quantized.end()) {
        writer.write(name, checkpoint.bytes(name));
      } else {
        const FloatMatrix w = read_matrix(checkpoint, name);
        if (target.whole_numbers()) {
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

  // One layer after the other: what the matrices of a layer are given comes through the layers before it as
  // they are quantized.
  void calibrate() {
    OverlayCheckpoint overlay(checkpoint);
    std::set<std::string> written;
    std::vector<std::set<std::string>> layers(
        static_cast<size_t>(parse_arch(checkpoint.config()).num_layers));
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

  // The matrices that were given these inputs.
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

  // shared: of the stats, where the method is GPTQ.
  IntMatrix choose_codes(const FloatMatrix& w, const InputStats& stats, const GptqInputs& shared) const {
    const IntRounding rounding = target.rounding();
    if (options.method == Method::kGptq && stats.rows > 0)
      return round_gptq(pool, rounding, w.values, w.n, target.group_size, shared);
    if (options.method == Method::kAwq && stats.rows > 0)
      return round_to_products(pool, rounding, w.values, w.n, w.k, target.group_size, stats.h);
    // An expert that no token went to is rounded as it is.
    return round_to_nearest(pool, rounding, w.values, w.n, w.k, target.group_size);
  }

  // The names of what was changed.
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

  // A tensor in the type that it has in the checkpoint.
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
  for (const SideFile& file : options.files) {
    std::filesystem::create_directories((dir / file.name).parent_path());
    write_file(dir / file.name, file.bytes);
  }
}

}  // namespace

int64_t longest_sequence(const Checkpoint& checkpoint) {
  return parse_arch(checkpoint.config()).max_model_len;
}

QuantizeResult quantize_model(Checkpoint& checkpoint, const QuantizeOptions& options, ThreadPool& pool,
                              const QuantizeProgress& progress) {
  if (options.method != Method::kNearest && !options.target.whole_numbers()) {
    throw Error(cat("--method: the format ", options.target.format->name,
                    " stores no whole numbers, for which alone there is a choice of codes"));
  }
  if (options.method == Method::kImportance)
    throw Error("--method: imatrix is for GGUF files; awq and gptq weigh errors by the inputs too");
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
                      " has no place for them; those of compressed-tensors have"));
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
