#include "quantize/quantize_gguf.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "base/error.h"
#include "base/strings.h"
#include "io/gguf/ggml_encode.h"
#include "io/gguf/gguf_arch.h"
#include "models/arch_spec.h"
#include "quantize/float_matrix.h"
#include "quantize/output_directory.h"

namespace quire {
namespace {

constexpr std::string_view kPrefix = "gguf-";

// Architectures whose configuration the metadata below says whole.
constexpr std::array<std::string_view, 4> kArchitectures = {"LlamaForCausalLM", "MistralForCausalLM",
                                                            "Qwen2ForCausalLM", "Qwen3ForCausalLM"};

// general.file_type, and what matrices become whose rows are no whole blocks.
struct TypeRow {
  std::string_view name;
  uint32_t file_type;
  std::string_view narrow;
};
constexpr std::array<TypeRow, 10> kTypes = {{{"F16", 1, "F16"},
                                             {"BF16", 32, "BF16"},
                                             {"Q8_0", 7, "F16"},
                                             {"Q4_0", 2, "F16"},
                                             {"Q4_1", 3, "F16"},
                                             {"Q5_0", 8, "F16"},
                                             {"Q5_1", 9, "F16"},
                                             {"Q4_K", 15, "Q5_0"},
                                             {"Q5_K", 17, "Q5_1"},
                                             {"Q6_K", 18, "Q8_0"}}};

const TypeRow& row_of(const GgmlType& type) {
  return *std::ranges::find(kTypes, type.name, &TypeRow::name);
}

// The type itself, or the next that takes rows of k.
const GgmlType& fitting(const GgmlType& type, int64_t k) {
  const GgmlType* chosen = &type;
  while (k % chosen->elements != 0) chosen = find_ggml_type(row_of(*chosen).narrow);
  return *chosen;
}

struct Source {
  const Checkpoint& checkpoint;
  const GgufArch& arch;
  const ArchSpec& spec;

