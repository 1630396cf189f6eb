// A replica that is the real scheduler over a made-up executor.
#include <algorithm>
#include <deque>
#include <limits>

#include "base/error.h"
#include "base/strings.h"
#include "sim/replica.h"

namespace quire::sim {

namespace {

// Drawn tokens: no prompt has them, and each sequence draws its own.
constexpr TokenId kFirstDrawn = 1 << 30;

class PagedReplica final : public Replica {
 public:
  PagedReplica(const Trace& trace, const ReplicaOptions& options)
      : trace_(trace),
        num_samples_(options.num_samples),
        max_num_seqs_(options.scheduler.max_num_seqs),
        max_queued_(options.scheduler.max_num_queued_requests),
        max_model_len_(options.scheduler.max_model_len),
        block_size_(options.layout.block_size),
        num_blocks_(options.layout.num_blocks),
        num_states_(std::ranges::count(options.layout.groups, KvGroupKind::kState, &KvGroupSpec::kind)),
        keeps_tokens_(num_states_ < static_cast<int64_t>(options.layout.groups.size())),
        // With another policy the scheduler must see all that wait.
        hands_over_late_(options.scheduler.policy == SchedulingPolicy::kFcfs),
        scheduler_(unlimited_queue(options.scheduler), options.layout) {}

  bool add(int64_t request) override;
  bool begin_step(double now, StepLoad& load, KvUse& kv) override;
  void end_step(std::vector<DrawnToken>& drawn) override;
  ReplicaTotals totals() const override;

 private:
  static SchedulerConfig unlimited_queue(SchedulerConfig config) {
    config.max_num_queued_requests = std::numeric_limits<int32_t>::max();
    return config;
  }
  bool fits(int64_t request) const;
  void hand_over();
  void answer(const StepPlan& plan, StepLoad& load);
  void measure(const StepPlan& plan, KvUse& kv) const;

