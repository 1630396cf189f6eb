#include "lora/gguf_adapter.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/strings.h"
#include "io/gguf/gguf_arch.h"

namespace quire::lora {
namespace {

// More would only be a way to need memory.
constexpr int64_t kMaxExperts = 4096;
constexpr std::string_view kExpert = "{e}";
constexpr std::string_view kWeight = ".weight";

// Models that the converter writes as another one.
struct ConvertedAs {
  std::string_view model_type;
  std::string_view gguf;
};
constexpr std::array<ConvertedAs, 2> kConvertedAs = {
    {{"glm4_moe_lite", "deepseek2"}, {"solar_open", "glm4moe"}}};

// Metadata of adapters without an effect.
constexpr std::array<std::string_view, 4> kKnownKeys = {
    "adapter.type", "adapter.lora.alpha", "adapter.lora.task_name", "adapter.lora.prompt_prefix"};

// The fused queries, keys and values of a model that has separate ones.
constexpr std::string_view kFused = "attn_qkv";

std::string with_expert(const std::string& name, int64_t expert) {
  std::string out = name;
  const size_t at = out.find(kExpert);
  return at == std::string::npos ? out : out.replace(at, kExpert.size(), std::to_string(expert));
}

// The shape without dimensions of size 1 before a matrix.
std::vector<int64_t> as_matrix(std::vector<int64_t> shape) {
  while (shape.size() > 2 && shape.front() == 1) shape.erase(shape.begin());
  return shape;
}

enum class Part : uint8_t { kA, kB, kWhole };

// A tensor of the file.
struct Named {
  const GgufTensor* tensor = nullptr;
  Part part = Part::kWhole;
  std::string_view module;  // "blk.0.attn_q"
  std::string_view suffix;  // kWhole: ".weight" or ".bias"
};

std::optional<Named> parse(const GgufTensor& tensor) {
  Named out{.tensor = &tensor, .module = tensor.name};
  for (const auto& [end, part] : {std::pair(".lora_a", Part::kA), std::pair(".lora_b", Part::kB)}) {
    if (!out.module.ends_with(end)) continue;
    out.part = part;
    out.module.remove_suffix(std::string_view(end).size());
  }
  const size_t dot = out.module.rfind('.');
  if (dot == std::string_view::npos) return std::nullopt;
  out.suffix = out.module.substr(dot);
  out.module = out.module.substr(0, dot);
  const bool norm = out.module.ends_with("norm") && (out.suffix == kWeight || out.suffix == ".bias");
  const bool known = out.part == Part::kWhole ? norm : out.suffix == kWeight;
  return known ? std::optional(out) : std::nullopt;
}

class GgufReader {
 public:
  GgufReader(const GgufFile& file, const AdapterTargets* targets) : file_(file), targets_(targets) {}

  GgufAdapter take() {
    check_kind();
    read_metadata();
    if (!find_archs()) return std::move(out_);
    for (const GgufTensor& tensor : file_.tensors()) {
      const auto named = parse(tensor);
      if (named) {
        add(*named);
      } else {
        fail(tensor.name, "is not a tensor of a LoRA adapter");
      }
    }
    return std::move(out_);
  }

 private:
  void fail(std::string_view name, std::string_view problem) {
    out_.problems.add(cat(shown(name), ": ", problem));
  }

  void check_kind() const {
    const std::string type(file_.text("general.type").value_or(""));
    if (file_.text("general.architecture") == "controlvector")
      throw Error("is a control vector; only LoRA adapters are supported");
    if (type != "adapter")
      throw Error(
          cat("is not an adapter: general.type is ", type.empty() ? "missing" : cat("'", shown(type), "'")));
    const std::string kind(file_.text("adapter.type").value_or(""));
    if (kind != "lora") {
      throw Error(cat("adapter.type is ", kind.empty() ? "missing" : cat("'", shown(kind), "'"),
                      ", only 'lora' is supported"));
    }
    if (file_.integer("split.count").value_or(1) > 1)
      throw Error("is one of several files; adapters of several files are not supported");
  }

  void read_metadata() {
    const auto alpha = file_.number("adapter.lora.alpha");
    if (!alpha) fail("adapter.lora.alpha", "is missing");
    out_.alpha = alpha.value_or(0.0);
    for (const auto& [key, value] : file_.metadata()) {
      if (!key.starts_with("adapter.") || std::ranges::find(kKnownKeys, key) != kKnownKeys.end()) continue;
      fail(key,
           key == "adapter.alora.invocation_tokens" ? "activated LoRA is not supported" : "is not known");
    }
    if (const auto prefix = file_.text("adapter.lora.prompt_prefix"); prefix && !prefix->empty())
      out_.warnings.push_back(cat("the adapter is made for prompts that begin with '", shown(*prefix), "'"));
    out_.base_model = file_.text("general.base_model.0.repo_url").value_or("");
  }

