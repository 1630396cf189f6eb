// An executor without a model, for tests of the scheduler. Its KV cache holds, for each slot, a hash of the
// whole history up to that token, so that every step can check that a sequence reads exactly its own history;
// its sampler draws a token that is a function of the request, the sample and the history alone.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "contract/kv_layout.h"
#include "contract/request_output.h"
#include "contract/step_plan.h"
#include "contract/step_result.h"
#include "sched/scheduler.h"

namespace quire::testing {

inline constexpr int32_t kVocabulary = 64;

// What sample `index` of a request must look like whatever else runs.
struct Expected {
  std::vector<TokenId> token_ids;
  FinishReason finish_reason = FinishReason::kNone;
  std::optional<TokenId> stop_token;
};

// The token drawn after `history_hash`, with end and stop tokens masked as the sampling parameters say.
TokenId draw(const SequenceInit& init, int32_t sample_index, uint64_t history_hash, int32_t num_generated);
uint64_t history_hash(uint64_t before, TokenId token);
uint64_t history_root(int32_t adapter);

// The request computed by a plain loop, without scheduler, blocks or batches.
Expected expected_sample(const SchedulerRequest& request, int32_t index, int32_t max_model_len);

// A search that keeps, forks, drops and revives beams at random, as a function of the request and the beams'
// histories alone.
class FakeBeamSearch {
 public:
  struct Beam {
    std::vector<TokenId> token_ids;  // generated
    uint64_t history = 0;            // hash of prompt and token_ids
  };
  struct Step {
    std::vector<std::pair<int32_t, int32_t>> forks;  // parent and child, as slots
    std::vector<int32_t> dropped;
    bool done = false;
  };
  FakeBeamSearch(const SequenceInit& init, int32_t max_model_len);
  Step advance();
  // By slot; empty where none is open.
  const std::vector<std::optional<Beam>>& beams() const { return beams_; }
  std::vector<BeamHypothesis> hypotheses() const;

 private:
  SequenceInit init_;
  int32_t max_new_tokens_;
  int32_t num_generated_ = 0;
  std::vector<std::optional<Beam>> beams_;
};

// A request with beam search, computed by a plain loop.
std::vector<BeamHypothesis> expected_beams(const SchedulerRequest& request, int32_t max_model_len);

class FakeExecutor {
 public:
  explicit FakeExecutor(const KvLayout& layout, int32_t max_model_len = 1 << 20);

  // Carries a plan out; test failures (GoogleTest) where the plan is wrong.
  StepResult execute(const StepPlan& plan);

  // Sequences that fail when they are computed next.
  std::set<SeqId> fail_next;
  // Sequences for which no token comes back, as a broken executor would do.
  std::set<SeqId> silent;

  // How many of ten disk reads and writes fail.
  int disk_failures = 0;
  bool disk_busy() const { return !disk_io_.empty(); }

  size_t num_sequences() const { return sequences_.size(); }
  bool knows(SeqId seq) const { return sequences_.contains(seq); }

 private:
  struct State {
    SequenceInit init;
    int32_t index = 0;
    bool forked = false;
    std::vector<TokenId> token_ids;
    std::vector<uint64_t> hashes;  // of the history up to each token
    std::vector<std::vector<BlockId>> tables;
  };

  void learn(const StepPlan& plan);
  void update_tables(const StepPlan& plan);
  void write(const ScheduledSequence& scheduled, std::map<BlockId, SeqId>& writers);
  void read(const ScheduledSequence& scheduled);
  void sample(const ScheduledSequence& scheduled, StepResult& result);
  void fork(SeqId parent, SeqId child, int32_t index, StepResult& result);
  // Draws for all beams of the search when the last of them stands in the plan.
  void sample_beam(SeqId first, StepResult& result);
  void perform(const BlockCopy& copy);
  void begin_disk_io(const DiskWrite& write);
  void begin_disk_io(const DiskRead& read);
  void end_disk_io(StepResult& result);
  void append(State& state, TokenId token);
  uint64_t& slot(size_t group, const State& state, int32_t position);
  // A state group's one block: the state after all tokens so far, in the place of a token's.
  bool is_state(size_t group) const { return layout_.groups[group].kind == KvGroupKind::kState; }

  struct Search {
    FakeBeamSearch beams;
    std::set<SeqId> drawn;  // beams whose last token the step has computed
  };

  KvLayout layout_;
  int32_t max_model_len_;
  std::vector<uint64_t> content_;  // [num_blocks, block_size]
  std::vector<uint64_t> host_;     // [num_host_blocks, block_size]
  // What goes to or comes from the disk, for some steps.
  struct DiskIo {
    int num_steps = 0;
    DiskOutcome outcome;
    std::vector<uint64_t> bytes;  // of a write
  };
  std::vector<DiskIo> disk_io_;
  std::map<int32_t, std::vector<uint64_t>> disk_;  // by slot
  uint64_t disk_random_ = 1;

  std::map<SeqId, State> sequences_;
  std::map<SeqId, Search> searches_;  // by the request's first sequence
};

// A scheduler with its executor and what came out, by request.
class Harness {
 public:
  struct Sample {
    std::vector<TokenId> token_ids;
    FinishReason finish_reason = FinishReason::kNone;
    std::optional<TokenId> stop_token;
    std::string error;
  };
  struct Request {
    SchedulerRequest request;
    std::vector<Sample> samples;
    bool finished = false;
    bool aborted = false;
    std::set<int32_t> finished_outside;
    int32_t num_prompt_logprobs = 0;
    std::vector<BeamHypothesis> beams;
  };

  Harness(const SchedulerConfig& config, const KvLayout& layout);

  Status add(SchedulerRequest request);
  void abort(RequestId request);
  void finish(RequestId request, int32_t index);
  const StepPlan& plan();  // schedule only, at `now`
  void compute();          // execute and commit the last plan
  void step() { plan(), compute(); }
  // Steps until nothing is left; fails the test after max_steps.
  void drain(int max_steps = 100000);
  // Nothing is left: no block, no sequence, here or in the executor.
  void expect_idle() const;
  // The finished request is what it is alone.
  void expect_as_alone(RequestId request) const;

  double now = 0.0;            // what schedule() is given
  double seconds_step = 0.0;   // how much a drained step adds to it
  double seconds_token = 0.0;  // and each token of the step before
  SchedulerConfig config;
  Scheduler scheduler;
  FakeExecutor executor;
  std::map<RequestId, Request> requests;
  StepPlan last_plan;

 private:
  void take(const CommitResult& result);
};

SchedulerRequest make_request(RequestId id, std::vector<TokenId> prompt, int32_t max_tokens, int32_t n = 1);
// A prompt of `size` tokens that no other `salt` shares.
std::vector<TokenId> make_prompt(int32_t size, uint64_t salt);
KvLayout make_layout(int32_t num_blocks, int32_t block_size);

}  // namespace quire::testing
