// The logits of a checkpoint, with an adapter or without one.
#pragma once

#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "backends/cpu/cpu_backend.h"
#include "nn/adapter.h"
#include "unit/models/paged_runner.h"

namespace quire::test {

// The logits of all positions of a random prompt, computed in float32. adapter: null = none.
inline std::vector<float> logits_of(Checkpoint& checkpoint, const AdapterWeights* adapter) {
  const OpTable& ops = *select_cpu_isa().table;
  Buffer workspace(ops.workspace_bytes(64, 256, 16, 64, 1));
  const auto model = Model::load(checkpoint, ops, {nullptr, {workspace.data(), workspace.size()}},
                                 {.dtype = DType::kF32}, {});
  std::mt19937 random(3);
  std::vector<int32_t> prompt(16);
  for (int32_t& token : prompt)
    token = static_cast<int32_t>(random() % static_cast<uint32_t>(model->spec().vocab_size));
  PagedRunner runner(*model, ops, nullptr, {.adapter = adapter});
  std::vector<float> all;
  for (const auto& row : runner.append(prompt, 16)) all.insert(all.end(), row.begin(), row.end());
  return all;
}

// The norm of the difference, as a fraction of that of `expected`.
inline double error_of(const std::vector<float>& values, const std::vector<float>& expected) {
  double difference = 0.0;
  double size = 0.0;
  for (size_t i = 0; i < values.size(); ++i) {
    difference += std::pow(static_cast<double>(values[i]) - expected[i], 2);
    size += std::pow(static_cast<double>(expected[i]), 2);
  }
  return std::sqrt(difference / size);
}

}  // namespace quire::test
