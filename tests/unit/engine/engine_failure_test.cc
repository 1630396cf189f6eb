// Exceptions in any phase on the engine thread: every request ends with an error, the engine reports the
// reason, and its shutdown does not hang.
#include <atomic>
#include <future>
#include <new>
#include <thread>

#include "base/thread_pool.h"
#include "exec/executor.h"
#include "support/eventually.h"
#include "unit/engine/engine_testing.h"

namespace quire {
namespace {

using test::Answer;
using test::Pending;

EngineConfig config() {
  EngineConfig config;
  config.model = test::model_path("quire-tiny");
  config.kv_cache_memory = int64_t{32} << 20;
  config.threads = 2;
  config.generation_config = "none";
  return config;
}

Request request(int max_tokens) {
  Request request;
  request.prompt_token_ids = {5, 6, 7, 8};
  request.sampling.edit().temperature = 0.0F;
  request.sampling.edit().ignore_eos = true;
  request.sampling.edit().max_tokens = max_tokens;
  return request;
}

// Once armed, throws at the given occurrence of a phase.
class PhaseFault {
 public:
  PhaseFault(StepPhase phase, int occurrence) : phase_(phase), left_(occurrence) {}
  EngineHooks hooks() {
    EngineHooks hooks;
    hooks.before = [this](StepPhase phase) {
      if (phase == phase_ && armed_ && --left_ == 0) throw Error("injected");
    };
    return hooks;
  }
  void arm() { armed_ = true; }

 private:
  StepPhase phase_;
  std::atomic<int> left_;
  std::atomic<bool> armed_{false};
};

// Waits for the output with a timeout, so that a hang fails the test.
std::optional<Answer> answer_of(Pending& pending) {
  auto result = std::async(std::launch::async, [pending]() mutable { return pending.wait(); });
  if (result.wait_for(test::kHang) == std::future_status::ready) return result.get();
  ADD_FAILURE() << "a request was never answered";
  std::abort();
}

class EngineFailure : public testing::TestWithParam<std::tuple<StepPhase, int>> {};

TEST_P(EngineFailure, EndsEveryRequestWithAnError) {
  const auto [phase, occurrence] = GetParam();
  PhaseFault fault(phase, occurrence);
  auto engine = Engine::start(config(), {}, fault.hooks());
  std::promise<void> told;
  engine->on_failure([&] { told.set_value(); });

  constexpr int kRequests = 6;
  std::vector<Pending> running(kRequests);
  for (Pending& pending : running) ASSERT_TRUE(engine->submit(request(1000), pending.sink()).ok());
  running[0].wait_for_outputs(2);
  EXPECT_FALSE(engine->failure().has_value());
  fault.arm();
  // Requests keep arriving while the engine fails. Each one is rejected at once or gets an error.
  std::vector<Pending> late(50);
  std::vector<bool> accepted;
  for (Pending& pending : late) {
    const auto id = engine->submit(request(1000), pending.sink());
    if (!id.ok()) {
      EXPECT_EQ(id.failure().kind, ErrorKind::kInternal);
    }
    accepted.push_back(id.ok());
  }
  for (Pending& pending : running) {
    const auto answer = answer_of(pending);
    ASSERT_TRUE(answer->failure.has_value());
    EXPECT_EQ(answer->failure->kind, ErrorKind::kInternal);
    EXPECT_EQ(answer->failure->message, "The engine failed: injected");
  }
  for (size_t i = 0; i < late.size(); ++i) {
    if (accepted[i]) {
      EXPECT_TRUE(answer_of(late[i])->failure.has_value());
    }
  }
  EXPECT_EQ(told.get_future().wait_for(test::kHang), std::future_status::ready);
  EXPECT_EQ(engine->failure(), "injected");
  // No call waits for the engine thread any longer.
  Pending rejected;
  EXPECT_FALSE(engine->submit(request(1), rejected.sink()).ok());
  EXPECT_TRUE(engine->drain(test::kHang));
  EXPECT_FALSE(engine->reset_prefix_cache());
  engine->observe_steps({});
  EXPECT_THROW(engine->check_integrity(), Error);
  engine.reset();
}

std::string phase_name(const testing::TestParamInfo<std::tuple<StepPhase, int>>& info) {
  constexpr std::array<const char*, 6> kNames = {"Messages", "Schedule", "Begin",
                                                 "Finish",   "Commit",   "Deliver"};
  return std::string(kNames[static_cast<size_t>(std::get<0>(info.param))]) + "Step" +
         std::to_string(std::get<1>(info.param));
}

INSTANTIATE_TEST_SUITE_P(Phases, EngineFailure,
                         testing::Combine(testing::Values(StepPhase::kMessages, StepPhase::kSchedule,
                                                          StepPhase::kBegin, StepPhase::kFinish,
                                                          StepPhase::kCommit, StepPhase::kDeliver),
                                          testing::Values(1, 2, 7)),
                         phase_name);

// Throws in the body of a parallel loop, on whichever thread gets the range.
class ThrowingExecutor final : public Executor {
 public:
  explicit ThrowingExecutor(Executor& inner) : inner_(inner) {}
  void begin(const StepPlan& plan) override { inner_.begin(plan); }
  const StepResult& finish() override {
    const StepResult& result = inner_.finish();
    if (--left_ == 0) {
      std::vector<int64_t> on_the_frame(64, 7);
      pool_.parallel_for(64, 1, [&](int64_t begin, int64_t end, int) {
        for (int64_t i = begin; i < end; ++i) {
          if (i == 5) throw std::bad_alloc();
          for (int spin = 0; spin < 20000; ++spin) on_the_frame[static_cast<size_t>(i)] += spin;
        }
      });
    }
    return result;
  }

