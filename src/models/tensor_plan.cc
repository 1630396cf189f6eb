#include <algorithm>
#include <array>
#include <set>

#include "base/error.h"
#include "base/strings.h"
#include "models/loader.h"
#include "quant/codec.h"

namespace quire {
namespace {

// What a role's tensors look like: a matrix [out, in], or a vector [out] where in is 0.
struct RoleShape {
  Role role;
  int64_t out;
  int64_t in;
  bool bias;
  bool wanted = true;  // the spec has such a module
};

std::array<RoleShape, 20> role_shapes(const ArchSpec& spec) {
  const int64_t hidden = spec.hidden_size;
  const int64_t inter = spec.intermediate_size;
  const int64_t q = int64_t{spec.num_heads} * spec.head_dim;
  const int64_t kv = int64_t{spec.num_kv_heads} * spec.head_dim;
  const int64_t positions = spec.max_position_embeddings + spec.position_offset;
  const bool whole = spec.qk_norm == QkNorm::kWhole;
  const bool qk_norm = spec.qk_norm != QkNorm::kNone;
  return {{
      {Role::kEmbedding, spec.vocab_size, hidden, false},
      {Role::kEmbeddingNorm, hidden, 0, spec.norm_bias, spec.embedding_norm},
      {Role::kPositionEmbedding, positions, hidden, false, spec.position == PositionKind::kLearned},
      {Role::kInputNorm, hidden, 0, spec.norm_bias, spec.input_norm},
      {Role::kQuery, q, hidden, spec.qkv_bias},
      {Role::kKey, kv, hidden, spec.qkv_bias},
      {Role::kValue, kv, hidden, spec.qkv_bias},
      {Role::kQkv, q + 2 * kv, hidden, spec.qkv_bias},
      {Role::kAttentionOut, hidden, q, spec.out_bias},
      {Role::kQueryNorm, whole ? q : spec.head_dim, 0, false, qk_norm},
      {Role::kKeyNorm, whole ? kv : spec.head_dim, 0, false, qk_norm},
      {Role::kPostAttentionNorm, hidden, 0, spec.norm_bias, spec.post_norms},
      {Role::kMlpNorm, hidden, 0, spec.norm_bias, spec.mlp_norm},
      {Role::kPostMlpNorm, hidden, 0, spec.norm_bias, spec.post_norms},
      {Role::kGate, inter, hidden, spec.mlp_bias},
      {Role::kUp, inter, hidden, spec.mlp_bias},
      {Role::kGateUp, 2 * inter, hidden, spec.mlp_bias},
      {Role::kDown, hidden, inter, spec.mlp_bias},
      {Role::kFinalNorm, hidden, 0, spec.norm_bias},
      {Role::kLmHead, spec.vocab_size, hidden, spec.lm_head_bias},
  }};
}

constexpr std::string_view kLayerPlace = "{}";

std::string shape_text(const std::vector<int64_t>& shape) {
  TensorInfo info;
  info.shape = shape;
  return info.shape_text();
}

std::string choose_prefix(const WeightNames& names, const Checkpoint& checkpoint) {
  for (const auto& module : names.modules) {
    if (module.role != Role::kEmbedding) continue;
    for (const auto prefix : names.prefixes) {
      if (checkpoint.find(cat(prefix, module.module, ".weight")) != nullptr) return std::string(prefix);
    }
  }
  return std::string(names.prefixes.front());
}

}  // namespace

TensorPlan::TensorPlan(const ArchSpec& spec, const WeightNames& names, const Checkpoint& checkpoint)
    : architecture_(spec.architecture),
      prefix_(choose_prefix(names, checkpoint)),
      names_(names),
      tied_(spec.tie_word_embeddings) {
  for (const auto& module : names.modules) {
    if (module.role == Role::kLmHead && tied_) continue;
    if (module.module.find(kLayerPlace) == std::string_view::npos) {
      add(spec, module, -1, checkpoint);
    } else {
      for (int32_t layer = 0; layer < spec.num_layers; ++layer) add(spec, module, layer, checkpoint);
    }
  }
}

void TensorPlan::add(const ArchSpec& spec, const ModuleName& module, int32_t layer,
                     const Checkpoint& checkpoint) {
  const auto shapes = role_shapes(spec);
  const RoleShape& shape =
      *std::find_if(shapes.begin(), shapes.end(), [&](const auto& s) { return s.role == module.role; });
  if (!shape.wanted) return;
  const std::string_view prefix =
      module.role == Role::kLmHead ? std::string_view() : std::string_view(prefix_);
  const std::string name = cat(prefix, with_layer(module.module, layer));
  const auto known = modules_.find(std::pair(module.role, layer));
  if (known != modules_.end()) {
    // Another name of the same module: it counts where the checkpoint knows this one alone.
    if (checkpoint.find(known->second.weight.name) != nullptr || checkpoint.find(name + ".weight") == nullptr)
      return;
    modules_.erase(known);
  }
  Module entry;
  entry.weight = {name + ".weight", {shape.out}, module.transposed, module.order};
  if (shape.in > 0) {
    entry.weight.shape.push_back(shape.in);
    if (module.transposed) std::reverse(entry.weight.shape.begin(), entry.weight.shape.end());
  }
  if (shape.bias) entry.bias = ExpectedTensor{name + ".bias", {shape.out}, false, module.order};
  modules_.emplace(std::pair(module.role, layer), std::move(entry));
}

const ExpectedTensor* TensorPlan::weight(Role role, int32_t layer) const {
  const auto it = modules_.find(std::pair(role, layer));
  return it == modules_.end() ? nullptr : &it->second.weight;
}

const ExpectedTensor* TensorPlan::bias(Role role, int32_t layer) const {
  const auto it = modules_.find(std::pair(role, layer));
  return it == modules_.end() || !it->second.bias ? nullptr : &*it->second.bias;
}

int64_t TensorPlan::num_parameters() const {
  int64_t sum = 0;
  const auto count = [&](const ExpectedTensor& tensor) {
    int64_t n = 1;
    for (const int64_t dim : tensor.shape) n *= dim;
    sum += n;
  };
  for (const auto& [key, module] : modules_) {
    count(module.weight);
    if (module.bias) count(*module.bias);
  }
  return sum;
}

int64_t TensorPlan::stored_bytes(const Checkpoint& checkpoint) const {
  int64_t sum = 0;
  for (const auto& [key, module] : modules_) {
    sum += static_cast<int64_t>(checkpoint.find(module.weight.name)->bytes);
    if (module.bias) sum += static_cast<int64_t>(checkpoint.find(module.bias->name)->bytes);
  }
  return sum;
}

bool TensorPlan::is_ignored(const std::string& name) const {
  // A tied checkpoint may store the output embedding again; it is the same one.
  if (tied_ && name == "lm_head.weight") return true;
  std::string_view rest = name;
  if (rest.starts_with(prefix_)) rest.remove_prefix(prefix_.size());
  return std::any_of(names_.ignored.begin(), names_.ignored.end(),
                     [&](std::string_view pattern) { return matches_pattern(rest, pattern); });
}

void TensorPlan::check(const Checkpoint& checkpoint) const {
  std::vector<std::string> problems;
  std::set<std::string, std::less<>> expected;
  const auto examine = [&](const ExpectedTensor& tensor, bool may_be_coded) {
    expected.insert(tensor.name);
    const TensorInfo* found = checkpoint.find(tensor.name);
    if (found == nullptr) {
      problems.push_back(cat("missing: ", tensor.name, " ", shape_text(tensor.shape)));
    } else if (found->shape != tensor.shape) {
      problems.push_back(cat("wrong shape: ", tensor.name, " is ", found->shape_text(), ", expected ",
                             shape_text(tensor.shape)));
    } else if (found->coded) {
      if (tensor.shape.size() < 2 || tensor.transposed || !may_be_coded) {
        problems.push_back(cat("wrong type: ", tensor.name, " is quantized, expected ",
                               tensor.transposed ? "a matrix [in, out] of " : "", "floats"));
      }
    } else if (!is_storage_dtype(found->dtype)) {
      problems.push_back(cat("wrong type: ", tensor.name, " is ", dtype_name(found->dtype),
                             ", expected float32, bfloat16 or float16"));
    }
  };
  for (const auto& [key, module] : modules_) {
    examine(module.weight, key.first != Role::kPositionEmbedding);
    if (module.bias) examine(*module.bias, false);
  }
  for (const auto& name : checkpoint.names()) {
    if (expected.contains(name) || is_ignored(name)) continue;
    problems.push_back(cat("surplus: ", name, " ", checkpoint.find(name)->shape_text()));
  }
  if (problems.empty()) return;
  constexpr size_t kShown = 20;
  std::string text = cat(checkpoint.path().string(), ": the tensors are not those of the ", architecture_,
                         " that config.json describes:");
  for (size_t i = 0; i < std::min(kShown, problems.size()); ++i) text += cat("\n  ", problems[i]);
  if (problems.size() > kShown) text += cat("\n  and ", problems.size() - kShown, " more");
  throw Error(text);
}

}  // namespace quire
