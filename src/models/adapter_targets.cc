#include "models/adapter_targets.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "base/strings.h"
#include "models/model_param_ids.h"
#include "models/pooling_files.h"

namespace quire {
namespace {

// Heads that poolers and classifiers do not use.
constexpr std::array<std::string_view, 6> kUnusedHeads = {"lm_head",  "lm_head.*", "cls.*",
                                                          "pooler.*", "head.*",    "decoder.*"};
// Part of the names of a block that several layers share (Zamba 2). transformers has a copy of the block in
// each layer, so that an adapter of one copy would change only that layer.
constexpr std::string_view kSharedBlock = ".shared_transformer.";
constexpr std::array<std::string_view, 4> kHeadPrefixes = {"", "language_model.", "text_model.", "thinker."};

bool starts_with(std::span<const ParamSpec> params, const ParamIds& ids) {
  return ids.size() <= params.size() &&
         std::ranges::equal(ids, params.first(ids.size()), {}, {}, &ParamSpec::id);
}

// AdapterTargets::converted
struct ConvertedModules {
  std::string_view model_type;
  std::string_view part;
};
constexpr std::array<ConvertedModules, 3> kConverted = {{
    {"falcon_h1", ""},  // multiplied by the factors of the configuration
    // Heads of values are in another order.
    {"qwen3_5_text", ".linear_attn."},
    {"qwen3_5_moe_text", ".linear_attn."},
}};

int64_t rows_of(std::span<const ParamSpec> params) {
  int64_t sum = 0;
  for (const ParamSpec& param : params) sum += param.out;
  return sum;
}

// Records the modules of each site.
class TargetVisitor : public ResolvingVisitor {
 public:
  TargetVisitor(const TensorResolver& resolver, AdapterTargets& targets)
      : ResolvingVisitor(resolver), targets_(targets) {}

  void matrix(const MatrixSpec& spec, Linear& /*result*/) override {
    const int32_t site = targets_.num_sites++;
    if (place_.axis == Axis::kGroups) return mark(spec.fused, AdapterModuleKind::kGrouped);
    std::vector<ParamSpec> stored = stored_params(spec.fused);
    whole_ = whole_of(stored);
    if (stored.size() == 1 && stored[0].looked_up) {
      add_embedding(stored[0], site);
      // The output embedding is the same matrix.
      stored[0].id = model::kLmHead;
      stored[0].scope = ParamScope::kHead;
    }
    const int64_t site_rows = rows_of(stored);
    int64_t out_begin = 0;
    for (size_t i = 0; i < stored.size(); out_begin += stored[i++].out)
      add_ranges(std::span(stored).subspan(i), site, out_begin, site_rows);
  }
  void vector(const VectorSpec& spec, Buffer& /*result*/, Buffer* /*bias*/) override {
    mark(spec.fused, AdapterModuleKind::kVector);
  }
  void norm(const VectorSpec& spec, Norm& result) override {
    const int32_t site = targets_.num_norms++;
    const std::vector<StoredParam> stored = vectors(spec.fused);
    if (spec.fused.size() != 1 || stored.size() != 1 || stored[0].weight.stacked)
      return mark(spec.fused, AdapterModuleKind::kVector);
    add_norm(spec.fused[0], site,
             {.weight = stored[0].weight.name,
              .bias = stored[0].bias.has_value(),
              .offset = spec.transform ? result.weight_offset : 0.0F});
  }
  void scalar(const ParamSpec& spec, float& /*result*/) override {
    mark({&spec, 1}, AdapterModuleKind::kVector);
  }
  void integers(const ParamSpec& spec, int64_t /*limit*/, Buffer& /*result*/) override {
    mark({&spec, 1}, AdapterModuleKind::kVector);
  }
  void embedding(const ParamSpec& spec, Embedding& /*result*/) override {
    const int32_t site = targets_.num_sites++;
    whole_ = whole_of({&spec, 1});
    if (spec.id == model::kEmbedTokens) return add_embedding(spec, site);
    mark({&spec, 1}, AdapterModuleKind::kEmbedding);
  }
  void derived(const DerivedSpec& spec, std::span<Linear> /*results*/) override {
    const int32_t site = targets_.num_sites;
    targets_.num_sites += static_cast<int32_t>(spec.matrices.size());
    for (const auto& sources : spec.sources) mark(sources, AdapterModuleKind::kDerived);
    for (const auto& sources : spec.sources) {
      const auto adapted = std::ranges::find(sources, spec.adapted, &ParamSpec::id);
      if (adapted != sources.end()) add_parts(spec, *adapted, site);
    }
  }
  void derived(const DerivedTable& spec, Buffer& /*result*/) override {
    mark(spec.sources, AdapterModuleKind::kDerived);
  }
  void kv_scales(int32_t /*layer*/, std::optional<KvScales>& /*result*/) override {}

