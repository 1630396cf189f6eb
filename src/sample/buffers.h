// The arrays behind SamplerWorkspace. Only src/sample includes this.
#pragma once

#include <cstdint>
#include <vector>

#include "contract/ids.h"
#include "sample/row_math.h"

namespace quire {

// An entry while a cut is looked for; more likely entries come first.
struct Ranked {
  float value = 0.0F;
  TokenId id = -1;
  float mass = 0.0F;
};

// A logit as it was before a mask, a bias or a penalty changed it.
struct LogitEdit {
  TokenId token = -1;
  float before = 0.0F;
};

inline constexpr int kNumBuckets = 2048;

struct SamplerBuffers {
  explicit SamplerBuffers(int32_t vocab_size);

  std::vector<float> block_max;   // [num_blocks(vocab_size)]
  std::vector<double> block_sum;  // [num_blocks(vocab_size)]
  // A list of entries in ascending order of id, where the row is no longer the whole vocabulary.
  std::vector<float> values;        // [vocab_size]
  std::vector<TokenId> ids;         // [vocab_size]
  std::vector<float> weights;       // [vocab_size]
  std::vector<Ranked> ranked;       // [vocab_size]
  std::vector<double> bucket_mass;  // [kNumBuckets]
  std::vector<LogitEdit> edits;     // grows to the most edits of a row seen so far
};

}  // namespace quire
