#include "models/site_tensors.h"

#include <algorithm>

#include "models/tied_head.h"

namespace quire {
namespace {

// The sites that are computed from a parameter whose adapters change them.
void add_derived(const ListedParam& param, int32_t first_site, std::vector<SiteTensor>& tensors) {
  const auto adapted = std::ranges::find_if(param.stored, [&](const StoredParam& stored) {
    return !param.adapted.empty() && param.specs[stored.first].id == param.adapted;
  });
  if (adapted == param.stored.end()) return;
  for (size_t i = 0; i < param.matrices.size(); ++i) {
    const std::optional<SourceRows>& source = param.matrices[i].adapted;
    if (!source) continue;
    tensors.push_back({.site = first_site + static_cast<int32_t>(i),
                       .out_begin = source->out_begin,
                       .weight = adapted->weight,
                       .bias = std::nullopt,
                       .part = std::max(param.place.index, 0),
                       .own_name = {},
                       .source = source});
  }
}

}  // namespace

std::vector<SiteTensor> site_tensors(const ModelToDescribe& model, const TensorResolver& resolver) {
  std::vector<SiteTensor> tensors;
  int32_t site = 0;
  for (const ListedParam& param : list_params(model, resolver)) {
    if (param.kind == ParamKind::kDerivedMatrices) {
      add_derived(param, site, tensors);
      site += static_cast<int32_t>(param.matrices.size());
    }
    if (param.kind != ParamKind::kMatrix && param.kind != ParamKind::kEmbedding) continue;
    int64_t out_begin = 0;
    for (const StoredParam& stored : param.stored) {
      SiteTensor tensor{.site = site,
                        .out_begin = out_begin,
                        .weight = stored.weight,
                        .bias = stored.bias,
                        .part = std::max(param.place.index, 0),
                        .own_name = {},
                        .source = std::nullopt};
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
