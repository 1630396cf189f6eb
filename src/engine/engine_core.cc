#include "engine/engine_core.h"

#include <algorithm>
#include <functional>
#include <string>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/strings.h"
#include "io/mapped_region.h"
#include "sample/validate.h"

namespace quire {
namespace {

int64_t client_number(const Request& request, FairBy fair_by) {
  const std::string& name = fair_by == FairBy::kAdapter ? request.adapter_name : request.client;
  return static_cast<int64_t>(std::hash<std::string>{}(name));
}

}  // namespace

EngineCore::EngineCore(const SchedulerConfig& config, const KvLayout& layout, Executor& executor,
                       const Tokenizer* tokenizer, MetricsRegistry& metrics, const ModelInfo& model,
                       uint64_t seed, std::atomic<int32_t>& num_unstarted, const EngineHooks& hooks,
                       AdapterStore* adapters)
    : scheduler_(config, layout),
      executor_(executor),
      metrics_(metrics, model),
      outputs_(tokenizer, model.end_token_ids, metrics_, num_unstarted),
      adapters_(adapters),
      end_token_ids_(model.end_token_ids),
      seed_(seed),
      max_loras_(config.max_loras),
      fair_by_(config.fair_by),
      before_(hooks.before),
      clock_(hooks.clock ? hooks.clock : monotonic_seconds) {
  refresh_adapter_metrics();
}

void EngineCore::count_rejected(ErrorKind kind, int32_t count) {
  (kind == ErrorKind::kOverloaded ? metrics_.rejected_overloaded : metrics_.rejected_invalid).add(count);
}

void EngineCore::add(Submission&& submission) {
  Request& request = submission.request;
  outputs_.add(request, std::move(submission.sink));
  request.seed = effective_seed(*request.sampling, seed_, static_cast<uint64_t>(request.id));
  request.end_token_ids = end_token_ids_;
  request.client_id = client_number(request, fair_by_);
  if (submission.adapter == nullptr) return enter(std::move(request), std::nullopt);
  // It may have been loaded since the request was submitted.
  Result<AdapterRef> adapter = adapters_->acquire_or_load(submission.adapter);
  if (!adapter.ok()) return outputs_.end(request.id, FinishReason::kError, adapter.failure(), clock_());
  if (adapter->weights == nullptr)
    return waiting_for_adapters_.add(submission.adapter, std::move(request), scheduler_.reserve_place());
  request.adapter = std::move(*adapter);
  enter(std::move(request), std::nullopt);
}

void EngineCore::enter(Request&& request, std::optional<int64_t> place) {
  const Status added = scheduler_.add_request(std::move(request), place);
  if (!added.ok()) throw Error(cat("a request was accepted that cannot run: ", added.failure().message));
}

void EngineCore::take_adapters() {
  for (AdapterOutcome& outcome : adapters_->take_outcomes()) {
    if (outcome.was_read) {
      AdapterMetrics& metrics = metrics_.adapters;
      metrics.load_seconds.observe(outcome.seconds);
      (outcome.result.ok() ? metrics.loads : metrics.load_failures).add();
    }
    for (AdapterWaits::Waiting& waiting : waiting_for_adapters_.take(outcome.version)) {
      if (!outcome.result.ok()) {
        outputs_.end(waiting.request.id, FinishReason::kError, outcome.result.failure(), clock_());
        continue;
      }
      waiting.request.adapter = *outcome.result;
      enter(std::move(waiting.request), waiting.place);
    }
  }
}

void EngineCore::abort(RequestId id) {
  if (!waiting_for_adapters_.empty()) {
    if (const SharedAdapterVersion unwanted = waiting_for_adapters_.remove(id)) adapters_->cancel(*unwanted);
  }
  scheduler_.abort_request(id);
  outputs_.end(id, FinishReason::kAbort, std::nullopt, clock_());
}

void EngineCore::abort_waiting() {
  for (const SharedAdapterVersion& unwanted : waiting_for_adapters_.clear()) adapters_->cancel(*unwanted);
}

const StepPlan& EngineCore::step() {
  const double begin = clock_();
  before(StepPhase::kSchedule);
  const StepPlan& plan = scheduler_.schedule(begin);
  const bool recording = watched(begin);
  if (recording) recorder_.note_plan(plan, scheduler_);
  before(StepPhase::kBegin);
  executor_.begin(plan);
  before(StepPhase::kFinish);
  const StepResult& result = executor_.finish();
  // Weights or the executable itself: nothing that was computed from lost pages may leave.
  if (const auto file = lost_mapped_file())
    throw Error(cat(*file, " was truncated or became unreadable while it was in use"));
  before(StepPhase::kCommit);
  waits_for_disk_ = plan.scheduled.empty() && result.disk_outcomes.empty() && executor_.disk_busy();
  if (plan.scheduled.empty()) {
    scheduler_.finish_disk_io(result.disk_outcomes);
  } else {
    const CommitResult& committed = scheduler_.commit(result);
    const double now = clock_();
    if (recording) recorder_.note_step(begin, now, scheduler_);
    for (const RequestId id : committed.started)
      outputs_.mark_started(id, scheduler_.num_cached_tokens(id), begin);
    for (const SequenceUpdate& update : committed.updates) {
      if (outputs_.apply(update, now)) scheduler_.finish_sequence(update.request, update.index);
    }
  }
  if (const int64_t num_tokens = outputs_.take_iteration_tokens(); num_tokens > 0)
    metrics_.iteration_tokens.observe(static_cast<double>(num_tokens));
  refresh_metrics();
  return plan;
}

void EngineCore::deliver() {
  before(StepPhase::kDeliver);
  outputs_.deliver();
}

// Hands the requests that have ended to the recorder while there is a watch.
bool EngineCore::watched(double now) {
  if (!recorder_.watching(now)) {
    if (!ended_.empty()) ended_ = {};
    outputs_.record_ends(nullptr);
    return false;
  }
  for (EndedRequest& ended : ended_) recorder_.note_end(std::move(ended));
  ended_.clear();
  return true;
}

EngineView EngineCore::view() {
  const double now = clock_();
  const double cpu_begin = thread_cpu_seconds();
  watched(now);
  recorder_.watch(now);
  outputs_.record_ends(&ended_);
  SchedulerView scheduled = scheduler_.view({});
  const KvStats kv = scheduler_.stats().kv;
  EngineView view;
  view.time = now;
  view.stats = stats();
  view.slots_used = kv.slots_used;
  view.slots_filled = kv.slots_filled;
  view.num_copied_on_write = kv.num_copied_on_write;
  view.num_disk_blocks = kv.disk.num_blocks;
  view.num_cached_disk_blocks = kv.disk.num_cached;
  waiting_for_adapters_.each([&](const Request& request) {
    RequestView waiting;
    waiting.id = request.id;
    waiting.phase = RequestPhase::kLoading;
    waiting.num_sequences = request.sampling->num_sequences();
    waiting.num_prompt_tokens = static_cast<int32_t>(request.prompt_token_ids.size());
    scheduled.requests.push_back(waiting);
  });
  view.num_requests = scheduled.num_requests + waiting_for_adapters_.size();
  view.requests.reserve(scheduled.requests.size());
  for (const RequestView& request : scheduled.requests)
    view.requests.push_back({request, outputs_.progress(request.id), recorder_.history(request.id)});
  view.ended = recorder_.ended(now);
  view.device = std::move(scheduled.device);
  view.host = std::move(scheduled.host);
  view.make_seconds = thread_cpu_seconds() - cpu_begin;
  return view;
}

bool EngineCore::reset_prefix_cache() {
  const bool done = scheduler_.reset_prefix_cache();
  executor_.clear_disk_cache();
  return done;
}

void EngineCore::flush_disk() {
  constexpr double kMaxSeconds = 5.0;
  for (const RequestId id : outputs_.requests()) scheduler_.abort_request(id);
  const double end = clock_() + kMaxSeconds;
  while (scheduler_.has_disk_writes() && clock_() < end) {
    step();
    if (waits_for_disk_) executor_.wait_for_disk();
  }
}

void EngineCore::abort_all(const Failure& failure) {
  abort_waiting();
  for (const RequestId id : outputs_.requests()) scheduler_.abort_request(id);
  fail_all(failure);
}

void EngineCore::fail_all(const Failure& failure) noexcept {
  outputs_.end_all(failure, clock_());
}

void EngineCore::refresh_metrics() {
  const SchedulerStats now = scheduler_.stats();
  const EngineStats view = stats();
  metrics_.num_requests_running.set(static_cast<double>(view.num_running));
  metrics_.num_requests_waiting.set(static_cast<double>(view.num_waiting));
  metrics_.waiting_deferred.set(static_cast<double>(now.num_loading + waiting_for_adapters_.size()));
  metrics_.waiting_for_capacity.set(static_cast<double>(std::max(0, now.num_waiting - now.num_loading)));
  metrics_.kv_cache_usage.set(view.kv_cache_usage);
  metrics_.kv_cache_waste.set(view.kv_waste);
  metrics_.prefix_cache_queries.add(
      static_cast<double>(now.prefix_queried_tokens - last_.prefix_queried_tokens));
  metrics_.prefix_cache_hits.add(static_cast<double>(now.prefix_hit_tokens - last_.prefix_hit_tokens));
  metrics_.num_preemptions.add(static_cast<double>(now.num_preemptions - last_.num_preemptions));
  metrics_.observe_kv(last_.kv, now.kv);
  metrics_.log_lines_dropped.add(static_cast<double>(num_dropped_log_lines()) -
                                 metrics_.log_lines_dropped.value());
  last_ = now;
  refresh_adapter_metrics();
}

void EngineCore::refresh_adapter_metrics() {
  AdapterMetrics& metrics = metrics_.adapters;
  if (outputs_.adapters().take_change()) {
    const int32_t limit = adapters_ == nullptr ? 0 : adapters_->limits().adapters;
    const int32_t max_lora = adapters_ == nullptr || limit > 0 ? std::min(limit, max_loras_) : max_loras_;
    metrics.requests_info.set({{"max_lora", std::to_string(max_lora)},
                               {"running_lora_adapters", outputs_.adapters().running()},
                               {"waiting_lora_adapters", outputs_.adapters().waiting()}},
                              static_cast<double>(unix_seconds()));
  }
  if (adapters_ == nullptr) return;
  const AdapterStoreStats stats = adapters_->stats();
  metrics.resident.set(static_cast<double>(stats.num_resident));
  metrics.memory_bytes.set(static_cast<double>(stats.bytes));
  metrics.evictions.add(static_cast<double>(stats.num_evicted - last_evicted_));
  last_evicted_ = stats.num_evicted;
}

EngineStats EngineCore::stats() const {
  const SchedulerStats s = scheduler_.stats();
  EngineStats stats;
  stats.num_running = s.num_running;
  stats.num_waiting = s.num_waiting + waiting_for_adapters_.size();
  stats.num_finished = s.num_finished_requests;
  stats.num_preemptions = s.num_preemptions;
  stats.num_steps = s.num_steps;
  stats.prompt_tokens = static_cast<int64_t>(metrics_.prompt_tokens.value());
  stats.generation_tokens = static_cast<int64_t>(metrics_.generation_tokens.value());
  stats.prefix_cache_queries = s.prefix_queried_tokens;
  stats.prefix_cache_hits = s.prefix_hit_tokens;
  stats.num_blocks = s.kv.num_blocks;
  stats.num_free_blocks = s.kv.num_free;
  stats.kv_cache_usage = s.kv.usage();
  stats.kv_waste = s.mean_kv_waste;
  stats.num_swapped_out_blocks = s.kv.num_swapped_out;
  stats.num_swapped_in_blocks = s.kv.num_swapped_in;
  return stats;
}

}  // namespace quire