  const Trace& trace_;
  int32_t num_samples_;
  int32_t max_num_seqs_;
  int32_t max_queued_;
  int32_t max_model_len_;
  int32_t block_size_;
  int64_t num_blocks_;
  int64_t num_states_;  // blocks of a sequence's states
  bool keeps_tokens_;   // some layers keep keys and values
  bool hands_over_late_;
  Scheduler scheduler_;
  std::deque<int64_t> inbox_;  // requests that the scheduler has not seen yet
  int64_t num_handed_over_ = 0;
  int64_t num_started_ = 0;
  std::vector<int32_t> prompt_lens_;  // [num_handed_over]: the scheduler numbers sequences in this order
  StepResult result_;
};

bool PagedReplica::add(int64_t request) {
  const int64_t num_unstarted = static_cast<int64_t>(inbox_.size()) + num_handed_over_ - num_started_;
  if (num_unstarted >= max_queued_ || !fits(request)) return false;
  inbox_.push_back(request);
  return true;
}

// Whether the request can run when it is alone: what the scheduler would refuse at the door.
bool PagedReplica::fits(int64_t index) const {
  const TraceRequest& request = trace_.requests[static_cast<size_t>(index)];
  if (request.input_len >= max_model_len_) return false;
  const int64_t num_tokens =
      std::min<int64_t>(int64_t{request.input_len} + request.output_len, max_model_len_);
  const int64_t num_kept = keeps_tokens_ ? (num_tokens - 1 + block_size_ - 1) / block_size_ : 0;
  // States stand there twice where a checkpoint of them is made.
  return num_kept + 2 * num_states_ <= num_blocks_;
}

// Prompts exist from shortly before they can be admitted: no step admits more than max_num_seqs sequences, so
// the scheduler decides the same as if it saw all that wait. With another policy than first come, first
// served it must see them.
void PagedReplica::hand_over() {
  int64_t num_waiting = scheduler_.stats().num_waiting;
  while (!inbox_.empty() && (!hands_over_late_ || num_waiting <= max_num_seqs_)) {
    const int64_t index = inbox_.front();
    inbox_.pop_front();
    const TraceRequest& request = trace_.requests[static_cast<size_t>(index)];
    SchedulerRequest added;
    added.id = index;
    added.prompt_token_ids.reserve(static_cast<size_t>(request.input_len) +
                                   static_cast<size_t>(request.output_len));
    fill_prompt(trace_, index, added.prompt_token_ids);
    added.sampling.n = num_samples_;
    added.sampling.max_tokens = request.output_len;
    added.sampling.ignore_eos = true;
    added.arrival = request.arrival;
    if (const Status status = scheduler_.add_request(std::move(added)); !status.ok())
      throw Error(cat("Request ", index, " of the trace was refused: ", status.failure().message));
    prompt_lens_.push_back(request.input_len);
    ++num_handed_over_;
    ++num_waiting;
  }
}

bool PagedReplica::begin_step(double now, StepLoad& load, KvUse& kv) {
  hand_over();
  if (!scheduler_.has_work()) return false;
  const StepPlan& plan = scheduler_.schedule(now);
  if (plan.scheduled.empty()) return false;
  answer(plan, load);
  measure(plan, kv);
  return true;
}

// What an executor would give back: a token for each sequence that draws one, and the forks of a first token.
void PagedReplica::answer(const StepPlan& plan, StepLoad& load) {
  load = {};
  load.add(plan);
  result_.step = plan.step;
  result_.forks.clear();
  size_t num_drawn = 0;
  const auto draw = [&](SeqId seq) {
    if (num_drawn == result_.sampled.size()) result_.sampled.emplace_back();
    SampledToken& token = result_.sampled[num_drawn++];
    token.seq = seq;
    token.token = kFirstDrawn + static_cast<TokenId>(seq % kFirstDrawn);
  };
  for (const ScheduledSequence& scheduled : plan.scheduled) {
    if (!scheduled.sample) continue;
    draw(scheduled.seq);
    if (num_samples_ == 1 || scheduled.seq % num_samples_ != 0) continue;
    // The first sample's first token: the others come to be.
    const int32_t num_known = scheduled.num_computed_tokens + scheduled.num_new_tokens;
    if (num_known != prompt_lens_[static_cast<size_t>(scheduled.seq / num_samples_)]) continue;
    for (SeqId child = scheduled.seq + 1; child < scheduled.seq + num_samples_; ++child) {
      result_.forks.push_back({scheduled.seq, child});
      draw(child);
    }
  }
  result_.sampled.resize(num_drawn);
}

void PagedReplica::measure(const StepPlan& plan, KvUse& kv) const {
  const SchedulerStats stats = scheduler_.stats();
  kv = {};
  kv.total = int64_t{stats.kv.num_blocks} * block_size_;
  kv.held = stats.kv.slots_used;
  kv.filled = stats.kv.slots_filled + plan.num_tokens;
  kv.unused = kv.held - kv.filled;
  kv.num_running = stats.num_running;
  kv.num_waiting = stats.num_waiting + static_cast<int32_t>(inbox_.size());
  kv.blocked = kv.num_waiting > 0 && kv.num_running < max_num_seqs_;
  if (num_samples_ == 1 || static_cast<int32_t>(plan.scheduled.size()) != stats.num_running) return;
  for (const ScheduledSequence& scheduled : plan.scheduled) {
    const int64_t num_known = scheduled.num_computed_tokens + scheduled.num_new_tokens;
    kv.unshared += (num_known + block_size_ - 1) / block_size_ * block_size_;
  }
}

void PagedReplica::end_step(std::vector<DrawnToken>& drawn) {
  const CommitResult& commit = scheduler_.commit(result_);
  num_started_ += static_cast<int64_t>(commit.started.size());
  for (const SequenceProgress& progress : commit.progress) {
    if (progress.finish_reason == FinishReason::kError)
      throw Error(cat("Request ", progress.request, " of the trace failed: ", progress.error));
    drawn.push_back({progress.request, progress.index, progress.request_finished});
  }
}

ReplicaTotals PagedReplica::totals() const {
  const SchedulerStats stats = scheduler_.stats();
  return {stats.num_preemptions, stats.num_steps, stats.num_computed_tokens, stats.prefix_queried_tokens,
          stats.prefix_hit_tokens};
}

}  // namespace

std::unique_ptr<Replica> make_paged_replica(const Trace& trace, const ReplicaOptions& options) {
  return std::make_unique<PagedReplica>(trace, options);
}

}  // namespace quire::sim