 private:
  // The parameters that the checkpoint has, in the order of their rows in memory.
  std::vector<ParamSpec> stored_params(std::span<const ParamSpec> fused) const {
    std::vector<ParamSpec> found;
    for (const StoredParam& stored : matrices(fused)) {
      const int64_t rows = out_features(stored.weight);
      int64_t sum = 0;
      for (size_t i = stored.first; i < fused.size() && sum < rows; sum += fused[i++].out)
        found.push_back(fused[i]);
    }
    return found;
  }

  NumberedName name_of(const TensorName& row, const ParamSpec& spec) const {
    const auto numbers = resolver_.numbers_of(row, spec, place_);
    return numbered_name(with_number(with_number(row.module, numbers[0]), numbers[1]))
        .value_or(NumberedName{});
  }

  // The modules that begin with the first parameter.
  void add_ranges(std::span<const ParamSpec> params, int32_t site, int64_t out_begin, int64_t site_rows) {
    for (const TensorName& row : resolver_.rows()) {
      if (!starts_with(params, row.params)) continue;
      const NumberedName name = name_of(row, params[0]);
      if (row.module.find(kSharedBlock) != std::string_view::npos) {
        set_kind(name.pattern, AdapterModuleKind::kShared);
        continue;
      }
      AdapterRange place{.numbers = name.numbers,
                         .site = site,
                         .out_begin = out_begin,
                         .rows = rows_of(params.first(row.params.size())),
                         .in = params[0].in,
                         .site_rows = site_rows,
                         .unit = params[0].split.unit};
      AdapterModule& module = targets_.modules[name.pattern];
      if (place_.axis == Axis::kExperts && num_placeholders(row.module) == 1)
        add_stacked(row, name.pattern, module);
      if (row.row_layout != nullptr) {
        const LayerSpec& layer = resolver_.spec().layers[static_cast<size_t>(place_.layer)];
        place.layout = row.row_layout(layer, place.rows);
      }
      if (whole_ && place.rows == site_rows && !place.layout) place.whole = whole_;
      // Checkpoints are read with the first of two rows that have one name. The ranges of a site follow each
      // other.
      const auto same = [&](const AdapterRange& other) {
        return other.numbers == place.numbers && other.out_begin == out_begin;
      };
      auto& ranges = module.ranges;
      const auto own = std::find_if(ranges.rbegin(), ranges.rend(),
                                    [&](const AdapterRange& other) { return other.site != site; });
      if (std::none_of(own.base(), ranges.end(), same)) ranges.push_back(std::move(place));
    }
  }

  // The parts of derived matrices that a source is in, under all of its names.
  void add_parts(const DerivedSpec& spec, const ParamSpec& source, int32_t first_site) {
    for (const TensorName& row : resolver_.rows()) {
      if (row.params != ParamIds(source.id) || row.row_layout != nullptr) continue;
      const NumberedName name = name_of(row, source);
      AdapterModule& module = targets_.modules[name.pattern];
      if (module.kind != AdapterModuleKind::kDerived) continue;
      const auto same = [&](const AdapterRange& other) { return other.numbers == name.numbers; };
      if (std::ranges::any_of(module.ranges, same)) continue;
      for (size_t i = 0; i < spec.matrices.size(); ++i) {
        const DerivedMatrix& matrix = spec.matrices[i];
        if (!matrix.adapted) continue;
        const SourceRows& part = *matrix.adapted;
        module.ranges.push_back({.numbers = name.numbers,
                                 .site = first_site + static_cast<int32_t>(i),
                                 .out_begin = part.out_begin,
                                 .rows = part.transposed ? source.in : part.count,
                                 .in = matrix.in,
                                 .site_rows = matrix.out,
                                 .part = part});
      }
    }
  }

