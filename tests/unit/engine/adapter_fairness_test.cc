// Adapters that take turns in the steps of an engine: how long they wait, and that outputs do not depend on
// it. Waiting is counted in steps.
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "exec/executor.h"
#include "support/temp_dir.h"
#include "unit/engine/engine_testing.h"
#include "unit/engine/lora_testing.h"

namespace quire {
namespace {

using test::Answer;
using test::config_with_adapters;
using test::kAdapter;
using test::kLoraModel;
using test::kOtherAdapter;
using test::lora_request;
using test::Pending;

constexpr const char* kThirdAdapter = "qwen3-all-linear";

// Passes steps on, counts them and looks for their adapters and for a request with a first token of its own.
// Can stop the engine in a step.
class WatchedExecutor final : public Executor {
 public:
  WatchedExecutor(Executor& inner, TokenId first_token) : inner_(inner), first_token_(first_token) {}

  void begin(const StepPlan& plan) override {
    std::unique_lock lock(mutex_);
    for (const SequenceInit& init : plan.inits) {
      adapters_[init.seq] = init.adapter.id;
      if (init.prompt_token_ids.front() != first_token_) continue;
      watched_ = init.seq;
      first_token_step_.reset();
    }
    if (!plan.scheduled.empty()) ++num_steps_;
    std::set<int32_t> in_step;
    for (const ScheduledSequence& scheduled : plan.scheduled) in_step.insert(adapters_.at(scheduled.seq));
    in_step.erase(0);
    max_adapters_ = std::max(max_adapters_, in_step.size());
    if (num_steps_ == stop_at_) {
      stop_at_ = -1;
      stopped_ = true;
      changed_.notify_all();
      changed_.wait(lock, [this] { return !stopped_; });
    }
    inner_.begin(plan);
  }
  const StepResult& finish() override {
    const StepResult& result = inner_.finish();
    const std::lock_guard lock(mutex_);
    for (const SequenceFork& fork : result.forks) adapters_[fork.child] = adapters_.at(fork.parent);
    for (const SampledToken& sampled : result.sampled) {
      if (sampled.seq == watched_ && !first_token_step_) first_token_step_ = num_steps_;
    }
    return result;
  }
  bool disk_busy() const override { return inner_.disk_busy(); }
  void wait_for_disk() override { inner_.wait_for_disk(); }
  void on_disk_outcome(const std::function<void()>& callback) override { inner_.on_disk_outcome(callback); }
  void clear_disk_cache() override { inner_.clear_disk_cache(); }

  // Stops in the step `count` steps from now.
  void stop_after(int64_t count) {
    const std::lock_guard lock(mutex_);
    stop_at_ = num_steps_ + count;
  }
  void wait_until_stopped() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return stopped_; });
  }
  void resume() {
    const std::lock_guard lock(mutex_);
    stopped_ = false;
    changed_.notify_all();
  }
  int64_t num_steps() const {
    const std::lock_guard lock(mutex_);
    return num_steps_;
  }
  int64_t first_token_step() const {
    const std::lock_guard lock(mutex_);
    return first_token_step_.value_or(-1);
  }
  size_t max_adapters() const {
    const std::lock_guard lock(mutex_);
    return max_adapters_;
  }

 private:
  Executor& inner_;
  const TokenId first_token_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<SeqId, int32_t> adapters_;
  SeqId watched_ = -1;
  int64_t num_steps_ = 0;
  int64_t stop_at_ = -1;
  bool stopped_ = false;
  std::optional<int64_t> first_token_step_;
  size_t max_adapters_ = 0;
};

struct WatchedEngine {
  explicit WatchedEngine(const EngineConfig& config, TokenId first_token = -1) {
    EngineHooks hooks;
    hooks.executor = [this, first_token](Executor& inner) -> Executor& {
      return executor.emplace(inner, first_token);
    };
    engine = Engine::start(config, {}, hooks);
  }
  std::optional<WatchedExecutor> executor;
  std::unique_ptr<Engine> engine;
};

// Clients that each send the next request when the last one has ended, on a thread of their own. They stop
// after many, so that a test in which another request waits for ever ends.
class BusyClients {
 public:
  BusyClients(Engine& engine, int count, const std::string& adapter)
      : engine_(engine), adapter_(adapter), thread_([this, count] { run(count); }) {}
  ~BusyClients() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  BusyClients(const BusyClients&) = delete;
  BusyClients& operator=(const BusyClients&) = delete;

