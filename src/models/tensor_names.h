// How the checkpoints of an architecture name and lay out their tensors, as data.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "nn/param_id.h"
#include "nn/row_layout.h"

namespace quire {

struct LayerSpec;

// One parameter, or several that a checkpoint stores in one tensor, concatenated along out.
class ParamIds {
 public:
  static constexpr size_t kMax = 4;

  constexpr ParamIds() = default;
  constexpr ParamIds(ParamId id) : ids_{id}, size_(1) {}  // NOLINT(google-explicit-constructor)
  constexpr ParamIds(std::initializer_list<ParamId> ids) {
    for (const ParamId& id : ids) ids_[size_++] = id;
  }

  constexpr size_t size() const { return size_; }
  constexpr const ParamId& operator[](size_t i) const { return ids_[i]; }
  constexpr const ParamId* begin() const { return ids_.data(); }
  constexpr const ParamId* end() const { return ids_.data() + size_; }
  friend constexpr bool operator==(const ParamIds&, const ParamIds&) = default;

 private:
  std::array<ParamId, kMax> ids_{};
  size_t size_ = 0;
};

// rows: number of rows of the tensor.
using RowLayoutFn = RowLayout (*)(const LayerSpec& layer, int64_t rows);

// The tensors `<prefix><module>.weight` and, if the model has one there, `<prefix><module>.bias`. "{}" is the
// number of the layer, a second one that of the expert. If several rows name the same parameter, the first
// one whose tensor is in the checkpoint is used. Experts may have rows of both kinds, for tensors of their
// own and for stacked ones ([experts, ...], one "{}"); the first layer with experts decides which kind the
// checkpoint has. A row of several parameters is used if a tensor of that name exists.
struct TensorName {
  ParamIds params;
  std::string_view module;
  bool transposed = false;  // stored as [in, out] (GPT-2's Conv1D)
  RowLayoutFn row_layout = nullptr;
  bool bare = false;  // the tensors are `<prefix><module>` and `<prefix><module>_bias`
};

struct WeightNames {
  // Before each module except the output embedding. A checkpoint has the first prefix under which its token
  // embedding is found.
  std::span<const std::string_view> prefixes;
  std::span<const TensorName> tensors;
  // Names of tensors that are not weights, after the prefix or in full: they may exist and are not read.
  std::span<const std::string_view> ignored;
  // Layers after num_hidden_layers (multi-token prediction) may exist and are not read.
  bool later_layers = false;
  // Experts for other modalities may follow those of the model and are not read. If a vector is stored for
  // both, its first row is used.
  bool other_experts = false;
  // The file counts this many layers as one. "{}" is the number of that layer, a second one that of the
  // sublayer.
  int32_t sublayers = 1;
  // The language model of a multimodal model: tensors outside of the prefix are not read.
  bool composite = false;
};

// pattern with its first "{}" replaced by the number.
std::string with_number(std::string_view pattern, int32_t number);
// Number of "{}" in a pattern.
int num_placeholders(std::string_view pattern);
// Whether text matches the pattern, in which one "{}" matches digits and a final "*" matches anything.
bool matches_pattern(std::string_view text, std::string_view pattern);

}  // namespace quire
