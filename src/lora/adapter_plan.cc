#include "lora/adapter_plan.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <span>
#include <utility>

#include "base/strings.h"
#include "lora/name_patterns.h"
#include "lora/stacked_experts.h"
#include "lora/tensor_checks.h"
#include "lora/tensor_name.h"
#include "ops/low_rank.h"

namespace quire::lora {
namespace {

// The tensors of one module of the file.
struct ModuleTensors {
  const TensorInfo* a = nullptr;
  const TensorInfo* b = nullptr;
  const TensorInfo* bias = nullptr;
};

std::string_view refusal_of(AdapterModuleKind kind) {
  constexpr std::array<std::string_view, 9> kTexts = {
      "",
      "",
      "its parameters have the adapters, not the module itself",
      "is an embedding, whose adapter has lora_embedding_A and lora_embedding_B",
      "only linear modules can have an adapter",
      "only linear modules can have an adapter",
      "adapters on grouped projections are not supported yet",
      "adapters on this projection, which is rearranged when the model is loaded, are not supported yet",
      "adapters on blocks that several layers share are not supported yet"};
  return kTexts[static_cast<size_t>(kind)];
}

// As a linear module, or as the matrices of all experts.
bool can_have_adapter(const AdapterModule& module) {
  return module.kind == AdapterModuleKind::kMatrix || module.kind == AdapterModuleKind::kStacked ||
         (module.kind == AdapterModuleKind::kDerived && !module.ranges.empty());
}

std::string_view refusal_of(TensorRole role) {
  switch (role) {
    case TensorRole::kMagnitude:
      return "DoRA is not supported";
    default:
      return "is not a tensor of a LoRA adapter";
  }
}

// Values by module: the first pattern of the configuration that matches, or the default.
template <typename T>
class ByModule {
 public:
  ByModule(std::string_view key, const std::vector<std::pair<std::string, T>>& patterns, T otherwise)
      : names_(key, keys_of(patterns)), otherwise_(otherwise) {
    for (const auto& [pattern, value] : patterns) values_.push_back(value);
  }
  T of(std::string_view module) {
    const auto at = names_.find(module);
    return at ? values_[*at] : otherwise_;
  }

 private:
  static std::vector<std::string> keys_of(const std::vector<std::pair<std::string, T>>& patterns) {
    std::vector<std::string> keys;
    for (const auto& [pattern, value] : patterns) keys.push_back(pattern);
    return keys;
  }

  NamePatterns names_;
  std::vector<T> values_;
  T otherwise_;
};

class Planner {
 public:
  Planner(const AdapterFile& file, const AdapterTargets* targets, int64_t max_rank)
      : targets_(targets),
        max_rank_(max_rank),
        embeddings_(targets, plan_.problems),
        saved_(targets, plan_.problems),
        tokens_(targets, plan_.problems) {
    if (file.gguf) {
      plan_.config = {.alpha = file.gguf->alpha, .of_gguf = true, .base_model = file.gguf->base_model};
      plan_.problems = file.gguf->problems;
      plan_.warnings = file.gguf->warnings;
    } else {
      plan_.config = parse_peft_config(file.config, "adapter_config.json", plan_.problems);
    }
    for (const TensorInfo& tensor : file.tensors) add(tensor);
  }

