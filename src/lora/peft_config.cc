#include "lora/peft_config.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "base/strings.h"
#include "io/json_file.h"

namespace quire::lora {
namespace {

using nlohmann::json;

constexpr int64_t kMaxRank = 1 << 20;
constexpr size_t kMaxPatterns = 65536;

// Keys that change only training, the file's layout, or how PEFT finds modules: the tensors show which
// modules an adapter has. Options of an initialization change nothing without the initialization.
constexpr std::array<std::string_view, 23> kWithoutEffect = {"auto_mapping",
                                                             "corda_config",
                                                             "eva_config",
                                                             "exclude_modules",
                                                             "fan_in_fan_out",
                                                             "inference_mode",
                                                             "layers_pattern",
                                                             "layers_to_transform",
                                                             "loftq_config",
                                                             "lora_bias",
                                                             "lora_dropout",
                                                             "lora_ga_config",
                                                             "megatron_config",
                                                             "megatron_core",
                                                             "modules_to_save",
                                                             "qalora_group_size",
                                                             "revision",
                                                             "runtime_config",
                                                             "target_modules",
                                                             "task_type",
                                                             "bias",
                                                             "trainable_token_indices",
                                                             "parent_library"};

// Keys that parse_peft_config reads.
constexpr std::array<std::string_view, 10> kRead = {"r",
                                                    "lora_alpha",
                                                    "use_rslora",
                                                    "rank_pattern",
                                                    "alpha_pattern",
                                                    "init_lora_weights",
                                                    "target_parameters",
                                                    "peft_type",
                                                    "base_model_name_or_path",
                                                    "peft_version"};

struct Refused {
  std::string_view key;
  std::string_view what;
};
constexpr std::array<Refused, 8> kRefused = {{
    {"use_dora", "DoRA is not supported"},
    {"alora_invocation_tokens", "activated LoRA is not supported"},
    {"layer_replication", "adapters that repeat layers of the base are not supported"},
    {"use_qalora", "QALoRA is not supported"},
    {"use_bdlora", "block-diagonal LoRA is not supported"},
    {"arrow_config", "Arrow routing is not supported"},
    {"kasa_config", "KaSA changes the weights of the base and is not supported"},
    {"ensure_weight_tying", "tying the adapters of tied modules is not supported"},
}};

constexpr std::array<std::string_view, 5> kInitializations = {"gaussian", "eva", "orthogonal", "mica",
                                                              "default"};
// These change the weights of the base. PEFT can save what they learn as a change to the original ones.
constexpr std::array<std::string_view, 4> kConvertible = {"pissa", "olora", "corda", "lora_ga"};

bool contains(std::span<const std::string_view> list, std::string_view key) {
  return std::ranges::find(list, key) != list.end();
}

bool is_set(const json& value) {
  if (value.is_null() || (value.is_boolean() && !value.get<bool>())) return false;
  return !((value.is_object() || value.is_array() || value.is_string()) && value.empty());
}

std::string as_text(const json& value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return "a list";
  if (value.is_number_float()) return to_text(value.get<double>());
  return shown(value.dump(-1, ' ', false, json::error_handler_t::replace));
}

// Reads the fields of one configuration.
class Reader {
 public:
  Reader(const json& config, Problems& problems) : config_(config), problems_(problems) {}

  // null if it is missing or null.
  const json* find(const char* key) const {
    const auto at = config_.find(key);
    return at == config_.end() || at->is_null() ? nullptr : &*at;
  }
  void expected(std::string_view key, const json& value, std::string_view what) const {
    problems_.add(cat("adapter_config.json: ", shown(key), " is ", as_text(value), ", expected ", what));
  }
  std::optional<int64_t> rank(std::string_view key, const json& value) const {
    if (value.is_number_integer() && value >= 1 && value <= kMaxRank) return value.get<int64_t>();
    expected(key, value, cat("an integer from 1 to ", kMaxRank));
    return std::nullopt;
  }
  std::optional<double> alpha(std::string_view key, const json& value) const {
    constexpr double kLargest = std::numeric_limits<float>::max();
    if (value.is_number() && std::abs(value.get<double>()) <= kLargest) return value.get<double>();
    expected(key, value, "a finite number");
    return std::nullopt;
  }
  std::string text(const char* key) const {
    const json* value = find(key);
    if (value == nullptr) return "";
    if (value->is_string()) return value->get<std::string>();
    expected(key, *value, "a string");
    return "";
  }
  bool boolean(const char* key) const {
    const json* value = find(key);
    if (value == nullptr) return false;
    if (value->is_boolean()) return value->get<bool>();
    expected(key, *value, "true or false");
    return false;
  }
  // An object of numbers, in the order of `keys`.
  template <typename T, typename Read>
  void pattern(const char* key, const std::vector<JsonKey>& keys, const Read& read,
               std::vector<std::pair<std::string, T>>& out) const {
    const json* value = find(key);
    if (value == nullptr) return;
    if (!value->is_object()) return expected(key, *value, "an object of numbers");
    if (value->size() > kMaxPatterns)
      return problems_.add(cat("adapter_config.json: ", key, " has more than ", kMaxPatterns, " entries"));
    bool inside = false;
    for (const JsonKey& each : keys) {
      if (each.depth == 1) inside = each.name == key;
      if (!inside || each.depth != 2) continue;
      if (const auto number = read(cat(key, ": ", each.name), value->at(each.name)))
        out.emplace_back(each.name, *number);
    }
  }