  // The module of a row for the matrices of all experts.
  void add_stacked(const TensorName& row, const std::string& pattern, AdapterModule& module) {
    if (module.kind == AdapterModuleKind::kMatrix) module.kind = AdapterModuleKind::kStacked;
    module.transposed = row.transposed;
    module.named_weight = !row.bare;
    if (!row.bare) return;
    const size_t dot = pattern.rfind('.');
    set_kind(pattern.substr(0, dot), AdapterModuleKind::kStack);
    std::vector<std::string>& names = targets_.modules[pattern.substr(0, dot)].parameters;
    if (std::ranges::find(names, pattern.substr(dot + 1)) == names.end())
      names.push_back(pattern.substr(dot + 1));
  }

  // The embedding of tokens, under all of its names.
  void add_embedding(const ParamSpec& spec, int32_t site) {
    for (const TensorName& row : resolver_.rows()) {
      if (row.params != ParamIds(spec.id)) continue;
      const NumberedName name = name_of(row, spec);
      set_kind(name.pattern, AdapterModuleKind::kEmbedding);
      AdapterModule& module = targets_.modules[name.pattern];
      if (!module.ranges.empty()) continue;
      module.ranges.push_back({.numbers = name.numbers,
                               .site = site,
                               .rows = spec.out,
                               .in = spec.in,
                               .site_rows = spec.out,
                               .whole = whole_});
    }
  }

  // The norm, under all of its names.
  void add_norm(const ParamSpec& spec, int32_t site, const WholeModule& whole) {
    for (const TensorName& row : resolver_.rows()) {
      if (std::ranges::find(row.params, spec.id) == row.params.end()) continue;
      const NumberedName name = name_of(row, spec);
      const bool alone = row.params.size() == 1 && row.row_layout == nullptr && !row.bare;
      const bool shared = row.module.find(kSharedBlock) != std::string_view::npos;
      set_kind(name.pattern, alone && !shared ? AdapterModuleKind::kNorm : AdapterModuleKind::kVector);
      AdapterModule& module = targets_.modules[name.pattern];
      if (module.kind != AdapterModuleKind::kNorm) continue;
      const auto same = [&](const AdapterRange& other) { return other.numbers == name.numbers; };
      if (std::ranges::any_of(module.ranges, same)) continue;
      module.ranges.push_back(
          {.numbers = name.numbers, .site = site, .rows = spec.out, .site_rows = spec.out, .whole = whole});
    }
  }

  // nullopt: the adapter cannot have a matrix of its own instead.
  std::optional<WholeModule> whole_of(std::span<const ParamSpec> stored) const {
    if (stored.size() != 1) return std::nullopt;
    const ParamSpec& only = stored[0];
    const ModelSpec& spec = resolver_.spec();
    const bool shared = only.looked_up && spec.tie_word_embeddings;
    const bool tied = shared && spec.task == ModelTask::kGenerate;
    // Scores are computed from rows of the matrix when the model is loaded.
    if (shared && spec.score_tokens[0] >= 0) return std::nullopt;
    if (!only.looked_up && only.id != model::kLmHead && only.scope != ParamScope::kClassifier)
      return std::nullopt;
    const std::vector<StoredParam> params = matrices(stored);
    if (params.size() != 1) return std::nullopt;
    return WholeModule{.weight = params[0].weight.name,
                       .bias = tied ? spec.lm_head_bias : params[0].bias.has_value(),
                       .tied = tied};
  }

  // Modules that have one of the parameters, and that no adapter can change.
  void mark(std::span<const ParamSpec> params, AdapterModuleKind kind) {
    for (const ParamSpec& param : params) {
      for (const TensorName& row : resolver_.rows()) {
        if (std::ranges::find(row.params, param.id) == row.params.end()) continue;
        set_kind(name_of(row, param).pattern, kind);
      }
    }
  }

