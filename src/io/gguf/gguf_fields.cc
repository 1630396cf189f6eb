#include "io/gguf/gguf_fields.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/strings.h"

namespace quire {
namespace {

using nlohmann::json;

// The Llama 3 RoPE parameters that give these factors for the pairs of a head. The file does not contain the
// parameters. Among the parameters with the same factors, those with low_freq_factor 1 and high_freq_factor 4
// are returned, which all models use.
json llama3_rope(const GgufModel& model, double theta) {
  constexpr std::string_view kTensor = "rope_freqs.weight";
  constexpr double kLow = 1.0;
  constexpr double kHigh = 4.0;
  const std::vector<float> factors = gguf_vector(model, kTensor);
  const double factor = *std::max_element(factors.begin(), factors.end());
  const auto wavelength = [&](size_t i) {
    return 2.0 * M_PI * std::pow(theta, static_cast<double>(i) / static_cast<double>(factors.size()));
  };
  const auto expected = [&](size_t i, double original) {
    const double smooth = std::clamp((original / wavelength(i) - kLow) / (kHigh - kLow), 0.0, 1.0);
    return 1.0 / ((1.0 - smooth) / factor + smooth);
  };
  // An intermediate factor determines the original length. Without one, the length is between the last factor
  // of 1 and the first larger one.
  double original = 0.0;
  double last_one = 0.0;
  for (size_t i = 0; i < factors.size() && original == 0.0; ++i) {
    if (factors[i] <= 1.0F) {
      last_one = wavelength(i);
    } else if (factors[i] < factor) {
      const double smooth = (1.0 / factors[i] - 1.0 / factor) / (1.0 - 1.0 / factor);
      original = std::round(wavelength(i) * (kLow + smooth * (kHigh - kLow)));
    } else {
      original = std::round(std::sqrt(std::max(1.0, kHigh * last_one) * std::max(1.0, wavelength(i))));
    }
  }
  for (size_t i = 0; i < factors.size(); ++i) {
    if (!(std::abs(expected(i, original) - factors[i]) <= 1e-3 * factors[i]))
      model.file().fail(
          cat("tensor '", kTensor,
              "' has factors that do not match Llama 3 RoPE scaling; other scalings are not supported"));
  }
  return {{"rope_type", "llama3"},
          {"factor", factor},
          {"low_freq_factor", kLow},
          {"high_freq_factor", kHigh},
          {"original_max_position_embeddings", std::max(1.0, original)}};
}

// These values do not count as asked for: whether they have an effect depends on what reads them.
std::optional<double> number_of(const GgufFile& file, const std::string& name) {
  const GgufValue* value = file.peek(name);
  if (value == nullptr) return std::nullopt;
  const auto number = value->decimal();
  if (!number) file.fail(cat("metadata '", name, "' is not a number"));
  if (!std::isfinite(*number)) file.fail(cat("metadata '", name, "' is not a finite number"));
  return number;
}

std::optional<int64_t> integer_of(const GgufFile& file, const std::string& name) {
  const GgufValue* value = file.peek(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_array) {
    const auto integer = value->integer();
    if (!integer) file.fail(cat("metadata '", name, "' is not an integer"));
    return integer;
  }
  const auto all = value->integers();
  if (!all) file.fail(cat("metadata '", name, "' is not a list of integers"));
  int64_t found = 0;
  for (const int64_t n : *all) {
    if (n == 0) continue;
    if (found != 0 && n != found)
      file.fail(cat("metadata '", name, "' differs from layer to layer, which is not supported"));
    found = n;
  }
  return found;
}

// A field of the configuration; nothing without a value.
template <typename T>
void copy_value(const GgufModel& model, std::string_view key, json& config, const char* field,
                const std::optional<T>& value) {
  if (!value) return;
  config[field] = *value;
  model.name_source(field, gguf_key(model, key));
}

// rope_scaling from the metadata. As in llama.cpp, a factor of 0 is 1, and without a type scaling is linear.
void copy_scaling(const GgufModel& model, json& config) {
  std::string type(model.file().text(gguf_key(model, "rope.scaling.type")).value_or("linear"));
  if (type == "longrope") type = "linear";  // its factors are tensors, which this file does not have
  json scaling = {{"rope_type", type}, {"factor", 1.0}};
  model.name_source("rope_type", gguf_key(model, "rope.scaling.type"));
  const char* factor = "rope.scaling.factor";
  if (!gguf_number(model, factor)) factor = "rope.scale_linear";  // in old files
  copy_positive(model, factor, scaling, "factor");
  constexpr std::array<GgufField, 4> kYarn = {{
      {"rope.scaling.original_context_length", "original_max_position_embeddings"},
      {"rope.scaling.yarn_attn_factor", "attention_factor"},
      {"rope.scaling.yarn_beta_fast", "beta_fast"},
      {"rope.scaling.yarn_beta_slow", "beta_slow"},
  }};
  const bool none = type == "none" || (type == "linear" && scaling["factor"] == 1.0);
  for (const auto& [key, field] : kYarn) {
    copy_positive(model, key, scaling, field);
    if (none || type == "linear") model.file().find(gguf_key(model, key));  // without effect, as in llama.cpp
  }
  if (!none) config["rope_scaling"] = std::move(scaling);
}

}  // namespace

std::string gguf_key(const GgufModel& model, std::string_view key) {
  return cat(model.file().text("general.architecture").value_or(""), ".", key);
}

std::optional<double> gguf_number(const GgufModel& model, std::string_view key) {
  const std::string name = gguf_key(model, key);
  model.file().find(name);
  return number_of(model.file(), name);
}

std::optional<int64_t> gguf_integer(const GgufModel& model, std::string_view key) {
  const std::string name = gguf_key(model, key);
  model.file().find(name);
  return integer_of(model.file(), name);
}

int64_t gguf_require(const GgufModel& model, std::string_view key, int64_t low, int64_t high) {
  const auto value = gguf_integer(model, key);
  if (!value) model.file().fail(cat("has no metadata '", gguf_key(model, key), "'"));
  if (*value < low || *value > high)
    model.file().fail(
        cat("metadata '", gguf_key(model, key), "' is ", *value, ", expected ", low, " to ", high));
  return *value;
}

void copy_integer(const GgufModel& model, std::string_view key, json& config, const char* field) {
  copy_value(model, key, config, field, integer_of(model.file(), gguf_key(model, key)));
}
void copy_number(const GgufModel& model, std::string_view key, json& config, const char* field) {
  copy_value(model, key, config, field, number_of(model.file(), gguf_key(model, key)));
}
void copy_positive(const GgufModel& model, std::string_view key, json& config, const char* field) {
  const auto value = number_of(model.file(), gguf_key(model, key));
  if (value == 0.0) model.file().find(gguf_key(model, key));  // the same as an absent one
  if (value != 0.0) copy_value(model, key, config, field, value);
}

void expect_value(const GgufModel& model, std::string_view key, double value) {
  const std::string name = gguf_key(model, key);
  const GgufValue* stored = model.file().peek(name);
  if (stored != nullptr && stored->decimal() == value) model.file().find(name);
}

bool gguf_flag(const GgufModel& model, std::string_view key, bool fallback) {
  return model.file().boolean(gguf_key(model, key)).value_or(fallback);
}

bool has_tensor(const GgufModel& model, std::string_view name) {
  return model.tensor(name) != nullptr;
}

bool has_tensor(const GgufModel& model, int64_t layer, std::string_view name) {
  return has_tensor(model, cat("blk.", layer, ".", name));
}

bool some_layer_has(const GgufModel& model, std::string_view name) {
  const int64_t layers = gguf_layers(model);
  for (int64_t i = 0; i < layers; ++i) {
    if (has_tensor(model, i, name)) return true;
  }
  return false;
}

std::vector<float> gguf_vector(const GgufModel& model, std::string_view name) {
  const GgufTensor& tensor = *model.tensor(name);
  if (tensor.shape.size() != 1 || tensor.type->dtype != DType::kF32)
    model.file().fail(cat("tensor '", name, "' is not a float32 vector"));
  std::vector<float> values(static_cast<size_t>(tensor.shape[0]));
  std::memcpy(values.data(), model.data(name).data(), tensor.bytes);
  return values;
}

void copy_fields(const GgufModel& model, json& config, std::span<const GgufField> fields) {
  for (const auto& [key, field] : fields) {
    const std::string name = gguf_key(model, key);
    const GgufValue* value = model.file().peek(name);
    if (value == nullptr) continue;
    if (value->type == GgufType::kBool) {
      copy_value(model, key, config, field, value->boolean());
    } else if (value->type == GgufType::kF32 || value->type == GgufType::kF64) {
      copy_number(model, key, config, field);
    } else {
      copy_integer(model, key, config, field);
    }
  }
}

int64_t gguf_layers(const GgufModel& model) {
  const int64_t all = gguf_require(model, "block_count", 1, kMaxGgufLayers);
  return all - std::clamp<int64_t>(gguf_integer(model, "nextn_predict_layers").value_or(0), 0, all - 1);
}

int64_t gguf_head_dim(const GgufModel& model) {
  if (const auto size = gguf_integer(model, "attention.key_length"))
    return std::clamp<int64_t>(*size, 1, kMaxGgufSize);
  return gguf_require(model, "embedding_length", 1, kMaxGgufSize) /
         gguf_require(model, "attention.head_count", 1, kMaxGgufSize);
}

int64_t gguf_intermediate_size(const GgufModel& model) {
  const int64_t layers = gguf_layers(model);
  for (int64_t i = 0; i < layers; ++i) {
    const GgufTensor* down = model.tensor(cat("blk.", i, ".ffn_down.weight"));
    if (down != nullptr && down->shape.size() == 2) return down->shape[1];
  }
  return gguf_require(model, "feed_forward_length", 1, kMaxGgufSize);
}

void copy_sizes(const GgufModel& model, json& config, const char* hidden, const char* layers,
                const char* heads, const char* positions) {
  config[hidden] = gguf_require(model, "embedding_length", 1, kMaxGgufSize);
  config[layers] = gguf_layers(model);
  config[heads] = gguf_require(model, "attention.head_count", 1, kMaxGgufSize);
  config[positions] = gguf_require(model, "context_length", 1, int64_t{1} << 30);
  for (const auto& [field, key] :
       {std::pair(hidden, "embedding_length"), std::pair(layers, "block_count"),
        std::pair(heads, "attention.head_count"), std::pair(positions, "context_length")})
    model.name_source(field, gguf_key(model, key));
}

json gguf_mixers(const GgufModel& model, const char* attention, const char* other) {
  json kinds = json::array();
  const int64_t layers = gguf_layers(model);
  for (int64_t i = 0; i < layers; ++i)
    kinds.push_back(has_tensor(model, i, "attn_q.weight") ? attention : other);
  return kinds;
}

void copy_rope(const GgufModel& model, json& config) {
  config["rope_theta"] = 10000.0;  // of files without the key
  copy_positive(model, "rope.freq_base", config, "rope_theta");
  if (has_tensor(model, "rope_factors_long.weight") && has_tensor(model, "rope_factors_short.weight")) {
    config["rope_scaling"] = {{"rope_type", "longrope"},
                              {"long_factor", gguf_vector(model, "rope_factors_long.weight")},
                              {"short_factor", gguf_vector(model, "rope_factors_short.weight")}};
    model.name_source("long_factor", "rope_factors_long.weight");
    model.name_source("short_factor", "rope_factors_short.weight");
    copy_positive(model, "rope.scaling.attn_factor", config["rope_scaling"], "attention_factor");
    if (gguf_integer(model, "rope.scaling.original_context_length").value_or(0) > 0)
      copy_integer(model, "rope.scaling.original_context_length", config, "original_max_position_embeddings");
    return;
  }
  if (has_tensor(model, "rope_freqs.weight")) {
    const std::vector<float> factors = gguf_vector(model, "rope_freqs.weight");
    // Pairs that are not rotated come after the last rotated one.
    constexpr float kNotRotated = 1e20F;
    const auto not_rotated = std::ranges::count_if(factors, [](float f) { return f > kNotRotated; });
    if (not_rotated > 0) {
      const double part = 1.0 - static_cast<double>(not_rotated) / static_cast<double>(factors.size());
      config["rope_scaling"] = {{"rope_type", "proportional"}, {"partial_rotary_factor", part}};
    } else if (std::ranges::any_of(factors, [](float f) { return f != 1.0F; })) {
      config["rope_scaling"] = llama3_rope(model, config["rope_theta"].get<double>());
    }
    return;
  }
  copy_scaling(model, config);
}

// Sets partial_rotary_factor if only a part of each head is rotated.
void copy_rotated_part(const GgufModel& model, json& config, const char* field) {
  const auto rotary_dim = gguf_integer(model, "rope.dimension_count");
  if (!rotary_dim) return;
  config[field] = static_cast<double>(*rotary_dim) / static_cast<double>(gguf_head_dim(model));
  model.name_source(field, gguf_key(model, "rope.dimension_count"));
}

}  // namespace quire
