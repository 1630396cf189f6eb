// Runs a trace through replicas in virtual time. The events are arrivals and the ends of steps; between them
// nothing happens, so a run of hours takes as long as its steps take to plan.
#pragma once

#include <functional>
#include <vector>

#include "sim/cost_model.h"
#include "sim/recorder.h"
#include "sim/replica.h"
#include "sim/router.h"
#include "sim/trace.h"

namespace quire::sim {

struct SimOptions {
  ReplicaOptions replica;
  int32_t num_replicas = 1;
  Routing routing = Routing::kLeastLoaded;
};

struct SimResult {
  std::vector<RequestOutcome> outcomes;  // [num_requests of the trace]
  LogHistogram itl;
  TimeSeries series{1.0};
  KvSums all_steps;
  KvSums blocked_steps;
  ReplicaTotals totals;    // over all replicas
  int64_t pool_slots = 0;  // of all replicas
  int64_t num_done = 0;
  int64_t num_refused = 0;
  int64_t output_tokens = 0;
  int64_t prompt_tokens = 0;  // of requests that were done
  double elapsed = 0.0;       // seconds from the first arrival to the last token
};

// Latencies in seconds; only of outcomes that are done.
double ttft(const TraceRequest& request, const RequestOutcome& outcome);
double e2e(const TraceRequest& request, const RequestOutcome& outcome);
// A token of the answer behind the first: (e2e - ttft) / (tokens of a sample - 1); 0 for a single token.
double tpot(const RequestOutcome& outcome, int32_t num_samples);

// Called now and then with the part of the requests that have ended.
using SimProgress = std::function<void(double done)>;

// Throws Error for options that cannot work.
SimResult simulate(const Trace& trace, const CostModel& cost, const SimOptions& options,
                   const SimProgress& progress = {});

}  // namespace quire::sim
