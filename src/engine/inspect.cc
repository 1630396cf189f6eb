#include "engine/inspect.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/strings.h"
#include "engine/loader.h"
#include "exec/kv_store.h"
#include "exec/local_runtime.h"
#include "io/gguf/ggml_type.h"

namespace quire {
namespace {

// The dtype that most bytes have: what the layers' matrices are stored in.
DType main_dtype(const std::map<DType, int64_t>& bytes) {
  const auto most = std::max_element(bytes.begin(), bytes.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == bytes.end() ? DType::kF32 : most->first;
}

// What files call the format of a matrix of codes, or what it is.
std::string type_of(const CodedMatrix& matrix) {
  const std::string_view name = ggml_type_name(matrix);
  if (!name.empty()) return std::string(name);
  const CodedFormat& format = matrix.format();
  return cat(format.code_bits, "-bit codes",
             format.group_size == 0 ? "" : cat(" in groups of ", format.group_size),
             format.group_zeros ? " with zeros" : "",
             format.values == CodeValues::kRowTable ? " of tables of the rows" : "",
             matrix.num_outliers() > 0 ? " and outliers" : "");
}

}  // namespace

ModelReport inspect_model(const EngineConfig& config) {
  const ModelSource source = ModelSource::resolve(config.model);
  const auto checkpoint = source.open_checkpoint();
  const ArchSpec spec = read_spec(*checkpoint, runner_from_name(config.runner));
  ModelReport report;
  report.name = source.name();
  report.architecture = spec.architecture;
  std::map<DType, int64_t> bytes;  // of tensors of floats
  bool coded = false;
  std::map<std::string, FormatReport> formats;
  for (const auto& name : checkpoint->names()) {
    const TensorInfo& info = *checkpoint->find(name);
    const auto size = static_cast<int64_t>(info.bytes);
    int64_t elements = 1;
    for (const int64_t dim : info.shape) elements *= dim;
    const std::string type(info.coded ? type_of(*checkpoint->coded(name))
                                      : std::string(dtype_name(info.dtype)));
    coded = coded || info.coded;
    if (!info.coded) bytes[info.dtype] += size;
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
  report.task = spec.task == ModelTask::kGenerate ? "generate"
                : spec.task == ModelTask::kEmbed  ? "embed"
                                                  : "classify";
  report.num_layers = spec.num_layers;
  report.hidden_size = spec.hidden_size;
  report.intermediate_size = spec.intermediate_size;
  report.num_heads = spec.num_heads;
  report.num_kv_heads = spec.num_kv_heads;
  report.head_dim = spec.head_dim;
  report.vocab_size = spec.vocab_size;
  report.max_model_len = config.max_model_len > 0 ? config.max_model_len : spec.max_model_len;
  report.tied_embeddings = spec.tie_word_embeddings;

  DType kv_dtype = main_dtype(bytes);
  if (coded) kv_dtype = named_dtype(*checkpoint).value_or(kv_dtype);
  if (const auto given = dtype_from_name(config.dtype)) kv_dtype = *given;
  if (const auto given = kv_dtype_from_name(config.kv_cache_dtype)) kv_dtype = *given;
  const KvLayout layout = make_kv_layout(spec, kv_dtype, config.block_size);
  report.kv_cache_dtype = dtype_name(kv_dtype);
  report.kv_bytes_per_token = kv_bytes_per_token(layout);
  report.kv_layout = layout;
  report.state_bytes = state_bytes(spec);
  const RuntimeOptions options{.dtype = config.dtype,
                               .quantization = config.quantization,
                               .max_model_len = config.max_model_len,
                               .runner = config.runner};
  report.quantization = config.quantization == "auto" ? "" : config.quantization;
  report.weight_memory = planned_weight_bytes(*checkpoint, options);
  report.kv_memory = config.kv_cache_memory > 0
                         ? config.kv_cache_memory
                         : default_kv_memory(available_memory() - report.weight_memory);
  if (spec.bidirectional) {
    const int32_t tokens = batched_tokens(config, spec, report.max_model_len);
    report.kv_memory = std::min(report.kv_memory, encoder_kv_memory(config, layout, tokens));
  }
  const int64_t num_blocks = report.kv_memory / layout.bytes_per_block;
  report.kv_tokens = sequence_tokens(layout, num_blocks);
  report.full_sequences = num_blocks / std::max<int64_t>(1, sequence_blocks(layout, report.max_model_len));
  return report;
}

}  // namespace quire
