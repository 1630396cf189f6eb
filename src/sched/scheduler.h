// Decides at every step which tokens are computed: continuous batching over one token budget.
//
// There is no prefill phase and no decode phase. A sequence has num_computed_tokens and num_tokens, and each
// step lets the one catch up with the other; a chunk that reaches the last known token draws the next one.
// Chunked prefill, prefix hits, n samples, preemption and resumption are this one rule.
//
// One step:   plan = schedule();   the executor computes it;   commit(result);
// abort_request, finish_sequence and add_request may be called at any moment, also between the two. Engine
// thread only.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "contract/engine_config.h"
#include "contract/ids.h"
#include "contract/kv_layout.h"
#include "contract/request_output.h"
#include "contract/step_plan.h"
#include "contract/step_result.h"
#include "kv/kv_manager.h"
#include "sched/clients.h"
#include "sched/feedback_levels.h"
#include "sched/request.h"
#include "sched/step_clock.h"
#include "sched/waiting_queue.h"

namespace quire {

struct SchedulerConfig {
  int32_t max_num_seqs = 256;             // samples running at once
  int32_t max_num_batched_tokens = 2048;  // tokens computed in one step
  int32_t max_model_len = 4096;           // prompt and generated tokens of one sequence
  int32_t long_prefill_token_threshold =
      0;  // tokens of one sequence in one step; 0: only the budget limits it
  bool whole_prompts =
      false;  // a prompt is computed in one step, or not yet: its tokens see each other both ways
  int32_t max_num_queued_requests = 4096;  // requests that wait and never ran
  bool enable_prefix_caching = true;
  SchedulingPolicy policy = SchedulingPolicy::kFcfs;
  PreemptionMode preemption_mode = PreemptionMode::kAuto;
  int32_t max_num_partial_prefills = 0;  // prompts computed in chunks at once; 0: any number
  double ttft_slo = 0.0;                 // seconds to the first token aimed at; 0: none
  double tpot_slo = 0.0;                 // seconds between tokens aimed at; 0: none
  double starvation_bound = 10.0;        // kMlfq: seconds without progress until a request comes to the top
  uint64_t hash_seed = 0;                // of the prefix cache's names; a value nobody outside knows
  int32_t hash_bits = 128;               // see BlockHasher
};

// What a commit says about one sample, for the output side. Only samples with news are reported.
struct SequenceProgress {
  RequestId request = -1;
  int32_t index = 0;  // which sample
  SeqId seq = -1;
  std::span<const SampledToken> sampled;  // its new tokens, a part of StepResult::sampled
  FinishReason finish_reason = FinishReason::kNone;
  std::optional<TokenId> stop_token;                // the stop_token_ids entry that ended it
  std::string error;                                // with kError: what went wrong
  const PromptLogprobs* prompt_logprobs = nullptr;  // a part of StepResult::prompt_logprobs
  const PooledVector* pooled = nullptr;             // a part of StepResult::pooled, with the last news
  // All texts of a beam search, a part of StepResult::beams: the only news of such a request (of its sample
  // 0) but for prompt log-probabilities and an error.
  const BeamResult* beam = nullptr;
  bool request_finished = false;  // the last news of the request
};

// Valid until the next commit, the spans and pointers in it as long as the StepResult.
struct CommitResult {
  std::vector<SequenceProgress> progress;
  std::vector<RequestId> started;  // requests that were computed for the first time in this step
};

struct SchedulerStats {
  int32_t num_running = 0;      // sequences
  int32_t num_waiting = 0;      // sequences, preempted ones included
  int64_t num_preemptions = 0;  // of whole requests, and of samples for others of their request
  int64_t num_swap_outs =
      0;  // preempted requests whose blocks moved to the host pool; the others are recomputed
  int64_t num_swap_ins = 0;
  int32_t num_loading = 0;            // requests that wait for blocks from the disk
  int64_t num_loads = 0;              // times a request began to
  int64_t num_finished_requests = 0;  // ended in any way, aborts included
  int64_t num_steps = 0;              // committed
  int64_t num_computed_tokens = 0;    // in all steps, recomputed ones included
  int64_t prefix_queried_tokens = 0;  // prompt tokens looked up, once for each request
  int64_t prefix_hit_tokens = 0;      // those of them found
  KvStats kv;
  double mean_kv_waste = 0.0;  // over all commits: empty slots held / slots held
};

class Scheduler {
 public:
  // Throws Error for limits that cannot work and for policies that do not exist.
  Scheduler(const SchedulerConfig& config, const KvLayout& layout);
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  // Queues a request. Refuses what can never run, with the numbers: an empty prompt, a prompt that leaves no
  // room under max_model_len, a sample that needs more blocks than the pool has, n > max_num_seqs; and
  // (kOverloaded) a full queue; of a beam search, more beams than fit into the pool or into a step. An
  // accepted request always finishes: when blocks run out, those served later give theirs up.
  Status add_request(SchedulerRequest request);