  // Whether files of the architecture may be of the model.
  bool is_model_of(const GgufArch& arch) const {
    const auto same = [&](const ConvertedAs& row) {
      return row.model_type == targets_->model_type && row.gguf == arch.gguf;
    };
    return arch.model_type == targets_->model_type || std::ranges::any_of(kConvertedAs, same);
  }

  // Sets the entries for the file's architecture and the model. Returns false if there are none.
  bool find_archs() {
    const std::string name(file_.text("general.architecture").value_or(""));
    archs_ = gguf_archs(name);
    if (archs_.empty()) {
      fail("general.architecture", cat("'", shown(name), "' is not supported"));
      return false;
    }
    if (name == "gpt2") {
      fail("general.architecture",
           "the converter exchanges A and B for 'gpt2'; use the adapter that PEFT has saved");
      return false;
    }
    if (targets_ == nullptr) return true;
    std::erase_if(archs_, [&](const GgufArch* arch) { return !is_model_of(*arch); });
    if (!archs_.empty()) return true;
    fail("general.architecture", cat("the adapter is for '", name, "', this model is '", targets_->model_type,
                                     "' (", targets_->architecture, ")"));
    return false;
  }

  bool is_known(const std::string& name) const {
    const std::string first = with_expert(name, 0);
    return find_target(*targets_, first).module != nullptr || is_unused(*targets_, first);
  }

  // The name of the module in a checkpoint; empty if there is none.
  std::string original_name(std::string_view module) const {
    std::string first;
    for (const GgufArch* arch : archs_) {
      std::string name = find_original_module(*arch, module);
      if (name.empty()) continue;
      if (targets_ == nullptr || is_known(name)) return name;
      if (first.empty()) first = std::move(name);
    }
    return first;
  }

  void add(const Named& named) {
    const std::string name = original_name(named.module);
    if (!name.empty()) return add(named, name);
    if (named.part != Part::kWhole && named.module.ends_with(kFused) && add_fused(named)) return;
    fail(named.tensor->name, cat("the architecture '", archs_.front()->gguf, "' has no such tensor"));
  }

  void add(const Named& named, const std::string& name) {
    const GgufTensor& tensor = *named.tensor;
    const bool norm = named.part == Part::kWhole && name.ends_with("norm") && named.suffix == kWeight;
    // The only norms that the converter does not change are those of linear attention.
    if (norm && archs_.front()->style == GgufStyle::kNormsPlusOne && !name.ends_with("linear_attn.norm"))
      return put(cat(name, named.suffix), tensor.shape, tensor.offset, tensor.bytes,
                 {.type = tensor.type, .plus_one = true});
    if (named.part == Part::kWhole)
      return put(cat(name, named.suffix), tensor.shape, tensor.offset, tensor.bytes, {.type = tensor.type});
    if (name.find(kExpert) != std::string::npos) return add_experts(named, name);
    const std::vector<int64_t> shape = as_matrix(tensor.shape);
    if (is_embedding(named.module, name)) return add_embedding(named, name, shape);
    put_part(named, name, shape, tensor.offset, tensor.bytes);
  }

  bool is_embedding(std::string_view module, const std::string& name) const {
    if (targets_ == nullptr) return module == "token_embd";
    const AdapterModule* target = find_target(*targets_, name).module;
    return target != nullptr && target->kind == AdapterModuleKind::kEmbedding;
  }

  // A is stored as [tokens, rank].
  void add_embedding(const Named& named, const std::string& name, std::vector<int64_t> shape) {
    const GgufTensor& tensor = *named.tensor;
    GgufForm form{.type = tensor.type};
    if (named.part == Part::kA && shape.size() == 2 &&
        !is_rank(cat(named.module, kWeight, ".lora_b"), shape[0], shape[1])) {
      form.transposed = true;
      std::swap(shape[0], shape[1]);
    }
    put(cat(name, named.part == Part::kA ? ".lora_embedding_A" : ".lora_embedding_B"), shape, tensor.offset,
        tensor.bytes, form);
  }

  // Whether B has the rank `rank`, and not `other`.
  bool is_rank(std::string_view b, int64_t rank, int64_t other) const {
    const auto found = std::ranges::find(file_.tensors(), b, &GgufTensor::name);
    return found != file_.tensors().end() && found->shape.back() == rank && rank != other;
  }

