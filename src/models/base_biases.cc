#include "models/base_biases.h"

#include <algorithm>
#include <set>

#include "models/pooling_files.h"
#include "models/site_tensors.h"
#include "models/stored_values.h"

namespace quire {

std::map<int32_t, std::vector<float>> read_site_biases(const Checkpoint& checkpoint, const ModelSpec& spec,
                                                       std::span<const int32_t> sites) {
  const auto files = read_pooling_files(checkpoint);
  const TensorResolver resolver(spec, checkpoint);
  std::map<int32_t, std::vector<float>> biases;
  std::set<int32_t> have_one;
  for (const SiteTensor& tensor : site_tensors({spec, files ? &*files : nullptr}, resolver)) {
    if (std::ranges::find(sites, tensor.site) == sites.end()) continue;
    std::vector<float>& all = biases[tensor.site];
    all.resize(static_cast<size_t>(tensor.out_begin + out_features(tensor.weight)));
    if (!tensor.bias) continue;
    read_vector(checkpoint, *tensor.bias, tensor.part, all.data() + tensor.out_begin);
    have_one.insert(tensor.site);
  }
  std::erase_if(biases, [&](const auto& entry) { return !have_one.contains(entry.first); });
  return biases;
}

}  // namespace quire
