// The classification head of a sequence classifier. Plain data.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "models/tensor_names.h"
#include "ops/op_table.h"

namespace quire {

namespace classifier {
inline constexpr ParamId kDense{"classifier_dense"};
inline constexpr ParamId kNorm{"classifier_norm"};
inline constexpr ParamId kLabels{"classifier"};
}  // namespace classifier

// An optional dense layer, then the projection to the labels.
struct ClassifierSpec {
  std::string_view name = "score";  // module name in the checkpoint, with or without the model's prefix
  std::string_view dense = "";      // module name of the dense layer; empty = none
  std::string_view norm = "";
  bool dense_bias = true;
  std::optional<Activation> activation;  // activation of the dense layer
  bool tanh = false;
  bool bias = false;        // the projection to the labels has biases
  bool difference = false;  // the weights of the only label are the first of two rows minus the second
  int64_t num_labels = 2;

  std::vector<TensorName> tensor_names() const {
    std::vector<TensorName> names = {{classifier::kLabels, name}};
    if (!dense.empty()) names.push_back({classifier::kDense, dense});
    if (!norm.empty()) names.push_back({classifier::kNorm, norm});
    return names;
  }
};

}  // namespace quire