 private:
  Executor& inner_;
  ThreadPool pool_{3};
  int left_ = 10;
};

TEST(EngineFailureInLoops, EndsEveryRequestWithAnError) {
  std::optional<ThrowingExecutor> executor;
  EngineHooks hooks;
  hooks.executor = [&](Executor& inner) -> Executor& { return executor.emplace(inner); };
  auto engine = Engine::start(config(), {}, hooks);
  std::vector<Pending> running(4);
  for (Pending& pending : running) ASSERT_TRUE(engine->submit(request(1000), pending.sink()).ok());
  for (Pending& pending : running)
    EXPECT_EQ(answer_of(pending)->failure->message, "The engine failed: out of memory");
  EXPECT_EQ(engine->failure(), "out of memory");
}

TEST(EngineFailureCallback, IsCalledImmediatelyIfTheEngineHasFailed) {
  PhaseFault fault(StepPhase::kSchedule, 1);
  fault.arm();
  auto engine = Engine::start(config(), {}, fault.hooks());
  Pending pending;
  ASSERT_TRUE(engine->submit(request(3), pending.sink()).ok());
  EXPECT_TRUE(answer_of(pending)->failure.has_value());
  int calls = 0;
  engine->on_failure([&] { ++calls; });
  EXPECT_EQ(calls, 1);
}

TEST(EngineFailureCallback, IsNotCalledAfterItsRemoval) {
  PhaseFault fault(StepPhase::kSchedule, 1);
  auto engine = Engine::start(config(), {}, fault.hooks());
  int calls = 0;
  engine->on_failure([&] { ++calls; });
  engine->on_failure({});
  fault.arm();
  Pending pending;
  ASSERT_TRUE(engine->submit(request(3), pending.sink()).ok());
  EXPECT_TRUE(answer_of(pending)->failure.has_value());
  engine.reset();
  EXPECT_EQ(calls, 0);
}

// A sink must not throw. If it does, other requests must not hang.
TEST(EngineFailureOfASink, EndsTheOtherRequests) {
  auto engine = Engine::start(config());
  std::vector<Pending> running(3);
  for (Pending& pending : running) ASSERT_TRUE(engine->submit(request(1000), pending.sink()).ok());
  running[2].wait_for_outputs(1);
  ASSERT_TRUE(engine->submit(request(3), [](RequestOutput&&) { throw std::bad_alloc(); }).ok());
  for (Pending& pending : running) EXPECT_TRUE(answer_of(pending)->failure.has_value());
  EXPECT_EQ(engine->failure(), "out of memory");
}

}  // namespace
}  // namespace quire
