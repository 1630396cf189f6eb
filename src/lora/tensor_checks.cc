#include "lora/tensor_checks.h"

#include <algorithm>

#include "base/strings.h"
#include "quant/codec.h"

namespace quire::lora {

bool has_form(Problems& problems, std::string_view module, std::string_view part, const TensorInfo& tensor,
              size_t dimensions) {
  if (tensor.shape.size() != dimensions || std::ranges::find(tensor.shape, 0) != tensor.shape.end()) {
    problems.add(
        cat(shown(module), ": ", part, " is ", tensor.shape_text(), ", expected ",
            dimensions == 1 ? "a vector" : "a matrix",
            tensor.shape.size() == 1 && dimensions == 2
                ? "; files saved under DeepSpeed ZeRO-3 without gathering the parameters have such tensors"
                : ""));
    return false;
  }
  if (!tensor.other_type.empty() || !is_storage_dtype(tensor.dtype)) {
    problems.add(cat(shown(module), ": ", part, " is ", shown(tensor.type_name()),
                     ", expected float32, bfloat16 or float16"));
    return false;
  }
  return true;
}

bool has_shape(Problems& problems, std::string_view module, std::string_view part, const TensorInfo& tensor,
               const std::vector<int64_t>& needed) {
  if (tensor.shape == needed) return true;
  TensorInfo model;
  model.shape = needed;
  problems.add(
      cat(shown(module), ": ", part, " is ", tensor.shape_text(), ", this model needs ", model.shape_text()));
  return false;
}

bool has_same_rank(Problems& problems, std::string_view module, std::string_view part_a, const TensorInfo& a,
                   std::string_view part_b, const TensorInfo& b) {
  if (a.shape[0] == b.shape[1]) return true;
  problems.add(cat(shown(module), ": ", part_a, " is ", a.shape_text(), " and ", part_b, " ", b.shape_text(),
                   ", which are not of the same rank"));
  return false;
}

void take_slot(Problems& problems, std::string_view module, const TensorInfo*& slot,
               const TensorInfo& tensor) {
  if (slot == nullptr) {
    slot = &tensor;
  } else {
    problems.add(cat(shown(module), ": has two tensors for the same part: ", shown(slot->name), " and ",
                     shown(tensor.name)));
  }
}

bool is_end_of_name(std::string_view end, std::string_view module) {
  if (!module.ends_with(end)) return false;
  return module.size() == end.size() || module[module.size() - end.size() - 1] == '.';
}

const AdapterRange* find_range(const AdapterTargets& targets, std::string_view module, Problems& problems) {
  const AdapterTarget target = find_target(targets, module);
  if (!target.ranges.empty()) return &target.ranges.front();
  problems.add(target.module == nullptr
                   ? cat(shown(module), ": this model (", targets.architecture, ") has no such module")
                   : cat(shown(module), ": this model has no such module in this layer (it has ",
                         targets.num_layers, " layers)"));
  return nullptr;
}

}  // namespace quire::lora
