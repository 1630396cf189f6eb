// An executor without a model, for tests of the scheduler. Its KV cache holds, for each slot, a hash of the
// whole history up to that token, so that every step can check that a sequence reads exactly its own history;
// its sampler returns a token that depends only on the request, the sample and the history.
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

namespace quire::test {

inline constexpr int32_t kVocabulary = 64;

// The expected tokens of sample `index` of a request, independent of other requests.
struct Expected {
  std::vector<TokenId> token_ids;
  FinishReason finish_reason = FinishReason::kNone;
  std::optional<TokenId> stop_token;
};

// The token sampled after `history_hash`, with end and stop tokens masked according to the sampling
// parameters.
TokenId draw(const SequenceInit& init, int32_t sample_index, uint64_t history_hash, int32_t num_generated);
uint64_t history_hash(uint64_t before, TokenId token);
uint64_t history_root(int32_t adapter);

// The request computed by a plain loop, without scheduler, blocks or batches.
Expected expected_sample(const Request& request, int32_t index, int32_t max_model_len);

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
  // By slot; empty if the beam is not active.
  const std::vector<std::optional<Beam>>& beams() const { return beams_; }
  std::vector<BeamHypothesis> hypotheses() const;

 private:
  SequenceInit init_;
  int32_t max_new_tokens_;
  int32_t num_generated_ = 0;
  std::vector<std::optional<Beam>> beams_;
};

// A request with beam search, computed by a plain loop.
std::vector<BeamHypothesis> expected_beams(const Request& request, int32_t max_model_len);

// The bytes of a disk cache, for tests that simulate them. Called when an operation ends.
class FakeDisk {
 public:
  virtual ~FakeDisk() = default;
  // Returns whether the write succeeded. content: [block_size]
  virtual bool write(int32_t slot, const CachedBlockHash& name, const std::vector<uint64_t>& content) = 0;
  // Returns the content of the slot; nullopt if it has no intact block.
  virtual std::optional<std::vector<uint64_t>> read(int32_t slot) = 0;
};

class FakeExecutor {
 public:
  explicit FakeExecutor(const KvLayout& layout, int32_t max_model_len = 1 << 20);

  // Executes a plan; reports GoogleTest failures if the plan is wrong.
  StepResult execute(const StepPlan& plan);

  // Sequences that fail the next time they are computed.
  std::set<SeqId> fail_next;
  // Sequences for which no token is returned, as in a broken executor.
  std::set<SeqId> silent;

  // Number of failures per ten disk reads and writes.
  int disk_failures = 0;
  // Stores the blocks of the disk tier; null = this executor does, until it is destroyed.
  FakeDisk* disk = nullptr;
  bool disk_busy() const { return !disk_io_.empty(); }

  size_t num_sequences() const { return sequences_.size(); }
  bool knows(SeqId seq) const { return sequences_.contains(seq); }

 private:
  struct State {
    SequenceInit init;
    int32_t index = 0;
    bool forked = false;
    std::vector<TokenId> token_ids;
    std::vector<uint64_t> hashes;  // hash of the history up to each token
    std::vector<std::vector<BlockId>> tables;
  };

  void learn(const StepPlan& plan);
  void update_tables(const StepPlan& plan);
  void write(const ScheduledSequence& scheduled, std::map<BlockId, SeqId>& writers);
  void read(const ScheduledSequence& scheduled);
  void sample(const ScheduledSequence& scheduled, StepResult& result);
  void fork(SeqId parent, SeqId child, int32_t index, StepResult& result);
  // Samples for all beams of a search once the last of them is computed.
  void sample_beam(SeqId first, StepResult& result);
  void perform(const BlockCopy& copy);
  void begin_disk_io(const DiskWrite& write);
  void begin_disk_io(const DiskRead& read);
  void end_disk_io(StepResult& result);
  void append(State& state, TokenId token);
  uint64_t& slot(size_t group, const State& state, int32_t position);
  // The block of a state group: its first slot holds the state after all tokens so far.
  bool is_state(size_t group) const { return layout_.groups[group].kind == KvGroupKind::kState; }

  struct Search {
    FakeBeamSearch beams;
    std::set<SeqId> drawn;  // beams whose last token the step has computed
  };

  KvLayout layout_;
  int32_t max_model_len_;
  std::vector<uint64_t> content_;  // [num_blocks, block_size]
  std::vector<uint64_t> host_;     // [num_host_blocks, block_size]
  // A disk read or write that takes several steps.
  struct DiskIo {
    int num_steps = 0;
    DiskOutcome outcome;
    std::vector<uint64_t> bytes;  // for a write
    CachedBlockHash key;          // for a write
  };
  std::vector<DiskIo> disk_io_;
  std::map<int32_t, std::vector<uint64_t>> disk_;  // by slot
  uint64_t disk_random_ = 1;

  std::map<SeqId, State> sequences_;
  std::map<SeqId, Search> searches_;  // by the request's first sequence
};

// A scheduler, its executor, and the outputs by request.
class Harness {
 public:
  struct Sample {
    std::vector<TokenId> token_ids;
    FinishReason finish_reason = FinishReason::kNone;
    std::optional<TokenId> stop_token;
    std::string error;
  };
  struct Record {
    Request request;
    std::vector<Sample> samples;
    bool finished = false;
    bool aborted = false;
    std::set<int32_t> finished_outside;
    int32_t num_prompt_logprobs = 0;
    std::vector<BeamHypothesis> beams;
  };

  Harness(const SchedulerConfig& config, const KvLayout& layout);

  Status add(Request request);
  void abort(RequestId request);
  void finish(RequestId request, int32_t index);
  const StepPlan& plan();  // schedule only, at `now`
  void compute();          // execute and commit the last plan
  void step() { plan(), compute(); }
  // Steps until nothing is left; fails the test after max_steps.
  void drain(int max_steps = 100000);
  // Checks that the scheduler and the executor have no blocks and no sequences.
  void expect_idle() const;
  // Checks that the finished request has the output that it gets alone.
  void expect_as_alone(RequestId request) const;

  double now = 0.0;            // time passed to schedule()
  double seconds_step = 0.0;   // duration of a step in drain()
  double seconds_token = 0.0;  // additional duration per token
  SchedulerConfig config;
  Scheduler scheduler;
  FakeExecutor executor;
  std::map<RequestId, Record> requests;
  StepPlan last_plan;

 private:
  void take(const CommitResult& result);
};

Request make_request(RequestId id, std::vector<TokenId> prompt, int32_t max_tokens, int32_t n = 1);
// A prompt of `size` tokens that no other `salt` shares.
std::vector<TokenId> make_prompt(int32_t size, uint64_t salt);
KvLayout make_layout(int32_t num_blocks, int32_t block_size);

}  // namespace quire::test