  AdapterPlan take() {
    const PeftConfig& config = plan_.config;
    assign_parameters();
    ByModule<int64_t> ranks("rank_pattern", config.rank_pattern, config.r);
    ByModule<double> alphas("alpha_pattern", config.alpha_pattern, config.alpha);
    // The scale of a module. parameter: the name that the patterns are for.
    const auto scale_of = [&](const std::string& module, const std::string& parameter, int64_t rank,
                              const std::string& shown_a) {
      const int64_t configured = ranks.of(parameter);
      if (!config.of_gguf && rank != configured)
        fail(module, cat(shown_a, ", but the rank in adapter_config.json is ", configured));
      if (max_rank_ > 0 && rank > max_rank_)
        fail(module, cat("has rank ", rank, ", at most ", max_rank_, " is allowed (--max-lora-rank)"));
      if (config.of_gguf && config.alpha == 0.0) return 1.0F;
      const auto r = static_cast<double>(rank);
      return static_cast<float>(alphas.of(parameter) / (config.rslora ? std::sqrt(r) : r));
    };
    plan_.embeddings =
        embeddings_.plan([&](const std::string& name, std::string_view part, const TensorInfo& a) {
          return scale_of(name, name, a.shape[0], cat(part, " is ", a.shape_text()));
        });
    plan_.saved = saved_.plan(config);
    plan_.biases = saved_.plan_biases();
    plan_.norms = saved_.plan_norms();
    plan_.tokens = tokens_.plan(config);
    for (const auto& [name, tensors] : modules_) {
      if (!is_complete(name, tensors)) continue;
      PlannedModule module{.name = name, .a = *tensors.a, .b = *tensors.b};
      if (tensors.bias != nullptr) module.bias = *tensors.bias;
      const std::string parameter = parameter_name(name);
      set_shape(module, ranks.of(parameter));
      module.scale = scale_of(name, parameter, module.rank,
                              cat("lora_A is ", module.a.shape_text(),
                                  module.experts > 0 ? cat(" for ", module.experts, " experts") : ""));
      if (targets_ == nullptr || resolve(module)) plan_.modules.push_back(std::move(module));
    }
    orient_square_experts();
    find_tokens_with_other_changes();
    if (plan_.empty() && plan_.problems.empty())
      plan_.problems.add(targets_ == nullptr ? "the file has no LoRA tensors"
                                             : "no tensor has an effect on this model");
    find_selected_without_tensors();
    return std::move(plan_);
  }

 private:
  void fail(std::string_view module, std::string_view problem) {
    plan_.problems.add(cat(shown(module), ": ", problem));
  }

  void add(const TensorInfo& tensor) {
    const AdapterTensorName name = parse_tensor_name(tensor.name);
    names_.insert(name.module);
    if (targets_ != nullptr && name.role != TensorRole::kOther && is_without_effect(name.module)) {
      plan_.without_effect.push_back(tensor.name);
      return;
    }
    if (is_in_another_form(name.module)) {
      return fail(name.module, cat("GGUF files have other values here than checkpoints; use the adapter ",
                                   plan_.config.of_gguf ? "that PEFT has saved" : "in a GGUF file"));
    }
    if (embeddings_.take(tensor, name) || saved_.take(tensor, name) || tokens_.take(tensor, name)) return;
    ModuleTensors* module = nullptr;
    if (name.role == TensorRole::kA || name.role == TensorRole::kB || name.role == TensorRole::kBBias) {
      module = find_module(name);
      if (module == nullptr) return;
    }
    if (module == nullptr) return fail(tensor.name, refusal_of(name.role));
    const TensorInfo*& slot = name.role == TensorRole::kA   ? module->a
                              : name.role == TensorRole::kB ? module->b
                                                            : module->bias;
    take_slot(plan_.problems, name.module, slot, tensor);
  }

  // The tensors of a module of the file. Null if the model has no such module.
  ModuleTensors* find_module(const AdapterTensorName& name) {
    std::string module = name.module;
    if (targets_ == nullptr) {
      for (int32_t i = 0; i < name.base_layers; ++i) module += kWrapped;
    } else if (const AdapterModule* found = find_target(*targets_, module).module;
               found != nullptr && found->kind == AdapterModuleKind::kStack) {
      return &wrappers_[module][-name.base_layers];
    }
    return is_target(module) ? &modules_[module] : nullptr;
  }

  // PEFT wraps a module once for each of its parameters that has an adapter, in their order: the first
  // parameter's adapter has the most "base_layer" in its name.
  void assign_parameters() {
    for (const auto& [module, wrappers] : wrappers_) {
      const std::vector<std::string> names =
          targeted_parameters(plan_.config, module, find_target(*targets_, module).module->parameters);
      if (names.size() != wrappers.size()) {
        fail(module, cat("has adapters for ", wrappers.size(), " of its parameters, which must be ",
                         join(names, " and ")));
        continue;
      }
      size_t i = 0;
      for (const auto& [depth, tensors] : wrappers) {
        const std::string name = cat(module, ".", names[i++]);
        if (is_target(name) && !modules_.try_emplace(name, tensors).second)
          fail(name, "has two adapters, one of them as part of its module");
      }
    }
  }

