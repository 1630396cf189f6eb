// config.json for embedding models, and the files that sentence-transformers would write next to it.
#include <array>
#include <cstring>
#include <functional>
#include <nlohmann/json.hpp>

#include "base/strings.h"
#include "io/gguf/gguf_configs.h"
#include "io/gguf/gguf_fields.h"
#include "quant/codec.h"

namespace quire {
namespace {

using nlohmann::json;

// Number of rows of a matrix; 0 if it does not exist.
int64_t rows_of(const GgufModel& model, std::string_view name) {
  const GgufTensor* tensor = model.tensor(name);
  return tensor == nullptr ? 0 : tensor->shape[0];
}

// The pooling method by its number in `pooling_type`. Null if it is not given or the model pools by itself.
const char* pooling_name(const GgufModel& model, std::string_view key) {
  constexpr std::array<const char*, 4> kNames = {nullptr, "mean", "cls", "lasttoken"};
  const int64_t type = gguf_integer(model, key).value_or(0);
  return type >= 0 && type < static_cast<int64_t>(kNames.size()) ? kNames[static_cast<size_t>(type)]
                                                                 : nullptr;
}

void copy_labels(const GgufModel& model, json& config) {
  const int64_t count = rows_of(model, "cls.output.weight");
  if (count == 0) return;
  config["num_labels"] = count;
  const auto names = model.file().texts(gguf_key(model, "classifier.output_labels"));
  for (size_t i = 0; i < names.size(); ++i) config["id2label"][std::to_string(i)] = names[i];
}

void configure_encoder(const GgufModel& model, json& config) {
  copy_sizes(model, config, "hidden_size", "num_hidden_layers", "num_attention_heads",
             "max_position_embeddings");
  config["intermediate_size"] = gguf_intermediate_size(model);
  copy_number(model, "attention.layer_norm_epsilon", config, "layer_norm_eps");
  config["type_vocab_size"] = rows_of(model, "token_types.weight");
  copy_rope(model, config);
  copy_labels(model, config);
}

// A safetensors file with the only tensor of a dense layer.
std::string dense_file(const GgufModel& model, const std::string& name) {
  const GgufTensor& tensor = *model.tensor(name);
  if (tensor.shape.size() != 2 || tensor.type->quantized() || !tensor.type->dtype)
    model.file().fail(cat("tensor '", name, "' must be a float matrix"));
  const size_t count = static_cast<size_t>(tensor.shape[0]) * static_cast<size_t>(tensor.shape[1]);
  std::vector<float> values(count);
  decode_f32(*tensor.type->dtype, model.data(name).data(), values.data(), static_cast<int64_t>(count));
  const json header = {
      {"linear.weight",
       {{"dtype", "F32"}, {"shape", tensor.shape}, {"data_offsets", {0, count * sizeof(float)}}}}};
  const std::string text = header.dump();
  const auto size = static_cast<uint64_t>(text.size());
  std::string file(sizeof(size), '\0');
  std::memcpy(file.data(), &size, sizeof(size));
  file += text;
  file.append(reinterpret_cast<const char*>(values.data()), count * sizeof(float));
  return file;
}

}  // namespace

void configure_bert(const GgufModel& model, json& config) {
  configure_encoder(model, config);
  // Positions before that of the first token, which are unused, are not in the file.
  if (const int64_t positions = rows_of(model, "position_embd.weight"); positions > 0)
    config["max_position_embeddings"] = positions;
}

void configure_nomic_bert(const GgufModel& model, json& config) {
  configure_encoder(model, config);
  config["hidden_act"] = "silu";
}

void configure_modern_bert(const GgufModel& model, json& config) {
  configure_encoder(model, config);
  constexpr std::array<GgufField, 6> kFields = {{
      {"attention.layer_norm_rms_epsilon", "norm_eps"},
      {"attention.layer_norm_epsilon", "norm_eps"},
      {"attention.sliding_window", "local_attention"},
      {"attention.sliding_window_pattern", "global_attn_every_n_layers"},
      {"rope.freq_base", "global_rope_theta"},
      {"rope.freq_base_swa", "local_rope_theta"},
  }};
  copy_fields(model, config, kFields);
  config.erase("rope_theta");  // the model has two
  if (const auto activation = model.file().text(gguf_key(model, "hidden_activation")))
    config["hidden_activation"] = *activation;
  if (const char* pooling = pooling_name(model, "classifier.pooling_type"))
    config["classifier_pooling"] = pooling;
}

void configure_gemma_embedding(const GgufModel& model, json& config) {
  configure_gemma3(model, config);
  config["use_bidirectional_attention"] = true;
}

void configure_reranker(const GgufModel& model, json& config) {
  configure_llama(model, config);
  // The two labels are the logits of the answers "yes" and "no"; their difference is the score.
  config["num_labels"] = 1;
  config["score_difference"] = rows_of(model, "cls.output.weight") == 2;
}

std::map<std::string, std::string, std::less<>> gguf_pooling_files(const GgufModel& model) {
  std::map<std::string, std::string, std::less<>> files;
  const char* pooling = pooling_name(model, "pooling_type");
  if (pooling == nullptr) return files;
  json modules = json::array();
  const auto add = [&](const char* type, const std::string& folder) {
    const std::string number = std::to_string(modules.size());
    modules.push_back({{"idx", modules.size()}, {"name", number}, {"path", folder}, {"type", type}});
  };
  add("Transformer", "");
  add("Pooling", "1_Pooling");
  files["1_Pooling/config.json"] = json{{"pooling_mode", pooling}}.dump();
  for (const char* layer : {"dense_2", "dense_3"}) {
    const std::string tensor = cat(layer, ".weight");
    if (!has_tensor(model, tensor)) continue;
    const auto& shape = model.tensor(tensor)->shape;
    add("Dense", layer);
    files[cat(layer, "/model.safetensors")] = dense_file(model, tensor);
    files[cat(layer, "/config.json")] = json{{"in_features", shape.back()},
                                             {"out_features", shape.front()},
                                             {"bias", false},
                                             {"activation_function", "torch.nn.modules.linear.Identity"}}
                                            .dump();
  }
  // Files do not state whether embeddings are normalized; the tools that they are made for normalize them.
  add("Normalize", "normalize");
  files["modules.json"] = modules.dump();
  return files;
}

}  // namespace quire
