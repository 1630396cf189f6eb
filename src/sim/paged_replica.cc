// A replica with the real scheduler and a synthetic executor.
#include <algorithm>
#include <deque>

#include "base/error.h"
#include "base/strings.h"
#include "sim/replica.h"

namespace quire::sim {

namespace {

// Generated tokens: unique per sequence and not part of any prompt.
constexpr TokenId kFirstDrawn = 1 << 30;

class PagedReplica final : public Replica {
 public:
  PagedReplica(const Trace& trace, const ReplicaOptions& options)
      : trace_(trace),
        num_samples_(options.num_samples),
        max_num_seqs_(options.scheduler.max_num_seqs),
        max_queued_(options.max_num_queued_requests),
        max_model_len_(options.scheduler.max_model_len),
        block_size_(options.layout.block_size),
        layout_(options.layout),
        max_num_batched_tokens_(options.scheduler.max_num_batched_tokens),
        // Other policies, and adapters that take turns, need to see all waiting requests.
        hands_over_late_(options.scheduler.policy == SchedulingPolicy::kFcfs && trace.adapters.empty()),
        fair_by_(options.scheduler.fair_by),
        scheduler_(options.scheduler, options.layout) {}

  bool add(int64_t request) override;
  bool begin_step(double now, StepLoad& load, KvUse& kv) override;
  void end_step(std::vector<DrawnToken>& drawn) override;
  ReplicaTotals totals() const override;

 private:
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
  KvLayout layout_;
  int32_t max_num_batched_tokens_;
  bool hands_over_late_;
  FairBy fair_by_;
  Scheduler scheduler_;
  std::deque<int64_t> inbox_;  // requests not yet passed to the scheduler
  int64_t num_handed_over_ = 0;
  int64_t num_started_ = 0;
  std::vector<int32_t> prompt_lens_;  // [num_submitted] in the order of the scheduler's sequence ids
  StepResult result_;
};

bool PagedReplica::add(int64_t request) {
  const int64_t num_unstarted = static_cast<int64_t>(inbox_.size()) + num_handed_over_ - num_started_;
  if (num_unstarted >= max_queued_ || !fits(request)) return false;
  inbox_.push_back(request);
  return true;
}

// Whether the request can run alone: otherwise Scheduler::add_request() would reject it. The last token is
// sampled and never computed.
bool PagedReplica::fits(int64_t index) const {
  const TraceRequest& request = trace_.requests[static_cast<size_t>(index)];
  if (request.input_len >= max_model_len_) return false;
  const int64_t num_tokens =
      std::min<int64_t>(int64_t{request.input_len} + request.output_len, max_model_len_);
  return max_sequence_blocks(layout_, num_tokens - 1, max_num_batched_tokens_) <= layout_.num_blocks;
}

// Prompts are created shortly before they can be admitted, to save memory. A step admits at most max_num_seqs
// sequences, so with first come, first served the scheduler's decisions do not change. Other policies need to
// see all waiting requests.
void PagedReplica::hand_over() {
  int64_t num_waiting = scheduler_.stats().num_waiting;
  while (!inbox_.empty() && (!hands_over_late_ || num_waiting <= max_num_seqs_)) {
    const int64_t index = inbox_.front();
    inbox_.pop_front();
    const TraceRequest& request = trace_.requests[static_cast<size_t>(index)];
    Request added;
    added.id = index;
    added.prompt_token_ids.reserve(static_cast<size_t>(request.input_len) +
                                   static_cast<size_t>(request.output_len));
    fill_prompt(trace_, index, added.prompt_token_ids);
    added.sampling.edit().n = num_samples_;
    added.sampling.edit().max_tokens = request.output_len;
    added.sampling.edit().ignore_eos = true;
    added.arrival = request.arrival;
    if (request.adapter > 0)
      added.adapter = {.id = request.adapter,
                       .digest = trace_.adapters[static_cast<size_t>(request.adapter - 1)]};
    // A trace names no clients.
    if (fair_by_ == FairBy::kAdapter) added.client_id = request.adapter;
    if (const Status status = scheduler_.add_request(std::move(added)); !status.ok())
      throw Error(cat("request ", index, " of the trace was rejected: ", status.failure().message));
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

// Returns what an executor would return: a token for each sequence that samples, and forks after the first
// token.
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
    // The other samples are forked at the first token.
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
  for (const SequenceUpdate& update : commit.updates) {
    if (update.finish_reason == FinishReason::kError)
      throw Error(cat("request ", update.request, " of the trace failed: ", update.error));
    drawn.push_back({update.request, update.index, update.request_finished});
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