 private:
  const json& config_;
  Problems& problems_;
};

std::vector<std::pair<std::string, std::vector<int64_t>>> read_tokens(const Reader& reader,
                                                                      const json& value) {
  std::vector<std::pair<std::string, std::vector<int64_t>>> out;
  const auto add = [&](const std::string& module, const json& tokens) {
    const bool integers = tokens.is_array() && std::ranges::all_of(tokens, [](const json& token) {
                            return token.is_number_integer();
                          });
    if (!integers) return reader.expected("trainable_token_indices", tokens, "a list of tokens");
    out.emplace_back(module, tokens.get<std::vector<int64_t>>());
  };
  if (!value.is_object()) {
    add("", value);
    return out;
  }
  for (const auto& [module, tokens] : value.items()) add(module, tokens);
  return out;
}

void check_initialization(const json& value, Problems& problems) {
  if (value.is_boolean() || value.is_null()) return;
  const std::string name = value.is_string() ? value.get<std::string>() : "";
  if (contains(kInitializations, name)) return;
  const std::string key = cat("adapter_config.json: init_lora_weights is ", as_text(value));
  if (contains(kConvertible, name) || name.starts_with("pissa_niter_")) {
    return problems.add(cat(key,
                            ", which changes the weights of the base; convert the adapter with PEFT's "
                            "save_pretrained(..., path_initial_model_for_weight_conversion=...)"));
  }
  if (name == "loftq")
    return problems.add(cat(
        key,
        ", which changes the weights of the base; merge the adapter into the base that it was trained on"));
  problems.add(cat(key, ", which is not supported"));
}

void check_keys(const json& config, Problems& problems) {
  for (const auto& [key, value] : config.items()) {
    if (contains(kWithoutEffect, key) || contains(kRead, key) || !is_set(value)) continue;
    const auto refused = std::ranges::find(kRefused, std::string_view(key), &Refused::key);
    const std::string_view what = refused == kRefused.end() ? "the key is not supported" : refused->what;
    problems.add(cat("adapter_config.json: ", shown(key), " is ", as_text(value), ": ", what));
  }
}

}  // namespace

PeftConfig parse_peft_config(std::string_view text, const std::string& file, Problems& problems) {
  std::vector<JsonKey> keys;
  const json config = parse_json(text, file, {.max_depth = 16, .unique_keys = true, .keys = &keys});
  if (!config.is_object()) throw Error(cat(file, ": is not a JSON object"));
  check_keys(config, problems);
  const Reader reader(config, problems);
  PeftConfig out;
  if (const std::string type = reader.text("peft_type"); !type.empty() && type != "LORA") {
    problems.add(cat("adapter_config.json: peft_type is '", shown(type), "'; only LORA is supported"));
  }
  if (const json* value = reader.find("init_lora_weights")) check_initialization(*value, problems);
  if (const json* value = reader.find("r")) out.r = reader.rank("r", *value).value_or(out.r);
  if (const json* value = reader.find("lora_alpha"))
    out.alpha = reader.alpha("lora_alpha", *value).value_or(out.alpha);
  out.rslora = reader.boolean("use_rslora");
  reader.pattern(
      "rank_pattern", keys, [&](const std::string& key, const json& v) { return reader.rank(key, v); },
      out.rank_pattern);
  reader.pattern(
      "alpha_pattern", keys, [&](const std::string& key, const json& v) { return reader.alpha(key, v); },
      out.alpha_pattern);
  const json* excluded = reader.find("exclude_modules");
  const bool all = excluded == nullptr || !is_set(*excluded);
  if (const json* names = reader.find("target_parameters"); names != nullptr && names->is_array()) {
    for (const json& name : *names) {
      if (name.is_string()) out.target_parameters.push_back(name.get<std::string>());
    }
  }
  if (const json* names = reader.find("target_modules"); all && names != nullptr && names->is_array()) {
    for (const json& name : *names) {
      if (name.is_string()) out.target_modules.push_back(name.get<std::string>());
    }
  }
  if (const json* tokens = reader.find("trainable_token_indices"))
    out.trained_tokens = read_tokens(reader, *tokens);
  if (const json* names = reader.find("modules_to_save"); names != nullptr && names->is_array()) {
    for (const json& name : *names) {
      if (name.is_string()) out.saved_modules.push_back(name.get<std::string>());
    }
  }
  out.base_model = reader.text("base_model_name_or_path");
  out.peft_version = reader.text("peft_version");
  return out;
}

}  // namespace quire::lora
