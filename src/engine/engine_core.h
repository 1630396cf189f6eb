// The step loop without its thread: scheduler, executor and output processor, driven by one caller.
// Everything here belongs to the engine thread; tests drive it directly.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "contract/engine_config.h"
#include "engine/engine.h"
#include "engine/engine_metrics.h"
#include "engine/output_processor.h"
#include "exec/executor.h"
#include "sched/scheduler.h"

namespace quire {

class EngineCore {
 public:
  // executor, tokenizer (may be null), metrics and num_unstarted outlive the core. num_unstarted counts
  // requests that were handed in and neither ran nor ended yet: whoever hands one in adds one, the core takes
  // it off.
  EngineCore(const SchedulerConfig& config, const KvLayout& layout, Executor& executor,
             const Tokenizer* tokenizer, MetricsRegistry& metrics, const ModelInfo& model, uint64_t seed,
             std::atomic<int32_t>& num_unstarted);

  // Starts a request; a refusal goes to the sink as a failure.
  void add(RequestId id, GenerateRequest request, OutputSink sink, double arrival);
  void abort(RequestId id);
  bool has_work() const { return scheduler_.has_work(); }
  // schedule, begin, finish, commit. The plan it carried out stays until the next step.
  const StepPlan& step();
  // Hands the step's news to the requests' owners.
  void deliver() { outputs_.deliver(); }
  // Ends all requests with this failure.
  void abort_all(const Failure& failure);
  // The same without a word to the scheduler, which may be broken.
  void fail_all(const Failure& failure);

  // Brings gauges and counters up to date; step() does so itself.
  void refresh_metrics();

  size_t num_requests() const { return outputs_.num_requests(); }
  EngineStats stats() const;
  void check_integrity() const { scheduler_.check_integrity(); }
  // Forgets all cached prefixes, on every tier.
  bool reset_prefix_cache();
  // What an earlier process left on the disk. Before anything else.
  void restore_disk(std::span<const StoredBlock> stored) { scheduler_.restore_disk(stored); }
  // At the end: hands what is still to be written to the executor, for a short while. Runs no sequence.
  void flush_disk();

 private:
  Scheduler scheduler_;
  Executor& executor_;
  EngineMetrics metrics_;
  OutputProcessor outputs_;
  std::vector<TokenId> end_token_ids_;
  uint64_t seed_;
  SchedulerStats last_;  // as the counters have seen it
};

}  // namespace quire