  const AdapterModule* stacked_target(std::string_view module) const {
    const AdapterModule* found = targets_ == nullptr ? nullptr : find_target(*targets_, module).module;
    return found != nullptr && found->kind == AdapterModuleKind::kStacked ? found : nullptr;
  }

  // The name that the patterns of the configuration are for.
  std::string parameter_name(const std::string& module) const {
    const AdapterModule* stacked = stacked_target(module);
    const bool of_weight = stacked != nullptr && stacked->named_weight;
    return of_weight || is_targeted(plan_.config, module + ".weight") ? module + ".weight" : module;
  }

  // Sets rank, experts, in and out to those of the tensors.
  void set_shape(PlannedModule& module, int64_t configured_rank) const {
    module.rank = module.a.shape[0];
    module.in = module.a.shape[1];
    module.out = module.b.shape[0];
    if (targets_ != nullptr) {
      if (stacked_target(module.name) == nullptr) return;
      module.experts = static_cast<int64_t>(find_target(*targets_, module.name).ranges.size());
    } else {
      // The number of experts is not known.
      std::string_view name = module.name;
      while (name.ends_with(kWrapped)) name.remove_suffix(kWrapped.size());
      const bool several = module.rank > configured_rank && module.rank % configured_rank == 0;
      if (!several || !has_targeted_parameter(plan_.config, name)) return;
      module.experts = module.rank / configured_rank;
    }
    if (module.rank % module.experts == 0) module.rank /= module.experts;
  }

  // Modules that the configuration lists and the file does not have: the training may have been stopped, or
  // the list is of another model.
  void find_selected_without_tensors() {
    std::set<std::string_view> ends;
    for (const std::string& name : names_) {
      ends.insert(name);
      for (size_t dot = name.find('.'); dot != std::string::npos; dot = name.find('.', dot + 1))
        ends.insert(std::string_view(name).substr(dot + 1));
    }
    const auto warn = [&](std::string_view key, std::string_view what, const std::vector<std::string>& listed,
                          const auto& is_found) {
      std::vector<std::string> missing;
      for (const std::string& name : listed) {
        if (!is_found(name) && missing.size() < Problems::kShown) missing.push_back(shown(name));
      }
      if (!missing.empty())
        plan_.warnings.push_back(
            cat(key, " lists ", what, " of which the file has no tensors: ", join(missing, ", ")));
    };
    const auto has_module = [&](const std::string& name) { return ends.contains(name); };
    warn("target_modules", "modules", plan_.config.target_modules, has_module);
    warn("target_parameters", "parameters", plan_.config.target_parameters, [&](const std::string& name) {
      const size_t dot = name.rfind('.');
      return dot == std::string::npos || ends.contains(name.substr(0, dot)) || has_module(name);
    });
  }

  // Which of the changes would come first is not known.
  void find_tokens_with_other_changes() {
    for (const PlannedTokens& tokens : plan_.tokens) {
      const auto same = [&](const auto& other) {
        return other.name == tokens.name || (tokens.site >= 0 && other.site == tokens.site);
      };
      const bool low_rank = std::ranges::any_of(plan_.modules, [&](const PlannedModule& module) {
        return !module.ranges.empty() && tokens.output && module.ranges.front().site == tokens.site;
      });
      if (low_rank || std::ranges::any_of(plan_.embeddings, same) || std::ranges::any_of(plan_.saved, same))
        fail(tokens.name, "has trained tokens and another change, which are not supported together");
    }
  }

  // Whether the model's file has other values for the module than files of the adapter's kind.
  bool is_in_another_form(std::string_view module) const {
    if (targets_ == nullptr || targets_->from_gguf == plan_.config.of_gguf) return false;
    return std::ranges::any_of(targets_->converted, [&](const std::string& part) {
      return module.find(part) != std::string_view::npos;
    });
  }

  bool is_without_effect(std::string_view module) const {
    return find_target(*targets_, module).module == nullptr && is_unused(*targets_, module);
  }

