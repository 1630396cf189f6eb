// Outputs of a beam search, and the places of markers in texts.
#include "engine/output_processor.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "text/tokenizer/tokenizer.h"

namespace quire {
namespace {

class BeamOutputs : public testing::Test {
 protected:
  void add(int32_t n) {
    params_.use_beam_search = true;
    params_.n = n;
    params_.beam_width = 4;
    params_.max_tokens = 8;
    Request request;
    request.id = 7;
    request.sampling = params_;
    request.prompt_token_ids = tokenizer_->encode("Once upon a time", true);
    request.arrival = 1.0;
    outputs_.add(request, [this](RequestOutput&& output) { received_.push_back(std::move(output)); });
    outputs_.mark_started(7, 0, 1.0);
  }
  BeamHypothesis text(const std::string& words, std::optional<TokenId> end = std::nullopt) const {
    BeamHypothesis hypothesis;
    hypothesis.token_ids = tokenizer_->encode(words, false);
    if (end) hypothesis.token_ids.push_back(*end);
    hypothesis.logprobs.assign(hypothesis.token_ids.size(), -0.5F);
    hypothesis.stopped = end.has_value();
    return hypothesis;
  }
  bool apply(const BeamResult* beam, int32_t index = 0) {
    SequenceUpdate update;
    update.request = 7;
    update.index = index;
    update.beam = beam;
    return outputs_.apply(update, 2.0);
  }