  // Ends a request; nothing is reported of it any more. Unknown ids are ignored (it may have ended already).
  void abort_request(RequestId request);

  // Ends one sample, because its text reached a stop string. Nothing is reported of it any more. Beam
  // searches have no stop strings: nothing happens to them.
  void finish_sequence(RequestId request, int32_t index);

  // False when schedule() would have nothing to say: no sequence, nothing that the executor must forget,
  // nothing to be written to the disk.
  bool has_work() const;

  // Plans the next step. Valid until the next call. A plan with something in `scheduled` must be committed
  // before the next one (Error otherwise). `now` is seconds on the clock of SchedulerRequest::arrival; it
  // must not go back (an earlier time counts as the last one). Without times the targets for times and the
  // starvation guard of kMlfq do nothing.
  const StepPlan& schedule(double now = 0.0);

  // Takes over what the executor did for the last plan. Throws Error when the result is of another step. A
  // sequence the executor gave no token for, and no failure, ends with kError.
  const CommitResult& commit(const StepResult& result);

  // What a plan's disk reads and writes came to: a part of commit(), and for a plan with nothing scheduled
  // all of it.
  void finish_disk_io(std::span<const DiskOutcome> outcomes);
  // True while cached blocks are still to be written to the disk.
  bool has_disk_writes() const { return kv_.has_disk_writes(); }
  // What the disk has from an earlier process, least recently used first. Before the first request.
  void restore_disk(std::span<const StoredBlock> stored) { kv_.restore_disk(stored); }

  SchedulerStats stats() const;

  // Prompt tokens served from the prefix cache at the first admission; 0 for an unknown request. A request
  // that ended in the commit that named it in `started` is known until the next commit.
  int32_t num_cached_tokens(RequestId request) const;

  // Throws Error where bookkeeping disagrees with itself. O(everything).
  void check_integrity() const;

  // Forgets all cached prefixes. False when blocks were in use (their content is forgotten too, once they are
  // free).
  bool reset_prefix_cache();

 private:
  // add_request()
  Status check_request(const SchedulerRequest& request) const;
  Status check_blocks(const SchedulerRequest& request) const;

  // schedule(), in this order
  void begin_plan(double now);
  void take_loaded();
  void measure_last_step(double now);
  void limit_budget();
  void promote_starving();
  void make_way();
  void schedule_running();
  void admit_waiting();
  void build_plan();

  bool plan_group(size_t begin);
  void share_budget(size_t begin, size_t end);
  void share_budget_of_beams(size_t begin, size_t end);
  int32_t chunk_of(const Sequence& sequence, int32_t budget) const;
  int32_t urgent_chunk(const Sequence& sequence, int32_t budget) const;
  bool make_room(Sequence& sequence);
  void put_in_flight(Sequence& sequence);
  void append_init(const Sequence& sequence);

  // admission and preemption of whole groups
  size_t num_placeable(SequenceGroup& group, int32_t free_chunk);
  void place(SequenceGroup& group, size_t count);
  void place_sample(Sequence& sequence, bool shares_prompt);
  void start_from_cache(Sequence& sequence);
  void start_group(SequenceGroup& group);
  void reserve_growth(Sequence& sequence);
  bool runs_alone(const SequenceGroup& group) const;
  void find_prefix(const Sequence& sequence);
  int32_t shared_prompt(const SequenceGroup& group) const;
  int64_t blocks_beyond(const Sequence& sequence, int32_t num_tokens);
  int64_t blocks_to_swap_in(const SequenceGroup& group);
  bool begin_loading(SequenceGroup& group);
  bool wants_swap(const SequenceGroup& group) const;
  bool worth_clearing(const SequenceGroup& group);
  void preempt_last();
  void set_aside_last(bool swapped);
  void fork_followers(SequenceGroup& group);
  void appoint_leader(SequenceGroup& group);
  void insert_running(Sequence& sequence);
  size_t index_of(const SequenceGroup& group) const;

  // the policy
  void enter_policy(SequenceGroup& group, int64_t client);
  void leave_policy(SequenceGroup& group);
  void charge_computed(Sequence& sequence, int32_t num_computed_before);
  template <class Change>
  void change_rank(SequenceGroup& group, Change change);
  void promote(SequenceGroup& group);
  void sort_moved();
  void push_waiting(SequenceGroup& group);
  void remove_waiting(SequenceGroup& group);

