#include "models/tensor_resolver.h"

#include <algorithm>
#include <array>

#include "base/strings.h"
#include "io/config_reader.h"
#include "models/model_param_ids.h"
#include "models/registry.h"
#include "nn/attention_spec.h"

namespace quire {
namespace {

bool is_of_expert(const TensorName& row) {
  return row.params[0].name.find(".experts.") != std::string_view::npos;
}

std::string choose_prefix(const WeightNames& names, const Checkpoint& checkpoint) {
  for (const TensorName& row : names.tensors) {
    if (row.params != ParamIds(model::kPrefixed)) continue;
    for (const auto prefix : names.prefixes) {
      if (checkpoint.find(cat(prefix, row.module, ".weight")) != nullptr) return std::string(prefix);
    }
  }
  return std::string(names.prefixes.front());
}

std::vector<int64_t> without_ones(const std::vector<int64_t>& shape) {
  std::vector<int64_t> rest;
  std::ranges::copy_if(shape, std::back_inserter(rest), [](int64_t dim) { return dim != 1; });
  return rest;
}

bool starts_with(std::span<const ParamSpec> params, const ParamIds& ids) {
  if (ids.size() > params.size()) return false;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (params[i].id != ids[i]) return false;
  }
  return true;
}

std::string weight_name(const TensorName& row, const std::string& module) {
  return row.bare ? module : module + ".weight";
}

}  // namespace

int64_t numel(std::span<const int64_t> shape) {
  int64_t n = 1;
  for (const int64_t dim : shape) n *= dim;
  return n;
}

int64_t out_features(const StoredTensor& matrix) {
  return matrix.shape[matrix.shape.size() - (matrix.transposed ? 1 : 2)];
}

int64_t elements(const StoredTensor& tensor) {
  return numel(std::span(tensor.shape).subspan(tensor.stacked ? 1 : 0));
}

TensorResolver::TensorResolver(const ModelSpec& spec, const Checkpoint& checkpoint)
    : spec_(spec),
      checkpoint_(checkpoint),
      names_(find_weight_names(ConfigReader(checkpoint.config(), "", checkpoint.config_origin()))),
      rows_(names_.tensors.begin(), names_.tensors.end()),
      prefix_(choose_prefix(names_, checkpoint)) {
  if (spec.task == ModelTask::kScore && spec.classifier) {
    const std::vector<TensorName> own = spec.classifier->tensor_names();
    rows_.insert(rows_.end(), own.begin(), own.end());
  }
  // The language model may be a complete model within a multimodal one, with a head of its own.
  for (const std::string_view inner : {"language_model.", "text_model.", "thinker."}) {
    if (names_.composite && prefix_.starts_with(inner)) head_prefix_ = inner;
  }
  for (const TensorName& row : rows_) by_first_[row.params[0].name].push_back(&row);
  for (const TensorName& row : rows_) {
    if (row.params.size() > 1) present_[&row] = is_present_anywhere(row);
  }
  stacked_experts_ = stacks_experts();
}

bool TensorResolver::is_present_anywhere(const TensorName& row) const {
  for (int32_t layer = 0; layer < spec_.num_layers(); ++layer) {
    const std::string module = cat(prefix_, with_number(with_number(row.module, layer), 0));
    if (checkpoint_.find(weight_name(row, module)) != nullptr) return true;
  }
  return false;
}

bool TensorResolver::stacks_experts() const {
  const auto first = std::ranges::find_if(
      spec_.layers, [](const LayerSpec& layer) { return layer.feed_forward.moe.has_value(); });
  if (first == spec_.layers.end()) return false;
  const auto layer = static_cast<int32_t>(first - spec_.layers.begin());
  bool only_stacked = true;  // the name table has no other rows for experts
  for (const TensorName& row : rows_) {
    if (!is_of_expert(row)) continue;
    if (num_placeholders(row.module) == 2) {
      only_stacked = false;
    } else if (checkpoint_.find(weight_name(row, cat(prefix_, with_number(row.module, layer)))) != nullptr) {
      return true;
    }
  }
  return only_stacked;
}

