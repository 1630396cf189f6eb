#include "io/quantized/quantized_checkpoint.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/strings.h"
#include "io/config_fields.h"
#include "io/quantized/methods.h"
#include "io/quantized/sparse_checkpoint.h"

namespace quire {
namespace {

struct Method {
  std::string_view name;  // quant_method
  std::vector<QuantizedModule> (*read)(const Checkpoint&, const ConfigReader&);
};

constexpr std::array<Method, 13> kMethods = {{
    {"gptq", read_gptq},
    {"awq", read_awq},
    {"compressed-tensors", read_compressed_tensors},
    {"fp8", read_fp8},
    {"modelopt", read_modelopt},
    {"bitsandbytes", read_bitsandbytes},
    {"bitnet", read_bitnet},
    {"mxfp4", read_mxfp4},
    {"squeezellm", read_squeezellm},
    {"auto-round", read_auto_round},
    {"intel/auto-round", read_auto_round},
    {"quark", read_quark},
    {"torchao", read_torchao},
}};

// Scales of activations, which are unused here: activations are quantized dynamically.
constexpr std::array<std::string_view, 8> kUnusedSuffixes = {
    ".input_scale",  ".input_scale_2", ".input_zero_point",  ".input_global_scale",
    ".output_scale", ".q_scale",       ".prob_output_scale", ".weight_shape"};
// Exceptions: scales of keys and values, which are used with fp8 KV caches.
constexpr std::array<std::string_view, 2> kKvScaleSuffixes = {".k_proj.output_scale", ".v_proj.output_scale"};

// The `input_activations` of a group of compressed-tensors' `config_groups`; null if they are not int8.
const nlohmann::json& int8_inputs(const nlohmann::json& group) {
  static const nlohmann::json none;
  const nlohmann::json& inputs = config_field(group, "input_activations");
  const bool int8 = config_field(inputs, "num_bits") == 8 && config_field(inputs, "type") == "int";
  return int8 ? inputs : none;
}

// Whether the checkpoint was made for 8-bit activations, according to compressed-tensors, quark and torchao.
bool made_for_int8(const nlohmann::json& quantization) {
  const nlohmann::json& groups = config_field(quantization, "config_groups");
  if (std::ranges::any_of(groups, [](const auto& group) { return !int8_inputs(group).is_null(); }))
    return true;
  const nlohmann::json& layers = config_field(quantization, "global_quant_config");
  if (config_field(config_field(layers, "input_tensors"), "dtype") == "int8") return true;
  const nlohmann::json& type =
      config_field(config_field(config_field(quantization, "quant_type"), "default"), "_type");
  return type.is_string() && type.get_ref<const std::string&>().starts_with("Int8DynamicActivation");
}

class QuantizedCheckpoint : public Checkpoint {
 public:
  QuantizedCheckpoint(std::unique_ptr<Checkpoint> files, nlohmann::json quantization,
                      std::vector<QuantizedModule> modules)
      : files_(std::move(files)), quantization_(std::move(quantization)) {
    for (QuantizedModule& module : modules) {
      Entry entry;
      entry.info.name = module.name;
      entry.info.shape = module.shape;
      if (module.shape.empty()) entry.info.shape = {module.matrix->rows(), module.matrix->cols()};
      entry.info.quantized = true;
      for (const std::string& tensor : module.tensors) entry.info.bytes += files_->find(tensor)->bytes;
      hidden_.insert(module.tensors.begin(), module.tensors.end());
      entry.matrix = std::move(module.matrix);
      entry.tensors = std::move(module.tensors);
      std::string name = entry.info.name;
      const auto [at, inserted] = quantized_.emplace(std::move(name), std::move(entry));
      if (!inserted)
        throw Error(cat(path().string(), ": ", at->first, " is stored in two quantized formats"));
    }
    for (const auto& name : files_->names()) {
      const auto ends = [&](std::string_view suffix) { return name.ends_with(suffix); };
      if (std::ranges::any_of(kUnusedSuffixes, ends) && std::ranges::none_of(kKvScaleSuffixes, ends))
        hidden_.insert(name);
    }
  }

  const std::filesystem::path& path() const override { return files_->path(); }
  const nlohmann::json& config() const override { return files_->config(); }
  std::optional<std::string> file(std::string_view name) const override { return files_->file(name); }
  std::optional<nlohmann::json> generation_config() const override { return files_->generation_config(); }