  // Whether the model has a matrix of this name. Reports it once for each module.
  bool is_target(const std::string& name) {
    if (targets_ == nullptr || modules_.contains(name)) return true;
    const AdapterTarget target = find_target(*targets_, name);
    const bool has_matrix = target.module != nullptr && can_have_adapter(*target.module);
    if (has_matrix && !target.ranges.empty()) return true;
    if (!refused_.insert(name).second) return false;
    if (target.module != nullptr && !has_matrix) {
      fail(name, refusal_of(target.module->kind));
    } else {
      find_range(*targets_, name, plan_.problems);
    }
    return false;
  }

  bool is_complete(const std::string& name, const ModuleTensors& tensors) {
    if (tensors.a == nullptr || tensors.b == nullptr) {
      fail(name, tensors.a == nullptr ? "has no lora_A" : "has no lora_B");
      return false;
    }
    Problems& problems = plan_.problems;
    bool ok = has_form(problems, name, "lora_A", *tensors.a, 2);
    ok = has_form(problems, name, "lora_B", *tensors.b, 2) && ok;
    if (tensors.bias != nullptr) ok = has_form(problems, name, "the bias of lora_B", *tensors.bias, 1) && ok;
    if (!ok || !has_same_rank(problems, name, "lora_A", *tensors.a, "lora_B", *tensors.b)) return false;
    if (tensors.bias != nullptr && tensors.bias->shape[0] != tensors.b->shape[0]) {
      fail(name, cat("the bias of lora_B is ", tensors.bias->shape_text(), ", but lora_B ",
                     tensors.b->shape_text()));
      return false;
    }
    return true;
  }

  // Sets the ranges. Returns false if the module does not fit there.
  bool resolve(PlannedModule& module) {
    const AdapterTarget target = find_target(*targets_, module.name);
    module.ranges.assign(target.ranges.begin(), target.ranges.end());
    if (module.experts > 0) return resolve_experts(module, *target.module);
    Problems& problems = plan_.problems;
    const ModuleShape shape = module_shape(target.ranges);
    const bool a = has_shape(problems, module.name, "lora_A", module.a, {module.rank, shape.in});
    return has_shape(problems, module.name, "lora_B", module.b, {shape.out, module.rank}) && a;
  }

  // The same for a parameter with the matrices of all experts.
  bool resolve_experts(PlannedModule& module, const AdapterModule& target) {
    const AdapterRange& range = module.ranges.front();
    const int64_t ranks = module.experts * module.rank;
    const auto fits = [&](int64_t in, int64_t out) {
      return module.a.shape == std::vector<int64_t>{ranks, in} &&
             module.b.shape == std::vector<int64_t>{out, ranks};
    };
    module.in = range.in;
    module.out = range.rows;
    const bool straight = fits(range.in, range.rows);
    module.transposed = fits(range.rows, range.in);
    if (!straight && !module.transposed) {
      fail(module.name, cat("lora_A is ", module.a.shape_text(), " and lora_B ", module.b.shape_text(),
                            ", this model needs [", module.experts, " * rank, ", range.in, "] and [",
                            range.rows, ", rank * ", module.experts, "] for ", module.experts, " experts"));
      return false;
    }
    if (module.bias) {
      fail(module.name, "parameters with the matrices of all experts cannot have a bias of lora_B");
      return false;
    }
    if (straight != module.transposed) orientation_[target.transposed ? 1 : 0] = module.transposed;
    return true;
  }

  // Square matrices fit in both ways. Others of the file show which one PEFT used, or else its version does.
  void orient_square_experts() {
    for (PlannedModule& module : plan_.modules) {
      if (module.experts == 0 || module.in != module.out || targets_ == nullptr) continue;
      const bool stored_transposed = stacked_target(module.name)->transposed;
      std::optional<bool> transposed = orientation_[stored_transposed ? 1 : 0];
      if (!transposed) transposed = transposes_change(plan_.config.peft_version, stored_transposed);
      if (!transposed)
        fail(module.name, "its matrices are square, and PEFT 0.19.0 has saved such adapters in two ways");
      module.transposed = transposed.value_or(false);
    }
  }

