// Ranges of the numbers of an engine's options.
#include "contract/engine_config.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>

#include "base/error.h"

namespace quire {
namespace {

std::string message_of(const std::function<void(EngineConfig&)>& change) {
  EngineConfig config;
  change(config);
  try {
    check_config(config);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(EngineConfigRanges, AcceptTheDefaultsAndTheirEnds) {
  EXPECT_EQ(message_of([](EngineConfig&) {}), "");
  EXPECT_EQ(message_of([](EngineConfig& c) {
              c.max_num_seqs = 65536;
              c.block_size = 1;
              c.max_num_queued_requests = std::numeric_limits<int32_t>::max();
              c.kv_cache_memory = std::numeric_limits<int64_t>::max();
              c.max_logprobs = -1;
              c.threads = 1023;
            }),
            "");
}

TEST(EngineConfigRanges, NameFlagValueAndRange) {
  EXPECT_EQ(message_of([](EngineConfig& c) { c.max_num_queued_requests = 0; }),
            "--max-num-queued-reqs is 0; it must be at least 1.");
  EXPECT_EQ(message_of([](EngineConfig& c) { c.max_num_partial_prefills = -3; }),
            "--max-num-partial-prefills is -3; it must be at least 1, or 0 for no limit.");
  EXPECT_EQ(message_of([](EngineConfig& c) { c.block_size = 1025; }),
            "--block-size is 1025; it must be 1 to 1024.");
  EXPECT_EQ(message_of([](EngineConfig& c) { c.max_num_batched_tokens = 1 << 21; }),
            "--max-num-batched-tokens is 2097152; it must be 1 to 1048576, or 0 for the default.");
  EXPECT_EQ(message_of([](EngineConfig& c) { c.max_logprobs = -2; }),
            "--max-logprobs is -2; it must be at least 0, or -1 for the whole vocabulary.");
  EXPECT_EQ(message_of([](EngineConfig& c) { c.ttft_slo = -0.5; }),
            "--ttft-slo is -0.5; it must be positive and finite, or 0 for none.");
}

TEST(EngineConfigRanges, CoverEveryNumber) {
  for (const auto field :
       {&EngineConfig::max_model_len, &EngineConfig::block_size, &EngineConfig::max_num_seqs,
        &EngineConfig::max_num_batched_tokens, &EngineConfig::long_prefill_token_threshold,
        &EngineConfig::max_num_partial_prefills, &EngineConfig::max_num_queued_requests,
        &EngineConfig::max_logprobs, &EngineConfig::threads})
    EXPECT_NE(message_of([&](EngineConfig& c) { c.*field = -7; }), "");
  for (const auto field :
       {&EngineConfig::kv_cache_memory, &EngineConfig::swap_space, &EngineConfig::kv_disk_cache_size})
    EXPECT_NE(message_of([&](EngineConfig& c) { c.*field = -7; }), "");
  for (const auto field : {&EngineConfig::ttft_slo, &EngineConfig::tpot_slo}) {
    EXPECT_NE(message_of([&](EngineConfig& c) { c.*field = std::numeric_limits<double>::infinity(); }), "");
    EXPECT_NE(message_of([&](EngineConfig& c) { c.*field = std::numeric_limits<double>::quiet_NaN(); }), "");
  }
}

}  // namespace
}  // namespace quire