  void set_kind(const std::string& pattern, AdapterModuleKind kind) {
    AdapterModule& module = targets_.modules[pattern];
    if (module.kind == AdapterModuleKind::kMatrix) module.kind = kind;
  }

  AdapterTargets& targets_;
  std::optional<WholeModule> whole_;  // WholeModule of the matrix or embedding that is being visited
};

bool has_scaled_inputs(const Checkpoint& checkpoint) {
  const nlohmann::json& config = checkpoint.config();
  const auto quantization = config.find("quantization_config");
  return quantization != config.end() && quantization->is_object() &&
         quantization->value("quant_method", nlohmann::json()) == "awq";
}

void add_prefixes(const TensorResolver& resolver, AdapterTargets& targets) {
  std::set<std::string> all(kHeadPrefixes.begin(), kHeadPrefixes.begin() + 1);
  if (resolver.names().composite) all.insert(kHeadPrefixes.begin(), kHeadPrefixes.end());
  for (const std::string_view prefix : resolver.names().prefixes) all.emplace(prefix);
  targets.prefixes.assign(all.begin(), all.end());
  std::ranges::stable_sort(targets.prefixes, std::ranges::greater{}, &std::string::size);
}

// The modules of the checkpoint that no pass reads, as ExpectedTensors accepts them.
void add_unused(const ModelSpec& spec, const TensorResolver& resolver, AdapterTargets& targets) {
  constexpr std::string_view kWeight = ".weight";
  for (std::string_view tensor : resolver.names().ignored) {
    if (tensor.ends_with(kWeight)) tensor.remove_suffix(kWeight.size());
    targets.unused.emplace_back(tensor);
  }
  if (spec.task != ModelTask::kGenerate) {
    for (const std::string_view head : kUnusedHeads) {
      if (!targets.modules.contains(head)) targets.unused.emplace_back(head);
    }
  }
  targets.later_layers = resolver.names().later_layers;
  for (int32_t i = 0; i < spec.num_layers(); ++i) {
    const LayerSpec& own = spec.layers[static_cast<size_t>(i)];
    if (own.mixer.index() == 0 && own.feed_forward.empty() && !own.shared_block)
      targets.idle_layers.push_back(i);
  }
  if (!resolver.names().composite) return;
  std::set<std::string> own = {"layers", "lm_head"};
  for (const auto& [pattern, module] : targets.modules) own.insert(pattern.substr(0, pattern.find('.')));
  targets.own_components.assign(own.begin(), own.end());
}

}  // namespace

AdapterTargets adapter_targets(const ModelToDescribe& model, const TensorResolver& resolver) {
  AdapterTargets targets;
  targets.architecture = model.spec.architecture;
  targets.model_type = model.spec.model_type;
  targets.num_layers = model.spec.num_layers();
  TargetVisitor visitor(resolver, targets);
  describe_model(model, visitor);
  for (auto& [pattern, module] : targets.modules) {
    const bool can_change =
        module.kind == AdapterModuleKind::kMatrix || module.kind == AdapterModuleKind::kStacked ||
        module.kind == AdapterModuleKind::kEmbedding || module.kind == AdapterModuleKind::kNorm ||
        module.kind == AdapterModuleKind::kDerived;
    if (!can_change) module.ranges.clear();
    std::ranges::stable_sort(module.ranges, {}, &AdapterRange::numbers);
  }
  targets.scaled_inputs = has_scaled_inputs(resolver.checkpoint());
  targets.from_gguf = resolver.checkpoint().config().contains("_gguf");
  for (const ConvertedModules& converted : kConverted) {
    if (model.spec.model_type == converted.model_type) targets.converted.emplace_back(converted.part);
  }
  add_prefixes(resolver, targets);
  add_unused(model.spec, resolver, targets);
  return targets;
}

AdapterTargets adapter_targets(const Checkpoint& checkpoint, const ModelSpec& spec) {
  const auto files = read_pooling_files(checkpoint);
  const TensorResolver resolver(spec, checkpoint);
  return adapter_targets({spec, files ? &*files : nullptr}, resolver);
}

}  // namespace quire