  // What PEFT adds to the name of a module for a second parameter with an adapter.
  static constexpr std::string_view kWrapped = ".base_layer";

  const AdapterTargets* targets_;
  int64_t max_rank_;
  AdapterPlan plan_;
  EmbeddingPlanner embeddings_;
  SavedPlanner saved_;
  TokenPlanner tokens_;
  std::map<std::string, ModuleTensors> modules_;
  // Modules whose parameters have adapters, by the negative number of "base_layer" in their names.
  std::map<std::string, std::map<int32_t, ModuleTensors>> wrappers_;
  // Whether changes of stacked matrices are transposed, as those show that are not square: of parameters [E,
  // out, in], and [E, in, out].
  std::array<std::optional<bool>, 2> orientation_;
  std::set<std::string> names_;  // all modules of the file
  std::set<std::string> refused_;
};

// Keys of latent attention are in transposed matrices. A bias of keys adds the same number to all scores of a
// query, so it has no effect.
bool has_bias_rows(const AdapterRange& range) {
  return !range.part || !range.part->transposed;
}

int64_t element_bytes(const SitePlan& site) {
  return static_cast<int64_t>(dtype_size(site.dtype));
}

}  // namespace

AdapterPlan plan_adapter(const AdapterFile& file, const AdapterTargets* targets, int64_t max_rank) {
  return Planner(file, targets, max_rank).take();
}

int64_t SitePlan::bytes() const {
  const Piece& first = pieces.front();
  const int64_t all = a_bytes() + b_bytes() + bias_bytes();
  if (!first.range->part) return all;
  const bool transposed = first.range->part->transposed;
  const auto earlier = std::span(first.module->ranges).first(static_cast<size_t>(first.number));
  const bool shared = std::ranges::any_of(
      earlier, [&](const AdapterRange& range) { return range.part->transposed == transposed; });
  if (!shared) return all;
  return all - (transposed ? b_bytes() : a_bytes());
}

int64_t SitePlan::a_bytes() const {
  int64_t sum = 0;
  for (const Piece& piece : pieces) sum += piece.module->rank * piece.range->in;
  return sum * element_bytes(*this);
}

int64_t SitePlan::b_bytes() const {
  int64_t sum = 0;
  for (const Piece& piece : pieces) sum += piece.module->rank * piece.range->rows;
  return sum * element_bytes(*this);
}

int64_t SitePlan::bias_bytes() const {
  return has_bias ? pieces.front().range->site_rows * static_cast<int64_t>(sizeof(float)) : 0;
}

std::vector<SitePlan> plan_sites(const std::vector<PlannedModule>& modules, Problems& problems) {
  std::map<int32_t, std::vector<SitePlan::Piece>> pieces;
  for (const PlannedModule& module : modules) {
    int64_t number = 0;
    for (const AdapterRange& range : module.ranges) pieces[range.site].push_back({&module, &range, number++});
  }
  std::vector<SitePlan> sites;
  for (auto& [number, own] : pieces) {
    std::ranges::stable_sort(own, {}, [](const SitePlan::Piece& piece) { return piece.range->out_begin; });
    SitePlan site{.site = number, .dtype = own.front().module->a.dtype};
    const SitePlan::Piece* last = nullptr;
    int64_t ranks = 0;
    for (const SitePlan::Piece& piece : own) {
      const PlannedModule& module = *piece.module;
      if (module.a.dtype != site.dtype || module.b.dtype != site.dtype) site.dtype = DType::kF32;
      site.has_bias = site.has_bias || (module.bias && has_bias_rows(*piece.range));
      if (last != nullptr && last->range->out_begin + last->range->rows > piece.range->out_begin) {
        problems.add(
            cat(shown(last->module->name), " and ", shown(module.name), ": change the same weights"));
      }
      last = &piece;
      ranks += module.rank;
    }
    if (ranks > kMaxLowRanks)
      problems.add(cat(shown(last->module->name), ": the ranks of the modules of one matrix add up to ",
                       ranks, ", at most ", kMaxLowRanks, " are supported"));
    site.pieces = std::move(own);
    sites.push_back(std::move(site));
  }
  return sites;
}

}  // namespace quire::lora
