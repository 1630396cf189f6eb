// Host and disk tiers of the KV cache in an engine: loaded blocks are bitwise those that were computed.
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "exec/executor.h"
#include "support/eventually.h"
#include "support/temp_dir.h"
#include "unit/engine/engine_testing.h"

namespace quire::test {
namespace {

namespace fs = std::filesystem;

class KvTiersTest : public testing::Test {
 protected:
  EngineConfig config() const {
    EngineConfig config;
    config.model = model_path("quire-tiny");
    config.kv_cache_memory = 64 << 20;
    config.max_num_seqs = 8;
    config.threads = 2;
    config.kv_disk_cache = directory_;
    return config;
  }
  static Request request(int32_t family, int32_t num_tokens) {
    Request request;
    for (int32_t i = 0; i < num_tokens; ++i)
      request.prompt_token_ids.push_back((family * 131 + i * 7) % 900 + 5);
    request.sampling.edit().max_tokens = 12;
    request.sampling.edit().temperature = 0.0F;
    request.sampling.edit().ignore_eos = true;
    request.sampling.edit().logprobs = 2;
    return request;
  }
  static Answer ask(Engine& engine, const Request& request) {
    Pending pending;
    EXPECT_TRUE(engine.submit(request, pending.sink()).ok());
    return pending.wait();
  }
  static void expect_same(const Answer& a, const Answer& b) {
    ASSERT_EQ(a.samples.size(), 1U);
    ASSERT_EQ(b.samples.size(), 1U);
    EXPECT_EQ(a.samples[0].tokens, b.samples[0].tokens);
    ASSERT_EQ(a.samples[0].logprobs.size(), b.samples[0].logprobs.size());
    for (size_t i = 0; i < a.samples[0].logprobs.size(); ++i)
      EXPECT_EQ(a.samples[0].logprobs[i].chosen.logprob, b.samples[0].logprobs[i].chosen.logprob) << i;
  }
  Answer cold(const Request& request) const {
    EngineConfig without = config();
    without.kv_disk_cache.clear();
    return ask(*Engine::start(without), request);
  }

  const test::TempDir temporary_;
  const fs::path directory_ = temporary_.path();
};

TEST_F(KvTiersTest, ReusesTheDiskCacheAfterARestartWithTheSameBits) {
  const Request prompt = request(1, 400);
  const Answer expected = cold(prompt);
  {
    const auto engine = Engine::start(config());
    expect_same(ask(*engine, prompt), expected);
    engine->check_integrity();
  }
  const auto engine = Engine::start(config());
  const Answer warm = ask(*engine, prompt);
  expect_same(warm, expected);
  EXPECT_GE(warm.num_cached_tokens, 384);
  engine->check_integrity();
}

// Holds the outcomes of disk operations back, as a slow disk does.
class SlowDisk final : public Executor {
 public:
  explicit SlowDisk(Executor& inner) : inner_(inner) {}
  void begin(const StepPlan& plan) override { inner_.begin(plan); }
  const StepResult& finish() override {
    result_ = inner_.finish();
    const std::lock_guard lock(mutex_);
    held_.insert(held_.end(), result_.disk_outcomes.begin(), result_.disk_outcomes.end());
    result_.disk_outcomes = released_ ? std::exchange(held_, {}) : std::vector<DiskOutcome>();
    return result_;
  }
  bool disk_busy() const override { return num_held() > 0 || inner_.disk_busy(); }
  void on_disk_outcome(const std::function<void()>& callback) override {
    inner_.on_disk_outcome(callback);
    const std::lock_guard lock(mutex_);
    callback_ = callback;
  }
  size_t num_held() const {
    const std::lock_guard lock(mutex_);
    return held_.size();
  }
  void release() {
    const std::lock_guard lock(mutex_);
    released_ = true;
    if (callback_) callback_();
  }

