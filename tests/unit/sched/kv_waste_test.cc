// Fraction of allocated KV slots without a token, with the lengths of a recorded conversation trace.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include "sched/scheduler.h"

namespace quire::test {
namespace {

struct Lengths {
  int32_t prompt = 0;
  int32_t output = 0;
};

std::filesystem::path shared_dir() {
  const char* from_environment = std::getenv("QUIRE_SHARED");
  if (from_environment != nullptr) return from_environment;
  return std::filesystem::path(QUIRE_SOURCE_DIR) / "../shared";
}

// TIMESTAMP,ContextTokens,GeneratedTokens
std::vector<Lengths> read_trace(const std::filesystem::path& path) {
  std::vector<Lengths> trace;
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  while (std::getline(file, line)) {
    const size_t first = line.find(',');
    const size_t second = line.find(',', first + 1);
    if (second == std::string::npos) continue;
    trace.push_back({std::stoi(line.substr(first + 1)), std::stoi(line.substr(second + 1))});
  }
  return trace;
}

// Synthetic lengths for machines without the trace.
std::vector<Lengths> made_up_trace() {
  std::vector<Lengths> trace;
  uint32_t state = 1;
  for (int i = 0; i < 1000; ++i) {
    state = state * 1664525 + 1013904223;
    trace.push_back(
        {100 + static_cast<int32_t>((state >> 8) % 2000), 10 + static_cast<int32_t>((state >> 20) % 400)});
  }
  return trace;
}

// Runs requests of these lengths through a scheduler, all waiting from the start. The executor always
// samples 7.
SchedulerStats run(const std::vector<Lengths>& trace, int32_t num_blocks) {
  KvLayout layout;
  layout.block_size = 16;
  layout.num_blocks = num_blocks;
  SchedulerConfig config;
  config.max_model_len = 16384;
  Scheduler scheduler(config, layout);
  for (size_t i = 0; i < trace.size(); ++i) {
    Request request;
    request.id = static_cast<RequestId>(i);
    request.prompt_token_ids.resize(static_cast<size_t>(std::max(1, trace[i].prompt)));
    // No two prompts share a block.
    for (size_t t = 0; t < request.prompt_token_ids.size(); ++t) {
      request.prompt_token_ids[t] = static_cast<TokenId>(i * 131 + t * 7);
    }
    request.sampling.edit().max_tokens = std::max(1, trace[i].output);
    EXPECT_TRUE(scheduler.add_request(std::move(request)).ok());
  }
  StepResult result;
  while (scheduler.has_work()) {
    const StepPlan& plan = scheduler.schedule();
    result.step = plan.step;
    result.sampled.clear();
    for (const ScheduledSequence& scheduled : plan.scheduled) {
      if (scheduled.sample) result.sampled.push_back({scheduled.seq, 7, -1.0F, {}});
    }
    scheduler.commit(result);
  }
  scheduler.check_integrity();
  return scheduler.stats();
}

TEST(KvWaste, StaysUnderFourPercentOnMixedLengths) {
  const SchedulerStats stats = run(made_up_trace(), 4096);
  EXPECT_EQ(stats.num_finished_requests, 1000);
  EXPECT_GT(stats.mean_kv_waste, 0.0);
  EXPECT_LT(stats.mean_kv_waste, 0.04);
}

TEST(KvWaste, StaysUnderFourPercentOnTheAzureConversations) {
  const std::filesystem::path path =
      shared_dir() / "data/workloads/azure-llm-2023/AzureLLMInferenceTrace_conv.csv";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "the trace " << path << " is missing (QUIRE_SHARED)";
  const std::vector<Lengths> trace = read_trace(path);
  ASSERT_EQ(trace.size(), 19366U);
  const SchedulerStats stats = run(trace, 16384);
  EXPECT_EQ(stats.num_finished_requests, 19366);
  EXPECT_GT(stats.mean_kv_waste, 0.0);
  EXPECT_LT(stats.mean_kv_waste, 0.04);
  RecordProperty("mean_waste_per_mille", static_cast<int>(stats.mean_kv_waste * 1000));
  std::cout << "mean waste " << stats.mean_kv_waste << ", " << stats.num_steps << " steps, "
            << stats.num_preemptions << " preemptions\n";
}

}  // namespace
}  // namespace quire::test
