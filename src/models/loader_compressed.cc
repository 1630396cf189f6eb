// What a layer with compressed keys and streams of hidden states is made of.
#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/strings.h"
#include "models/loader.h"

namespace quire {

Norm ModelLoader::plain_norm(int64_t size) const {
  Norm out;
  out.eps = spec_.norm_eps;
  out.size = size;
  out.weight = Buffer(static_cast<size_t>(size) * sizeof(float));
  std::fill_n(out.weight.as<float>(), size, 1.0F);
  return out;
}

CompressedAttention ModelLoader::compressed_attention(int32_t layer) {
  const LayerSpec& own = spec_.layers[static_cast<size_t>(layer)];
  const CompressedSizes& sizes = *spec_.compressed;
  const auto compressor = [&](Role key, Role gate, Role bias, Role norm_role, int64_t dim) {
    return Compressor{.parts = linear({key, gate}, layer),
                      .bias = vector(bias, layer),
                      .norm = norm(norm_role, layer, dim),
                      .tokens = own.compressed_tokens,
                      .overlap = own.compressed_overlap};
  };
  CompressedAttention out;
  out.sizes = sizes;
  out.query_down = linear({Role::kQueryDown}, layer);
  out.query_norm = norm(Role::kQueryDownNorm, layer, sizes.query_rank);
  out.query = linear({Role::kQuery}, layer);
  out.head_norm = plain_norm(sizes.head_dim);
  out.key = linear({Role::kKey}, layer);
  out.key_norm = norm(Role::kKeyNorm, layer, sizes.head_dim);
  out.back = &model_->ropes_[static_cast<size_t>(spec_.back_rope + own.rope)];
  if (own.compressed_tokens > 0) {
    out.compressor = compressor(Role::kCompressKey, Role::kCompressGate, Role::kCompressBias,
                                Role::kCompressNorm, sizes.head_dim);
  }
  if (own.indexer) {
    out.indexer = {linear({Role::kIndexQuery}, layer), linear({Role::kIndexWeights}, layer),
                   compressor(Role::kIndexKey, Role::kIndexGate, Role::kIndexBias, Role::kIndexKeyNorm,
                              sizes.index.dim)};
  }
  out.nothing = Buffer(static_cast<size_t>(sizes.head_dim) * sizeof(float));
  for (int32_t g = 0; g < sizes.groups; ++g) out.out_down.push_back(linear({Role::kOutDown}, layer, g));
  out.out = linear({Role::kAttentionOut}, layer);
  out.sinks = vector(Role::kSinks, layer);
  out.params.scale = own.attention_scale;
  out.params.window = own.window;
  out.params.sinks = out.sinks.as<float>();
  return out;
}

StreamMix ModelLoader::stream_mix(Role scores, Role base, Role scale, int32_t layer) {
  const StreamSizes& sizes = spec_.streams->sizes;
  return {plain_norm(sizes.streams * sizes.hidden), linear({scores}, layer), vector(base, layer),
          vector(scale, layer), spec_.streams->params};
}

Buffer ModelLoader::expert_table(int32_t layer) {
  const ExpectedTensor& tensor = *plan_.weight(Role::kRouterTable, layer);
  const auto source = checkpoint_.bytes(tensor.name);
  const bool wide = checkpoint_.find(tensor.name)->dtype == DType::kI64;
  const auto count = static_cast<size_t>(elements(tensor));
  Buffer out(count * sizeof(int32_t));
  for (size_t i = 0; i < count; ++i) {
    int64_t expert = 0;
    int32_t narrow = 0;
    if (wide) {
      std::memcpy(&expert, source.data() + i * sizeof(expert), sizeof(expert));
    } else {
      std::memcpy(&narrow, source.data() + i * sizeof(narrow), sizeof(narrow));
      expert = narrow;
    }
    if (expert < 0 || expert >= spec_.moe->num_experts) {
      throw Error(cat(tensor.name, ": names expert ", expert, " of ", spec_.moe->num_experts));
    }
    out.as<int32_t>()[i] = static_cast<int32_t>(expert);
  }
  model_->weight_bytes_ += bytes_of(out);
  done(tensor);
  return out;
}

}  // namespace quire
