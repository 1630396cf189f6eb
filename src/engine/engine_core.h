// The step loop without its thread: scheduler, executor and output processor, driven by one caller.
// Everything here belongs to the engine thread; tests drive it directly. After an exception only fail_all()
// may be called.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "contract/engine_config.h"
#include "engine/adapter_store.h"
#include "engine/adapter_waits.h"
#include "engine/engine_metrics.h"
#include "engine/engine_types.h"
#include "engine/engine_view.h"
#include "engine/output_processor.h"
#include "engine/request_batch.h"
#include "engine/view_recorder.h"
#include "exec/executor.h"
#include "sched/scheduler.h"

namespace quire {

class EngineCore {
 public:
  // executor, tokenizer (may be null), metrics and num_unstarted outlive the core. num_unstarted counts the
  // submitted requests that have neither started nor finished: the caller increments it, the core decrements
  // it. hooks: `before` and `clock` are used. adapters: null = there are none; outlives the core, too.
  EngineCore(const SchedulerConfig& config, const KvLayout& layout, Executor& executor,
             const Tokenizer* tokenizer, MetricsRegistry& metrics, const ModelInfo& model, uint64_t seed,
             std::atomic<int32_t>& num_unstarted, const EngineHooks& hooks = {},
             AdapterStore* adapters = nullptr);

  // Whether the request can ever run. Any thread. A failure names the field and the limit that it exceeds.
  Status check(const Request& request) const { return scheduler_.check(request); }
  void count_rejected(ErrorKind kind, int32_t count);
  // Starts a request that check() accepted, once its adapter is in memory. If this throws, the sink is either
  // still the caller's or fail_all() calls it.
  void add(Submission&& submission);
  // Starts, or ends with a failure, the requests whose adapters have been loaded since the last call.
  void take_adapters();
  void abort(RequestId id);
  bool has_work() const { return scheduler_.has_work(); }
  // After a step: whether the next one has nothing to do before a disk operation has ended.
  bool waits_for_disk() const { return waits_for_disk_; }
  // Called on a thread of the executor when a disk operation has ended; see Executor.
  void on_disk_outcome(const std::function<void()>& callback) { executor_.on_disk_outcome(callback); }
  // Runs schedule, begin, finish and commit. The executed plan is valid until the next step.
  const StepPlan& step();
  // Sends the outputs of the step to the sinks.
  void deliver();
  // Ends all requests with this failure.
  void abort_all(const Failure& failure);
  // Same, without calling the scheduler, whose state may be inconsistent.
  void fail_all(const Failure& failure) noexcept;
  // Calls the hook of the phase, if there is one.
  void before(StepPhase phase) const {
    if (before_) before_(phase);
  }

  // Updates gauges and counters; step() does so itself.
  void refresh_metrics();

  size_t num_requests() const { return outputs_.num_requests(); }
  EngineStats stats() const;
  // A snapshot. From now on, and for some seconds, the history of requests is recorded.
  EngineView view();
  void check_integrity() const { scheduler_.check_integrity(); }
  // Removes all cached prefixes from every tier.
  bool reset_prefix_cache();
  // Adds the blocks that an earlier process left on disk. Before the first request.
  void restore_disk(std::span<const StoredBlock> stored) { scheduler_.restore_disk(stored); }
  // At shutdown: passes the remaining disk writes to the executor, for a few seconds at most. Runs no
  // sequence.
  void flush_disk();

 private:
  bool watched(double now);
  void enter(Request&& request, std::optional<int64_t> place);
  void abort_waiting();
  void refresh_adapter_metrics();

  Scheduler scheduler_;
  Executor& executor_;
  EngineMetrics metrics_;
  OutputProcessor outputs_;
  AdapterStore* adapters_;
  AdapterWaits waiting_for_adapters_;
  std::vector<TokenId> end_token_ids_;
  uint64_t seed_;
  bool waits_for_disk_ = false;
  SchedulerStats last_;  // at the previous refresh_metrics()
  int64_t last_evicted_ = 0;
  int32_t max_loras_;
  FairBy fair_by_;
  ViewRecorder recorder_;
  std::vector<EndedRequest> ended_;  // while the engine is watched: since the previous step
  std::function<void(StepPhase)> before_;
  std::function<double()> clock_;  // seconds
};

}  // namespace quire
