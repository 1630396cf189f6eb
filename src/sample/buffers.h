// The arrays of SamplerWorkspace. Included by src/sample only.
#pragma once

#include <cstdint>
#include <vector>

#include "contract/ids.h"
#include "sample/dry.h"
#include "sample/row_math.h"

namespace quire {

// An entry during truncation; more probable entries come first.
struct Ranked {
  float value = 0.0F;
  TokenId id = -1;
  float mass = 0.0F;
};

// The original value of a logit that a mask, bias or penalty changed.
struct LogitEdit {
  TokenId token = -1;
  float before = 0.0F;
};

inline constexpr int kNumBuckets = 2048;

struct SamplerBuffers {
  explicit SamplerBuffers(int32_t vocab_size);

  std::vector<float> block_max;   // [num_blocks(vocab_size)]
  std::vector<double> block_sum;  // [num_blocks(vocab_size)]
  // Entries in ascending order of id, if the row is a subset of the vocabulary.
  std::vector<float> values;          // [vocab_size]
  std::vector<TokenId> ids;           // [vocab_size]
  std::vector<float> weights;         // [vocab_size]
  std::vector<Ranked> ranked;         // [vocab_size]
  std::vector<uint16_t> buckets;      // [vocab_size]
  std::vector<double> bucket_mass;    // [kNumBuckets]
  std::vector<uint32_t> bucket_size;  // [kNumBuckets]
  std::vector<float> processed;       // [vocab_size] with a LogprobsMode of processed values, otherwise empty
  std::vector<LogitEdit> edits;       // grows to the maximum number of edits per row
  std::vector<int32_t> lengths;       // for DRY; grow with the longest sequence
  std::vector<Repetition> repetitions;
};

}  // namespace quire
