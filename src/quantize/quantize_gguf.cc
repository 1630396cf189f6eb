#include "quantize/quantize_gguf.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <numeric>
#include <set>

#include "base/error.h"
#include "base/strings.h"
#include "io/gguf/ggml_encode.h"
#include "io/gguf/gguf_arch.h"
#include "models/linear_modules.h"
#include "models/model_spec.h"
#include "models/tied_head.h"
#include "nn/rope.h"
#include "quantize/float_matrix.h"
#include "quantize/ggml_grid.h"
#include "quantize/layer_runner.h"
#include "quantize/output_directory.h"
#include "quantize/overlay_checkpoint.h"

namespace quire {
namespace {

constexpr std::string_view kPrefix = "gguf-";

// Architectures whose configuration the metadata below describes completely. windows: the default sliding
// window pattern, every n-th layer has no window; 0 = no default.
struct Written {
  std::string_view architecture;
  int32_t windows = 0;
};
constexpr std::array<Written, 14> kArchitectures = {{{"LlamaForCausalLM"},
                                                     {"MistralForCausalLM"},
                                                     {"MixtralForCausalLM"},
                                                     {"Qwen2ForCausalLM"},
                                                     {"Qwen2MoeForCausalLM"},
                                                     {"Qwen3ForCausalLM"},
                                                     {"Qwen3MoeForCausalLM"},
                                                     {"GemmaForCausalLM"},
                                                     {"Gemma2ForCausalLM", 2},
                                                     {"Gemma3ForCausalLM", 6},
                                                     {"GraniteForCausalLM"},
                                                     {"Olmo2ForCausalLM"},
                                                     {"OlmoeForCausalLM"},
                                                     {"Phi3ForCausalLM"}}};

// general.file_type, and the type of matrices whose rows are not a multiple of the block.
struct TypeRow {
  std::string_view name;
  uint32_t file_type;
  std::string_view narrow;
};
constexpr std::array<TypeRow, 14> kTypes = {{{"F16", 1, "F16"},
                                             {"BF16", 32, "BF16"},
                                             {"Q8_0", 7, "F16"},
                                             {"Q4_0", 2, "F16"},
                                             {"Q4_1", 3, "F16"},
                                             {"Q5_0", 8, "F16"},
                                             {"Q5_1", 9, "F16"},
                                             {"Q2_K", 10, "IQ4_NL"},
                                             {"Q3_K", 12, "IQ4_NL"},
                                             {"Q4_K", 15, "Q5_0"},
                                             {"Q5_K", 17, "Q5_1"},
                                             {"Q6_K", 18, "Q8_0"},
                                             {"IQ4_NL", 25, "F16"},
                                             {"IQ4_XS", 30, "IQ4_NL"}}};

const TypeRow& row_of(const GgmlType& type) {
  return *std::ranges::find(kTypes, type.name, &TypeRow::name);
}

// The type itself, or the next one that supports rows of k elements.
const GgmlType& fitting(const GgmlType& type, int64_t k) {
  const GgmlType* chosen = &type;
  while (k % chosen->elements != 0) chosen = find_ggml_type(row_of(*chosen).narrow);
  return *chosen;
}

struct Source {
  const Checkpoint& checkpoint;
  const GgufArch& arch;
  const ModelSpec& spec;

