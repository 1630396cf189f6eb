// A replica that batches like the real scheduler (one token budget, first come, first served, chunked
// prefill) but reserves one contiguous range per sequence at admission, as systems before paging did.
#include <algorithm>
#include <bit>
#include <deque>
#include <list>

#include "base/error.h"
#include "sim/range_allocator.h"
#include "sim/replica.h"

namespace quire::sim {

namespace {

class ContiguousReplica final : public Replica {
 public:
  ContiguousReplica(const Trace& trace, const ReplicaOptions& options)
      : trace_(trace),
        config_(options.scheduler),
        max_queued_(options.max_num_queued_requests),
        memory_(options.memory),
        num_slots_(int64_t{options.layout.num_blocks} * options.layout.block_size),
        pool_(make_range_pool(options.allocator, num_slots_)),
        // The largest range that the empty pool can allocate.
        empty_pool_(make_range_pool(options.allocator, num_slots_)) {
    if (options.num_samples != 1)
      throw Error("contiguous memory managers support one sample per prompt only (--n 1)");
  }

  bool add(int64_t request) override;
  bool begin_step(double now, StepLoad& load, KvUse& kv) override;
  void end_step(std::vector<DrawnToken>& drawn) override;
  ReplicaTotals totals() const override { return totals_; }

 private:
  struct Member {
    int64_t request = 0;
    int64_t num_tokens = 0;    // prompt and generated tokens
    int64_t final_tokens = 0;  // length at which the request ends
    int64_t num_computed = 0;
    int64_t num_new = 0;  // computed in the current step
    int64_t reserved = 0;
    Range range;
  };

  int64_t final_length(int64_t request) const;
  int64_t reservation(int64_t request) const;
  void plan(Member& member, int64_t& budget, StepLoad& load);
  KvUse measure() const;

  const Trace& trace_;
  SchedulerConfig config_;
  int64_t max_queued_;
  MemoryManager memory_;
  int64_t num_slots_;
  std::unique_ptr<RangePool> pool_;
  std::unique_ptr<RangePool> empty_pool_;
  std::deque<int64_t> waiting_;
  std::vector<Member> running_;  // in order of arrival
  ReplicaTotals totals_;
};

int64_t ContiguousReplica::final_length(int64_t index) const {
  const TraceRequest& request = trace_.requests[static_cast<size_t>(index)];
  return std::min<int64_t>(int64_t{request.input_len} + request.output_len, config_.max_model_len);
}

int64_t ContiguousReplica::reservation(int64_t index) const {
  const TraceRequest& request = trace_.requests[static_cast<size_t>(index)];
  if (memory_ == MemoryManager::kMaxLength) return config_.max_model_len;
  if (memory_ == MemoryManager::kOracle) return final_length(index);
  const int64_t answer = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(request.output_len)));
  return std::min<int64_t>(request.input_len + answer, config_.max_model_len);
}

bool ContiguousReplica::add(int64_t index) {
  const TraceRequest& request = trace_.requests[static_cast<size_t>(index)];
  if (static_cast<int64_t>(waiting_.size()) >= max_queued_) return false;
  if (request.input_len >= config_.max_model_len) return false;
  const Range range = empty_pool_->take(reservation(index));
  if (range.begin < 0) return false;
  empty_pool_->give_back(range);
  waiting_.push_back(index);
  return true;
}

void ContiguousReplica::plan(Member& member, int64_t& budget, StepLoad& load) {
  member.num_new = std::min(member.num_tokens - member.num_computed, budget);
  if (config_.long_prefill_token_threshold > 0)
    member.num_new = std::min<int64_t>(member.num_new, config_.long_prefill_token_threshold);
  budget -= member.num_new;
  if (member.num_new > 0) load.add(member.num_computed, member.num_new);
}

bool ContiguousReplica::begin_step(double /*now*/, StepLoad& load, KvUse& kv) {
  load = {};
  int64_t budget = config_.max_num_batched_tokens;
  for (Member& member : running_) plan(member, budget, load);
  while (budget > 0 && !waiting_.empty() && static_cast<int32_t>(running_.size()) < config_.max_num_seqs) {
    const int64_t request = waiting_.front();
    const int64_t reserved = reservation(request);
    const Range range = pool_->take(reserved);
    if (range.begin < 0) break;
    waiting_.pop_front();
    Member& member = running_.emplace_back();
    member.request = request;
    member.num_tokens = trace_.requests[static_cast<size_t>(request)].input_len;
    member.final_tokens = final_length(request);
    member.reserved = reserved;
    member.range = range;
    plan(member, budget, load);
  }
  if (load.tokens == 0) return false;
  kv = measure();
  return true;
}

KvUse ContiguousReplica::measure() const {
  KvUse kv;
  kv.total = num_slots_;
  for (const Member& member : running_) {
    const int64_t filled = member.num_computed + member.num_new;
    kv.held += member.range.size;
    kv.filled += filled;
    // The last generated token is never computed, but these systems reserve a slot for it.
    kv.reserved += member.final_tokens - filled;
    kv.unused += member.reserved - member.final_tokens;
    kv.rounding += member.range.size - member.reserved;
  }
  kv.num_running = static_cast<int32_t>(running_.size());
  kv.num_waiting = static_cast<int32_t>(waiting_.size());
  kv.blocked = !waiting_.empty() && kv.num_running < config_.max_num_seqs;
  return kv;
}

void ContiguousReplica::end_step(std::vector<DrawnToken>& drawn) {
  ++totals_.num_steps;
  for (Member& member : running_) {
    totals_.num_computed_tokens += member.num_new;
    member.num_computed += member.num_new;
    if (member.num_new == 0 || member.num_computed < member.num_tokens) continue;
    ++member.num_tokens;
    const bool last = member.num_tokens >= member.final_tokens;
    drawn.push_back({member.request, 0, last});
    if (last) pool_->give_back(member.range);
  }
  std::erase_if(running_, [](const Member& member) { return member.num_tokens >= member.final_tokens; });
}

}  // namespace

const char* name_of(MemoryManager manager) {
  switch (manager) {
    case MemoryManager::kPaged:
      return "paged";
    case MemoryManager::kMaxLength:
      return "max-length";
    case MemoryManager::kPowerOfTwo:
      return "power-of-two";
    case MemoryManager::kOracle:
      return "oracle";
  }
  return "";
}

std::unique_ptr<Replica> make_contiguous_replica(const Trace& trace, const ReplicaOptions& options) {
  return std::make_unique<ContiguousReplica>(trace, options);
}

std::unique_ptr<Replica> make_replica(const Trace& trace, const ReplicaOptions& options) {
  return options.memory == MemoryManager::kPaged ? make_paged_replica(trace, options)
                                                 : make_contiguous_replica(trace, options);
}

}  // namespace quire::sim
