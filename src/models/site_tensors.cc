#include "models/site_tensors.h"

#include <algorithm>

#include "models/tied_head.h"

namespace quire {
std::vector<SiteTensor> site_tensors(const ModelToDescribe& model, const TensorResolver& resolver) {
  std::vector<SiteTensor> tensors;
  int32_t site = 0;
  for (const ListedParam& param : list_params(model, resolver)) {
    if (param.kind == ParamKind::kDerivedMatrices) site += static_cast<int32_t>(param.matrices.size());
    if (param.kind != ParamKind::kMatrix && param.kind != ParamKind::kEmbedding) continue;
    int64_t out_begin = 0;
    for (const StoredParam& stored : param.stored) {
      SiteTensor tensor{.site = site,
                        .out_begin = out_begin,
                        .weight = stored.weight,
                        .bias = stored.bias,
                        .part = std::max(param.place.index, 0),
                        .own_name = {}};
      const bool tied = param.kind == ParamKind::kMatrix && param.specs[stored.first].looked_up;
      if (tied) tensor.own_name = head_name(model.spec, resolver);
      out_begin += out_features(stored.weight);
      tensors.push_back(std::move(tensor));
    }
    ++site;
  }
  return tensors;
}

std::vector<NormTensor> norm_tensors(const ModelToDescribe& model, const TensorResolver& resolver) {
  std::vector<NormTensor> tensors;
  for (const ListedParam& param : list_params(model, resolver)) {
    if (param.norm < 0 || param.stored.size() != 1) continue;
    tensors.push_back({.norm = param.norm,
                       .weight = param.stored[0].weight,
                       .bias = param.stored[0].bias,
                       .offset = param.offset});
  }
  return tensors;
}

}  // namespace quire