  // The supported architectures have the same heads in all layers.
  const AttentionSpec& attention() const { return *attention_of(spec.layers.front()); }
  GgufModule place(const std::string& tensor) const {
    const size_t dot = tensor.rfind('.');
    GgufModule found = find_gguf_module(arch, tensor.substr(0, dot));
    if (!found.name.empty()) found.name += tensor.substr(dot);
    return found;
  }
  // Constant that the GGUF file adds to each element.
  float shift(const std::string& tensor) const {
    return arch.style == GgufStyle::kNormsPlusOne && tensor.ends_with("norm.weight") ? 1.0F : 0.0F;
  }
  // Rows of queries and keys in the order of the file; empty if the order is unchanged.
  std::vector<int32_t> row_order(const std::string& tensor) const {
    if (arch.style != GgufStyle::kPairs) return {};
    const bool query = tensor.find(".q_proj.") != std::string::npos;
    if (!query && tensor.find(".k_proj.") == std::string::npos) return {};
    return gguf_pair_rows(checkpoint.find(tensor)->shape[0],
                          query ? attention().num_heads : attention().num_kv_heads);
  }
};

void add_rope(const RopeSpec& rope, const std::string& prefix, GgufMetadata& out) {
  out.f32(prefix + "rope.freq_base", static_cast<float>(rope.theta));
  out.u32(prefix + "rope.dimension_count", static_cast<uint32_t>(rope.rotary_dim));
  if (rope.scaling == RopeScaling::kLinear) {
    out.text(prefix + "rope.scaling.type", "linear");
    out.f32(prefix + "rope.scaling.factor", static_cast<float>(rope.factor));
  } else if (rope.scaling != RopeScaling::kNone && rope.scaling != RopeScaling::kLlama3) {
    throw Error("this RoPE scaling cannot be written as GGUF; supported are none, linear and llama3");
  }
}

// The sliding window, and the layers that use it if these are neither all nor the default ones.
void add_windows(const ModelSpec& spec, int32_t default_windows, const std::string& prefix,
                 GgufMetadata& out) {
  const auto window_of = [](const LayerSpec& layer) { return attention_of(layer)->params.window; };
  const int32_t widest = window_of(std::ranges::max(spec.layers, {}, window_of));
  if (widest == 0) return;
  out.u32(prefix + "attention.sliding_window", static_cast<uint32_t>(widest));
  std::vector<int32_t> slides;
  bool is_default = true;
  for (size_t i = 0; i < spec.layers.size(); ++i) {
    slides.push_back(window_of(spec.layers[i]) > 0 ? 1 : 0);
    const bool expected = default_windows == 0 || (i + 1) % static_cast<size_t>(default_windows) != 0;
    is_default = is_default && expected == (slides.back() != 0);
  }
  if (!is_default) out.i32s(prefix + "attention.sliding_window_pattern", slides);
}

void add_experts(const MoeSpec& moe, const std::string& prefix, GgufMetadata& out) {
  const auto number = [&](const char* key, int64_t value) {
    out.u32(prefix + key, static_cast<uint32_t>(value));
  };
  number("expert_count", moe.num_experts);
  number("expert_used_count", moe.router.num_experts_per_tok);
  number("expert_feed_forward_length", moe.intermediate_size);
  if (moe.shared_intermediate_size > 0)
    number("expert_shared_feed_forward_length", moe.shared_intermediate_size);
}

// Multipliers that only some models have.
void add_factors(const ModelSpec& spec, const std::string& prefix, GgufMetadata& out) {
  const LayerSpec& layer = spec.layers.front();
  const AttentionParams& attention = attention_of(layer)->params;
  if (attention.logit_softcap > 0.0F) out.f32(prefix + "attn_logit_softcapping", attention.logit_softcap);
  if (spec.logit_softcap > 0.0F) out.f32(prefix + "final_logit_softcapping", spec.logit_softcap);
  const bool gemma = spec.architecture.starts_with("Gemma");
  const bool granite = spec.architecture.starts_with("Granite");
  if (granite || (gemma && spec.architecture != "GemmaForCausalLM"))
    out.f32(prefix + "attention.scale", attention.scale);
  if (!granite) return;
  out.f32(prefix + "embedding_scale", spec.embedding_multiplier);
  out.f32(prefix + "residual_scale", layer.mixer_branch.multiplier);
  out.f32(prefix + "logit_scale", 1.0F / spec.logit_scale);
}

GgufMetadata metadata_of(const Source& source, const GgufOptions& options) {
  const ModelSpec& spec = source.spec;
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
  number("block_count", spec.num_layers());
  number("feed_forward_length", source.checkpoint.config().value("intermediate_size", int64_t{0}));
  number("attention.head_count", source.attention().num_heads);
  number("attention.head_count_kv", source.attention().num_kv_heads);
  number("attention.key_length", source.attention().head_dim);
  number("attention.value_length", source.attention().value_dim);
  number("vocab_size", spec.vocab_size);
  out.f32(prefix + "attention.layer_norm_rms_epsilon", spec.norm.eps);
  const auto& written = *std::ranges::find(kArchitectures, spec.architecture, &Written::architecture);
  add_windows(spec, written.windows, prefix, out);
  add_rope(spec.ropes.front(), prefix, out);
  if (spec.ropes.size() > 1) out.f32(prefix + "rope.freq_base_swa", static_cast<float>(spec.ropes[1].theta));
  if (const auto& moe = spec.layers.back().feed_forward.moe) add_experts(*moe, prefix, out);
  add_factors(spec, prefix, out);
  return out;
}

// The factors by which Llama 3 divides the frequencies of RoPE; empty for other RoPE types.
std::vector<float> rope_factors(const RopeSpec& rope) {
  if (rope.scaling != RopeScaling::kLlama3) return {};
  RopeSpec plain = rope;
  plain.scaling = RopeScaling::kNone;
  std::vector<float> factors = rope_inverse_frequencies(plain);
  const std::vector<float> scaled = rope_inverse_frequencies(rope);
  for (size_t i = 0; i < factors.size(); ++i) factors[i] /= scaled[i];
  return factors;
}

// Writes a tensor of the checkpoint as the next bytes of the file's tensor `output`, some rows at a time.
// order: the rows in the order of the file; empty if unchanged. shift: added to each element.
void write_rows(ThreadPool& pool, GgufFileWriter& writer, const GgufOutput& output, const FloatRows& source,
                std::span<const int32_t> order, float shift) {
  constexpr size_t kSliceBytes = size_t{8} << 20;
  const GgmlType& type = *output.type;
  const auto k = static_cast<size_t>(source.columns());
  const size_t row_bytes = type.bytes_of(source.columns());
  const auto slice = static_cast<int64_t>(std::max<size_t>(1, kSliceBytes / row_bytes));
  const auto row_at = [&](int64_t i) { return order.empty() ? i : order[static_cast<size_t>(i)]; };
  std::vector<std::byte> bytes;
  std::vector<uint8_t> finite;
  for (int64_t begin = 0; begin < source.rows(); begin += slice) {
    const int64_t count = std::min(slice, source.rows() - begin);
    finite.assign(static_cast<size_t>(count), 0);
    bytes.resize(static_cast<size_t>(count) * row_bytes);
    pool.parallel_for(count, 1, [&](int64_t first, int64_t last, int) {
      std::vector<float> values(k);
      for (int64_t i = first; i < last; ++i) {
        if (!source.read(row_at(begin + i), values)) continue;
        finite[static_cast<size_t>(i)] = 1;
        for (float& value : values) value += shift;
        encode_ggml(type, values, bytes.data() + static_cast<size_t>(i) * row_bytes);
      }
    });
    const auto bad = std::ranges::find(finite, 0);
    if (bad != finite.end()) source.refuse(row_at(begin + (bad - finite.begin())));
    writer.write(output.name, bytes);
  }
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
  names.reserve(kTypes.size());
  for (const TypeRow& row : kTypes) {
    names.push_back(cat(kPrefix, lowercase(row.name)));
  }
  return names;
}

int64_t vocabulary_size(const Checkpoint& checkpoint) {
  return parse_checkpoint(checkpoint).vocab_size;
}

namespace {

// A tensor of the file, and the tensors of the checkpoint that are concatenated in it.
struct Planned {
  GgufOutput output;
  std::vector<std::string> sources;
};

// Router matrices are small and select the experts, so they stay float32.
bool stays_float(const std::string& file_name) {
  return file_name.ends_with("ffn_gate_inp.weight") || file_name.ends_with("ffn_gate_inp_shexp.weight");
}

std::vector<Planned> plan_tensors(const Source& source, const GgmlType& type, QuantizeResult& result) {
  const Checkpoint& checkpoint = source.checkpoint;
  // The output matrix is the most sensitive: it gets more bits, as in llama.cpp's mixtures.
  const bool few_bits = type.quantized() && type.format.code_bits < 6;
  const GgmlType& of_output = few_bits ? *find_ggml_type("Q6_K") : type;
  const bool tied = source.spec.tie_word_embeddings;
  const std::string_view output_name = tied ? "token_embd.weight" : "output.weight";
  std::vector<Planned> all;
  std::map<std::string, size_t> stacked;
  for (const std::string& name : checkpoint.names()) {
    const TensorInfo& info = *checkpoint.find(name);
    if (info.quantized)
      throw Error(cat(checkpoint.path().string(), ": ", name,
                      " is already quantized; use the original float checkpoint"));
    if (name == "lm_head.weight" && tied) continue;
    const GgufModule place = source.place(name);
    if (place.name.empty()) {
      if (name.ends_with("rotary_emb.inv_freq")) continue;
      throw Error(cat(checkpoint.path().string(), ": GGUF has no name for the tensor ", name));
    }
    const bool matrix = info.shape.size() == 2;
    const GgmlType* own = find_ggml_type("F32");
    if (matrix && !stays_float(place.name)) {
      own = &fitting(place.name == output_name ? of_output : type, info.shape[1]);
      if (type.quantized() && !own->quantized()) result.kept.push_back(name);
    }
    if (place.expert < 0) {
      all.push_back({{place.name, own, info.shape}, {name}});
      continue;
    }
    const auto [known, first] = stacked.try_emplace(place.name, all.size());
    if (first) {
      std::vector<int64_t> shape = info.shape;
      shape.insert(shape.begin(), source.spec.layers.back().feed_forward.moe->num_experts);
      all.push_back({{place.name, own, std::move(shape)}, {}});
    }
    auto& sources = all[known->second].sources;
    sources.resize(std::max(sources.size(), static_cast<size_t>(place.expert) + 1));
    sources[static_cast<size_t>(place.expert)] = name;
  }
  for (const Planned& planned : all) {
    const bool whole = std::ranges::none_of(planned.sources, &std::string::empty);
    const auto experts = static_cast<size_t>(planned.output.shape.front());
    if (!whole || (stacked.contains(planned.output.name) && planned.sources.size() != experts))
      throw Error(cat(checkpoint.path().string(), ": experts of ", planned.output.name, " are missing"));
  }
  return all;
}

// Mean squares of the inputs, plus a small constant for inputs that the calibration text does not use.
std::vector<float> importance_of(const InputStats& stats) {
  constexpr float kMinShare = 1e-3F;
  const auto k = static_cast<size_t>(stats.k);
  std::vector<float> squares(k);
  for (size_t i = 0; i < k; ++i) squares[i] = stats.h[i * k + i] / static_cast<float>(stats.rows);
  const float mean = std::accumulate(squares.begin(), squares.end(), 0.0F) / static_cast<float>(k);
  for (float& square : squares) square += kMinShare * mean;
  return squares;
}

// State of one call.
struct GgufWork {
  Checkpoint& checkpoint;
  const GgufOptions& options;
  const Source& source;
  ThreadPool& pool;
  GgufFileWriter& writer;
  QuantizeResult& result;
  const QuantizeProgress& progress;
  // Rounded matrices that are not written yet, by tensor name, with rows in the order of the checkpoint.
  std::map<std::string, std::vector<std::byte>> chosen = {};
  int64_t done = 0;

