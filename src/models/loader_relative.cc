// Attention of encoders whose scores depend on how far apart two tokens are.
#include <array>
#include <vector>

#include "base/strings.h"
#include "models/loader.h"

namespace quire {

void ModelLoader::relative_tables() {
  const RelativeSpec& own = *spec_.relative;
  const ExpectedTensor& tensor = *plan_.weight(Role::kRelativeTable);
  Buffer table(static_cast<size_t>(numel(tensor.shape)) * sizeof(float));
  read_vector(tensor, -1, table.as<float>());
  done(tensor);
  if (own.vectors) {
    const TensorView rows = make_view(table.data(), DType::kF32, Shape{own.num_buckets, spec_.hidden_size});
    if (own.norm) {
      const Norm made = norm(Role::kRelativeNorm, -1, spec_.hidden_size);
      apply(ops_, ctx_, made, rows, rows);
      model_->weight_bytes_ -= bytes_of(made.weight) + bytes_of(made.bias);  // it is used only here
    }
    relative_rows_ = std::move(table);
    return;
  }
  // By head, then by bucket.
  Buffer& bias = model_->relative_bias_;
  bias = Buffer(table.size());
  for (int64_t b = 0; b < own.num_buckets; ++b) {
    for (int64_t h = 0; h < spec_.num_heads; ++h)
      bias.as<float>()[h * own.num_buckets + b] = table.as<float>()[b * spec_.num_heads + h];
  }
  model_->weight_bytes_ += bytes_of(bias);
}

void ModelLoader::relate(Attention& attention, int32_t layer) {
  const RelativeSpec& own = *spec_.relative;
  RelativeParams& params = attention.relative.emplace();
  params.scale = spec_.layers[static_cast<size_t>(layer)].attention_scale;
  params.buckets = own.buckets;
  params.num_buckets = own.num_buckets;
  if (!own.vectors) {
    params.bias = model_->relative_bias_.as<float>();
    return;
  }
  // The vectors of the buckets, through the projections of keys and of queries.
  const int64_t hidden = spec_.hidden_size;
  const int64_t count = own.num_buckets * hidden;
  const auto project = [&](Role role, float* out) {
    const ExpectedTensor& tensor = *plan_.weight(role, layer);
    std::vector<float> weights = floats(tensor);
    const std::array<TensorView, 1> parts = {make_view(weights.data(), DType::kF32, Shape{hidden, hidden})};
    PackedLinear packed = ops_.pack_linear(ctx_, parts, {DType::kF32});
    if (const ExpectedTensor* bias = plan_.bias(role, layer)) {
      packed.bias = Buffer(static_cast<size_t>(hidden) * sizeof(float));
      read_vector(*bias, -1, packed.bias.as<float>());
    }
    const TensorView rows = make_view(relative_rows_.data(), DType::kF32, Shape{own.num_buckets, hidden});
    ops_.linear(ctx_, make_view(out, DType::kF32, Shape{own.num_buckets, hidden}), rows, packed, {});
  };
  const int64_t bytes = 2 * count * static_cast<int64_t>(sizeof(float));
  attention.relative_data = kept(cat(attention_module(plan_, layer), ".relative"), bytes, [&] {
    Buffer made(static_cast<size_t>(bytes));
    project(Role::kKey, made.as<float>());
    project(Role::kQuery, made.as<float>() + count);
    return made;
  });
  const auto* data = attention.relative_data.as<float>();
  params.keys = data;
  params.queries = data + count;
  model_->weight_bytes_ += bytes_of(attention.relative_data);
}

}  // namespace quire
