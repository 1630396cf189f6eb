// The interface of Engine: rejected requests, finish reasons, aborts, samples, statistics, shutdown.
#include <deque>
#include <future>
#include <thread>

#include "base/clock.h"
#include "support/golden_checkpoint.h"
#include "support/switches.h"
#include "unit/engine/engine_testing.h"

namespace quire {
namespace {

using test::Answer;
using test::Pending;

EngineConfig small_config(const std::string& model = "quire-tiny") {
  EngineConfig config;
  config.model = test::model_path(model);
  config.kv_cache_memory = int64_t{32} << 20;
  config.threads = 1;
  config.generation_config = "none";
  return config;
}

Request greedy(const Engine& engine, const std::string& text, int max_tokens) {
  Request request;
  request.prompt_token_ids = engine.tokenizer()->encode(text, true);
  request.sampling.edit().temperature = 0.0F;
  request.sampling.edit().max_tokens = max_tokens;
  return request;
}

class EngineTest : public testing::Test {
 protected:
  void refuse(Request request, const std::string& param, const std::string& words,
              ErrorKind kind = ErrorKind::kInvalidArgument) {
    Pending pending;
    const auto id = engine_->submit(std::move(request), pending.sink());
    ASSERT_FALSE(id.ok());
    EXPECT_EQ(id.failure().kind, kind);
    EXPECT_EQ(id.failure().param, param);
    EXPECT_NE(id.failure().message.find(words), std::string::npos) << id.failure().message;
  }
  std::unique_ptr<Engine> engine_ = Engine::start(small_config());
};

TEST_F(EngineTest, RejectsRequestsThatCannotRun) {
  refuse({}, "prompt", "empty");
  Request request;
  request.prompt_token_ids.assign(static_cast<size_t>(engine_->model().max_model_len), 5);
  refuse(request, "prompt", std::to_string(engine_->model().max_model_len), ErrorKind::kContextLength);
  request.prompt_token_ids = {engine_->model().vocab_size};
  refuse(request, "prompt", "vocabulary");
  request.prompt_token_ids = {-1};
  refuse(request, "prompt", "vocabulary");
  request.prompt_token_ids = {1};
  request.sampling.edit().temperature = 3.0F;
  refuse(request, "temperature", "3");
  request.sampling = {};
  request.sampling.edit().n = 100000;
  refuse(request, "n", "100000");
}

// Within the length in training, transformers does not change the base of RoPE.
TEST(EngineStart, SequencesWithDynamicRopeHaveTheLengthInTraining) {
  EngineConfig config = small_config();
  config.model = test::golden_checkpoint("models/llama-rope-dynamic").string();
  EXPECT_EQ(Engine::start(config)->model().max_model_len, 128);
  config.max_model_len = 200;
  EXPECT_EQ(Engine::start(config)->model().max_model_len, 200);
}

TEST_F(EngineTest, ReturnsTheDecodedGreedyTokens) {
  const Answer answer = test::ask(*engine_, greedy(*engine_, "Once upon a time", 30));
  ASSERT_EQ(answer.samples.size(), 1U);
  EXPECT_EQ(answer.samples[0].tokens.size(), 30U);
  EXPECT_EQ(answer.samples[0].reason, FinishReason::kLength);
  EXPECT_EQ(answer.samples[0].text, engine_->tokenizer()->decode(answer.samples[0].tokens, true));
}

TEST_F(EngineTest, ReportsEachStepWithItsTimeToTheObserver) {
  struct Seen {
    int32_t num_tokens;
    StepTimes times;
  };
  std::vector<Seen> seen;
  engine_->observe_steps([&](const StepPlan& plan, const StepTimes& times) {
    seen.push_back({plan.num_tokens, times});
  });
  const Request request = greedy(*engine_, "Once upon a time", 5);
  const auto num_prompt = static_cast<int32_t>(request.prompt_token_ids.size());
  const double before = monotonic_seconds();
  test::ask(*engine_, request);
  test::ask(*engine_, greedy(*engine_, "The cat", 1));
  engine_->observe_steps({});
  const double after = monotonic_seconds();
  test::ask(*engine_, request);
  ASSERT_EQ(seen.size(), 6U) << "five steps, one step, and none after the observer is removed";
  EXPECT_EQ(seen[0].num_tokens, num_prompt);
  EXPECT_EQ(seen[1].num_tokens, 1);
  for (size_t i = 0; i < seen.size(); ++i) {
    // A request may arrive before the engine is idle.
    const bool follows = i > 0 && i < 5;
    if (follows) {
      EXPECT_FALSE(seen[i].times.after_pause) << i;
      EXPECT_EQ(seen[i].times.begin, seen[i - 1].times.end) << i;
    }
    EXPECT_LT(seen[i].times.begin, seen[i].times.end) << i;
    EXPECT_GE(seen[i].times.begin, i == 0 ? before : seen[i - 1].times.end) << i;
  }
  EXPECT_LT(seen.back().times.end, after);
}

TEST_F(EngineTest, ReportsTheFirstStepAfterAPauseToTheObserver) {
  // The engine becomes idle shortly after the last output.
  EXPECT_TRUE(test::eventually([&] {
    bool after_pause = false;
    engine_->observe_steps([&](const StepPlan&, const StepTimes& times) { after_pause = times.after_pause; });
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    test::ask(*engine_, greedy(*engine_, "The cat", 1));
    engine_->observe_steps({});
    return after_pause;
  }));
}

TEST_F(EngineTest, RemovesTheStopStringFromTheText) {
  const std::string whole = test::ask(*engine_, greedy(*engine_, "Once upon a time", 40)).samples[0].text;
  const std::string stop = whole.substr(whole.size() / 2, 5);
  const std::string before = whole.substr(0, whole.find(stop));
  Request request = greedy(*engine_, "Once upon a time", 40);
  request.sampling.edit().stop = {"never in the text", stop};
  const Answer cut = test::ask(*engine_, request);
  EXPECT_EQ(cut.samples[0].text, before);
  EXPECT_EQ(cut.samples[0].reason, FinishReason::kStop);
  EXPECT_EQ(std::get<std::string>(cut.samples[0].stop_reason), stop);
  request.sampling.edit().include_stop_str_in_output = true;
  EXPECT_EQ(test::ask(*engine_, request).samples[0].text, before + stop);
  engine_->check_integrity();
}

TEST_F(EngineTest, IgnoresStopStringsInMinTokens) {
  Request request = greedy(*engine_, "Once upon a time", 20);
  request.sampling.edit().ignore_eos = true;
  const auto text_of = [&](int32_t num_tokens) {
    Request shorter = request;
    shorter.sampling.edit().max_tokens = num_tokens;
    return test::ask(*engine_, shorter).samples[0].text;
  };
  const std::string tenth = text_of(10).substr(text_of(9).size());
  ASSERT_FALSE(tenth.empty());
  request.sampling.edit().stop = {tenth};
  request.sampling.edit().min_tokens = 9;
  EXPECT_EQ(test::ask(*engine_, request).samples[0].tokens.size(), 10U);
  request.sampling.edit().min_tokens = 10;
  EXPECT_GT(test::ask(*engine_, request).samples[0].tokens.size(), 10U);
}

TEST_F(EngineTest, ReportsTheStopToken) {
  const Answer whole = test::ask(*engine_, greedy(*engine_, "Once upon a time", 20));
  const TokenId stop = whole.samples[0].tokens[10];
  Request request = greedy(*engine_, "Once upon a time", 20);
  request.sampling.edit().stop_token_ids = {stop};
  const Answer cut = test::ask(*engine_, request);
  EXPECT_EQ(cut.samples[0].tokens.back(), stop);
  EXPECT_LE(cut.samples[0].tokens.size(), 11U);
  EXPECT_EQ(std::get<TokenId>(cut.samples[0].stop_reason), stop);
  EXPECT_EQ(whole.samples[0].text.rfind(cut.samples[0].text, 0), 0U) << "the cut text begins the whole one";
}

TEST_F(EngineTest, SharesThePromptBetweenDifferentSamples) {
  Request request = greedy(*engine_, "The dog", 24);
  request.sampling.edit().temperature = 1.0F;
  request.sampling.edit().seed = 7;
  request.sampling.edit().n = 4;
  const Answer answer = test::ask(*engine_, request);
  ASSERT_EQ(answer.samples.size(), 4U);
  for (size_t i = 1; i < 4; ++i) EXPECT_NE(answer.samples[i].tokens, answer.samples[0].tokens);
  // Sample 0 is the output of the request with n = 1.
  request.sampling.edit().n = 1;
  EXPECT_EQ(test::ask(*engine_, request).samples[0].tokens, answer.samples[0].tokens);
  engine_->check_integrity();
}

TEST_F(EngineTest, ScoresAPromptWithoutGenerating) {
  Request request = greedy(*engine_, "The cat sat on the mat.", 0);
  request.sampling.edit().prompt_logprobs = 1;
  const size_t length = request.prompt_token_ids.size();
  const Answer answer = test::ask(*engine_, request);
  ASSERT_EQ(answer.samples.size(), 1U);
  EXPECT_TRUE(answer.samples[0].tokens.empty());
  EXPECT_EQ(answer.samples[0].reason, FinishReason::kLength);
  ASSERT_EQ(answer.prompt_logprobs.size(), length - 1);
  for (const auto& position : answer.prompt_logprobs) {
    EXPECT_LE(position.chosen.logprob, 0.0F);
    EXPECT_GE(position.rank, 1);
  }
}

TEST_F(EngineTest, AbortsWithinAStepAndFreesTheBlocks) {
  Request request = greedy(*engine_, "Once upon a time", 1000);
  request.sampling.edit().ignore_eos = true;
  Pending pending;
  const auto id = engine_->submit(request, pending.sink());
  ASSERT_TRUE(id.ok());
  pending.wait_for_outputs(3);
  engine_->abort(*id);
  const Answer answer = pending.wait();
  EXPECT_EQ(answer.samples[0].reason, FinishReason::kAbort);
  EXPECT_LT(answer.samples[0].tokens.size(), 1000U);
  engine_->check_integrity();
  EXPECT_LE(engine_->stats().num_steps, static_cast<int64_t>(answer.samples[0].tokens.size()) + 1);
  engine_->abort(*id);  // a second abort has no effect
  engine_->abort(123456);
}

TEST_F(EngineTest, ReusesTheCachedPrefixOfAnEqualPrompt) {
  Request request =
      greedy(*engine_, "Once upon a time there was a little girl who lived in a small house by the sea.", 4);
  const Answer first = test::ask(*engine_, request);
  const Answer second = test::ask(*engine_, request);
  EXPECT_EQ(first.num_cached_tokens, 0);
  EXPECT_GE(second.num_cached_tokens, 16);
  EXPECT_EQ(second.num_cached_tokens % engine_->model().block_size, 0);
  request.cache_salt = "another tenant";
  EXPECT_EQ(test::ask(*engine_, request).num_cached_tokens, 0);
}

TEST_F(EngineTest, OmitsTheTextOfAnEndToken) {
  Request request = greedy(*engine_, "Once upon a time", 600);
  request.sampling.edit().temperature = 0.8F;
  request.sampling.edit().seed = 3;
  const Answer answer = test::ask(*engine_, request);
  ASSERT_EQ(answer.samples[0].reason, FinishReason::kStop) << "the model did not end its text";
  EXPECT_EQ(answer.samples[0].text.find("<|"), std::string::npos);
}

TEST_F(EngineTest, CountsRequestsStepsAndTokens) {
  test::ask(*engine_, greedy(*engine_, "Once upon a time", 10));
  const EngineStats stats = engine_->stats();
  EXPECT_EQ(stats.num_finished, 1);
  EXPECT_EQ(stats.generation_tokens, 10);
  EXPECT_EQ(stats.num_running, 0);
  EXPECT_EQ(stats.num_waiting, 0);
  const std::string page = engine_->metrics().render();
  EXPECT_NE(page.find("vllm:generation_tokens_total{model_name=\"quire-tiny\",engine=\"0\"} 10\n"),
            std::string::npos)
      << page;
  EXPECT_NE(page.find("quire:request_success_total{model_name=\"quire-tiny\",engine=\"0\",finished_reason="
                      "\"length\"} 1\n"),
            std::string::npos);
}

TEST_F(EngineTest, FinishesRunningRequestsOnDrainAndRejectsNewOnes) {
  Pending running;
  Request request = greedy(*engine_, "Once upon a time", 50);
  ASSERT_TRUE(engine_->submit(request, running.sink()).ok());
  EXPECT_TRUE(engine_->drain(std::chrono::seconds(30)));
  EXPECT_FALSE(running.wait().failure.has_value());
  Pending late;
  const auto refused = engine_->submit(request, late.sink());
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.failure().kind, ErrorKind::kOverloaded);
}

TEST_F(EngineTest, AbortsSlowRequestsOnDrain) {
  Pending running;
  Request request = greedy(*engine_, "Once upon a time", 1000);
  request.sampling.edit().ignore_eos = true;
  ASSERT_TRUE(engine_->submit(request, running.sink()).ok());
  running.wait_for_outputs(1);
  EXPECT_FALSE(engine_->drain(std::chrono::milliseconds(1)));
  EXPECT_TRUE(running.wait().failure.has_value());
  engine_->check_integrity();
}

// One request runs and is held between two steps; two more can wait.
class FullQueue : public testing::Test {
 protected:
  FullQueue() {
    EngineConfig config = small_config();
    config.max_num_seqs = 1;
    config.max_num_queued_requests = 2;
    engine_ = Engine::start(config);
    engine_->observe_steps(
        [held = release_.get_future().share()](const StepPlan&, const StepTimes&) { held.wait(); });
    EXPECT_TRUE(submit(1).ok());
    pending_.front().wait_for_outputs(1);
  }
  ~FullQueue() override { release(); }

