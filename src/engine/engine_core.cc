#include "engine/engine_core.h"

#include <functional>

#include "base/clock.h"
#include "sample/validate.h"

namespace quire {
namespace {

int64_t client_number(const std::string& client) {
  return static_cast<int64_t>(std::hash<std::string>{}(client));
}

}  // namespace

EngineCore::EngineCore(const SchedulerConfig& config, const KvLayout& layout, Executor& executor,
                       const Tokenizer* tokenizer, MetricsRegistry& metrics, const ModelInfo& model,
                       uint64_t seed, std::atomic<int32_t>& num_unstarted)
    : scheduler_(config, layout),
      executor_(executor),
      metrics_(metrics, model),
      outputs_(tokenizer, model.end_token_ids, metrics_, num_unstarted),
      end_token_ids_(model.end_token_ids),
      seed_(seed) {}

void EngineCore::add(RequestId id, GenerateRequest request, OutputSink sink, double arrival) {
  outputs_.add(id, request.sampling, request.prompt_token_ids, std::move(sink), arrival);
  SchedulerRequest scheduled;
  scheduled.id = id;
  scheduled.seed = effective_seed(request.sampling, seed_, static_cast<uint64_t>(id));
  scheduled.prompt_token_ids = std::move(request.prompt_token_ids);
  scheduled.sampling = std::move(request.sampling);
  scheduled.pooling = request.pooling;
  scheduled.end_token_ids = end_token_ids_;
  scheduled.arrival = arrival;
  scheduled.priority = request.priority;
  scheduled.client = client_number(request.client);
  scheduled.cache_salt = std::move(request.cache_salt);
  const Status accepted = scheduler_.add_request(std::move(scheduled));
  if (!accepted.ok()) {
    (accepted.failure().kind == ErrorKind::kOverloaded ? metrics_.rejected_overloaded
                                                       : metrics_.rejected_invalid)
        .add();
    outputs_.end(id, FinishReason::kError, accepted.failure(), monotonic_seconds());
  }
}

void EngineCore::abort(RequestId id) {
  scheduler_.abort_request(id);
  outputs_.end(id, FinishReason::kAbort, std::nullopt, monotonic_seconds());
}

const StepPlan& EngineCore::step() {
  const double begin = monotonic_seconds();
  const StepPlan& plan = scheduler_.schedule(begin);
  executor_.begin(plan);
  const StepResult& result = executor_.finish();
  if (plan.scheduled.empty()) {
    scheduler_.finish_disk_io(result.disk_outcomes);
  } else {
    const CommitResult& committed = scheduler_.commit(result);
    const double now = monotonic_seconds();
    for (const RequestId id : committed.started)
      outputs_.mark_started(id, scheduler_.num_cached_tokens(id), begin);
    for (const auto& progress : committed.progress) {
      if (outputs_.apply(progress, now)) scheduler_.finish_sequence(progress.request, progress.index);
    }
  }
  if (plan.num_tokens > 0) metrics_.iteration_tokens.observe(plan.num_tokens);
  refresh_metrics();
  return plan;
}

bool EngineCore::reset_prefix_cache() {
  const bool done = scheduler_.reset_prefix_cache();
  executor_.clear_disk_cache();
  return done;
}

void EngineCore::flush_disk() {
  constexpr double kLongest = 5.0;  // seconds
  for (const RequestId id : outputs_.requests()) scheduler_.abort_request(id);
  const double end = monotonic_seconds() + kLongest;
  while (scheduler_.has_disk_writes() && monotonic_seconds() < end) step();
}

void EngineCore::abort_all(const Failure& failure) {
  for (const RequestId id : outputs_.requests()) scheduler_.abort_request(id);
  fail_all(failure);
}

void EngineCore::fail_all(const Failure& failure) {
  outputs_.end_all(failure, monotonic_seconds());
}

void EngineCore::refresh_metrics() {
  const SchedulerStats now = scheduler_.stats();
  const EngineStats view = stats();
  metrics_.num_requests_running.set(static_cast<double>(view.num_running));
  metrics_.num_requests_waiting.set(static_cast<double>(view.num_waiting));
  metrics_.kv_cache_usage.set(view.kv_cache_usage);
  metrics_.kv_cache_waste.set(view.kv_waste);
  metrics_.prefix_cache_queries.add(
      static_cast<double>(now.prefix_queried_tokens - last_.prefix_queried_tokens));
  metrics_.prefix_cache_hits.add(static_cast<double>(now.prefix_hit_tokens - last_.prefix_hit_tokens));
  metrics_.num_preemptions.add(static_cast<double>(now.num_preemptions - last_.num_preemptions));
  metrics_.observe_kv(last_.kv, now.kv);
  last_ = now;
}

EngineStats EngineCore::stats() const {
  const SchedulerStats s = scheduler_.stats();
  EngineStats stats;
  stats.num_running = s.num_running;
  stats.num_waiting = s.num_waiting;
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
