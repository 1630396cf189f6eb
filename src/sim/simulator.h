// Discrete-event simulation of a trace on replicas, in virtual time. The events are arrivals and ends of
// steps, so the run time depends on the number of steps only.
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
  int64_t pool_slots = 0;  // token slots of all replicas
  int64_t num_done = 0;
  int64_t num_refused = 0;
  int64_t output_tokens = 0;
  int64_t prompt_tokens = 0;  // of successful requests
  double elapsed = 0.0;       // seconds from the first arrival to the last token
};

// Latencies in seconds. The outcome must be done().
double ttft(const TraceRequest& request, const RequestOutcome& outcome);
double e2e(const TraceRequest& request, const RequestOutcome& outcome);
// Time per output token: (e2e - ttft) / (tokens of a sample - 1); 0 for a single token.
double tpot(const RequestOutcome& outcome, int32_t num_samples);

// Called from time to time with the fraction of finished requests.
using SimProgress = std::function<void(double done)>;

// Throws Error for invalid options.
SimResult simulate(const Trace& trace, const CostModel& cost, const SimOptions& options,
                   const SimProgress& progress = {});

}  // namespace quire::sim
