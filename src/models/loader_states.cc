// What layers are made of that carry a state, taken out of a checkpoint.
#include <algorithm>
#include <cmath>

#include "models/loader.h"

namespace quire {

Buffer ModelLoader::vector(Role role, int32_t layer) {
  const ExpectedTensor& tensor = *plan_.weight(role, layer);
  Buffer out(static_cast<size_t>(numel(tensor.shape)) * sizeof(float));
  read_vector(tensor, -1, out.as<float>());
  model_->weight_bytes_ += bytes_of(out);
  done(tensor);
  return out;
}

Buffer ModelLoader::rates(int32_t layer) {
  Buffer out = vector(Role::kRate, layer);
  const auto count = static_cast<int64_t>(out.size() / sizeof(float));
  for (int64_t i = 0; i < count; ++i) out.as<float>()[i] = -std::exp(out.as<float>()[i]);
  return out;
}

CausalConv ModelLoader::causal_conv(int32_t layer, const RecurrentSizes& sizes, Activation activation) {
  CausalConv out;
  out.taps = sizes.taps;
  out.channels = sizes.channels;
  out.activation = activation;
  out.weight = Buffer(static_cast<size_t>(out.channels * out.taps) * sizeof(float));
  int64_t begin = 0;
  for (const Role role :
       {Role::kStateConv, Role::kStateConvQuery, Role::kStateConvKey, Role::kStateConvValue}) {
    if (plan_.weight(role, layer) == nullptr) continue;
    const Buffer stored = vector(role, layer);  // [channels, 1, taps]
    const int64_t channels = static_cast<int64_t>(stored.size() / sizeof(float)) / out.taps;
    for (int64_t c = 0; c < channels; ++c) {
      for (int64_t t = 0; t < out.taps; ++t)
        out.weight.as<float>()[t * out.channels + begin + c] = stored.as<float>()[c * out.taps + t];
    }
    begin += channels;
  }
  if (const ExpectedTensor* bias = plan_.bias(Role::kStateConv, layer)) {
    out.bias = Buffer(static_cast<size_t>(out.channels) * sizeof(float));
    read_vector(*bias, -1, out.bias.as<float>());
    model_->weight_bytes_ += bytes_of(out.bias);
    done(*bias);
  }
  return out;
}

Mamba ModelLoader::mamba(int32_t layer) {
  const MambaSpec& own = *spec_.mamba;
  Mamba out;
  out.sizes = own.sizes;
  out.in = linear({Role::kStateIn}, layer);
  out.multipliers = own.multipliers;
  out.conv = causal_conv(layer, own.sizes.recurrent(), own.activation);
  out.step_bias = vector(Role::kStepBias, layer);
  out.rate = rates(layer);
  out.skip = vector(Role::kSkip, layer);
  out.min_step = own.min_step;
  out.max_step = own.max_step;
  if (own.norm) {
    Norm& each = out.norm.emplace();
    each.eps = own.norm_eps.value_or(spec_.norm_eps);
    each.size = own.sizes.inner() / own.sizes.groups;
    each.weight = vector(Role::kStateNorm, layer);
  }
  out.norm_before_gate = own.norm_before_gate;
  out.out = linear({Role::kStateOut}, layer);
  return out;
}

Mamba1 ModelLoader::mamba1(int32_t layer) {
  const Mamba1Spec& own = *spec_.mamba1;
  Mamba1 out;
  out.sizes = own.sizes;
  out.in = linear({Role::kStateIn}, layer);
  out.conv = causal_conv(layer, own.sizes.recurrent(), own.activation);
  out.select = linear({Role::kStateSelect}, layer);
  const auto norm_of = [&](Role role, int64_t size) {
    Norm made = norm(role, layer, size);
    made.eps = own.norm_eps;
    return made;
  };
  if (own.norms) {
    out.step_norm = norm_of(Role::kStepNorm, own.sizes.rank);
    out.write_norm = norm_of(Role::kWriteNorm, own.sizes.state);
    out.read_norm = norm_of(Role::kReadNorm, own.sizes.state);
  }
  out.step = linear({Role::kStateStep}, layer);
  const Buffer stored = rates(layer);  // [inner, state]
  out.rate = Buffer(stored.size());
  for (int64_t c = 0; c < own.sizes.inner; ++c) {
    for (int64_t s = 0; s < own.sizes.state; ++s)
      out.rate.as<float>()[s * own.sizes.inner + c] = stored.as<float>()[c * own.sizes.state + s];
  }
  out.skip = vector(Role::kSkip, layer);
  out.out = linear({Role::kStateOut}, layer);
  return out;
}

DeltaNet ModelLoader::delta_net(int32_t layer) {
  DeltaNet out;
  const DeltaNetSpec& own = *spec_.delta_net;
  out.sizes = own.sizes;
  out.share = own.share;
  out.in = linear({Role::kDeltaInGate, Role::kDeltaQuery, Role::kDeltaKey, Role::kDeltaValue, Role::kDeltaIn,
                   Role::kDeltaGate},
                  layer);
  out.steps = linear({Role::kDeltaShareStep, Role::kDeltaShare, Role::kDeltaStep}, layer);
  out.conv = causal_conv(layer, out.sizes.recurrent(), spec_.activation);
  const double key_dim = out.sizes.key_dim;
  out.query_norm = length_norm(out.sizes.key_dim, static_cast<float>(1.0 / std::sqrt(key_dim)));
  out.key_norm = length_norm(out.sizes.key_dim, 1.0F);
  out.step_bias = vector(Role::kStepBias, layer);
  out.rate = rates(layer);
  out.norm.eps = own.norm_eps.value_or(spec_.norm_eps);
  out.norm.size = out.sizes.value_dim;
  out.norm.weight = vector(Role::kStateNorm, layer);
  out.out = linear({Role::kStateOut}, layer);
  return out;
}

KimiDelta ModelLoader::kimi_delta(int32_t layer) {
  const KimiDeltaSpec& own = *spec_.kimi_delta;
  KimiDelta out;
  out.sizes = own.sizes;
  out.bound = own.bound;
  if (own.sizes.rank > 0) {
    out.wide = linear({Role::kDeltaQuery, Role::kDeltaKey, Role::kDeltaValue}, layer);
    out.gate = linear({Role::kDeltaGate}, layer);
    out.step = linear({Role::kDeltaStep}, layer);
  } else {
    out.wide = linear(
        {Role::kDeltaQuery, Role::kDeltaKey, Role::kDeltaValue, Role::kDeltaGate, Role::kDeltaStep}, layer);
  }
  out.narrow =
      linear({Role::kDeltaShareStep, Role::kDeltaShare, Role::kDeltaGateDown, Role::kDeltaStepDown}, layer);
  out.conv = causal_conv(layer, own.sizes.recurrent(), spec_.activation);
  const int64_t dim = own.sizes.head_dim;
  out.query_norm = length_norm(dim, static_cast<float>(1.0 / std::sqrt(static_cast<double>(dim))));
  out.key_norm = length_norm(dim, 1.0F);
  out.step_bias = vector(Role::kStepBias, layer);
  const Buffer by_head = rates(layer);
  out.rate = Buffer(out.step_bias.size());
  for (int64_t h = 0; h < own.sizes.heads; ++h)
    std::fill_n(out.rate.as<float>() + h * dim, dim, by_head.as<float>()[h]);
  out.norm.eps = spec_.norm_eps;
  out.norm.size = dim;
  out.norm.weight = vector(Role::kStateNorm, layer);
  out.out = linear({Role::kStateOut}, layer);
  return out;
}

ShortConv ModelLoader::short_conv(int32_t layer) {
  ShortConv out;
  out.sizes = spec_.short_conv->sizes;
  out.in = linear({Role::kStateIn}, layer);
  out.conv = causal_conv(layer, out.sizes.recurrent(), Activation::kNone);
  out.out = linear({Role::kStateOut}, layer);
  return out;
}

Lightning ModelLoader::lightning(int32_t layer) {
  Lightning out;
  out.sizes = *spec_.lightning;
  out.in = linear({Role::kStateIn, Role::kDeltaGate}, layer);
  out.activation = spec_.activation;
  const int32_t heads = out.sizes.heads;
  const size_t bytes = static_cast<size_t>(heads) * sizeof(float);
  out.decay = Buffer(bytes);
  out.step = Buffer(bytes);
  out.skip = Buffer(bytes);
  for (int32_t h = 0; h < heads; ++h)
    out.decay.as<float>()[h] = lightning_decay(h, heads, layer, spec_.num_layers);
  std::fill_n(out.step.as<float>(), heads, 1.0F);
  std::fill_n(out.skip.as<float>(), heads, 0.0F);
  out.norm = norm(Role::kStateNorm, layer, out.sizes.inner());
  constexpr float kEps = 1e-6F;  // whatever the other norms have
  out.norm.eps = kEps;
  out.out = linear({Role::kStateOut}, layer);
  return out;
}

}  // namespace quire
