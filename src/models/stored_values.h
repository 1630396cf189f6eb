// Values of a checkpoint's tensors in the model's order. Load time only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "io/checkpoint.h"
#include "models/tensor_resolver.h"

namespace quire {

// The bytes of the tensor; if it is stacked, those of an expert or a group.
std::span<const std::byte> bytes_of_part(const Checkpoint& checkpoint, const StoredTensor& tensor,
                                         int64_t part);

// dst = the rows of source, in the model's order.
void copy_rows(const StoredTensor& tensor, std::byte* dst, std::span<const std::byte> source,
               size_t row_bytes);

// The same order as indices: the stored row for each of the model's, in [0, count).
std::vector<int64_t> stored_rows(const StoredTensor& tensor, int64_t count);

// out [elements(tensor)] = a vector as float32.
void read_vector(const Checkpoint& checkpoint, const StoredTensor& tensor, int64_t part, float* out);

}  // namespace quire