  // The matrices of all experts, one after another.
  void add_experts(const Named& named, const std::string& name) {
    const GgufTensor& tensor = *named.tensor;
    if (tensor.shape.size() != 3)
      return fail(tensor.name, cat("has ", tensor.shape.size(), " dimensions, expected 3"));
    const int64_t experts = tensor.shape[0];
    if (const int64_t needed = experts_of(name); experts > kMaxExperts || (needed > 0 && needed != experts)) {
      return fail(tensor.name,
                  needed > 0 ? cat("has ", experts, " experts, this model needs ", needed)
                             : cat("has ", experts, " experts, at most ", kMaxExperts, " are supported"));
    }
    const size_t bytes = tensor.bytes / static_cast<size_t>(experts);
    for (int64_t e = 0; e < experts; ++e) {
      put_part(named, with_expert(name, e), {tensor.shape[1], tensor.shape[2]},
               tensor.offset + static_cast<size_t>(e) * bytes, bytes);
    }
  }

  // The number of experts of the model; 0 = without a model, or it has no such module.
  int64_t experts_of(const std::string& name) const {
    int64_t count = 0;
    while (targets_ != nullptr && count < kMaxExperts &&
           !find_target(*targets_, with_expert(name, count)).ranges.empty())
      ++count;
    return count;
  }

  // Queries, keys and values in one tensor, for models that have separate ones. Returns false if the model
  // has no such modules.
  bool add_fused(const Named& named) {
    const std::string_view layer = named.module.substr(0, named.module.size() - kFused.size());
    const GgufTensor& tensor = *named.tensor;
    std::vector<int64_t> shape = as_matrix(tensor.shape);
    if (targets_ == nullptr || shape.size() != 2) return false;
    std::array<std::string, 3> gguf;
    std::array<std::string, 3> names;
    std::array<int64_t, 3> rows{};
    int64_t sum = 0;
    for (size_t i = 0; i < names.size(); ++i) {
      gguf[i] = cat(layer, std::array{"attn_q", "attn_k", "attn_v"}[i]);
      names[i] = original_name(gguf[i]);
      const auto ranges = find_target(*targets_, names[i]).ranges;
      if (ranges.empty()) return false;
      rows[i] = ranges.front().rows;
      sum += rows[i];
    }
    if (named.part == Part::kB && shape[0] != sum) {
      fail(tensor.name,
           cat("has ", shape[0], " rows, this model needs ", sum, " for queries, keys and values"));
      return true;
    }
    size_t offset = tensor.offset;
    for (size_t i = 0; i < names.size(); ++i) {
      if (named.part == Part::kB) shape[0] = rows[i];
      const size_t bytes = static_cast<size_t>(shape[0]) * tensor.row_bytes();
      put_part({.tensor = &tensor, .part = named.part, .module = gguf[i]}, names[i], shape, offset, bytes);
      if (named.part == Part::kB) offset += bytes;
    }
    return true;
  }

  // A or B of a matrix.
  void put_part(const Named& named, const std::string& name, const std::vector<int64_t>& shape, size_t offset,
                size_t bytes) {
    GgufForm form{.type = named.tensor->type};
    const bool rotated = named.module.ends_with(".attn_q") || named.module.ends_with(".attn_k");
    if (named.part == Part::kB && rotated && archs_.front()->style == GgufStyle::kPairs &&
        targets_ != nullptr) {
      const auto ranges = find_target(*targets_, name).ranges;
      if (!ranges.empty()) form.pairs_of = ranges.front().unit;
    }
    put(cat(name, named.part == Part::kA ? ".lora_A.weight" : ".lora_B.weight"), shape, offset, bytes, form);
  }

  void put(const std::string& name, std::vector<int64_t> shape, size_t offset, size_t bytes, GgufForm form) {
    TensorInfo info{.name = name,
                    .dtype = form.type->dtype.value_or(DType::kF32),
                    .shape = std::move(shape),
                    .offset = offset};
    if (form.plus_one) info.dtype = DType::kF32;
    info.bytes = bytes / form.type->bytes * static_cast<size_t>(form.type->elements) * dtype_size(info.dtype);
    form.bytes = bytes;
    if (!out_.forms.emplace(name, form).second) return fail(name, "two tensors of the file are for it");
    out_.tensors.push_back(std::move(info));
  }

  const GgufFile& file_;
  const AdapterTargets* targets_;
  std::vector<const GgufArch*> archs_;  // those of the file's architecture for this model, at least one
  GgufAdapter out_;
};

}  // namespace

GgufAdapter read_gguf_adapter(const GgufFile& file, const AdapterTargets* targets) {
  return GgufReader(file, targets).take();
}

}  // namespace quire::lora
