// Requests come and go: the door, abort, the end of a sample, and what is known about all of them.
#include "sched/scheduler.h"

#include <algorithm>
#include <utility>

#include "base/strings.h"

namespace quire {

namespace {

void check_config(const SchedulerConfig& config) {
  const auto at_least_one = [](int32_t value, const char* flag) {
    if (value < 1) throw Error(cat(flag, " is ", value, "; it must be at least 1."));
  };
  at_least_one(config.max_num_seqs, "--max-num-seqs");
  at_least_one(config.max_num_batched_tokens, "--max-num-batched-tokens");
  at_least_one(config.max_model_len, "--max-model-len");
  at_least_one(config.max_num_queued_requests, "--max-num-queued-requests");
  if (config.long_prefill_token_threshold < 0) {
    throw Error(cat("--long-prefill-token-threshold is ", config.long_prefill_token_threshold,
                    "; it must be 0 (no limit) or more."));
  }
  if (config.max_num_partial_prefills < 0) {
    throw Error(cat("--max-num-partial-prefills is ", config.max_num_partial_prefills,
                    "; it must be 0 (any number) or more."));
  }
  const auto at_least_zero = [](double value, const char* flag) {
    if (!(value >= 0.0)) throw Error(cat(flag, " is ", value, "; it must be 0 (no target) or more seconds."));
  };
  at_least_zero(config.ttft_slo, "--ttft-slo");
  at_least_zero(config.tpot_slo, "--tpot-slo");
}

}  // namespace

Scheduler::Scheduler(const SchedulerConfig& config, const KvLayout& layout)
    : config_(config),
      kv_(layout, {.enable_prefix_caching = config.enable_prefix_caching,
                   .hash_seed = config.hash_seed,
                   .hash_bits = config.hash_bits,
                   .checkpoint_blocks = layout.checkpoint_blocks}),
      num_full_groups_(std::ranges::count(layout.groups, KvGroupKind::kFull, &KvGroupSpec::kind)),
      num_state_groups_(std::ranges::count(layout.groups, KvGroupKind::kState, &KvGroupSpec::kind)),
      bytes_per_block_(layout.bytes_per_block),
      waiting_(config.policy == SchedulingPolicy::kFair ? &clients_ : nullptr) {
  check_config(config);
}

Scheduler::~Scheduler() {
  // The records must stand in no list when they go.
  for (const auto& [id, group] : groups_) {
    if (WaitingQueue::contains(*group)) remove_waiting(*group);
  }
}

Status Scheduler::check_request(const SchedulerRequest& request) const {
  const SamplingParams& sampling = request.sampling;
  const int64_t num_prompt = static_cast<int64_t>(request.prompt_token_ids.size());
  if (num_prompt == 0) return invalid_argument("The prompt is empty: it needs at least one token.", "prompt");
  if (groups_.contains(request.id)) {
    return Failure{ErrorKind::kInternal, cat("There is already a request with the id ", request.id, "."), {}};
  }
  if (num_prompt > config_.max_model_len) {
    return invalid_argument(cat("The prompt has ", num_prompt, " tokens, the model takes ",
                                config_.max_model_len, " (--max-model-len)."),
                            "prompt");
  }
  if (config_.whole_prompts && num_prompt > config_.max_num_batched_tokens) {
    return invalid_argument(
        cat("The prompt has ", num_prompt, " tokens, a step computes ", config_.max_num_batched_tokens,
            ", and this model computes a prompt in one step (--max-num-batched-tokens)."),
        "prompt");
  }
  if (sampling.max_tokens < 0) {
    return invalid_argument(cat("max_tokens is ", sampling.max_tokens, "; it must be 0 or more."),
                            "max_tokens");
  }
  if (sampling.max_tokens > 0 && num_prompt == config_.max_model_len) {
    return invalid_argument(
        cat("The prompt has ", num_prompt, " tokens, which leaves no room to generate one: the model takes ",
            config_.max_model_len, " with what it generates (--max-model-len)."),
        "prompt");
  }
  if (sampling.n < 1) return invalid_argument(cat("n is ", sampling.n, "; it must be at least 1."), "n");
  if (const int32_t width = sampling.num_sequences(); sampling.use_beam_search) {
    const int32_t most = std::min(config_.max_num_seqs, config_.max_num_batched_tokens);
    if (width > most) {
      return invalid_argument(cat("The beam width is ", width, "; at most ", most,
                                  " beams run at once (--max-num-seqs, --max-num-batched-tokens)."),
                              width > sampling.n ? "best_of" : "n");
    }
    if (sampling.max_tokens < 1)
      return invalid_argument("max_tokens is 0; a beam search generates at least one.", "max_tokens");
  }
  if (sampling.n > config_.max_num_seqs) {
    return invalid_argument(cat("n is ", sampling.n, "; at most ", config_.max_num_seqs,
                                " samples run at once (--max-num-seqs)."),
                            "n");
  }
  if (request.priority != 0 && config_.policy != SchedulingPolicy::kPriority) {
    const bool fcfs = config_.policy == SchedulingPolicy::kFcfs;
    return invalid_argument(
        cat("priority is ", request.priority, "; requests are served ",
            fcfs ? "first come, first served" : "without priorities", ", so it must be 0."),
        "priority");
  }
  return check_blocks(request);
}

Status Scheduler::check_blocks(const SchedulerRequest& request) const {
  // What the longest sample needs when it is alone: the last token it draws is never computed.
  const int64_t num_prompt = static_cast<int64_t>(request.prompt_token_ids.size());
  const int64_t max_tokens = request.sampling.max_tokens;
  const int64_t num_tokens = std::min<int64_t>(num_prompt + max_tokens, config_.max_model_len);
  const int64_t num_computed = max_tokens > 0 ? num_tokens - 1 : num_tokens;
  int64_t needed = kv_.max_blocks(num_computed, config_.max_num_batched_tokens);
  if (request.sampling.use_beam_search) {
    // Beams run together, and in the worst case have nothing but the prompt's full blocks in common.
    const int64_t shared = num_full_groups_ * (num_prompt / kv_.block_size());
    needed += (request.sampling.num_sequences() - 1) * (needed - shared);
  }
  if (needed > kv_.num_blocks()) {
    return invalid_argument(
        cat("The prompt of ", num_prompt, " tokens with max_tokens ", max_tokens,
            request.sampling.use_beam_search
                ? cat(" and ", request.sampling.num_sequences(), " beams that run together")
                : std::string(),
            " needs ", needed, " blocks of ", kv_.block_size(), " tokens, the KV cache has ",
            kv_.num_blocks(), " (--kv-cache-memory)."),
        max_tokens > 0 && kv_.max_blocks(num_prompt, config_.max_num_batched_tokens) <= kv_.num_blocks()
            ? "max_tokens"
            : "prompt");
  }
  return {};
}

Status Scheduler::add_request(SchedulerRequest request) {
  if (Status status = check_request(request); !status.ok()) return status;
  if (num_never_started_ >= config_.max_num_queued_requests) {
    return Failure{
        ErrorKind::kOverloaded,
        cat(num_never_started_, " requests are waiting, and no more may (--max-num-queued-requests)."),
        {}};
  }
  auto group = std::make_unique<SequenceGroup>();
  group->id = request.id;
  group->order = next_order_++;
  group->sampling = std::move(request.sampling);
  group->pooling = request.pooling;
  group->end_token_ids = std::move(request.end_token_ids);
  group->seed = request.seed;
  group->arrival = request.arrival;
  group->priority = request.priority;
  group->adapter = request.adapter;
  group->cache_salt = std::move(request.cache_salt);
  group->num_prompt_tokens = static_cast<int32_t>(request.prompt_token_ids.size());
  group->num_alive = group->sampling.num_sequences();
  group->forked = group->num_alive == 1;
  group->num_held = 1;
  group->samples.resize(static_cast<size_t>(group->num_alive));
  for (size_t i = 0; i < group->samples.size(); ++i) {
    Sequence& sample = group->samples[i];
    sample.group = group.get();
    sample.id = next_seq_++;
    sample.index = static_cast<int32_t>(i);
  }
  Sequence& first = group->samples.front();
  first.token_ids = std::move(request.prompt_token_ids);
  first.table = kv_.open(group->adapter, group->cache_salt);
  first.state = SequenceState::kWaiting;
  group->num_waiting = 1;
  ++num_waiting_;
  ++num_never_started_;
  enter_policy(*group, request.client);
  push_waiting(*group);
  sequences_.emplace(first.id, &first);
  groups_.emplace(group->id, std::move(group));
  return {};
}

void Scheduler::abort_request(RequestId request) {
  const auto it = groups_.find(request);
  if (it == groups_.end()) return;
  SequenceGroup& group = *it->second;
  for (Sequence& sample : group.samples) end_from_outside(sample);
  erase_if_over(group);
}

void Scheduler::finish_sequence(RequestId request, int32_t index) {
  const auto it = groups_.find(request);
  if (it == groups_.end()) return;
  SequenceGroup& group = *it->second;
  if (index < 0 || index >= static_cast<int32_t>(group.samples.size())) return;
  Sequence& sample = group.samples[static_cast<size_t>(index)];
  if (sample.over || group.beams()) return;
  if (index == 0 && !group.forked && group.num_alive > 1) {
    // The other samples are still to be forked from it: it goes on, silently, until then.
    sample.muted = true;
    mark_over(sample);
    return;
  }
  end_from_outside(sample);
  if (group.num_alive == 0) abort_request(request);
}

void Scheduler::mark_over(Sequence& sequence) {
  if (sequence.over) return;
  sequence.over = true;
  --sequence.group->num_alive;
}

void Scheduler::end_from_outside(Sequence& sequence) {
  sequence.muted = true;
  mark_over(sequence);
  if (sequence.state == SequenceState::kUnborn) sequence.state = SequenceState::kEnded;
  if (sequence.state == SequenceState::kEnded || sequence.ending) return;
  if (sequence.in_flight) {
    release_at_commit(sequence);
    return;
  }
  const bool was_running = sequence.state == SequenceState::kRunning;
  leave_lists(sequence);
  if (was_running) std::erase(running_, &sequence);
  release(sequence);
}

void Scheduler::release_at_commit(Sequence& sequence) {
  if (sequence.ending) return;
  sequence.ending = true;
  ending_.push_back(&sequence);
}

// The caller takes it from running_.
void Scheduler::leave_lists(Sequence& sequence) {
  SequenceGroup& group = *sequence.group;
  const SequenceState state = sequence.state;
  sequence.state = SequenceState::kEnded;
  if (state == SequenceState::kWaiting) {
    --num_waiting_;
    if (--group.num_waiting > 0) return;
    if (group.loading) {
      std::erase(loading_, &group);
    } else {
      remove_waiting(group);
    }
    if (!group.started) --num_never_started_;
  } else if (state == SequenceState::kRunning) {
    --group.num_running;
    update_seats(group);
    if (sequence.follows) --group.num_followers;
    sequence.follows = false;
    if (group.leader == &sequence) appoint_leader(group);
  }
}

void Scheduler::release(Sequence& sequence) {
  kv_.close(sequence.table);
  sequence.table = -1;
  sequences_.erase(sequence.id);
  if (sequence.known) to_forget_.push_back(sequence.id);
  std::vector<TokenId>().swap(sequence.token_ids);
  --sequence.group->num_held;
}

void Scheduler::erase_if_over(SequenceGroup& group) {
  if (group.num_alive > 0 || group.num_held > 0) return;
  ++totals_.num_finished_requests;
  leave_policy(group);
  groups_.erase(group.id);
}

Sequence* Scheduler::find_sequence(SeqId seq) const {
  const auto it = sequences_.find(seq);
  return it == sequences_.end() ? nullptr : it->second;
}

bool Scheduler::has_work() const {
  return uncommitted_ || !running_.empty() || !waiting_.empty() || !loading_.empty() || !to_forget_.empty() ||
         kv_.has_disk_writes();
}

SchedulerStats Scheduler::stats() const {
  SchedulerStats stats = totals_;
  stats.num_running = static_cast<int32_t>(running_.size());
  stats.num_waiting = num_waiting_;
  stats.num_loading = static_cast<int32_t>(loading_.size());
  stats.kv = kv_.stats();
  stats.mean_kv_waste = held_slots_ > 0.0 ? wasted_slots_ / held_slots_ : 0.0;
  return stats;
}

int32_t Scheduler::num_cached_tokens(RequestId request) const {
  const auto it = groups_.find(request);
  if (it != groups_.end()) return it->second->num_cached_tokens;
  const auto started = std::find(commit_.started.begin(), commit_.started.end(), request);
  if (started == commit_.started.end()) return 0;
  return started_cached_tokens_[static_cast<size_t>(started - commit_.started.begin())];
}

bool Scheduler::reset_prefix_cache() {
  const bool unused = kv_.stats().num_used == 0;
  kv_.reset_prefix_cache();
  return unused;
}

}  // namespace quire
