// Prefill chunks, preemptions and ends of requests that a watched engine records.
#include "engine/view_recorder.h"

#include <gtest/gtest.h>

#include <numeric>

#include "sched/scheduler.h"

namespace quire {
namespace {

Request make_request(RequestId id, int32_t num_prompt_tokens, int32_t max_tokens) {
  Request request;
  request.id = id;
  request.prompt_token_ids.resize(static_cast<size_t>(num_prompt_tokens));
  std::iota(request.prompt_token_ids.begin(), request.prompt_token_ids.end(), 100 * static_cast<TokenId>(id));
  SamplingParams sampling;
  sampling.max_tokens = max_tokens;
  sampling.ignore_eos = true;
  request.sampling = sampling;
  return request;
}

// A scheduler whose steps take one second, and the recorder of its engine.
struct Watched {
  explicit Watched(const SchedulerConfig& config, int32_t num_blocks)
      : scheduler(config, layout(num_blocks)) {}

  static KvLayout layout(int32_t num_blocks) {
    KvLayout layout;
    layout.block_size = 4;
    layout.num_blocks = num_blocks;
    layout.bytes_per_block = 64;
    return layout;
  }

  // Every sequence that samples gets the token 1.
  void step() {
    const StepPlan& plan = scheduler.schedule(now);
    recorder.note_plan(plan, scheduler);
    StepResult result;
    result.step = plan.step;
    for (const ScheduledSequence& sequence : plan.scheduled) {
      if (sequence.sample) result.sampled.push_back({sequence.seq, 1});
    }
    scheduler.commit(result);
    recorder.note_step(now, now + 1, scheduler);
    now += 1;
  }

  Scheduler scheduler;
  ViewRecorder recorder;
  double now = 1.0;
};

EndedRequest ended_request(RequestId id, double end) {
  EndedRequest ended;
  ended.id = id;
  ended.end = end;
  return ended;
}

TEST(ViewRecorder, WatchesForSomeSecondsAndThenForgets) {
  ViewRecorder recorder;
  EXPECT_FALSE(recorder.watching(1.0));
  recorder.watch(1.0);
  EXPECT_TRUE(recorder.watching(5.9));
  recorder.note_end(ended_request(3, 2.0));
  EXPECT_EQ(recorder.ended(5.9).size(), 1U);
  EXPECT_FALSE(recorder.watching(6.1));
  EXPECT_TRUE(recorder.ended(6.1).empty());
}

TEST(ViewRecorder, RecordsPrefillChunksWithTheirTimes) {
  Watched engine({.max_num_seqs = 2, .max_num_batched_tokens = 8}, 32);
  ASSERT_TRUE(engine.scheduler.add_request(make_request(0, 13, 8)).ok());
  for (int i = 0; i < 4; ++i) engine.step();
  const RequestHistory history = engine.recorder.history(0);
  ASSERT_EQ(history.chunks.size(), 2U);  // steps that generate one token are not chunks
  EXPECT_EQ(history.chunks[0].num_tokens, 8);
  EXPECT_EQ(history.chunks[0].begin, 1.0);
  EXPECT_EQ(history.chunks[0].end, 2.0);
  EXPECT_EQ(history.chunks[1].num_tokens, 5);
  EXPECT_TRUE(history.pauses.empty());
  EXPECT_TRUE(engine.recorder.history(1).chunks.empty());
}

TEST(ViewRecorder, KeepsTheLastChunksOfALongPrompt) {
  Watched engine({.max_num_seqs = 1, .max_num_batched_tokens = 4}, 64);
  ASSERT_TRUE(engine.scheduler.add_request(make_request(0, 120, 2)).ok());
  for (int i = 0; i < 30; ++i) engine.step();
  const RequestHistory history = engine.recorder.history(0);
  ASSERT_EQ(history.chunks.size(), 24U);
  EXPECT_EQ(history.chunks.back().end, 31.0);
}

TEST(ViewRecorder, RecordsThePauseOfAPreemptedRequest) {
  Watched engine({.max_num_seqs = 2, .max_num_batched_tokens = 32}, 8);
  ASSERT_TRUE(engine.scheduler.add_request(make_request(0, 12, 12)).ok());
  ASSERT_TRUE(engine.scheduler.add_request(make_request(1, 12, 12)).ok());
  bool saw_open_pause = false;
  for (int i = 0; i < 40 && engine.scheduler.has_work(); ++i) {
    engine.step();
    const RequestHistory history = engine.recorder.history(1);
    saw_open_pause = saw_open_pause || (!history.pauses.empty() && history.pauses.back().end == 0.0);
  }
  EXPECT_TRUE(saw_open_pause);
  const RequestHistory history = engine.recorder.history(1);
  ASSERT_EQ(history.pauses.size(), 1U);
  EXPECT_GT(history.pauses[0].end, history.pauses[0].begin);
  EXPECT_TRUE(engine.recorder.history(0).pauses.empty());
  EXPECT_EQ(engine.scheduler.stats().num_preemptions, 1);
}

TEST(ViewRecorder, MovesTheHistoryToTheEndedRequest) {
  Watched engine({.max_num_seqs = 2, .max_num_batched_tokens = 32}, 32);
  ASSERT_TRUE(engine.scheduler.add_request(make_request(0, 12, 2)).ok());
  engine.step();
  engine.recorder.note_end(ended_request(0, engine.now));
  EXPECT_TRUE(engine.recorder.history(0).chunks.empty());
  const std::vector<EndedRequest> ended = engine.recorder.ended(engine.now);
  ASSERT_EQ(ended.size(), 1U);
  EXPECT_EQ(ended[0].history.chunks.size(), 1U);
}

TEST(ViewRecorder, DropsEndedRequestsAfterAMinuteAndAbove256) {
  ViewRecorder recorder;
  for (RequestId id = 0; id < 300; ++id) recorder.note_end(ended_request(id, 1.0 + static_cast<double>(id)));
  std::vector<EndedRequest> ended = recorder.ended(45.0);
  ASSERT_EQ(ended.size(), 256U);
  EXPECT_EQ(ended.front().id, 44);
  ended = recorder.ended(301.0);
  ASSERT_EQ(ended.size(), 60U);
  EXPECT_EQ(ended.front().id, 240);
}

}  // namespace
}  // namespace quire