  void release() {
    if (!std::exchange(released_, true)) release_.set_value();
  }
  // All or none.
  Result<RequestId> submit(size_t count) {
    std::vector<Submission> requests;
    for (size_t i = 0; i < count; ++i) {
      Request request = greedy(*engine_, "Once upon a time", 100);
      request.sampling.edit().ignore_eos = true;
      pending_.emplace_back();
      requests.push_back({std::move(request), pending_.back().sink()});
    }
    auto result = engine_->submit(std::move(requests));
    if (!result.ok()) pending_.resize(pending_.size() - count);
    return result;
  }

  std::promise<void> release_;
  bool released_ = false;
  std::unique_ptr<Engine> engine_;
  std::deque<Pending> pending_;  // accepted
};

TEST_F(FullQueue, RejectsRequestsBeyondTheConfiguredNumberAtOnce) {
  for (int i = 0; i < 8; ++i) {
    const auto id = submit(1);
    EXPECT_EQ(id.ok(), i < 2) << i;
    if (id.ok()) continue;
    EXPECT_EQ(id.failure().kind, ErrorKind::kOverloaded);
    EXPECT_EQ(
        id.failure().message,
        "The queue is full: 2 requests wait, and at most 2 can (--max-num-queued-reqs); try again later.");
  }
  EXPECT_NE(engine_->metrics().render().find("rejections_total{model_name=\"quire-tiny\",engine=\"0\","
                                             "reason=\"overloaded\"} 6"),
            std::string::npos);
  release();
  for (Pending& pending : pending_) EXPECT_FALSE(pending.wait().failure.has_value());
  engine_->observe_steps({});
  engine_->check_integrity();
  EXPECT_TRUE(submit(1).ok());
}

TEST_F(FullQueue, TakesAllPromptsOfARequestOrNone) {
  ASSERT_TRUE(submit(1).ok());
  EXPECT_EQ(submit(2).failure().kind, ErrorKind::kOverloaded);
  ASSERT_TRUE(submit(1).ok()) << "the refused ones took no place";
  const auto too_many = submit(3);
  EXPECT_EQ(too_many.failure().kind, ErrorKind::kInvalidArgument) << "it would never be accepted";
  EXPECT_EQ(too_many.failure().message,
            "The request has 3 prompts; at most 2 can wait (--max-num-queued-reqs).");
}

TEST_F(FullQueue, HasPlacesAgainWhenWaitingRequestsAreAborted) {
  const auto first = submit(2);
  ASSERT_TRUE(first.ok());
  EXPECT_FALSE(submit(1).ok());
  engine_->abort(*first, 2);
  release();
  EXPECT_EQ(pending_[1].wait().samples[0].reason, FinishReason::kAbort);
  EXPECT_EQ(pending_[2].wait().samples[0].reason, FinishReason::kAbort);
  EXPECT_TRUE(submit(2).ok());
}

TEST_F(FullQueue, NamesThePromptThatIsRejectedAndRunsNone) {
  std::vector<Submission> requests;
  for (const TokenId token : {5, 1 << 30}) {
    Request request;
    request.prompt_token_ids = {token};
    requests.push_back({std::move(request), [](RequestOutput&&) { ADD_FAILURE() << "a sink was called"; }});
  }
  const auto result = engine_->submit(std::move(requests));
  ASSERT_FALSE(result.ok());
  EXPECT_TRUE(result.failure().message.starts_with("prompt 1: The prompt contains the token 1073741824, "));
  EXPECT_EQ(result.failure().param, "prompt");
  EXPECT_TRUE(submit(2).ok()) << "the queue is empty";
}

TEST(EngineStart, EndsItsRequestsWhenItIsDestroyed) {
  auto engine = Engine::start(small_config());
  Pending pending;
  Request request = greedy(*engine, "Once upon a time", 1000);
  request.sampling.edit().ignore_eos = true;
  ASSERT_TRUE(engine->submit(request, pending.sink()).ok());
  engine.reset();
  EXPECT_TRUE(pending.wait().failure.has_value());
}

TEST(EngineStart, RejectsAModelThatDoesNotFitIntoThePool) {
  EngineConfig config = small_config("llama");
  config.kv_cache_memory = 1;
  EXPECT_THROW(Engine::start(config), Error);
  config.kv_cache_memory = 0;
  config.max_model_len = 1 << 20;
  EXPECT_THROW(Engine::start(config), Error);
}

TEST(EngineStart, ReportsInvalidOptions) {
  const auto message = [](EngineConfig config) -> std::string {
    try {
      Engine::start(config);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EngineConfig config;
  config.model = "/nowhere/at/all";
  EXPECT_NE(message(config).find("/nowhere/at/all"), std::string::npos);
  config = small_config();
  config.dtype = "float8";
  EXPECT_NE(message(config).find("--dtype"), std::string::npos);
  config.block_size = 0;
  EXPECT_EQ(message(config), "--block-size is 0; it must be 1 to 1024.") << "before the model is read";
}

TEST(EngineStart, RunsWithoutTokenizer) {
  const auto engine = Engine::start(small_config("llama"));
  EXPECT_EQ(engine->tokenizer(), nullptr);
  Request request;
  request.prompt_token_ids = {1, 5, 9};
  request.sampling.edit().temperature = 0.0F;
  request.sampling.edit().ignore_eos = true;
  const Answer answer = test::ask(*engine, request);
  EXPECT_EQ(answer.samples[0].tokens.size(), 16U);
  EXPECT_TRUE(answer.samples[0].text.empty());
}

TEST(EngineStart, SleepsWhileIdle) {
  EngineConfig config = small_config();
  config.threads = 2;
  const auto engine = Engine::start(config);
  test::ask(*engine, greedy(*engine, "Once upon a time", 20));
  EXPECT_TRUE(test::others_sleep(std::chrono::milliseconds(500)));
}

TEST(EngineStart, ReproducesOutputsWithTheSameEngineSeed) {
  std::vector<std::vector<TokenId>> first;
  for (int run = 0; run < 2; ++run) {
    EngineConfig config = small_config();
    config.seed = 42;
    const auto engine = Engine::start(config);
    for (size_t i = 0; i < 3; ++i) {
      Request request = greedy(*engine, "One day", 12);
      request.sampling.edit().temperature = 1.0F;
      const auto tokens = test::ask(*engine, request).samples[0].tokens;
      if (run == 0) {
        first.push_back(tokens);
      } else {
        EXPECT_EQ(tokens, first[i]);
      }
    }
  }
  EXPECT_NE(first[0], first[1]) << "requests draw different seeds";
}

}  // namespace
}  // namespace quire
