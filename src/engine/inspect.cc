#include "engine/inspect.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/available_memory.h"
#include "base/log.h"
#include "base/strings.h"
#include "contract/checkpoint_quantization.h"
#include "engine/loader.h"
#include "exec/kv_groups.h"
#include "exec/local_runtime.h"
#include "io/gguf/ggml_type.h"
#include "io/json_file.h"

namespace quire {
namespace {

// The dtype with the most bytes, which is that of the layers' matrices.
DType main_dtype(const std::map<DType, int64_t>& bytes) {
  const auto largest = std::max_element(bytes.begin(), bytes.end(),
                                        [](const auto& a, const auto& b) { return a.second < b.second; });
  return largest == bytes.end() ? DType::kF32 : largest->first;
}

// The name of a quantized matrix's format in files, or a description of it.
std::string type_of(const QuantizedMatrix& matrix) {
  const std::string_view name = ggml_type_name(matrix);
  if (!name.empty()) return std::string(name);
  const QuantFormat& format = matrix.format();
  return cat(format.code_bits, "-bit", format.group_size == 0 ? "" : cat(", groups of ", format.group_size),
             format.group_zero_points ? ", zero points" : "",
             format.values == CodeValues::kRowTable ? ", one lookup table per row" : "",
             matrix.num_outliers() > 0 ? ", outliers" : "");
}

// The number type in which a configuration says the weights are stored; float32 if it names none.
DType configured_dtype(const nlohmann::json& config) {
  for (const char* key : {"dtype", "torch_dtype"}) {
    const auto it = config.find(key);
    if (it == config.end() || !it->is_string()) continue;
    if (const auto dtype = dtype_from_name(it->get<std::string>())) return *dtype;
  }
  return DType::kF32;
}

// The largest dense MLP, of a layer or of a block that layers share, or one expert if there is none.
int64_t intermediate_size_of(const ModelSpec& spec) {
  int64_t dense = 0;
  int64_t expert = 0;
  for (const LayerSpec& layer : spec.layers) {
    if (const auto& mlp = layer.feed_forward.mlp) dense = std::max(dense, mlp->intermediate_size);
    if (layer.shared_block) dense = std::max(dense, layer.shared_block->mlp.intermediate_size);
    if (const auto& moe = layer.feed_forward.moe) expert = std::max(expert, moe->intermediate_size);
  }
  return dense > 0 ? dense : expert;
}

// Heads of the first layer with attention. Heads of latent attention are those before compression.
void describe_attention(const ModelSpec& spec, ModelReport& report) {
  for (const LayerSpec& layer : spec.layers) {
    const KvShape reported = mixer_traits(layer).reported_heads;
    const KvShape shape = reported.num_heads > 0 ? reported : kv_shape(layer);
    if (shape.num_kv_heads == 0) continue;
    report.num_heads = shape.num_heads;
    report.num_kv_heads = shape.num_kv_heads;
    report.head_dim = shape.head_dim;
    return;
  }
}

void describe_architecture(const ModelSpec& spec, const EngineConfig& config, ModelReport& report) {
  for (const std::string& warning : spec.warnings) log_warning(warning);
  report.architecture = spec.architecture;
  report.task = spec.task == ModelTask::kGenerate ? "generate"
                : spec.task == ModelTask::kEmbed  ? "embed"
                                                  : "classify";
  report.num_layers = spec.num_layers();
  report.hidden_size = spec.hidden_size;
  report.intermediate_size = intermediate_size_of(spec);
  describe_attention(spec, report);
  report.vocab_size = spec.vocab_size;
  report.max_model_len = config.max_model_len > 0 ? config.max_model_len : default_model_len(spec);
  report.tied_embeddings = spec.tie_word_embeddings;
}

// stored: the number type of the weights, which the cache has unless the options name another one.
void describe_kv_cache(const ModelSpec& spec, DType stored, const EngineConfig& config, ModelReport& report) {
  DType kv_dtype = stored;
  if (const auto given = dtype_from_name(config.dtype)) kv_dtype = *given;
  if (const auto given = kv_dtype_from_name(config.kv_cache_dtype)) kv_dtype = *given;
  const KvLayout layout = make_kv_layout(spec, kv_dtype, config.block_size);
  report.kv_cache_dtype = dtype_name(kv_dtype);
  report.kv_layout = layout;
  report.kv_bytes_per_token = kv_bytes_per_token(layout);
  report.kv_bytes_per_old_token = kv_bytes_per_old_token(layout);
  report.state_bytes = state_bytes(spec);
  report.free_memory = available_memory().bytes;
  report.kv_memory = config.kv_cache_memory > 0
                         ? config.kv_cache_memory
                         : default_kv_memory(report.free_memory - report.weight_memory);
  const int32_t max_chunk = batched_tokens(config, spec, report.max_model_len);
  report.is_encoder = spec.bidirectional;
  if (spec.bidirectional)
    report.kv_memory = std::min(report.kv_memory, encoder_kv_memory(config, layout, max_chunk));
  const int64_t num_blocks = report.kv_memory / layout.bytes_per_block;
  report.kv_tokens = max_sequence_tokens(layout, num_blocks, max_chunk);
  report.full_sequences = max_sequences(layout, num_blocks, report.max_model_len, max_chunk);
  report.kv_bytes_per_sequence =
      max_sequence_blocks(layout, report.max_model_len, 1) * layout.bytes_per_block;
}

// Whether `path` is a directory with a configuration and no weights.
bool has_only_config(const std::filesystem::path& path) {
  if (!std::filesystem::exists(path / "config.json")) return false;
  return std::ranges::none_of(std::filesystem::directory_iterator(path), [](const auto& entry) {
    const std::string extension = entry.path().extension();
    return extension == ".safetensors" || extension == ".gguf" || extension == ".bin" || extension == ".pt";
  });
}

}  // namespace

ModelReport inspect_model(const EngineConfig& config) {
  ModelReport report;
  if (!config.model.empty() && has_only_config(config.model)) {
    const nlohmann::json json = read_json_file(std::filesystem::path(config.model) / "config.json");
    const ModelSpec spec = parse_model(json);
    report.name = ModelSource::resolve(config.model).name();
    describe_architecture(spec, config, report);
    describe_kv_cache(spec, configured_dtype(json), config, report);
    return report;
  }
  const ModelSource source = ModelSource::resolve(config.model, {.revision = config.revision});
  const auto checkpoint = source.open_checkpoint();
  const ModelSpec spec = read_spec(*checkpoint, runner_from_name(config.runner));
  report.name = source.name();
  std::map<DType, int64_t> bytes;  // of tensors of floats
  bool quantized = false;
  std::map<std::string, FormatReport> formats;
  for (const auto& name : checkpoint->names()) {
    const TensorInfo& info = *checkpoint->find(name);
    const auto size = static_cast<int64_t>(info.bytes);
    int64_t elements = 1;
    for (const int64_t dim : info.shape) elements *= dim;
    const std::string type(info.quantized ? type_of(*checkpoint->quantized(name))
                                          : std::string(info.type_name()));
    quantized = quantized || info.quantized;
    if (!info.quantized && info.other_type.empty()) bytes[info.dtype] += size;
    FormatReport& format = formats[type];
    ++format.tensors;
    format.parameters += elements;
    format.bytes += size;
    report.num_parameters += elements;
    report.tensors.push_back({name, type, info.shape_text(), size});
  }
  for (auto& [type, format] : formats) {
    format.name = type;
    report.weight_bytes += format.bytes;
    report.formats.push_back(std::move(format));
  }
  describe_architecture(spec, config, report);
  const RuntimeOptions options{.dtype = config.dtype,
                               .quantization = config.quantization,
                               .max_model_len = config.max_model_len,
                               .runner = config.runner};
  const bool as_stored =
      config.quantization == "auto" || checkpoint_quantization(config.quantization).has_value();
  report.quantization = as_stored ? "" : config.quantization;
  report.weight_memory = planned_weight_bytes(*checkpoint, options, spec);
  DType stored = main_dtype(bytes);
  if (quantized) stored = named_dtype(*checkpoint).value_or(stored);
  describe_kv_cache(spec, stored, config, report);
  return report;
}

}  // namespace quire
