#include "sim/sharing.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace quire::sim {
namespace {

Trace requests_of(int32_t input_len, int32_t output_len, int count) {
  Trace trace;
  for (int i = 0; i < count; ++i) trace.requests.push_back({0.0, input_len, output_len, 0, 0});
  return trace;
}

ReplicaOptions options() {
  ReplicaOptions options;
  options.scheduler.max_num_seqs = 32;
  options.layout.block_size = 16;
  return options;
}

// Block tables of one prompt that share only its full blocks, counted by hand: the step of the prompt, and
// one step per token except the last. The partially filled block of the prompt is shared until it is written.
double expected_parallel(int32_t input_len, int32_t output_len, int32_t n) {
  const auto blocks = [](int32_t tokens) { return (tokens + 15) / 16; };
  double entries = blocks(input_len), used = blocks(input_len);
  for (int32_t drawn = 1; drawn < output_len; ++drawn) {
    const int32_t shared = input_len / 16;
    entries += n * blocks(input_len + drawn);
    used += shared + n * (blocks(input_len + drawn) - shared);
  }
  return (entries - used) / entries;
}

TEST(Sharing, ParallelSamplesShareTheFullBlocksOfThePrompt) {
  for (const int32_t n : {2, 4, 6}) {
    for (const int32_t input_len : {19, 160, 500}) {
      const SharingPoint point = parallel_sampling_sharing(requests_of(input_len, 40, 1), options(), n);
      EXPECT_EQ(point.width, n);
      EXPECT_NEAR(point.saved, expected_parallel(input_len, 40, n), 1e-12)
          << n << " samples of " << input_len;
    }
  }
}

TEST(Sharing, PromptsDoNotShareBlocks) {
  // Equal hash ids in all prompts would be prefix cache hits.
  Trace trace = requests_of(1024, 20, 8);
  trace.hash_ids = {1, 2};
  for (TraceRequest& request : trace.requests) request.num_hashes = 2;
  EXPECT_EQ(parallel_sampling_sharing(trace, options(), 1).saved, 0.0);
}

TEST(Sharing, BeamsShareMoreThanSamples) {
  const Trace trace = requests_of(19, 58, 20);
  const double samples = parallel_sampling_sharing(trace, options(), 4).saved;
  const double beams = beam_search_sharing(trace, 16, 4, 1).saved;
  EXPECT_GT(beams, samples);
  EXPECT_LT(beams, 0.75) << "four tables have at least a fourth of their blocks for themselves";
  EXPECT_EQ(beam_search_sharing(trace, 16, 4, 1).saved, beams);
  EXPECT_EQ(beam_search_sharing(trace, 16, 1, 1).saved, 0.0);
  EXPECT_THROW(beam_search_sharing(trace, 16, 0, 1), Error);
}

}  // namespace
}  // namespace quire::sim