  void write(const Planned& planned) {
    const GgmlType& type = *planned.output.type;
    for (const std::string& name : planned.sources) {
      const TensorInfo& info = *checkpoint.find(name);
      const std::vector<int32_t> order = source.row_order(name);
      const auto blocks = chosen.find(name);
      if (blocks != chosen.end()) {
        write_blocks(planned.output, blocks->second, order);
      } else {
        const bool by_rows = info.shape.size() == 2 || !order.empty();
        const FloatRows rows(checkpoint, name, by_rows ? info.shape[0] : 1);
        write_rows(pool, writer, planned.output, rows, order, source.shift(name));
      }
      if (type.quantized()) result.num_quantized += info.shape[0] * info.shape[1];
      done += static_cast<int64_t>(info.bytes);
      checkpoint.release(name);
    }
    if (type.quantized()) result.quantized_bytes += static_cast<int64_t>(planned.output.bytes());
    if (progress) progress(static_cast<double>(done) / static_cast<double>(result.bytes_before));
  }

  void write_blocks(const GgufOutput& output, const std::vector<std::byte>& blocks,
                    std::span<const int32_t> order) {
    if (order.empty()) return writer.write(output.name, blocks);
    const size_t row_bytes = blocks.size() / order.size();
    std::vector<std::byte> ordered;
    ordered.reserve(blocks.size());
    for (const int32_t row : order) {
      const auto bytes = std::span(blocks).subspan(static_cast<size_t>(row) * row_bytes, row_bytes);
      ordered.insert(ordered.end(), bytes.begin(), bytes.end());
    }
    writer.write(output.name, ordered);
  }