const TensorName* TensorResolver::choose(std::span<const ParamSpec> fused, const ParamPlace& place) const {
  const auto rows = by_first_.find(fused[0].id.name);
  if (rows == by_first_.end()) return nullptr;
  const auto counts = [&](const TensorName& row) {
    const bool stacked = num_placeholders(row.module) == 1;
    return starts_with(fused, row.params) && (!is_of_expert(row) || stacked == stacked_experts_);
  };
  // Prefers the rows with the most parameters that the checkpoint has, then those with the fewest.
  size_t size = 0;
  for (const TensorName* row : rows->second) {
    if (counts(*row) && row->params.size() > 1 && present_.at(row)) size = std::max(size, row->params.size());
  }
  if (size == 0) {
    for (const TensorName* row : rows->second) {
      if (counts(*row) && (size == 0 || row->params.size() < size)) size = row->params.size();
    }
  }
  const TensorName* chosen = nullptr;
  for (const TensorName* row : rows->second) {
    if (!counts(*row) || row->params.size() != size) continue;
    if (chosen == nullptr) chosen = row;
    ParamPlace first = place;
    if (num_placeholders(row->module) == 2 && fused[0].pieces > 1) first.index = 0;
    if (checkpoint_.find(weight_name(*row, name_of(*row, fused[0], first))) != nullptr) return row;
  }
  return chosen;
}

std::array<int32_t, 2> TensorResolver::numbers_of(const TensorName& row, const ParamSpec& spec,
                                                  const ParamPlace& place) const {
  std::array<int32_t, 2> numbers = {place.layer, place.index};
  if (place.layer < 0) numbers = {place.index, place.index};
  if (names_.sublayers > 1 && place.layer >= 0) {
    numbers[0] = place.layer / names_.sublayers;
    if (!is_of_expert(row)) numbers[1] = place.layer % names_.sublayers;
  }
  return spec.numbers.value_or(numbers);
}

std::string TensorResolver::name_of(const TensorName& row, const ParamSpec& spec,
                                    const ParamPlace& place) const {
  std::string_view prefix = prefix_;
  if (spec.scope == ParamScope::kHead) prefix = head_prefix_;
  if (spec.scope == ParamScope::kClassifier &&
      checkpoint_.find(cat(prefix_, row.module, ".weight")) == nullptr)
    prefix = "";
  const std::array<int32_t, 2> numbers = numbers_of(row, spec, place);
  return cat(prefix, with_number(with_number(row.module, numbers[0]), numbers[1]));
}

void TensorResolver::accept_variants(StoredTensor& tensor, bool vectors) const {
  const TensorInfo* found = checkpoint_.find(tensor.name);
  if (found == nullptr || found->shape == tensor.shape) return;
  // Dimensions of size 1 are ignored: [channels, 1, kernel], [1, n], a number as a vector of one element.
  if (vectors && !tensor.stacked && without_ones(found->shape) == without_ones(tensor.shape)) {
    tensor.shape = found->shape;
    return;
  }
  // One vector for the experts of the model, and one for those of other modalities.
  if (names_.other_experts && tensor.shape.size() == 1 &&
      found->shape == std::vector<int64_t>{2, tensor.shape[0]}) {
    tensor.shape = found->shape;
    tensor.stacked = true;
    return;
  }
  // The matrices of the experts may be stored as one: [experts * out, in].
  if (tensor.stacked && tensor.shape.size() == 3 &&
      found->shape == std::vector<int64_t>{tensor.shape[0] * tensor.shape[1], tensor.shape[2]}) {
    tensor.flat = true;
    return;
  }
  // Files of the same architecture may have the matrices of experts as [experts, in, out].
  if (tensor.stacked && !tensor.flat && !tensor.transposed && !found->quantized && tensor.shape.size() == 3) {
    std::vector<int64_t> swapped = tensor.shape;
    std::swap(swapped[1], swapped[2]);
    if (found->shape != swapped) return;
    tensor.shape = swapped;
    tensor.transposed = true;
  }
}

StoredParam TensorResolver::describe(const TensorName& row, std::span<const ParamSpec> params,
                                     const ParamPlace& place, bool vectors) const {
  const ParamSpec& first = params[0];
  const std::string module = name_of(row, first, place);
  const bool of_groups = place.axis == Axis::kGroups;
  const bool stacked = of_groups || (is_of_expert(row) && stacked_experts_);
  int64_t out = 0;
  bool bias = false;
  for (const ParamSpec& param : params) {
    out += param.out;
    bias = bias || param.bias;
  }
  StoredParam stored;
  const LayerSpec* layer = place.layer < 0 ? nullptr : &spec_.layers[static_cast<size_t>(place.layer)];
  stored.weight = {
      weight_name(row, module), {out}, row.transposed, row.row_layout, layer, stacked, of_groups};
  StoredTensor& weight = stored.weight;
  if (first.in > 0) weight.shape.push_back(first.in);
  if (row.transposed) std::ranges::reverse(weight.shape);
  if (first.in == 0 && first.pieces > 1) weight.shape = {first.pieces, out / first.pieces};
  if (bias)
    stored.bias =
        StoredTensor{module + (row.bare ? "_bias" : ".bias"), {out}, false, row.row_layout, layer, stacked};
  if (stacked) {
    weight.shape.insert(weight.shape.begin(), place.count);
    if (stored.bias) stored.bias->shape.insert(stored.bias->shape.begin(), place.count);
  }
  accept_variants(weight, vectors);
  return stored;
}