 private:
  void run(int count) {
    for (int i = 0; i < count; ++i) send();
    std::unique_lock lock(mutex_);
    for (int open = count; open > 0; --open) {
      changed_.wait(lock, [this] { return num_ended_ > 0; });
      --num_ended_;
      if (stopping_ || num_sent_ >= 2000) continue;
      lock.unlock();
      send();
      ++open;
      lock.lock();
    }
  }
  void send() {
    const uint64_t seed = num_sent_++;
    Request request = lora_request(test::random_prompt(seed, 8 + static_cast<int>(seed % 23), 90), adapter_,
                                   8 + static_cast<int32_t>(seed % 40));
    request.prompt_token_ids.front() = 3;
    const auto id = engine_.submit(std::move(request), [this](RequestOutput&& output) {
      if (!output.finished) return;
      // Within the lock: the last output lets the destructor continue.
      const std::lock_guard lock(mutex_);
      ++num_ended_;
      changed_.notify_all();
    });
    EXPECT_TRUE(id.ok());
  }

  Engine& engine_;
  const std::string adapter_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int num_ended_ = 0;
  bool stopping_ = false;
  uint64_t num_sent_ = 0;
  std::thread thread_;
};

TEST(AdapterFairness, ARequestAmongSixtyFourClientsOfAnotherAdapterWaitsForTwoQuantaAtMost) {
  constexpr TokenId kWatched = 91;
  EngineConfig config = config_with_adapters(kLoraModel, {kAdapter, kOtherAdapter});
  config.max_loras = 1;
  std::vector<TokenId> prompt = test::random_prompt(1, 24, 90);
  prompt.front() = kWatched;
  WatchedEngine watched(config, kWatched);
  Engine& engine = *watched.engine;
  // Both adapters are in memory.
  for (const char* adapter : {kAdapter, kOtherAdapter}) test::ask(engine, lora_request({5, 6, 7}, adapter));
  const auto steps_to_first_token = [&](bool resume) {
    const int64_t before = watched.executor->num_steps();
    Pending pending;
    EXPECT_TRUE(engine.submit(lora_request(prompt, kOtherAdapter), pending.sink()).ok());
    if (resume) watched.executor->resume();
    EXPECT_EQ(pending.wait().samples.at(0).tokens.size(), 8U);
    return watched.executor->first_token_step() - before;
  };
  const int64_t idle = steps_to_first_token(false);
  EXPECT_EQ(idle, 1);
  const BusyClients clients(engine, 64, kAdapter);
  // The first time the other adapter was alone for long; later its turn has begun a few steps ago.
  for (const int64_t num_steps : {60, 1, 3, 7, 12, 1}) {
    watched.executor->stop_after(num_steps);
    watched.executor->wait_until_stopped();
    EXPECT_LE(steps_to_first_token(true), idle + 32);
  }
}

// Requests of three adapters and of the base, with samples, beams and log-probabilities.
std::vector<Request> requests_of_adapters() {
  std::vector<Request> requests;
  for (uint64_t i = 0; i < 24; ++i) {
    const std::vector<std::string> adapters = {kAdapter, kOtherAdapter, kThirdAdapter, ""};
    Request& request = requests.emplace_back(
        lora_request(test::random_prompt(i % 7, 10 + static_cast<int>(i), 90), adapters[i % 4], 24));
    SamplingParams& sampling = request.sampling.edit();
    sampling.seed = 5;
    sampling.logprobs = 2;
    if (i % 5 == 0) sampling.prompt_logprobs = 1;
    if (i % 3 == 0) {
      sampling.n = 2;
      sampling.temperature = 1.0F;
    }
    if (i % 8 == 1) {
      sampling.use_beam_search = true;
      sampling.beam_width = 3;
    }
  }
  return requests;
}

std::vector<Answer> answers_to_all(Engine& engine, const std::vector<Request>& requests) {
  std::vector<Pending> pending(requests.size());
  for (size_t i = 0; i < requests.size(); ++i)
    EXPECT_TRUE(engine.submit(requests[i], pending[i].sink()).ok());
  std::vector<Answer> answers;
  for (Pending& one : pending) answers.push_back(one.wait());
  engine.check_integrity();
  return answers;
}

void expect_equal_answers(const std::vector<Answer>& answers, const std::vector<Answer>& expected) {
  ASSERT_EQ(answers.size(), expected.size());
  for (size_t i = 0; i < answers.size(); ++i) {
    SCOPED_TRACE(i);
    test::expect_same(answers[i], expected[i]);
  }
}

EngineConfig config_with_three_adapters() {
  EngineConfig config = config_with_adapters(kLoraModel, {kAdapter, kOtherAdapter, kThirdAdapter});
  config.max_num_batched_tokens = 48;
  config.threads = 2;
  return config;
}

