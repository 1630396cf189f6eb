// Helpers that submit requests to an engine and collect the outputs.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <condition_variable>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/rng.h"
#include "engine/engine.h"
#include "support/golden_checkpoint.h"

namespace quire::test {

inline std::string model_path(const std::string& name) {
  if (name == "quire-tiny") return (std::filesystem::path(QUIRE_SOURCE_DIR) / "models" / name).string();
  return golden_checkpoint("models/" + name).string();
}

// The collected outputs of one request.
struct Answer {
  struct Sample {
    std::string text;
    std::vector<TokenId> tokens;
    std::vector<PositionLogprobs> logprobs;
    FinishReason reason = FinishReason::kNone;
    decltype(CompletionDelta::stop_reason) stop_reason;
  };
  std::vector<Sample> samples;
  std::vector<PositionLogprobs> prompt_logprobs;
  std::optional<Failure> failure;
  int32_t num_cached_tokens = 0;
  int num_outputs = 0;
};

// A request in flight: its sink collects the outputs, wait() returns them.
class Pending {
 public:
  OutputSink sink() {
    return [state = state_](RequestOutput&& output) {
      const std::lock_guard lock(state->mutex);
      EXPECT_FALSE(state->finished) << "an output after the last one";
      Answer& answer = state->answer;
      ++answer.num_outputs;
      for (auto& delta : output.outputs) {
        const auto index = static_cast<size_t>(delta.index);
        if (answer.samples.size() <= index) answer.samples.resize(index + 1);
        Answer::Sample& sample = answer.samples[index];
        EXPECT_EQ(sample.reason, FinishReason::kNone) << "a sample went on after its end";
        sample.text += delta.text;
        sample.tokens.insert(sample.tokens.end(), delta.token_ids.begin(), delta.token_ids.end());
        sample.logprobs.insert(sample.logprobs.end(), delta.logprobs.begin(), delta.logprobs.end());
        sample.reason = delta.finish_reason;
        sample.stop_reason = delta.stop_reason;
      }
      for (auto& position : output.prompt_logprobs) answer.prompt_logprobs.push_back(position);
      answer.num_cached_tokens = output.num_cached_tokens;
      answer.failure = output.failure;
      state->finished = output.finished;
      state->changed.notify_all();
    };
  }
  Answer wait() {
    std::unique_lock lock(state_->mutex);
    state_->changed.wait(lock, [this] { return state_->finished; });
    return state_->answer;
  }
  // Waits for this number of outputs.
  void wait_for_outputs(int count) {
    std::unique_lock lock(state_->mutex);
    state_->changed.wait(lock, [&] { return state_->finished || state_->answer.num_outputs >= count; });
  }

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    Answer answer;
    bool finished = false;
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

inline Answer ask(Engine& engine, Request request) {
  Pending pending;
  const auto id = engine.submit(std::move(request), pending.sink());
  if (!id.ok()) {
    ADD_FAILURE() << "refused: " << id.failure().message;
    return {};
  }
  return pending.wait();
}

inline std::vector<TokenId> random_prompt(uint64_t seed, int length, int vocab_size) {
  std::vector<TokenId> ids;
  for (int i = 0; i < length; ++i) {
    ids.push_back(static_cast<TokenId>(mix64(seed * 1000003 + static_cast<uint64_t>(i)) %
                                       static_cast<uint64_t>(vocab_size)));
  }
  return ids;
}

inline void expect_same_logprobs(const std::vector<PositionLogprobs>& a,
                                 const std::vector<PositionLogprobs>& b) {
  const auto bits = [](float v) { return std::bit_cast<uint32_t>(v); };
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].chosen.token, b[i].chosen.token) << "position " << i;
    EXPECT_EQ(bits(a[i].chosen.logprob), bits(b[i].chosen.logprob)) << "position " << i;
    EXPECT_EQ(a[i].rank, b[i].rank);
    ASSERT_EQ(a[i].top.size(), b[i].top.size());
    for (size_t k = 0; k < a[i].top.size(); ++k) {
      EXPECT_EQ(a[i].top[k].token, b[i].top[k].token);
      EXPECT_EQ(bits(a[i].top[k].logprob), bits(b[i].top[k].logprob));
    }
  }
}

// Bitwise: tokens, texts and log-probabilities.
inline void expect_same(const Answer& a, const Answer& b) {
  EXPECT_FALSE(a.failure.has_value());
  EXPECT_FALSE(b.failure.has_value());
  ASSERT_EQ(a.samples.size(), b.samples.size());
  for (size_t i = 0; i < a.samples.size(); ++i) {
    EXPECT_EQ(a.samples[i].tokens, b.samples[i].tokens);
    EXPECT_EQ(a.samples[i].text, b.samples[i].text);
    EXPECT_EQ(a.samples[i].reason, b.samples[i].reason);
    expect_same_logprobs(a.samples[i].logprobs, b.samples[i].logprobs);
  }
  expect_same_logprobs(a.prompt_logprobs, b.prompt_logprobs);
}

}  // namespace quire::test
