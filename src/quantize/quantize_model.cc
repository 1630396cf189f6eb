#include "quantize/quantize_model.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/error.h"
#include "base/strings.h"
#include "io/output_file.h"
#include "io/safetensors_writer.h"
#include "models/linear_modules.h"
#include "quant/codec.h"
#include "quantize/float_matrix.h"
#include "quantize/output_directory.h"

namespace quire {
namespace {

// What becomes of a model's matrices.
struct Plan {
  std::map<std::string, std::string, std::less<>> quantized;  // tensor -> its module
  std::vector<std::string> ignored;                           // modules that stay floats
  DType float_type = DType::kBF16;                            // of the first matrix that is quantized
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
    plan.quantized.emplace(module.weight, module.name);
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
    result.notes.push_back(cat(module, " has ", k, " columns, which are no whole groups of ",
                               target.group_size,
                               ": the last group is shorter, which other engines may refuse (--group-size)"));
    return;
  }
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

void write_config(const Checkpoint& checkpoint, const Target& target, const Plan& plan,
                  const QuantizeOptions& options, const std::filesystem::path& dir) {
  nlohmann::ordered_json config = nlohmann::ordered_json::parse(checkpoint.config().dump());
  config["quantization_config"] = quantization_config(target, plan.ignored);
  write_file(dir / "config.json", config.dump(2) + "\n");
  for (const SideFile& file : options.files) write_file(dir / file.name, file.bytes);
}

}  // namespace

QuantizeResult quantize_model(Checkpoint& checkpoint, const QuantizeOptions& options, ThreadPool& pool,
                              const QuantizeProgress& progress) {
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
    for (TensorInfo& tensor : target_tensors(target, quantized->second, info.shape[0], info.shape[1]))
      announced.push_back(std::move(tensor));
  }
  result.bytes_before = checkpoint.total_bytes();

  OutputDirectory output(options.output);
  SafetensorsWriter writer(output.working(), std::move(announced));
  result.bytes_after = writer.total_bytes();
  write_config(checkpoint, target, plan, options, output.working());

  Error2 errors;
  int64_t done = 0;
  for (const std::string& name : names) {
    const TensorInfo& info = *checkpoint.find(name);
    const auto quantized = plan.quantized.find(name);
    if (quantized == plan.quantized.end()) {
      writer.write(name, checkpoint.bytes(name));
    } else {
      const FloatMatrix w = read_matrix(checkpoint, name);
      TensorBytes bytes;
      if (target.whole_numbers()) {
        const IntMatrix codes =
            round_to_nearest(pool, target.rounding(), w.values, w.n, w.k, target.group_size);
        const Error2 own = error_of(codes, w);
        errors.error += own.error;
        errors.weight += own.weight;
        bytes = pack_ints(target, codes);
      } else {
        bytes = pack_floats(target, pool, w.values, w.n, w.k);
      }
      const auto tensors = target_tensors(target, quantized->second, w.n, w.k);
      for (size_t i = 0; i < tensors.size(); ++i) {
        writer.write(tensors[i].name, bytes[i]);
        result.quantized_bytes += static_cast<int64_t>(bytes[i].size());
      }
      result.num_quantized += w.n * w.k;
    }
    done += static_cast<int64_t>(info.bytes);
    checkpoint.release(name);
    if (progress) progress(static_cast<double>(done) / static_cast<double>(result.bytes_before));
  }
  writer.finish();
  output.finish();
  if (errors.weight > 0.0) result.relative_error = std::sqrt(errors.error / errors.weight);
  return result;
}

}  // namespace quire
