#include "models/expected_tensors.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "base/error.h"
#include "base/strings.h"
#include "models/tied_head.h"
#include "quant/codec.h"

namespace quire {
namespace {

std::string shape_text(const std::vector<int64_t>& shape) {
  TensorInfo info;
  info.shape = shape;
  return info.shape_text();
}

// Quantized stacked experts are always [experts, out, in], also where float tensors are transposed.
std::vector<int64_t> stored_shape(const StoredTensor& tensor, bool quantized) {
  std::vector<int64_t> shape = tensor.shape;
  if (quantized && tensor.stacked && tensor.transposed) std::swap(shape[1], shape[2]);
  if (tensor.flat) shape = {shape[0] * shape[1], shape[2]};
  return shape;
}

// The number that follows the first `label` in a name; -1 if there is none.
int32_t number_after(std::string_view name, std::string_view label) {
  int32_t number = -1;
  if (const size_t at = name.find(label); at != name.npos)
    std::from_chars(name.data() + at + label.size(), name.data() + name.size(), number);
  return number;
}

}  // namespace

ExpectedTensors::ExpectedTensors(const ModelSpec& spec, const TensorResolver& resolver,
                                 std::span<const ListedParam> params)
    : spec_(spec),
      resolver_(resolver),
      checkpoint_(resolver.checkpoint()),
      copied_head_(spec.tie_word_embeddings ? stored_head(spec, resolver) : ""),
      modules_({"layers", "lm_head"}) {
  for (const ListedParam& param : params) {
    for (const StoredParam& stored : param.stored) {
      std::string_view name = stored.weight.name;
      if (name.starts_with(resolver.prefix())) name.remove_prefix(resolver.prefix().size());
      modules_.emplace(name.substr(0, name.find('.')));
      const bool vector = param.kind == ParamKind::kVector || param.kind == ParamKind::kScalar;
      Content content = Content::kFloats;
      if (param.kind == ParamKind::kIntegers) {
        content = Content::kIntegers;
      } else if (is_matrix(param.kind) || (!vector && param.specs[stored.first].quantizable)) {
        content = Content::kFloatsOrQuantized;
      }
      expect(stored.weight, content);
      if (stored.bias) expect(*stored.bias, Content::kFloats);
    }
  }
}

void ExpectedTensors::expect(const StoredTensor& tensor, Content content) {
  const auto [at, added] = expected_.try_emplace(tensor.name, Expected{&tensor, content});
  ++at->second.uses;
  if (added) order_.push_back(&at->second);
}

int32_t ExpectedTensors::num_uses(const std::string& name) const {
  const auto at = expected_.find(name);
  return at == expected_.end() ? 0 : at->second.uses;
}

int64_t ExpectedTensors::num_parameters() const {
  int64_t sum = 0;
  for (const Expected* expected : order_) sum += numel(expected->tensor->shape);
  return sum;
}

int64_t ExpectedTensors::stored_bytes() const {
  int64_t sum = 0;
  for (const Expected* expected : order_)
    sum += static_cast<int64_t>(checkpoint_.find(expected->tensor->name)->bytes);
  return sum;
}

bool ExpectedTensors::is_ignored(const std::string& name) const {
  const WeightNames& names = resolver_.names();
  const std::string& prefix = resolver_.prefix();
  // Checkpoints of pooling models may have heads from their training.
  if (spec_.task != ModelTask::kGenerate && is_of_head(name)) return true;
  if (name == copied_head_) return true;
  constexpr std::array<std::string_view, 4> kKvScales = {".k_scale", ".v_scale", ".k_proj.output_scale",
                                                         ".v_proj.output_scale"};
  if (std::ranges::any_of(kKvScales, [&](std::string_view suffix) { return name.ends_with(suffix); }))
    return true;
  if (names.composite && !is_of_decoder(name)) return true;  // vision and audio
  std::string_view rest = name;
  if (rest.starts_with(prefix)) rest.remove_prefix(prefix.size());
  const int32_t layer = rest.starts_with("layers.") ? number_after(rest, "layers.") : -1;
  if (layer >= spec_.num_layers() && names.later_layers) return true;
  if (layer >= 0 && layer < spec_.num_layers()) {
    const LayerSpec& own = spec_.layers[static_cast<size_t>(layer)];
    if (own.mixer.index() == 0 && own.feed_forward.empty()) return true;  // a layer that computes nothing
  }
  int32_t num_experts = 0;
  for (const LayerSpec& own : spec_.layers) {
    if (const auto& moe = own.feed_forward.moe) num_experts = moe->num_experts;
  }
  if (names.other_experts && number_after(rest, ".experts.") >= num_experts) return true;
  return std::ranges::any_of(names.ignored, [&](std::string_view pattern) {
    return matches_pattern(rest, pattern) || matches_pattern(name, pattern);
  });
}

bool ExpectedTensors::is_of_head(std::string_view name) const {
  static constexpr std::array<std::string_view, 5> kHeads = {"lm_head.", "cls.", "pooler.", "head.",
                                                             "decoder."};
  const auto is_head = [](std::string_view rest) {
    return std::ranges::any_of(kHeads, [&](std::string_view head) { return rest.starts_with(head); });
  };
  if (is_head(name)) return true;
  return name.starts_with(resolver_.prefix()) && is_head(name.substr(resolver_.prefix().size()));
}

bool ExpectedTensors::is_of_decoder(std::string_view name) const {
  const std::string& prefix = resolver_.prefix();
  const bool within = name.starts_with(prefix);
  // Only the language model has this prefix; others, such as "model.", may have those of other modalities,
  // too.
  if (within && prefix.find("language_model") != std::string::npos) return true;
  if (within) name.remove_prefix(prefix.size());
  if (!within && name.starts_with(resolver_.head_prefix()))
    name.remove_prefix(resolver_.head_prefix().size());
  return modules_.contains(name.substr(0, name.find('.')));
}

std::string ExpectedTensors::problem_of(const Expected& expected) const {
  const StoredTensor& tensor = *expected.tensor;
  const TensorInfo* found = checkpoint_.find(tensor.name);
  const std::string wanted = shape_text(stored_shape(tensor, false));
  if (found == nullptr) return cat("missing: ", tensor.name, " ", wanted);
  if (found->shape != stored_shape(tensor, found->quantized))
    return cat("wrong shape: ", tensor.name, " is ", found->shape_text(), ", expected ", wanted);
  const auto wrong_type = [&](std::string_view type) {
    return cat("wrong type: ", tensor.name, " is ", found->type_name(), ", expected ", type);
  };
  if (expected.content == Content::kIntegers) {
    const bool integers = found->dtype == DType::kI64 || found->dtype == DType::kI32;
    return integers ? "" : wrong_type("int64 or int32");
  }
  if (found->quantized) {
    const bool transposed = tensor.transposed && !tensor.stacked;
    if (tensor.shape.size() >= 2 && !transposed && expected.content == Content::kFloatsOrQuantized) return "";
    return cat("wrong type: ", tensor.name, " is quantized, expected ",
               tensor.transposed ? "a matrix [in, out] of " : "", "floats");
  }
  return is_storage_dtype(found->dtype) ? "" : wrong_type("float32, bfloat16 or float16");
}

void ExpectedTensors::check() const {
  std::vector<std::string> problems;
  for (const Expected* expected : order_) {
    if (std::string problem = problem_of(*expected); !problem.empty()) problems.push_back(std::move(problem));
  }
  for (const auto& name : checkpoint_.names()) {
    if (expected_.contains(name) || is_ignored(name)) continue;
    problems.push_back(cat("surplus: ", name, " ", checkpoint_.find(name)->shape_text()));
  }
  if (problems.empty()) return;
  constexpr size_t kShown = 20;
  std::string text = cat(checkpoint_.path().string(), ": the tensors are not those of the ",
                         spec_.architecture, " that the configuration describes:");
  for (size_t i = 0; i < std::min(kShown, problems.size()); ++i) text += cat("\n  ", problems[i]);
  if (problems.size() > kShown) text += cat("\n  and ", problems.size() - kShown, " more");
  throw Error(text);
}

}  // namespace quire
