// Configurations for tests of how config.json is read.
#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "models/model_spec.h"

namespace quire::test {

using nlohmann::json;

inline json llama() {
  return json{{"architectures", {"LlamaForCausalLM"}},
              {"vocab_size", 100},
              {"hidden_size", 64},
              {"intermediate_size", 96},
              {"num_hidden_layers", 3},
              {"num_attention_heads", 8},
              {"num_key_value_heads", 2},
              {"rms_norm_eps", 1e-5},
              {"max_position_embeddings", 512},
              {"rope_theta", 5000.0},
              {"tie_word_embeddings", true}};
}

inline json with(json config, const json& changes) {
  for (const auto& [key, value] : changes.items()) config[key] = value;
  return config;
}

inline json without(json config, const std::string& key) {
  config.erase(key);
  return config;
}

inline json of(const std::string& architecture, const json& changes = json::object()) {
  return with(with(llama(), {{"architectures", {architecture}}}), changes);
}

inline std::string error_of(const json& config) {
  try {
    parse_model(config);
  } catch (const Error& e) {
    return e.what();
  }
  ADD_FAILURE() << "accepted: " << config.dump();
  return "";
}

// Attention and MLP of the first layer.
inline const AttentionSpec& attention_in(const ModelSpec& spec, size_t layer = 0) {
  return *attention_of(spec.layers.at(layer));
}
inline const MlpSpec& mlp_in(const ModelSpec& spec, size_t layer = 0) {
  return *spec.layers.at(layer).feed_forward.mlp;
}

}  // namespace quire::test