std::vector<StoredParam> TensorResolver::resolve(std::span<const ParamSpec> fused, const ParamPlace& place,
                                                 bool vectors) const {
  std::vector<StoredParam> all;
  for (size_t i = 0; i < fused.size();) {
    const ParamSpec& spec = fused[i];
    const size_t begin = all.size();
    const TensorName* row = choose(fused.subspan(i), place);
    if (row == nullptr) {
      ++i;
      continue;
    }
    if (spec.pieces > 1 && num_placeholders(row->module) == 2) {
      ParamSpec piece = spec;
      piece.out /= spec.pieces;
      piece.pieces = 1;
      for (int32_t p = 0; p < spec.pieces; ++p) {
        ParamPlace at = place;
        at.index = p;
        all.push_back(describe(*row, std::span(&piece, 1), at, vectors));
      }
    } else {
      all.push_back(describe(*row, fused.subspan(i, row->params.size()), place, vectors));
      if (spec.optional && checkpoint_.find(all.back().weight.name) == nullptr) all.pop_back();
    }
    for (size_t j = begin; j < all.size(); ++j) all[j].first = i;
    i += row->params.size();
  }
  if (all.size() > 1 && fused[0].equal_parts) {
    const auto count = static_cast<int64_t>(all.size());
    int64_t channels = 0;
    for (const ParamSpec& spec : fused) channels += spec.out;
    const int64_t each = (channels + count - 1) / count;
    for (size_t i = 0; i < all.size(); ++i) {
      const TensorInfo* found = checkpoint_.find(all[i].weight.name);
      const bool last = i + 1 == all.size();
      const std::vector<int64_t> part = {last ? channels - (count - 1) * each : each, 1, fused[0].in};
      if (found != nullptr && found->shape == part) all[i].weight.shape = part;
    }
  }
  return all;
}

std::string TensorResolver::attention_module(int32_t layer) const {
  const ParamPlace place{.layer = layer};
  for (const TensorName& row : rows_) {
    const ParamSpec spec{.id = row.params[0]};
    if (std::ranges::find(row.params, attention::kBesideKvScales) == row.params.end()) continue;
    const std::string name = weight_name(row, name_of(row, spec, place));
    if (checkpoint_.find(name) == nullptr) continue;
    return name.substr(0, name.rfind('.', name.rfind('.') - 1));  // without ".k_proj.weight"
  }
  return "";
}

void ResolvingVisitor::for_each(Axis axis, int64_t count, const std::function<void(int64_t)>& body) {
  const ParamPlace outer = place_;
  for (int64_t i = 0; i < count; ++i) {
    if (axis == Axis::kLayers) {
      place_.layer = static_cast<int32_t>(i);
    } else {
      place_ = {outer.layer, axis, static_cast<int32_t>(i), static_cast<int32_t>(count)};
    }
    body(i);
  }
  place_ = outer;
}

bool ResolvingVisitor::is_stored(const ParamSpec& spec) const {
  const auto stored = source(spec);
  return !stored.empty() && resolver_.checkpoint().find(stored[0].weight.name) != nullptr;
}

std::vector<StoredParam> ResolvingVisitor::sources(std::span<const ParamSpec> specs) const {
  std::vector<StoredParam> all;
  for (size_t i = 0; i < specs.size(); ++i) {
    for (StoredParam& stored : source(specs[i])) {
      stored.first = i;
      all.push_back(std::move(stored));
    }
  }
  return all;
}

std::vector<ParamSpec> ResolvingVisitor::stored_sources(const DerivedSpec& spec) const {
  for (const auto& sources : spec.sources) {
    if (!sources.empty() && is_stored(sources[0])) return sources;
  }
  return spec.sources.empty() ? std::vector<ParamSpec>() : spec.sources.front();
}

}  // namespace quire