 private:
  Executor& inner_;
  StepResult result_;
  mutable std::mutex mutex_;
  std::vector<DiskOutcome> held_;
  bool released_ = false;
  std::function<void()> callback_;
};

TEST_F(KvTiersTest, NewRequestsDoNotWaitForTheDisk) {
  const Request stored = request(1, 400);
  const Answer expected = cold(stored);
  ask(*Engine::start(config()), stored);
  std::optional<SlowDisk> disk;
  EngineHooks hooks;
  hooks.executor = [&](Executor& inner) -> Executor& { return disk.emplace(inner); };
  const auto engine = Engine::start(config(), {}, hooks);
  Pending loading;
  ASSERT_TRUE(engine->submit(stored, loading.sink()).ok());
  ASSERT_TRUE(test::eventually([&] { return disk->num_held() > 0; }));
  Pending other;
  ASSERT_TRUE(engine->submit(request(2, 20), other.sink()).ok());
  EXPECT_TRUE(test::eventually([&] { return engine->stats().num_finished == 1; }));
  EXPECT_EQ(other.wait().samples[0].tokens.size(), 12U);
  disk->release();
  const Answer warm = loading.wait();
  expect_same(warm, expected);
  EXPECT_GE(warm.num_cached_tokens, 384);
}

// Recurrent states at a checkpoint are loaded together with the keys and values before it.
TEST_F(KvTiersTest, RestoresRecurrentStatesAfterARestart) {
  for (const char* model : {"mamba2", "qwen3_next", "lfm2"}) {
    SCOPED_TRACE(model);
    EngineConfig with_states = config();
    with_states.model = model_path(model);
    with_states.max_model_len = 128;
    with_states.block_size = 2;
    Request prompt = request(1, 110);
    for (TokenId& id : prompt.prompt_token_ids) id %= 90;
    EngineConfig without = with_states;
    without.kv_disk_cache.clear();
    const Answer expected = ask(*Engine::start(without), prompt);
    expect_same(ask(*Engine::start(with_states), prompt), expected);
    const auto engine = Engine::start(with_states);
    const Answer warm = ask(*engine, prompt);
    expect_same(warm, expected);
    EXPECT_EQ(warm.num_cached_tokens, 96);
    engine->check_integrity();
  }
}

// A hit on the disk needs the whole prefix in full attention layers, and only the window in others.
TEST_F(KvTiersTest, RestoresWindowsFromTheDisk) {
  for (const char* model : {"gemma3", "gemma4", "gpt_oss", "llama4", "mistral", "lfm3"}) {
    SCOPED_TRACE(model);
    EngineConfig with_windows = config();
    with_windows.model = model_path(model);
    with_windows.max_model_len = 128;
    with_windows.block_size = 2;
    Request prompt = request(1, 110);
    for (TokenId& id : prompt.prompt_token_ids) id %= 90;
    EngineConfig without = with_windows;
    without.kv_disk_cache.clear();
    const Answer expected = ask(*Engine::start(without), prompt);
    expect_same(ask(*Engine::start(with_windows), prompt), expected);
    const auto engine = Engine::start(with_windows);
    const Answer warm = ask(*engine, prompt);
    expect_same(warm, expected);
    EXPECT_GE(warm.num_cached_tokens, 96);
    engine->check_integrity();
  }
}

TEST_F(KvTiersTest, DoesNotReuseBlocksOfAnotherFormat) {
  const Request prompt = request(1, 200);
  ask(*Engine::start(config()), prompt);
  EngineConfig other = config();
  other.kv_cache_dtype = "float16";
  EXPECT_EQ(ask(*Engine::start(other), prompt).num_cached_tokens, 0);
  other = config();
  other.block_size = 8;
  EXPECT_EQ(ask(*Engine::start(other), prompt).num_cached_tokens, 0);
}

TEST_F(KvTiersTest, RecomputesDamagedBlocks) {
  const Request prompt = request(2, 300);
  const Answer expected = cold(prompt);
  ask(*Engine::start(config()), prompt);
  for (const auto& entry : fs::recursive_directory_iterator(directory_)) {
    if (entry.path().filename() != "blocks") continue;
    // The sequence's last block is in the first slot: this is one from its middle.
    std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(fs::file_size(entry.path()) / 2));
    file.write(std::string(4096, 'x').data(), 4096);
  }
  const auto engine = Engine::start(config());
  const Answer answer = ask(*engine, prompt);
  expect_same(answer, expected);
  EXPECT_GT(answer.num_cached_tokens, 0);
  EXPECT_LT(answer.num_cached_tokens, 288);
  engine->check_integrity();
}

TEST_F(KvTiersTest, FindsPrefixesOnlyWithTheirCacheSalt) {
  Request prompt = request(3, 200);
  prompt.cache_salt = "tenant";
  ask(*Engine::start(config()), prompt);
  const auto engine = Engine::start(config());
  EXPECT_GT(ask(*engine, prompt).num_cached_tokens, 0);
  prompt.cache_salt.clear();
  EXPECT_EQ(ask(*engine, prompt).num_cached_tokens, 0);
}

TEST_F(KvTiersTest, EmptiesTheDiskOnReset) {
  const Request prompt = request(4, 200);
  {
    const auto engine = Engine::start(config());
    ask(*engine, prompt);
    engine->reset_prefix_cache();
    EXPECT_EQ(ask(*engine, request(5, 100)).num_cached_tokens, 0);
  }
  const auto engine = Engine::start(config());
  EXPECT_EQ(ask(*engine, prompt).num_cached_tokens, 0);
  EXPECT_GT(ask(*engine, request(5, 100)).num_cached_tokens, 0);
}

TEST_F(KvTiersTest, LoadsEvictedPrefixesFromTheHost) {
  EngineConfig small = config();
  small.kv_disk_cache.clear();
  small.max_model_len = 512;
  {
    const auto engine = Engine::start(small);
    small.kv_cache_memory = engine->model().kv_bytes_per_token * 640;
  }
  small.swap_space = 64 << 20;
  const Request prompt = request(1, 400);
  const Answer expected = cold(prompt);
  const auto engine = Engine::start(small);
  expect_same(ask(*engine, prompt), expected);
  for (int32_t family = 2; family < 6; ++family) ask(*engine, request(family, 400));
  const Answer warm = ask(*engine, prompt);
  EXPECT_GE(warm.num_cached_tokens, 384);
  expect_same(warm, expected);
  engine->check_integrity();
}

TEST_F(KvTiersTest, KeepsOutputsWithAllTiersUnderLoad) {
  EngineConfig small = config();
  small.max_model_len = 512;
  {
    const auto engine = Engine::start(small);
    small.kv_cache_memory = engine->model().kv_bytes_per_token * 700;
    small.swap_space = engine->model().kv_bytes_per_token * 900;
  }
  EngineConfig plain = config();
  plain.kv_disk_cache.clear();
  std::vector<Answer> expected;
  {
    const auto engine = Engine::start(plain);
    for (int32_t family = 0; family < 6; ++family)
      expected.push_back(ask(*engine, request(family, 250 + family)));
  }
  for (int round = 0; round < 3; ++round) {
    const auto engine = Engine::start(small);
    std::vector<Pending> pending(18);
    for (int32_t i = 0; i < 18; ++i)
      ASSERT_TRUE(engine->submit(request(i % 6, 250 + i % 6), pending[static_cast<size_t>(i)].sink()).ok());
    for (int32_t i = 0; i < 18; ++i) {
      SCOPED_TRACE(i);
      expect_same(pending[static_cast<size_t>(i)].wait(), expected[static_cast<size_t>(i % 6)]);
    }
    engine->check_integrity();
  }
}

TEST_F(KvTiersTest, RejectsMoreSwapSpaceThanMemory) {
  EngineConfig greedy = config();
  greedy.swap_space = int64_t{1} << 50;
  greedy.kv_disk_cache.clear();
  for (const int64_t kv_cache_memory :
       {greedy.kv_cache_memory, int64_t{0}}) {  // 0: a part of the free memory
    SCOPED_TRACE(kv_cache_memory);
    greedy.kv_cache_memory = kv_cache_memory;
    try {
      Engine::start(greedy);
      FAIL() << "started";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("--swap-space 1024"), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace quire::test