  // commit(), in this order
  void begin_commit(const StepResult& result);
  void apply_failures(const StepResult& result);
  void apply_computed();
  void apply_forks(const StepResult& result);
  void apply_sampled(const StepResult& result);
  void apply_prompt_logprobs(const StepResult& result);
  void apply_pooled(const StepResult& result);
  void apply_dropped(const StepResult& result);
  void apply_beams(const StepResult& result);
  void fail_tokenless();
  void count_step();
  void release_ending();

  void fork_sample(Sequence& parent, Sequence& child);
  void fork_beam(Sequence& parent, Sequence& child);
  void drop_beam(Sequence& beam);
  void end_beams(SequenceGroup& group);
  void check_beams(SequenceGroup& group);
  void close_fork(Sequence& parent);
  void append_tokens(Sequence& sequence, std::span<const SampledToken> tokens);
  void append_to_beam(Sequence& beam, std::span<const SampledToken> tokens);
  FinishReason check_end(const Sequence& sequence, TokenId token, std::optional<TokenId>& stop_token) const;
  SequenceProgress& progress_of(Sequence& sequence);
  SequenceProgress& finish(Sequence& sequence, FinishReason reason);
  void fail_group(SequenceGroup& group, const std::string& message);

  // the end of a sample
  static void mark_over(Sequence& sequence);
  void end_from_outside(Sequence& sequence);
  void release_at_commit(Sequence& sequence);
  void leave_lists(Sequence& sequence);
  void release(Sequence& sequence);
  void erase_if_over(SequenceGroup& group);

  static int32_t seats_wanted(const SequenceGroup& group);
  void update_seats(SequenceGroup& group);
  Sequence* find_sequence(SeqId seq) const;

  // check_integrity()
  void check_running() const;
  void check_group(const SequenceGroup& group) const;
  void check_sequence(const Sequence& sequence) const;

  SchedulerConfig config_;
  KvManager kv_;
  int64_t num_full_groups_;   // of the KV layout
  int64_t num_state_groups_;  // of the KV layout
  int64_t bytes_per_block_;
  ClientTable clients_;    // kFair
  FeedbackLevels levels_;  // kMlfq
  WaitingQueue waiting_;
  std::unordered_map<RequestId, std::unique_ptr<SequenceGroup>> groups_;
  std::unordered_map<SeqId, Sequence*> sequences_;  // born samples that did not end
  std::vector<Sequence*> running_;                  // in the order they are served, a group's side by side
  int32_t num_waiting_ = 0;                         // samples
  int32_t num_seats_taken_ = 0;                     // of max_num_seqs
  int32_t num_never_started_ = 0;                   // requests that wait for their first admission
  int64_t next_order_ = 0;
  int64_t next_admission_ = 0;  // kFair
  SeqId next_seq_ = 0;

  StepPlan plan_;
  std::vector<Sequence*> in_flight_;  // parallel to plan_.scheduled
  bool uncommitted_ = false;
  int32_t budget_ = 0;        // tokens left in the step being planned
  int32_t decodes_left_ = 0;  // with tpot_slo: sequences not planned yet that will take one token
  int32_t num_partial_ = 0;   // with max_num_partial_prefills: prompts that are computed in chunks
  bool preempted_this_step_ = false;
  bool any_moved_ = false;               // a running group's rank changed
  std::vector<Sequence*> gang_;          // the samples num_placeable() spoke of, swapped ones first
  std::vector<TableId> swapped_;         // the tables of those that are swapped out
  std::vector<SequenceGroup*> loading_;  // wait for blocks from the disk
  std::vector<Sequence*> moved_;         // scratch of sort_moved()
  std::vector<Sequence*> unmoved_;       // scratch of sort_moved()
  PrefixMatch held_match_;               // scratch of blocks_beyond()

  double now_ = 0.0;         // the last time schedule() was given
  double step_begin_ = 0.0;  // of the plan
  bool timed_ = false;       // what is planned took the time since step_begin_
  StepClock step_clock_;
  std::vector<SeqId> to_forget_;                // for the next plan's `finished`
  std::vector<RequestId> started_;              // for the next CommitResult
  std::vector<int32_t> started_cached_tokens_;  // parallel to commit_.started
  PrefixMatch match_;

  CommitResult commit_;
  std::vector<Sequence*> reported_;  // parallel to commit_.progress
  std::vector<Sequence*> ending_;    // to release at the end of the commit
  std::vector<Sequence*> born_;      // forked in this commit
  bool any_dropped_ = false;         // beams, which still stand in running_

  SchedulerStats totals_;
  double wasted_slots_ = 0.0;  // summed over commits
  double held_slots_ = 0.0;
};

}  // namespace quire
