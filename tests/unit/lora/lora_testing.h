// Adapters in temporary directories, and a small model that they change.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "lora/load_adapter.h"
#include "quant/codec.h"
#include "support/temp_dir.h"

namespace quire::lora::test {

struct StoredTensor {
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  std::string bytes;
};

inline std::string_view type_name(DType dtype) {
  switch (dtype) {
    case DType::kBF16:
      return "BF16";
    case DType::kF16:
      return "F16";
    case DType::kI64:
      return "I64";
    default:
      return "F32";
  }
}

// Values that are exact in all types: first, first + 1, …
inline StoredTensor counting(std::vector<int64_t> shape, int first = 0, DType dtype = DType::kF32) {
  int64_t count = 1;
  for (const int64_t dim : shape) count *= dim;
  StoredTensor out{dtype, std::move(shape),
                   std::string(static_cast<size_t>(count) * dtype_size(dtype), '\0')};
  for (int64_t i = 0; i < count && dtype != DType::kI64; ++i)
    store_f32(dtype, out.bytes.data(), i, static_cast<float>(first + i));
  return out;
}

// An adapter that PEFT would write for the modules q_proj and up_proj of layer 0 of small_model().
class AdapterFiles {
 public:
  static constexpr const char* kLayer = "base_model.model.model.layers.0.";

  nlohmann::ordered_json config = {{"peft_type", "LORA"},
                                   {"r", 2},
                                   {"lora_alpha", 4},
                                   {"base_model_name_or_path", "org/base"},
                                   {"target_modules", {"q_proj", "up_proj"}}};
  std::map<std::string, StoredTensor> tensors;

  AdapterFiles() {
    add("self_attn.q_proj", {2, 4}, {4, 2});
    add("mlp.up_proj", {2, 4}, {6, 2});
  }

  void add(const std::string& module, std::vector<int64_t> a, std::vector<int64_t> b,
           DType dtype = DType::kF32) {
    tensors[kLayer + module + ".lora_A.weight"] = counting(std::move(a), 1, dtype);
    tensors[kLayer + module + ".lora_B.weight"] = counting(std::move(b), 1, dtype);
  }
  StoredTensor& tensor(const std::string& name) { return tensors.at(kLayer + name); }

  std::string weights() const { return file_of(tensors); }
  static std::string file_of(const std::map<std::string, StoredTensor>& tensors) {
    nlohmann::ordered_json header;
    std::string data;
    for (const auto& [name, stored] : tensors) {
      header[name] = {{"dtype", type_name(stored.dtype)},
                      {"shape", stored.shape},
                      {"data_offsets", {data.size(), data.size() + stored.bytes.size()}}};
      data += stored.bytes;
    }
    const std::string text = header.dump();
    std::string file;
    for (int i = 0; i < 8; ++i) file += static_cast<char>((text.size() >> (8 * i)) & 0xff);
    return file + text + data;
  }

  std::filesystem::path path() const { return dir_->path(); }
  void write(const std::string& name, std::string_view text) const { dir_->write(name, text); }
  void write() const {
    write("adapter_config.json", config.dump());
    write("adapter_model.safetensors", weights());
  }
  AdapterSource source() const { return {"sql", path()}; }