  std::unique_ptr<Tokenizer> tokenizer_ =
      Tokenizer::load(std::filesystem::path(QUIRE_SOURCE_DIR) / "models/quire-tiny");
  ModelInfo info_;
  MetricsRegistry registry_{{}};
  EngineMetrics metrics_{registry_, info_};
  std::atomic<int32_t> num_unstarted_{1};
  std::vector<TokenId> end_tokens_ = {0, 2};
  OutputProcessor outputs_{tokenizer_.get(), end_tokens_, metrics_, num_unstarted_};
  SamplingParams params_;
  std::vector<RequestOutput> received_;
};

TEST_F(BeamOutputs, SendsAllHypothesesAtOnceBestFirst) {
  add(2);
  const BeamResult result{100, {text(" there was a dog.", 2), text(" there was")}};
  EXPECT_FALSE(apply(&result));
  outputs_.deliver();
  ASSERT_EQ(received_.size(), 1U);
  const RequestOutput& output = received_[0];
  EXPECT_TRUE(output.finished);
  EXPECT_FALSE(output.failure.has_value());
  ASSERT_EQ(output.outputs.size(), 2U);
  EXPECT_EQ(output.outputs[0].text, " there was a dog.") << "without the end token's text";
  EXPECT_EQ(output.outputs[0].token_ids, result.hypotheses[0].token_ids);
  EXPECT_EQ(output.outputs[0].finish_reason, FinishReason::kStop);
  EXPECT_TRUE(std::holds_alternative<std::monostate>(output.outputs[0].stop_reason));
  EXPECT_DOUBLE_EQ(output.outputs[0].cumulative_logprob,
                   -0.5 * static_cast<double>(output.outputs[0].token_ids.size()));
  EXPECT_EQ(output.outputs[1].text, " there was");
  EXPECT_EQ(output.outputs[1].finish_reason, FinishReason::kLength);
  EXPECT_EQ(outputs_.num_requests(), 0U);
  const size_t num_tokens = result.hypotheses[0].token_ids.size() + result.hypotheses[1].token_ids.size();
  EXPECT_EQ(metrics_.generation_tokens.value(), static_cast<double>(num_tokens));
  EXPECT_EQ(metrics_.success_stop.value(), 1.0);
  EXPECT_EQ(metrics_.success_length.value(), 1.0);
}

TEST_F(BeamOutputs, CountTheirPromptWithTheirTokensInAnIteration) {
  add(1);
  const BeamResult result{100, {text(" there was a dog.", 2)}};
  EXPECT_EQ(outputs_.take_iteration_tokens(), 0);
  apply(&result);
  const auto num_prompt = static_cast<int64_t>(tokenizer_->encode("Once upon a time", true).size());
  const auto num_output = static_cast<int64_t>(result.hypotheses[0].token_ids.size());
  EXPECT_EQ(outputs_.take_iteration_tokens(), num_prompt + num_output);
  EXPECT_EQ(outputs_.take_iteration_tokens(), 0);
}

TEST_F(BeamOutputs, SendsNoOutputForActiveBeams) {
  add(1);
  for (int32_t beam = 0; beam < 4; ++beam) EXPECT_FALSE(apply(nullptr, beam));
  outputs_.deliver();
  EXPECT_TRUE(received_.empty());
  EXPECT_EQ(outputs_.num_requests(), 1U);
}

TEST_F(BeamOutputs, EndsTheRequestWithFewerHypothesesThanRequested) {
  add(3);
  const BeamResult result{100, {text(" yes", 0)}};
  apply(&result);
  outputs_.deliver();
  ASSERT_EQ(received_.size(), 1U);
  EXPECT_TRUE(received_[0].finished);
  EXPECT_EQ(received_[0].outputs.size(), 1U);
  EXPECT_EQ(outputs_.num_requests(), 0U);
}

TEST_F(BeamOutputs, ReportsStopTokensButNotEndTokens) {
  params_.stop_token_ids = {2, 50};
  params_.logprobs = 0;
  add(2);
  BeamHypothesis named = text(" yes", 50);
  named.positions.resize(named.token_ids.size());
  const BeamResult result{100, {named, text(" no", 2)}};
  apply(&result);
  outputs_.deliver();
  EXPECT_EQ(std::get<TokenId>(received_[0].outputs[0].stop_reason), 50);
  EXPECT_EQ(received_[0].outputs[0].logprobs.size(), named.token_ids.size());
  EXPECT_TRUE(std::holds_alternative<std::monostate>(received_[0].outputs[1].stop_reason));
}

TEST_F(BeamOutputs, EndsEveryHypothesisOnAbort) {
  add(2);
  outputs_.end(7, FinishReason::kAbort, std::nullopt, 3.0);
  ASSERT_EQ(received_.size(), 1U);
  ASSERT_EQ(received_[0].outputs.size(), 2U);
  for (const auto& delta : received_[0].outputs) EXPECT_EQ(delta.finish_reason, FinishReason::kAbort);
}

class MarkedOutputs : public BeamOutputs {
 protected:
  static constexpr TokenId kMarker = 1;  // <|im_start|>
  void start() {
    Request request;
    request.id = 7;
    request.sampling = params_;
    request.prompt_token_ids = tokenizer_->encode("Once", true);
    request.markers = std::make_shared<const std::vector<TokenId>>(std::vector<TokenId>{kMarker, 2});
    outputs_.add(request, [this](RequestOutput&& output) { received_.push_back(std::move(output)); });
    outputs_.mark_started(7, 0, 1.0);
  }
  // The output of one step.
  CompletionDelta push(const std::vector<TokenId>& ids, FinishReason reason = FinishReason::kNone) {
    std::vector<SampledToken> sampled(ids.size());
    for (size_t i = 0; i < ids.size(); ++i) sampled[i].token = ids[i];
    SequenceUpdate update;
    update.request = 7;
    update.sampled = sampled;
    update.finish_reason = reason;
    outputs_.apply(update, 2.0);
    outputs_.deliver();
    return received_.back().outputs.at(0);
  }
  std::vector<TokenId> ids(const std::string& words) const { return tokenizer_->encode(words, false); }
};

TEST_F(MarkedOutputs, HavePlacesAlsoIfSpecialTokensAreLeftOut) {
  start();
  std::vector<TokenId> tokens = ids(" one");
  const size_t size = tokenizer_->decode(tokens, true).size();
  tokens.push_back(kMarker);
  for (const TokenId id : ids(" two")) tokens.push_back(id);
  const CompletionDelta delta = push(tokens);
  EXPECT_EQ(delta.text, " one two");
  ASSERT_EQ(delta.markers.size(), 1U);
  EXPECT_EQ(delta.markers[0].offset, size);
  EXPECT_EQ(delta.markers[0].size, 0U);
  EXPECT_EQ(delta.markers[0].token, kMarker);
}

TEST_F(MarkedOutputs, HaveTheirTextIfSpecialTokensAreKept) {
  params_.skip_special_tokens = false;
  start();
  const CompletionDelta delta = push({kMarker});
  EXPECT_EQ(delta.text, "<|im_start|>");
  ASSERT_EQ(delta.markers.size(), 1U);
  EXPECT_EQ(delta.markers[0].offset, 0U);
  EXPECT_EQ(delta.markers[0].size, delta.text.size());
}

TEST_F(MarkedOutputs, WaitForTextThatMayBecomeAStopString) {
  params_.stop = {" one two three"};
  start();
  EXPECT_TRUE(push(ids(" one")).markers.empty());
  EXPECT_TRUE(push({kMarker}).markers.empty());
  const CompletionDelta delta = push(ids(" four"));
  EXPECT_EQ(delta.text, " one four");
  ASSERT_EQ(delta.markers.size(), 1U);
  EXPECT_EQ(delta.markers[0].offset, 4U);
}

TEST_F(MarkedOutputs, IncludeTheTokenThatEndsTheOutput) {
  start();
  std::vector<TokenId> tokens = ids(" one");
  tokens.push_back(2);
  const CompletionDelta delta = push(tokens, FinishReason::kStop);
  EXPECT_EQ(delta.text, " one");
  ASSERT_EQ(delta.markers.size(), 1U);
  EXPECT_EQ(delta.markers[0].offset, 4U);
  EXPECT_EQ(delta.markers[0].token, 2);
}

TEST_F(MarkedOutputs, HavePlacesInHypotheses) {
  params_.use_beam_search = true;
  start();
  BeamHypothesis hypothesis = text(" one", kMarker);
  hypothesis.stopped = false;
  const BeamResult result{100, {hypothesis}};
  apply(&result);
  outputs_.deliver();
  ASSERT_EQ(received_.at(0).outputs.at(0).markers.size(), 1U);
  EXPECT_EQ(received_[0].outputs[0].markers[0].offset, 4U);
}

}  // namespace
}  // namespace quire
