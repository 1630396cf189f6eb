#include "nn/params.h"

#include <utility>

namespace quire {

void visit_norm(ParamVisitor& visitor, ParamSpec spec, Norm& norm) {
  if (spec.out == 0) spec.out = norm.size;
  if (!spec.fill) spec.fill = 1.0F - norm.weight_offset;
  VectorSpec vector{.fused = {spec}};
  if (norm.kind == NormKind::kLayer && norm.weight_offset != 0.0F)
    vector.transform = each([offset = norm.weight_offset](float weight) { return weight + offset; });
  if (spec.out == norm.size && spec.pieces == 1) return visitor.norm(vector, norm);
  visitor.vector(vector, norm.weight, &norm.bias);  // each head has weights of its own
}

Norm make_norm(const NormSpec& spec, int64_t size) {
  return {.kind = spec.kind, .eps = spec.eps, .weight_offset = spec.weight_offset, .size = size};
}

void visit_norm(ParamVisitor& visitor, ParamId id, const NormSpec& spec, int64_t size, Norm& norm) {
  norm = make_norm(spec, size);
  visit_norm(visitor, with_bias(replicated(id, size), spec.bias), norm);
}

void visit_filled(ParamVisitor& visitor, int64_t count, float value, Buffer& result) {
  result = filled(count, value);
  visitor.constant(result);
}

void visit_unit_norm(ParamVisitor& visitor, int64_t size, float eps, Norm& norm) {
  norm = {.eps = eps, .size = size};
  visit_filled(visitor, size, 1.0F, norm.weight);
}

Transform each(std::function<float(float)> f) {
  return [f = std::move(f)](Buffer stored) {
    const auto count = static_cast<int64_t>(stored.size() / sizeof(float));
    for (int64_t i = 0; i < count; ++i) stored.as<float>()[i] = f(stored.as<float>()[i]);
    return stored;
  };
}

Buffer transposed(const Buffer& matrix, int64_t rows, int64_t columns) {
  Buffer out(matrix.size());
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) out.as<float>()[c * rows + r] = matrix.as<float>()[r * columns + c];
  }
  return out;
}

}  // namespace quire