 private:
  std::shared_ptr<quire::test::TempDir> dir_ =
      std::make_shared<quire::test::TempDir>();  // directory of all copies
};

// Two layers of a Llama of hidden size 4 with fused projections: q (4 rows), k and v (2 each) are one site;
// gate and up (6 rows each) another.
inline AdapterTargets small_model() {
  AdapterTargets out;
  out.architecture = "LlamaForCausalLM";
  out.prefixes = {"model.language_model.", "model.", ""};
  out.num_layers = 2;
  const auto add = [&](const std::string& name, AdapterRange place) {
    const NumberedName numbered = *numbered_name(name);
    place.numbers = numbered.numbers;
    out.modules[numbered.pattern].ranges.push_back(place);
  };
  for (int32_t layer = 0; layer < 2; ++layer) {
    const std::string prefix = "layers." + std::to_string(layer) + ".";
    const int32_t qkv = out.num_sites++;
    const auto rows = [&](int32_t site, int64_t begin, int64_t count, int64_t all, int64_t in) {
      return AdapterRange{.site = site, .out_begin = begin, .rows = count, .in = in, .site_rows = all};
    };
    add(prefix + "self_attn.q_proj", rows(qkv, 0, 4, 8, 4));
    add(prefix + "self_attn.k_proj", rows(qkv, 4, 2, 8, 4));
    add(prefix + "self_attn.v_proj", rows(qkv, 6, 2, 8, 4));
    add(prefix + "self_attn.qkv_proj", rows(qkv, 0, 8, 8, 4));
    // For each of two heads the query, the key and the value.
    AdapterRange interleaved = rows(qkv, 0, 8, 8, 4);
    interleaved.layout = RowLayout{2, {2, 1, 1}, {0, 1, 2}};
    add(prefix + "attention.query_key_value", interleaved);
    const int32_t gate_up = out.num_sites++;
    add(prefix + "mlp.gate_proj", rows(gate_up, 0, 6, 12, 4));
    add(prefix + "mlp.up_proj", rows(gate_up, 6, 6, 12, 4));
    add(prefix + "mlp.down_proj", rows(out.num_sites++, 0, 4, 4, 6));
  }
  // One projection that is both keys and values.
  add("layers.1.self_attn.kv_proj", {.site = 3, .out_begin = 4, .rows = 2, .in = 4, .site_rows = 8});
  add("layers.1.self_attn.kv_proj", {.site = 3, .out_begin = 6, .rows = 2, .in = 4, .site_rows = 8});
  // Ten tokens; the output layer has a bias.
  const auto whole = [&](const std::string& name, bool bias) {
    out.modules[name].ranges.push_back({.site = out.num_sites++,
                                        .rows = 10,
                                        .in = 4,
                                        .site_rows = 10,
                                        .whole = WholeModule{.weight = name + ".weight", .bias = bias}});
  };
  whole("embed_tokens", false);
  whole("lm_head", true);
  out.modules["embed_tokens"].kind = AdapterModuleKind::kEmbedding;
  // Two experts in layer 0, whose gates and ups are a square matrix.
  out.modules["layers.{}.moe.experts"] = {.kind = AdapterModuleKind::kStack,
                                          .parameters = {"gate_up_proj", "down_proj"}};
  for (const std::string name : {"gate_up_proj", "down_proj"}) {
    AdapterModule& stacked = out.modules["layers.{}.moe.experts." + name];
    stacked.kind = AdapterModuleKind::kStacked;
    for (int32_t expert = 0; expert < 2; ++expert) {
      const int64_t in = name == "down_proj" ? 2 : 4;
      stacked.ranges.push_back(
          {.numbers = {0, -1, -1, -1}, .site = out.num_sites++, .rows = 4, .in = in, .site_rows = 4});
    }
  }
  out.modules["position_embeddings"].kind = AdapterModuleKind::kEmbedding;
  out.modules["layers.{}.self_attn.kv_b_proj"].kind = AdapterModuleKind::kDerived;
  out.modules["layers.{}.self_attn.sinks"].kind = AdapterModuleKind::kVector;
  // One with weights only, one with a bias and weights that are stored without 1.
  const auto norm = [&](const std::string& name, WholeModule replaced) {
    replaced.weight = "model." + name + ".weight";
    const NumberedName numbered = *numbered_name(name);
    AdapterModule& module = out.modules[numbered.pattern];
    module.kind = AdapterModuleKind::kNorm;
    module.ranges.push_back(
        {.numbers = numbered.numbers, .site = out.num_norms++, .rows = 4, .site_rows = 4, .whole = replaced});
  };
  norm("layers.0.input_layernorm", {});
  norm("norm", {.bias = true, .offset = 1.0F});
  out.unused = {"layers.{}.self_attn.unused_proj", "mtp.*"};
  out.own_components = {"layers", "lm_head", "embed_tokens"};
  return out;
}

// The message of the refusal; empty, and a failure of the test, if there is none.
inline std::string refusal(const AdapterFiles& files, const AdapterLimits& limits = {},
                           const AdapterTargets& targets = small_model(), const AdapterBase& base = {}) {
  files.write();
  const auto loaded = load_adapter(files.source(), targets, limits, base);
  if (!loaded.ok()) return loaded.failure().message;
  ADD_FAILURE() << "it was loaded";
  return "";
}

inline LoadedAdapter load(const AdapterFiles& files, const AdapterTargets& targets = small_model(),
                          const AdapterBase& base = {}) {
  files.write();
  auto loaded = load_adapter(files.source(), targets, {}, base);
  if (loaded.ok()) return std::move(loaded).value();
  ADD_FAILURE() << loaded.failure().message;
  return {std::make_shared<AdapterWeights>(), {}};
}

// The change of a site as a matrix [rows, k] of float32.
inline std::vector<float> change_of(const LowRank& site, int64_t rows) {
  std::vector<float> out(static_cast<size_t>(rows * site.k));
  int64_t a = 0;
  int64_t b = 0;
  for (const LowRank::Piece& piece : site.pieces) {
    for (int64_t j = 0; j < piece.rank; ++j) {
      for (int64_t n = 0; n < piece.n; ++n) {
        const float factor = piece.scale * load_f32(site.dtype, site.b.data(), b + b_index(piece, n, j));
        for (int64_t k = 0; k < site.k; ++k)
          out[static_cast<size_t>((piece.out_begin + n) * site.k + k)] +=
              factor * load_f32(site.dtype, site.a.data(), a + j * site.k + k);
      }
    }
    a += piece.rank * site.k;
    b += piece.rank * piece.n;
  }
  return out;
}

// scale B A of a module whose tensors count from 1, row by row.
inline std::vector<float> counted_change(int64_t rows, int64_t rank, int64_t in, float scale) {
  std::vector<float> out;
  for (int64_t n = 0; n < rows; ++n) {
    for (int64_t k = 0; k < in; ++k) {
      float sum = 0.0F;
      for (int64_t j = 0; j < rank; ++j) sum += static_cast<float>((1 + n * rank + j) * (1 + j * in + k));
      out.push_back(scale * sum);
    }
  }
  return out;
}

}  // namespace quire::lora::test