  std::vector<FileIdentity> weight_files() const override { return files_->weight_files(); }
  std::vector<std::string> warnings() const override {
    std::vector<std::string> all = files_->warnings();
    all.insert(all.end(), warnings_.begin(), warnings_.end());
    return all;
  }
  void warn(std::string warning) {
    if (!warning.empty()) warnings_.push_back(std::move(warning));
  }
  std::vector<std::string> names() const override {
    std::vector<std::string> all;
    for (auto& name : files_->names()) {
      if (!hidden_.contains(name) && !quantized_.contains(name)) all.push_back(std::move(name));
    }
    for (const auto& [name, entry] : quantized_) all.push_back(name);
    std::ranges::sort(all);
    return all;
  }
  const TensorInfo* find(std::string_view name) const override {
    const auto it = quantized_.find(name);
    if (it != quantized_.end()) return &it->second.info;
    return hidden_.contains(name) ? nullptr : files_->find(name);
  }
  std::span<const std::byte> bytes(std::string_view name) const override {
    if (quantized_.contains(name))
      throw Error(cat(path().string(), ": tensor '", name, "' is quantized and has no plain bytes"));
    return files_->bytes(name);
  }
  const QuantizedMatrix* quantized(std::string_view name) const override {
    const auto it = quantized_.find(name);
    return it == quantized_.end() ? files_->quantized(name) : it->second.matrix.get();
  }
  ActivationFormat default_activations() const override {
    return made_for_int8(quantization_) ? ActivationFormat::kInt8 : ActivationFormat::kInt16;
  }
  // bitsandbytes does not quantize outlier features in int8 products.
  float outlier_threshold() const override {
    if (config_field(quantization_, "quant_method") != "bitsandbytes") return 0.0F;
    const nlohmann::json& threshold = config_field(quantization_, "llm_int8_threshold");
    return threshold.is_number() ? threshold.get<float>() : 6.0F;
  }
  bool token_activation_scales() const override {
    const nlohmann::json& groups = config_field(quantization_, "config_groups");
    return std::ranges::any_of(groups, [](const nlohmann::json& group) {
      return config_field(int8_inputs(group), "strategy") == "token";
    });
  }
  int64_t total_bytes() const override { return files_->total_bytes(); }
  void release(std::string_view name) override {
    const auto it = quantized_.find(name);
    if (it == quantized_.end()) return files_->release(name);
    for (const auto& tensor : it->second.tensors) files_->release(tensor);
  }

 private:
  struct Entry {
    TensorInfo info;
    std::unique_ptr<QuantizedMatrix> matrix;
    std::vector<std::string> tensors;
  };

  std::unique_ptr<Checkpoint> files_;
  nlohmann::json quantization_;  // quantization_config
  std::vector<std::string> warnings_;
  std::map<std::string, Entry, std::less<>> quantized_;
  std::set<std::string, std::less<>> hidden_;
};

[[noreturn]] void fail(const std::filesystem::path& model, std::string_view problem) {
  throw Error(cat(model.string(), ": config.json: 'quantization_config' ", problem));
}

}  // namespace

const nlohmann::json& config_field(const nlohmann::json& config, std::string_view field) {
  static const nlohmann::json none;
  if (!config.is_object()) return none;
  const auto it = config.find(field);
  return it == config.end() ? none : *it;
}

std::optional<BlockSize> block_size_of(const nlohmann::json& value) {
  const auto is_size = [](const nlohmann::json& size) {
    return size.is_number_integer() && size.get<int64_t>() >= 1 && size.get<int64_t>() <= INT32_MAX;
  };
  if (!value.is_array() || value.size() != 2 || !is_size(value[0]) || !is_size(value[1])) return std::nullopt;
  return BlockSize{value[0].get<int64_t>(), value[1].get<int64_t>()};
}

namespace {

const Method& method_of(const nlohmann::json& config, const std::filesystem::path& model) {
  if (!config.is_object()) fail(model, "is not an object");
  const std::string name = ConfigReader(config, "quantization_config.").text("quant_method", "unknown");
  const auto method = std::ranges::find(kMethods, std::string_view(name), &Method::name);
  if (method == kMethods.end()) {
    std::vector<std::string> names;
    for (const Method& known : kMethods) names.emplace_back(known.name);
    fail(model, cat("has the quantization method '", name, "', which is not supported; supported are ",
                    join(names, ", "), ", and float32, bfloat16 and float16 without quantization"));
  }
  return *method;
}

// The quantization's configuration in config.json; null if there is none.
const nlohmann::json& quantization_of(const nlohmann::json& config) {
  const nlohmann::json& field = config_field(config, "quantization_config");
  return field.is_null() ? config_field(config, "compression_config") : field;
}

}  // namespace

std::string quantization_method(const nlohmann::json& config) {
  const nlohmann::json& quantization = quantization_of(config);
  return quantization.is_object() ? quantization.value("quant_method", std::string("unknown")) : "";
}

bool require_known_quantization(const nlohmann::json& config, const std::filesystem::path& model) {
  const nlohmann::json& quantization = quantization_of(config);
  if (quantization.is_null()) return false;
  method_of(quantization, model);
  return true;
}

namespace {

std::unique_ptr<Checkpoint> read_quantized(std::unique_ptr<Checkpoint> files, nlohmann::json config,
                                           const std::string& path, const std::string& file) {
  const Method& method = method_of(config, files->path());
  files = with_sparse(std::move(files), config);
  FieldLog log;
  for (const char* field : {"quant_method", "sparsity_config", "llm_int8_threshold"}) log.add(path + field);
  std::vector<QuantizedModule> modules =
      method.read(*files, ConfigReader(config, path, ConfigOrigin{file}, &log));
  std::string warning = unread_warning(ConfigFile::kQuantization, file, log, config, path);
  auto out = std::make_unique<QuantizedCheckpoint>(std::move(files), std::move(config), std::move(modules));
  out->warn(std::move(warning));
  return out;
}

}  // namespace

std::unique_ptr<Checkpoint> with_quantized(std::unique_ptr<Checkpoint> files) {
  const nlohmann::json& config = quantization_of(files->config());
  if (config.is_null()) return files;
  const bool older = config_field(files->config(), "quantization_config").is_null();
  return read_quantized(std::move(files), config, older ? "compression_config." : "quantization_config.",
                        "config.json");
}

std::unique_ptr<Checkpoint> with_old_quantization(std::unique_ptr<Checkpoint> files, nlohmann::json config) {
  return read_quantized(std::move(files), std::move(config), "", "quantize_config.json");
}

}  // namespace quire