  std::string file_name(const std::string& tensor) const {
    const size_t dot = tensor.rfind('.');
    const std::string module = gguf_module_name(arch, tensor.substr(0, dot));
    return module.empty() ? module : module + tensor.substr(dot);
  }
  // Rows of queries and keys in the file's order; empty: as they are.
  std::vector<int32_t> row_order(const std::string& tensor) const {
    if (arch.style != GgufStyle::kPairs) return {};
    const bool query = tensor.find(".q_proj.") != std::string::npos;
    if (!query && tensor.find(".k_proj.") == std::string::npos) return {};
    return gguf_pair_rows(checkpoint.find(tensor)->shape[0], query ? spec.num_heads : spec.num_kv_heads);
  }
};

void add_rope(const RopeSpec& rope, const std::string& prefix, GgufMetadata& out) {
  out.f32(prefix + "rope.freq_base", static_cast<float>(rope.theta));
  out.u32(prefix + "rope.dimension_count", static_cast<uint32_t>(rope.rotary_dim));
  if (rope.scaling == RopeScaling::kLinear) {
    out.text(prefix + "rope.scaling.type", "linear");
    out.f32(prefix + "rope.scaling.factor", static_cast<float>(rope.factor));
  } else if (rope.scaling != RopeScaling::kNone && rope.scaling != RopeScaling::kLlama3) {
    throw Error("GGUF files are written for plain, linear and Llama 3's rotations only");
  }
}

GgufMetadata metadata_of(const Source& source, const GgufOptions& options) {
  const ArchSpec& spec = source.spec;
  GgufMetadata out;
  const std::string arch(source.arch.gguf);
  const std::string prefix = arch + ".";
  const auto number = [&](const char* key, int64_t value) {
    out.u32(prefix + key, static_cast<uint32_t>(value));
  };
  out.text("general.architecture", arch);
  out.text("general.type", "model");
  out.text("general.name", options.name);
  out.u32("general.file_type", row_of(*options.type).file_type);
  out.u32("general.quantization_version", 2);
  number("context_length", spec.max_position_embeddings);
  number("embedding_length", spec.hidden_size);
  number("block_count", spec.num_layers);
  number("feed_forward_length", spec.intermediate_size);
  number("attention.head_count", spec.num_heads);
  number("attention.head_count_kv", spec.num_kv_heads);
  number("attention.key_length", spec.head_dim);
  number("attention.value_length", spec.head_dim);
  number("vocab_size", spec.vocab_size);
  out.f32(prefix + "attention.layer_norm_rms_epsilon", spec.norm_eps);
  if (spec.layers.front().window > 0) number("attention.sliding_window", spec.layers.front().window);
  add_rope(spec.ropes.front(), prefix, out);
  return out;
}

// What Llama 3's rotation divides the frequencies of the pairs by; empty: another rotation.
std::vector<float> rope_factors(const RopeSpec& rope) {
  if (rope.scaling != RopeScaling::kLlama3) return {};
  RopeSpec plain = rope;
  plain.scaling = RopeScaling::kNone;
  std::vector<float> factors = rope_inverse_frequencies(plain);
  const std::vector<float> scaled = rope_inverse_frequencies(rope);
  for (size_t i = 0; i < factors.size(); ++i) factors[i] /= scaled[i];
  return factors;
}

std::vector<std::byte> encode(ThreadPool& pool, const GgmlType& type, std::span<const float> values,
                              int64_t n, const std::vector<int32_t>& order) {
  const size_t k = values.size() / static_cast<size_t>(n);
  const size_t row_bytes = type.bytes_of(static_cast<int64_t>(k));
  std::vector<std::byte> bytes(row_bytes * static_cast<size_t>(n));
  pool.parallel_for(n, 1, [&](int64_t first, int64_t last, int) {
    for (auto row = static_cast<size_t>(first); row < static_cast<size_t>(last); ++row) {
      const size_t from = order.empty() ? row : static_cast<size_t>(order[row]);
      encode_ggml(type, values.subspan(from * k, k), bytes.data() + row * row_bytes);
    }
  });
  return bytes;
}

}  // namespace

const GgmlType* gguf_target(std::string_view format) {
  if (!format.starts_with(kPrefix)) return nullptr;
  std::string name(format.substr(kPrefix.size()));
  std::ranges::transform(name, name.begin(),
                         [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  const bool known = std::ranges::find(kTypes, name, &TypeRow::name) != kTypes.end();
  return known ? find_ggml_type(name) : nullptr;
}

std::vector<std::string> gguf_formats() {
  std::vector<std::string> names;
  for (const TypeRow& row : kTypes) {
    std::string& name = names.emplace_back(kPrefix);
    for (const char c : row.name) name += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return names;
}

int64_t vocabulary_size(const Checkpoint& checkpoint) {
  return parse_arch(checkpoint.config()).vocab_size;
}

QuantizeResult quantize_gguf(Checkpoint& checkpoint, const GgufOptions& options, ThreadPool& pool,
                             const QuantizeProgress& progress) {
  const ArchSpec spec = parse_arch(checkpoint.config());
  const GgufArch* arch = find_gguf_arch(spec.architecture);
  if (arch == nullptr || std::ranges::find(kArchitectures, spec.architecture) == kArchitectures.end()) {
    throw Error(
        cat(checkpoint.path().string(), ": no GGUF files are written of ", spec.architecture,
            "; of LlamaForCausalLM, MistralForCausalLM, Qwen2ForCausalLM and Qwen3ForCausalLM they are"));
  }
  const Source source{checkpoint, *arch, spec};
  // The output's matrix, which costs most: as llama.cpp's mixtures have it.
  const bool few_bits = options.type->coded() && options.type->format.code_bits < 6;
  const GgmlType& of_output = few_bits ? *find_ggml_type("Q6_K") : *options.type;
  const std::string_view output_name = spec.tie_word_embeddings ? "token_embd.weight" : "output.weight";

  QuantizeResult result;
  std::vector<GgufOutput> outputs;
  std::vector<std::string> names;
  for (const std::string& name : checkpoint.names()) {
    const TensorInfo& info = *checkpoint.find(name);
    if (info.coded) throw Error(cat(checkpoint.path().string(), ": ", name, " is quantized already"));
    if (name == "lm_head.weight" && spec.tie_word_embeddings) continue;
    const std::string file_name = source.file_name(name);
    if (file_name.empty()) {
      if (name.ends_with("rotary_emb.inv_freq")) continue;
      throw Error(cat(checkpoint.path().string(), ": GGUF has no name for the tensor ", name));
    }
    const GgmlType* type = find_ggml_type("F32");
    if (info.shape.size() == 2)
      type = &fitting(file_name == output_name ? of_output : *options.type, info.shape[1]);
    if (info.shape.size() == 2 && options.type->coded() && !type->coded()) result.kept.push_back(name);
    outputs.push_back({file_name, type, info.shape});
    names.push_back(name);
  }
  const std::vector<float> factors = rope_factors(spec.ropes.front());
  if (!factors.empty())
    outputs.push_back({"rope_freqs.weight", find_ggml_type("F32"), {static_cast<int64_t>(factors.size())}});

  GgufMetadata metadata = metadata_of(source, options);
  metadata.append(options.tokenizer);
  OutputDirectory output(options.output);
  GgufFileWriter writer(output.working() / cat(options.name, "-", options.type->name, ".gguf"), metadata,
                        outputs);
  result.bytes_before = checkpoint.total_bytes();
  result.bytes_after = writer.total_bytes();
  int64_t done = 0;
  for (size_t i = 0; i < names.size(); ++i) {
    const GgmlType& type = *outputs[i].type;
    const bool matrix = outputs[i].shape.size() == 2;
    const std::vector<float> values =
        matrix ? read_matrix(checkpoint, names[i]).values : read_floats(checkpoint, names[i]);
    const std::vector<int32_t> order = source.row_order(names[i]);
    const int64_t rows = matrix || !order.empty() ? outputs[i].shape[0] : 1;
    const auto bytes = encode(pool, type, values, rows, order);
    writer.write(outputs[i].name, bytes);
    if (type.coded()) {
      result.num_quantized += static_cast<int64_t>(values.size());
      result.quantized_bytes += static_cast<int64_t>(bytes.size());
    }
    done += static_cast<int64_t>(checkpoint.find(names[i])->bytes);
    checkpoint.release(names[i]);
    if (progress) progress(static_cast<double>(done) / static_cast<double>(result.bytes_before));
  }
  if (!factors.empty()) writer.write("rope_freqs.weight", std::as_bytes(std::span(factors)));
  writer.finish();
  output.finish();
  return result;
}

}  // namespace quire
