// GGUF files as llama.cpp's converter makes them from the golden models. tests/golden/gguf describes which
// tensors of the models have the values of each tensor.
#pragma once

#include <array>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "io/checkpoint.h"
#include "io/gguf/ggml_type.h"
#include "io/json_file.h"
#include "quant/codec.h"
#include "support/golden_checkpoint.h"
#include "unit/io/gguf_writer.h"

namespace quire::test {

// The descriptions of "models" or "pooling", by model name.
inline nlohmann::json gguf_goldens(const std::string& set) {
  return read_json_file(golden_root() / "gguf" / (set + ".json"))["models"];
}
inline std::vector<std::string> gguf_golden_names(const std::string& set) {
  std::vector<std::string> names;
  const nlohmann::json models = gguf_goldens(set);
  for (const auto& [name, model] : models.items()) names.push_back(name);
  return names;
}

struct Rows {
  size_t width = 0;
  std::vector<float> values;
  size_t count() const { return values.size() / width; }
};

// A tensor of the source, or its part `slice`.
inline Rows stored_rows(const nlohmann::json& tensor, const Checkpoint& source) {
  const auto name = tensor["source"].get<std::string>();
  const TensorInfo& info = *source.find(name);
  const auto bytes = source.bytes(name);
  const bool part = tensor.contains("slice");
  size_t count = 1;
  for (size_t i = part ? 1 : 0; i < info.shape.size(); ++i) count *= static_cast<size_t>(info.shape[i]);
  Rows rows{count / static_cast<size_t>(info.shape[part ? 1 : 0]), std::vector<float>(count)};
  const size_t first = tensor.value("slice", size_t{0}) * count * dtype_size(info.dtype);
  decode_f32(info.dtype, bytes.data() + first, rows.values.data(), static_cast<int64_t>(count));
  return rows;
}

inline Rows transposed(const Rows& rows) {
  Rows out{rows.count(), std::vector<float>(rows.values.size())};
  for (size_t r = 0; r < rows.count(); ++r) {
    for (size_t c = 0; c < rows.width; ++c) out.values[c * out.width + r] = rows.values[r * rows.width + c];
  }
  return out;
}

inline Rows chosen_rows(const nlohmann::json& tensor, const Rows& rows) {
  std::vector<size_t> chosen;
  if (tensor.contains("rows")) {
    chosen = tensor["rows"].get<std::vector<size_t>>();
  } else {
    const auto range = tensor["range"].get<std::array<size_t, 3>>();
    for (size_t i = 0; i < range[2]; ++i) chosen.push_back(range[0] + i * range[1]);
  }
  Rows out{rows.width, {}};
  for (const size_t r : chosen) {
    const auto begin = rows.values.begin() + static_cast<ptrdiff_t>(r * rows.width);
    out.values.insert(out.values.end(), begin, begin + static_cast<ptrdiff_t>(rows.width));
  }
  return out;
}

// The values of a tensor as float32: those of its source in the order of the converter, plus its offset.
inline std::vector<float> values_of(const nlohmann::json& tensor, const Checkpoint& source) {
  if (tensor.contains("parts")) {
    std::vector<float> all;
    nlohmann::json part_shape = tensor["shape"];
    part_shape.erase(part_shape.size() - 1);
    for (nlohmann::json part : tensor["parts"]) {
      part["shape"] = part_shape;
      const auto values = values_of(part, source);
      all.insert(all.end(), values.begin(), values.end());
    }
    return all;
  }
  if (tensor["source"].is_null()) return tensor["values"].get<std::vector<float>>();
  Rows rows = stored_rows(tensor, source);
  if (tensor.value("transposed", false)) rows = transposed(rows);
  if (tensor.contains("range") || tensor.contains("rows")) rows = chosen_rows(tensor, rows);
  if (tensor.value("turned", false)) rows = transposed(rows);
  const nlohmann::json factors = tensor.value("times", nlohmann::json::array({1.0F}));
  for (size_t i = 0; i < rows.values.size(); ++i) {
    float& value = rows.values[i];
    value *= factors[factors.size() > 1 ? i / rows.width : 0].get<float>();
    value += tensor.value("plus", 0.0F);
    if (tensor.value("rate", false)) value = -std::exp(value);
  }
  return rows.values;
}

// "blk.0.ffn_gate_exps.weight" -> "blk.0.ffn_gate.3.weight".
inline std::string name_of_expert(std::string name, size_t expert) {
  constexpr std::string_view kStacked = "_exps";
  return name.replace(name.find(kStacked), kStacked.size(), "." + std::to_string(expert));
}

// experts_apart: one tensor per expert, as in old files.
inline std::string make_gguf(const nlohmann::json& model, const Checkpoint& source,
                             bool experts_apart = false) {
  GgufWriter writer;
  for (const nlohmann::json& entry : model["metadata"])
    writer.json(entry[0].get<std::string>(), entry[1].get<std::vector<std::string>>(), entry[2]);
  for (const nlohmann::json& tensor : model["tensors"]) {
    const GgmlType& type = *find_ggml_type(tensor["type"].get<std::string>());
    const auto values = values_of(tensor, source);
    std::string bytes(values.size() * type.bytes, '\0');
    encode_f32(*type.dtype, values.data(), bytes.data(), static_cast<int64_t>(values.size()));
    const auto tensor_name = tensor["name"].get<std::string>();
    auto shape = tensor["shape"].get<std::vector<uint64_t>>();
    if (!experts_apart || shape.size() != 3) {
      writer.tensor(tensor_name, shape, type.id, bytes);
      continue;
    }
    const size_t experts = shape.back();
    const size_t part = bytes.size() / experts;
    shape.pop_back();
    for (size_t e = 0; e < experts; ++e)
      writer.tensor(name_of_expert(tensor_name, e), shape, type.id, bytes.substr(e * part, part));
  }
  return writer.file();
}
inline std::string make_gguf(const nlohmann::json& model, const std::filesystem::path& dir,
                             bool experts_apart = false) {
  return make_gguf(model, *Checkpoint::open(dir), experts_apart);
}

}  // namespace quire::test