  // Rounds and writes the matrices of the layers; returns the tensors that remain to be written.
  std::vector<const Planned*> calibrate(const std::vector<Planned>& planned) {
    std::map<std::string, int32_t> layer_of;
    for (const LinearModule& module : linear_modules(checkpoint)) {
      if (module.plain && !module.keep_float && module.layer >= 0) layer_of[module.weight] = module.layer;
    }
    std::vector<std::set<std::string>> layers(static_cast<size_t>(source.spec.num_layers()));
    std::vector<std::vector<const Planned*>> of_layer(layers.size());
    std::map<std::string, const GgmlType*> types;
    std::vector<const Planned*> others;
    for (const Planned& one : planned) {
      const auto layer = layer_of.find(one.sources.front());
      if (!one.output.type->quantized() || layer == layer_of.end()) {
        others.push_back(&one);
        continue;
      }
      of_layer[static_cast<size_t>(layer->second)].push_back(&one);
      layers[static_cast<size_t>(layer->second)].insert(one.sources.begin(), one.sources.end());
      for (const std::string& name : one.sources) types[name] = one.output.type;
    }
    OverlayCheckpoint overlay(checkpoint);
    change_layers(overlay, pool, options.calibration, layers,
                  [&](int32_t layer, std::vector<InputStats>& inputs) {
                    for (const InputStats& stats : inputs) {
                      // Experts without tokens are rounded without calibration.
                      if (stats.rows > 0) choose(overlay, stats, types);
                    }
                    for (const Planned* one : of_layer[static_cast<size_t>(layer)]) write(*one);
                    chosen.clear();
                  });
    return others;
  }