TEST(AdapterFairness, AnswersDoNotDependOnTheNumberOfAdaptersInAStep) {
  EngineConfig config = config_with_three_adapters();
  const std::vector<Request> requests = requests_of_adapters();
  WatchedEngine all(config);
  const std::vector<Answer> expected = answers_to_all(*all.engine, requests);
  EXPECT_EQ(all.executor->max_adapters(), 3U);
  for (const int32_t max_loras : {1, 2}) {
    config.max_loras = max_loras;
    WatchedEngine limited(config);
    expect_equal_answers(answers_to_all(*limited.engine, requests), expected);
    EXPECT_EQ(limited.executor->max_adapters(), static_cast<size_t>(max_loras));
    // Again, with the prompts in the prefix cache.
    expect_equal_answers(answers_to_all(*limited.engine, requests), expected);
  }
}

TEST(AdapterFairness, AnswersDoNotDependOnPreemption) {
  EngineConfig config = config_with_three_adapters();
  const std::vector<Request> requests = requests_of_adapters();
  const auto roomy = Engine::start(config);
  const std::vector<Answer> expected = answers_to_all(*roomy, requests);
  EXPECT_EQ(roomy->stats().num_preemptions, 0);
  config.kv_cache_memory = roomy->model().kv_bytes_per_token * 8 * 32;
  config.swap_space = config.kv_cache_memory;
  config.max_loras = 1;
  for (const PreemptionMode mode : {PreemptionMode::kRecompute, PreemptionMode::kSwap}) {
    for (const SchedulingPolicy policy : {SchedulingPolicy::kFcfs, SchedulingPolicy::kMlfq}) {
      config.preemption_mode = mode;
      config.scheduling_policy = policy;
      WatchedEngine tight(config);
      expect_equal_answers(answers_to_all(*tight.engine, requests), expected);
      EXPECT_GT(tight.engine->stats().num_preemptions, 0) << "nothing was preempted, the test shows nothing";
      EXPECT_EQ(tight.executor->max_adapters(), 1U);
    }
  }
}

TEST(AdapterFairness, PoliciesShareTheEngineBetweenAdapters) {
  EngineConfig config = config_with_adapters(kLoraModel, {kAdapter, kOtherAdapter});
  config.scheduling_policy = SchedulingPolicy::kFair;
  config.max_num_seqs = 1;
  // One request for an adapter after many for another, all of one client.
  const auto ended_before = [&](FairBy fair_by) {
    config.fair_by = fair_by;
    WatchedEngine watched(config);
    Engine& engine = *watched.engine;
    for (const char* adapter : {kAdapter, kOtherAdapter}) test::ask(engine, lora_request({5, 6, 7}, adapter));
    watched.executor->stop_after(1);
    std::atomic<int> num_ended = 0;
    std::atomic<int> before = -1;
    std::vector<Pending> pending(11);
    for (size_t i = 0; i < pending.size(); ++i) {
      const bool last = i + 1 == pending.size();
      const OutputSink sink = [&, last, inner = pending[i].sink()](RequestOutput&& output) {
        if (output.finished && last) before = num_ended.load();
        if (output.finished) ++num_ended;
        inner(std::move(output));
      };
      const auto id =
          engine.submit(lora_request(test::random_prompt(i, 20, 90), last ? kOtherAdapter : kAdapter), sink);
      EXPECT_TRUE(id.ok());
    }
    watched.executor->wait_until_stopped();
    watched.executor->resume();
    for (Pending& one : pending) one.wait();
    return before.load();
  };
  EXPECT_EQ(ended_before(FairBy::kClient), 10);
  EXPECT_LE(ended_before(FairBy::kAdapter), 3);
}

// A second engine over the same directory finds the blocks of the same contents, and only those.
TEST(AdapterFairness, CachedPrefixesOfAnAdapterSurviveARestart) {
  const test::TempDir directory;
  EngineConfig config = config_with_adapters(kLoraModel, {kAdapter, kOtherAdapter});
  const std::vector<TokenId> prompt = test::random_prompt(9, 60, 90);
  const auto ask = [&](Engine& engine, const std::string& adapter) {
    Request request = lora_request(prompt, adapter);
    request.sampling.edit().logprobs = 2;
    return test::ask(engine, std::move(request));
  };
  const auto uncached = Engine::start(config);
  config.kv_disk_cache = directory.path();
  ask(*Engine::start(config), kAdapter);

  // Another name, and a copy of the files.
  const test::AdapterCopy copy(kAdapter);
  EngineConfig renamed = config;
  renamed.lora_modules = {{"copy", copy.path()}, {"other", test::adapter_path(kOtherAdapter).string()}};
  const auto engine = Engine::start(renamed);
  for (const char* name : {"other", ""}) {
    const Answer answer = ask(*engine, name);
    EXPECT_EQ(answer.num_cached_tokens, 0) << name;
    test::expect_same(answer, ask(*uncached, *name == '\0' ? "" : kOtherAdapter));
  }
  const Answer warm = ask(*engine, "copy");
  EXPECT_EQ(warm.num_cached_tokens, 56);
  test::expect_same(warm, ask(*uncached, kAdapter));
}

}  // namespace
}  // namespace quire
