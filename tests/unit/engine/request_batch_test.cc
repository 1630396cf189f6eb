// Batches of requests against a port that records what it is asked for.
#include "engine/request_batch.h"

#include <gtest/gtest.h>

#include <functional>
#include <thread>

namespace quire {
namespace {

class RecordingPort final : public RequestPort {
 public:
  Result<RequestId> submit(std::vector<Submission> requests) override {
    if (during_submit) during_submit();
    if (refuses) return Failure{ErrorKind::kOverloaded, "The queue is full.", ""};
    submitted = std::move(requests);
    return RequestId{40};
  }
  void abort(RequestId first, size_t count) override { aborted.emplace_back(first, count); }
  void send(size_t index, const std::string& text, bool finished, std::optional<Failure> failure = {}) {
    RequestOutput output;
    output.num_prompt_tokens = 3;
    output.finished = finished;
    output.failure = std::move(failure);
    CompletionDelta delta;
    delta.text = text;
    delta.token_ids = {7};
    if (finished) delta.finish_reason = FinishReason::kStop;
    output.outputs.push_back(std::move(delta));
    submitted[index].sink(std::move(output));
  }

  bool refuses = false;
  std::function<void()> during_submit;
  std::vector<Submission> submitted;
  std::vector<std::pair<RequestId, size_t>> aborted;
};

using Aborted = std::vector<std::pair<RequestId, size_t>>;

TEST(RequestBatch, AbortsWhatRunsWhenItIsDestroyed) {
  const auto port = std::make_shared<RecordingPort>();
  {
    RequestBatch batch(port);
    ASSERT_TRUE(batch.submit(std::vector<Request>(3)).ok());
    port->send(1, "x", true);
  }
  EXPECT_EQ(port->aborted, (Aborted{{40, 3}}));
}

TEST(RequestBatch, AbortsNothingIfAllHaveFinishedOrNoneWasAccepted) {
  const auto port = std::make_shared<RecordingPort>();
  {
    RequestBatch batch(port);
    ASSERT_TRUE(batch.submit(std::vector<Request>(2)).ok());
    port->send(0, "x", true);
    port->send(1, "y", true);
  }
  port->refuses = true;
  {
    RequestBatch batch(port);
    EXPECT_EQ(batch.submit(std::vector<Request>(2)).failure().kind, ErrorKind::kOverloaded);
  }
  EXPECT_TRUE(port->aborted.empty());
}

TEST(RequestBatch, AbortsRequestsThatWereBeingSubmitted) {
  const auto port = std::make_shared<RecordingPort>();
  RequestBatch batch(port);
  port->during_submit = [&] { batch.abort(); };
  ASSERT_TRUE(batch.submit(std::vector<Request>(2)).ok());
  EXPECT_EQ(port->aborted, (Aborted{{40, 2}}));
}

TEST(RequestBatch, OutlivesItsPort) {
  auto port = std::make_shared<RecordingPort>();
  RequestBatch batch(port);
  ASSERT_TRUE(batch.submit(std::vector<Request>(1)).ok());
  port.reset();
  batch.abort();
  RequestBatch late(port);
  EXPECT_FALSE(late.submit(std::vector<Request>(1)).ok());
}

TEST(RequestBatch, JoinsTheOutputsOfEachRequest) {
  const auto port = std::make_shared<RecordingPort>();
  RequestBatch batch(port);
  ASSERT_TRUE(batch.submit(std::vector<Request>(2)).ok());
  port->send(1, "b", true);
  port->send(0, "a", false);
  EXPECT_EQ(batch.wait(0.0).num_finished, 1U);
  std::thread engine([&] { port->send(0, "A", true); });
  const RequestBatch::Progress progress = batch.wait();
  engine.join();
  EXPECT_EQ(progress.num_finished, 2U);
  EXPECT_EQ(progress.num_prompt_tokens, 6);
  EXPECT_EQ(progress.num_output_tokens, 3);
  EXPECT_EQ(batch.outputs()[0].outputs[0].text, "aA");
  EXPECT_EQ(batch.outputs()[0].outputs[0].token_ids, (std::vector<TokenId>{7, 7}));
  EXPECT_EQ(batch.outputs()[1].outputs[0].text, "b");
}

TEST(RequestBatch, ReportsTheFirstFailure) {
  const auto port = std::make_shared<RecordingPort>();
  RequestBatch batch(port);
  ASSERT_TRUE(batch.submit(std::vector<Request>(3)).ok());
  EXPECT_FALSE(batch.failed().has_value());
  port->send(2, "", true, Failure{ErrorKind::kInternal, "no numbers", ""});
  batch.wait();
  ASSERT_TRUE(batch.failed().has_value());
  EXPECT_EQ(batch.failed()->first, 2U);
  EXPECT_EQ(batch.failed()->second.message, "no numbers");
}

TEST(RequestBatch, StreamsTheFirstRequest) {
  const auto port = std::make_shared<RecordingPort>();
  RequestBatch batch(port);
  ASSERT_TRUE(batch.submit(std::vector<Request>(1)).ok());
  std::thread engine([&] {
    for (const char* piece : {"a", "b", "c"}) port->send(0, piece, *piece == 'c');
  });
  std::string text;
  for (bool finished = false; !finished;) {
    const RequestOutput output = batch.next();
    finished = output.finished;
    text += output.outputs.front().text;
  }
  engine.join();
  EXPECT_EQ(text, "abc");
}

}  // namespace
}  // namespace quire
