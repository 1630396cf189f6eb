// The tensors of a checkpoint that hold the weights which adapters change. Load time only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "models/param_list.h"
#include "models/tensor_resolver.h"
#include "nn/source_rows.h"

namespace quire {

// Rows of a site (nn/adapter.h) that are one matrix of the checkpoint.
struct SiteTensor {
  int32_t site = -1;
  int64_t out_begin = 0;  // the first row of the site that it holds
  StoredTensor weight;
  std::optional<StoredTensor> bias;
  int64_t part = 0;  // if it is stacked: the expert or the group of the site
  // Empty, unless the site is an output embedding that is tied, so that `weight` is the input embedding: then
  // the name of the tensor that an untied one has.
  std::string own_name;
  // If the site is computed from the matrix: the rows of `weight` that change with it.
  std::optional<SourceRows> source;
};

// The matrices of all sites but those of derived weights that adapters cannot change, by site. Numbers the
// sites as adapter_targets() does for the same model. Throws Error as describe_model() does.
std::vector<SiteTensor> site_tensors(const ModelToDescribe& model, const TensorResolver& resolver);

// The tensors of a norm that an adapter can replace.
struct NormTensor {
  int32_t norm = -1;  // Norm::site
  StoredTensor weight;
  std::optional<StoredTensor> bias;
  float offset = 0.0F;  // added to the stored weights when they are loaded
};
// By norm.
std::vector<NormTensor> norm_tensors(const ModelToDescribe& model, const TensorResolver& resolver);

}  // namespace quire