  void choose(OverlayCheckpoint& overlay, const InputStats& stats,
              const std::map<std::string, const GgmlType*>& types) {
    const bool gptq = options.method == Method::kGptq;
    const GptqInputs inputs = gptq ? prepare_gptq(pool, stats.h, stats.k, options.gptq) : GptqInputs{};
    const std::vector<float> importance = gptq ? std::vector<float>{} : importance_of(stats);
    for (const std::string& tensor : stats.tensors) {
      const FloatMatrix w = read_matrix(overlay, tensor);
      GgmlGrid grid(*types.at(tensor), w.n, w.k, importance);
      if (gptq) {
        round_gptq(pool, w.values, w.n, inputs, grid);
      } else {
        round_each(pool, w.values, w.n, w.k, grid);
      }
      overlay.replace(tensor, grid.values());
      chosen[tensor] = grid.blocks();
    }
  }
};

}  // namespace

QuantizeResult quantize_gguf(Checkpoint& checkpoint, const GgufOptions& options, ThreadPool& pool,
                             const QuantizeProgress& progress) {
  const bool fits = options.method == Method::kGptq || options.method == Method::kImportance;
  if (options.method != Method::kNearest && !(fits && options.type->quantized()))
    throw Error(cat("--method: GGUF type ", options.type->name, " supports rtn",
                    options.type->quantized() ? ", imatrix or gptq" : " only"));
  ModelSpec spec = parse_checkpoint(checkpoint);
  use_own_head(checkpoint, spec);
  const GgufArch* arch = find_gguf_arch(spec.architecture);
  const bool known =
      std::ranges::find(kArchitectures, spec.architecture, &Written::architecture) != kArchitectures.end();
  if (arch == nullptr || !known) {
    std::vector<std::string> names;
    names.reserve(std::size(kArchitectures));
    for (const Written& row : kArchitectures) names.emplace_back(row.architecture);
    throw Error(cat(checkpoint.path().string(), ": architecture ", spec.architecture,
                    " cannot be written as GGUF; supported are ", join(names, ", ")));
  }
  const Source source{checkpoint, *arch, spec};
  QuantizeResult result;
  const std::vector<Planned> planned = plan_tensors(source, *options.type, result);
  std::vector<GgufOutput> outputs;
  outputs.reserve(planned.size());
  for (const Planned& one : planned) outputs.push_back(one.output);
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
  GgufWork work{checkpoint, options, source, pool, writer, result, progress};
  if (options.method == Method::kNearest) {
    for (const Planned& one : planned) work.write(one);
  } else {
    for (const Planned* one : work.calibrate(planned)) work.write(*one);
  }
  if (!factors.empty()) writer.write("rope_freqs.weight", std::as_bytes(std::span(factors)));
  writer.finish();
  output.finish();
  return result;
}

}  // namespace quire
