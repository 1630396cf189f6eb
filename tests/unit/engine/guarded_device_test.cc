// An engine on a device with memory of its own, which the host cannot access outside of ops and copies: all
// answers have the bits of the CPU.
#include <filesystem>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "support/temp_dir.h"
#include "unit/engine/engine_testing.h"
#include "unit/exec/guarded_device.h"
#include "unit/models/golden_models.h"

namespace quire {
namespace {

using test::Answer;
using test::GuardedDevice;
using test::Pending;

// The hook that opens a guarded device, and the device in use.
struct GuardedHooks {
  const GuardedDevice* device = nullptr;
  EngineHooks hooks;

  GuardedHooks() {
    hooks.open_device = [this](std::string_view /*name*/, int threads) {
      auto opened = std::make_unique<GuardedDevice>(threads);
      device = opened.get();
      return opened;
    };
  }
};

EngineConfig guarded_config(const std::string& model) {
  EngineConfig config;
  config.model = model;
  config.threads = 1;
  config.kv_cache_memory = int64_t{16} << 20;
  config.max_num_batched_tokens = 64;
  config.max_num_seqs = 16;
  config.generation_config = "none";
  return config;
}

std::vector<Answer> all_answers(Engine& engine, const std::vector<Request>& requests) {
  std::vector<Pending> pending(requests.size());
  for (size_t i = 0; i < requests.size(); ++i) {
    const auto id = engine.submit(requests[i], pending[i].sink());
    EXPECT_TRUE(id.ok()) << id.failure().message;
  }
  std::vector<Answer> all;
  for (Pending& one : pending) all.push_back(one.wait());
  engine.check_integrity();
  return all;
}

void expect_same_answers(const std::vector<Answer>& expected, const std::vector<Answer>& actual) {
  ASSERT_EQ(expected.size(), actual.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    SCOPED_TRACE("request " + std::to_string(i));
    test::expect_same(expected[i], actual[i]);
  }
}

// The answers on a guarded device are those of the CPU.
EngineStats expect_bits_of_cpu(const EngineConfig& config, const std::vector<Request>& requests) {
  const std::vector<Answer> expected = all_answers(*Engine::start(config), requests);
  GuardedHooks guarded;
  const auto engine = Engine::start(config, {}, guarded.hooks);
  EXPECT_NE(guarded.device, nullptr);
  expect_same_answers(expected, all_answers(*engine, requests));
  return engine->stats();
}

Request greedy_request(const std::vector<TokenId>& prompt, int32_t max_tokens) {
  Request request;
  request.prompt_token_ids = prompt;
  SamplingParams& s = request.sampling.edit();
  s.temperature = 0.0F;
  s.max_tokens = max_tokens;
  s.ignore_eos = true;
  s.logprobs = 2;
  return request;
}

class GuardedEngine : public testing::TestWithParam<std::string> {};

// Prompts of several chunks in a batch with others.
TEST_P(GuardedEngine, GivesTheBitsOfTheCpu) {
  const auto dir = test::golden_model(GetParam());
  const auto prompt = read_json_file(dir / "golden.json")["cases"][0]["prompt"].get<std::vector<TokenId>>();
  EngineConfig config = guarded_config(dir.string());
  config.long_prefill_token_threshold = 3;
  Request sampled = greedy_request(prompt, 3);
  sampled.sampling.edit().temperature = 0.9F;
  sampled.sampling.edit().seed = 5;
  sampled.sampling.edit().prompt_logprobs = 1;
  expect_bits_of_cpu(config, {greedy_request(prompt, 4), sampled});
}

INSTANTIATE_TEST_SUITE_P(Models, GuardedEngine, testing::ValuesIn(test::golden_names("models")),
                         [](const auto& test) { return test::test_name(test.param); });

std::vector<Request> mixed_requests(int count, int length, int32_t max_tokens) {
  std::vector<Request> requests;
  for (int i = 0; i < count; ++i) {
    Request request =
        greedy_request(test::random_prompt(static_cast<uint64_t>(i), length + i, 2000), max_tokens);
    if (i % 3 == 1) {
      request.sampling.edit().temperature = 0.8F;
      request.sampling.edit().seed = i;
      request.sampling.edit().n = 2;
    }
    requests.push_back(request);
  }
  return requests;
}

TEST(GuardedDevice, SwapsPreemptedSequences) {
  EngineConfig config = guarded_config(test::model_path("quire-tiny"));
  config.max_model_len = 256;
  config.preemption_mode = PreemptionMode::kSwap;
  config.swap_space = int64_t{32} << 20;
  config.enable_prefix_caching = false;
  config.kv_cache_memory = int64_t{1} << 20;
  const EngineStats stats = expect_bits_of_cpu(config, mixed_requests(8, 60, 24));
  EXPECT_GT(stats.num_swapped_in_blocks, 0);
}

// Each request has the expected answer; reused: with tokens from the prefix cache.
void expect_answers(Engine& engine, const std::vector<Request>& requests, const std::vector<Answer>& expected,
                    bool reused) {
  for (size_t i = 0; i < requests.size(); ++i) {
    const Answer answer = test::ask(engine, requests[i]);
    test::expect_same(expected[i], answer);
    EXPECT_GE(answer.num_cached_tokens, reused ? 1 : 0) << i;
  }
}

TEST(GuardedDevice, ReadsCachedPrefixesFromTheHost) {
  EngineConfig config = guarded_config(test::model_path("quire-tiny"));
  config.max_model_len = 256;
  config.swap_space = int64_t{32} << 20;
  config.kv_cache_memory = int64_t{2} << 20;
  const std::vector<Request> requests = mixed_requests(6, 100, 4);
  const std::vector<Answer> expected = all_answers(*Engine::start(config), requests);
  GuardedHooks guarded;
  const auto engine = Engine::start(config, {}, guarded.hooks);
  for (int round = 0; round < 2; ++round) expect_answers(*engine, requests, expected, round == 1);
}

TEST(GuardedDevice, WritesPrefixesToDiskAndReadsThem) {
  const test::TempDir directory;
  EngineConfig config = guarded_config(test::model_path("quire-tiny"));
  config.max_model_len = 256;
  const std::vector<Request> requests = mixed_requests(3, 150, 4);
  const std::vector<Answer> expected = all_answers(*Engine::start(config), requests);
  config.kv_disk_cache = directory.path();
  for (int round = 0; round < 2; ++round) {
    GuardedHooks guarded;
    expect_answers(*Engine::start(config, {}, guarded.hooks), requests, expected, round == 1);
  }
}

// The weight cache writes weights from memory of the host, where they do not stay.
TEST(GuardedDevice, KeepsNoWeightCache) {
  const test::TempDir directory;
  EngineConfig config = guarded_config(test::model_path("quire-tiny"));
  config.max_model_len = 256;
  config.weight_cache = directory.path();
  GuardedHooks guarded;
  const auto engine = Engine::start(config, {}, guarded.hooks);
  EXPECT_EQ(test::ask(*engine, greedy_request({5, 6, 7}, 2)).samples.at(0).tokens.size(), 2U);
  EXPECT_TRUE(std::filesystem::is_empty(directory.path()));
}

TEST(GuardedDevice, SearchesBeams) {
  EngineConfig config = guarded_config(test::model_path("quire-tiny"));
  config.max_model_len = 128;
  std::vector<Request> requests = mixed_requests(2, 20, 6);
  for (Request& request : requests) {
    SamplingParams& s = request.sampling.edit();
    s.temperature = 1.0F;
    s.use_beam_search = true;
    s.n = 2;
    s.beam_width = 3;
  }
  expect_bits_of_cpu(config, requests);
}

TEST(GuardedDevice, CopiesAStepUpOnceAndDownOnceAndWaitsOnce) {
  EngineConfig config = guarded_config(test::model_path("quire-tiny"));
  config.max_model_len = 256;
  GuardedHooks guarded;
  const auto engine = Engine::start(config, {}, guarded.hooks);
  const GuardedDevice::Counts& counts = guarded.device->counts();
  const int64_t up = counts.copies_to_device;
  const int64_t down = counts.copies_to_host;
  const int64_t waits = counts.waits;
  const int64_t without_stream = guarded.device->num_ops_without_stream();
  all_answers(*engine, mixed_requests(4, 50, 6));
  const int64_t steps = engine->stats().num_steps;
  ASSERT_GT(steps, 6);
  EXPECT_EQ(counts.copies_to_device - up, steps);
  EXPECT_LE(counts.copies_to_host - down, steps) << "a step that samples nothing copies nothing";
  EXPECT_EQ(counts.waits - waits, steps);
  EXPECT_EQ(guarded.device->num_ops_without_stream(), without_stream) << "ops outside of the stream";
}

// Requests with all adapters of a model, and without one.
TEST(GuardedDevice, AppliesAdapters) {
  const std::string model = "llama";
  EngineConfig config = guarded_config(test::golden_model(model).string());
  config.enable_prefix_caching = false;
  config.long_prefill_token_threshold = 3;
  std::vector<Request> requests = {greedy_request(test::random_prompt(0, 9, 90), 4)};
  for (const std::string& name : test::golden_names("lora")) {
    const auto dir = test::golden_checkpoint("lora/" + name);
    if (read_json_file(dir / "golden.json")["model"] != model) continue;
    config.lora_modules.push_back({name, dir.string()});
    Request request = greedy_request(test::random_prompt(requests.size(), 11, 90), 4);
    request.adapter_name = name;
    request.sampling.edit().prompt_logprobs = 1;
    requests.push_back(request);
  }
  EXPECT_GT(requests.size(), 5U);
  expect_bits_of_cpu(config, requests);
}

// More rows of logits than are computed at once.
TEST(GuardedDevice, ComputesLogitsOfLongPrompts) {
  EngineConfig config = guarded_config(test::model_path("quire-tiny"));
  config.max_model_len = 256;
  config.max_num_batched_tokens = 200;
  Request request = greedy_request(test::random_prompt(3, 190, 2000), 2);
  request.sampling.edit().prompt_logprobs = 2;
  expect_bits_of_cpu(config, {request});
}

std::vector<float> vector_of(Engine& engine, const std::string& dir) {
  const nlohmann::json golden = read_json_file(std::filesystem::path(dir) / "golden.json")["cases"].back();
  Request request;
  request.prompt_token_ids = golden["prompt"].get<std::vector<TokenId>>();
  request.sampling.edit().max_tokens = 0;
  request.pooling = PoolingRequest{{}, golden["second_text"].get<int32_t>(), engine.model().pools_all_tokens};
  std::promise<std::vector<float>> promise;
  const auto id = engine.submit(std::move(request), [&promise](RequestOutput&& output) {
    EXPECT_FALSE(output.failure) << output.failure->message;
    promise.set_value(std::move(output.pooled));
  });
  EXPECT_TRUE(id.ok());
  return promise.get_future().get();
}

class GuardedPooling : public testing::TestWithParam<std::string> {};

TEST_P(GuardedPooling, GivesTheBitsOfTheCpu) {
  const std::string dir = test::golden_checkpoint("pooling/" + GetParam()).string();
  EngineConfig config = guarded_config(dir);
  config.long_prefill_token_threshold = 3;
  const std::vector<float> expected = vector_of(*Engine::start(config), dir);
  GuardedHooks guarded;
  EXPECT_EQ(vector_of(*Engine::start(config, {}, guarded.hooks), dir), expected);
  EXPECT_FALSE(expected.empty());
}

INSTANTIATE_TEST_SUITE_P(Models, GuardedPooling, testing::ValuesIn(test::golden_names("pooling")),
                         [](const auto& test) { return test::test_name(test.param); });

}  // namespace
}  // namespace quire
