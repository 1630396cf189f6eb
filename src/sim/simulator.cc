#include "sim/simulator.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "base/strings.h"

namespace quire::sim {

namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr int64_t kStepsBetweenReports = 4096;

class Simulation {
 public:
  Simulation(const Trace& trace, const CostModel& cost, const SimOptions& options)
      : trace_(trace),
        cost_(cost),
        recorder_(static_cast<int64_t>(trace.requests.size()), options.replica.num_samples,
                  std::max(trace.duration(), 1.0) / TimeSeries::kNumPoints),
        router_(options.routing, options.num_replicas,
                int64_t{options.replica.layout.num_blocks} * options.replica.layout.block_size /
                    Trace::kTokensPerHash),
        loads_(static_cast<size_t>(options.num_replicas)),
        prompt_work_(trace.requests.size(), 0) {
    for (int32_t i = 0; i < options.num_replicas; ++i)
      lanes_.push_back({make_replica(trace, options.replica), kNever, 0.0, {}});
    result_.pool_slots =
        int64_t{options.num_replicas} * options.replica.layout.num_blocks * options.replica.layout.block_size;
  }

  SimResult run(const SimProgress& progress) {
    const double num_requests = static_cast<double>(trace_.requests.size());
    for (int64_t num_steps = 1;; ++num_steps) {
      const size_t lane = next_end();
      const double arrival = next_ < trace_.requests.size() ? trace_.requests[next_].arrival : kNever;
      if (arrival == kNever && lanes_[lane].end == kNever) break;
      if (arrival <= lanes_[lane].end) {
        take_arrivals(arrival);
      } else {
        end_step(lane);
      }
      if (progress && num_steps % kStepsBetweenReports == 0)
        progress(static_cast<double>(result_.num_done + result_.num_refused) / num_requests);
    }
    return finish();
  }

 private:
  // A replica and its current step.
  struct Lane {
    std::unique_ptr<Replica> replica;
    double end = kNever;  // end of the step; kNever = idle
    double begin = 0.0;
    KvUse kv;
  };

  size_t next_end() const {
    size_t first = 0;
    for (size_t i = 1; i < lanes_.size(); ++i) {
      if (lanes_[i].end < lanes_[first].end) first = i;
    }
    return first;
  }

  // Submits all requests that arrive now, then starts steps on idle replicas.
  void take_arrivals(double now) {
    for (; next_ < trace_.requests.size() && trace_.requests[next_].arrival <= now; ++next_) {
      const Choice choice = router_.choose(trace_, trace_.requests[next_], loads_);
      const size_t chosen = static_cast<size_t>(choice.replica);
      const int64_t request = static_cast<int64_t>(next_);
      if (!lanes_[chosen].replica->add(request)) {
        ++result_.num_refused;
        continue;
      }
      recorder_.routed(request, choice.replica);
      ++loads_[chosen].num_open;
      loads_[chosen].waiting_tokens += choice.tokens;
      prompt_work_[next_] = static_cast<int32_t>(choice.tokens);
    }
    for (Lane& lane : lanes_) {
      if (lane.end == kNever) begin_step(lane, now, 1);
    }
  }

  // num_pauses: 1 if the replica was idle.
  void begin_step(Lane& lane, double now, int64_t num_pauses) {
    StepLoad load;
    lane.begin = now;
    const bool begun = lane.replica->begin_step(now, load, lane.kv);
    load.pauses = num_pauses;
    lane.end = begun ? now + cost_.seconds(load) : kNever;
  }

  void end_step(size_t index) {
    Lane& lane = lanes_[index];
    const double now = lane.end;
    recorder_.step(lane.kv, lane.begin, now);
    drawn_.clear();
    lane.replica->end_step(drawn_);
    for (const DrawnToken& token : drawn_) {
      recorder_.token(token, now);
      int32_t& work = prompt_work_[static_cast<size_t>(token.request)];
      loads_[index].waiting_tokens -= work;
      work = 0;
      if (!token.last) continue;
      --loads_[index].num_open;
      ++result_.num_done;
      result_.elapsed = std::max(result_.elapsed, now);
    }
    result_.output_tokens += static_cast<int64_t>(drawn_.size());
    begin_step(lane, now, 0);
  }

  SimResult finish() {
    for (size_t i = 0; i < loads_.size(); ++i) {
      if (loads_[i].num_open != 0)
        throw Error(
            cat("Replica ", i, " of the simulation stopped with ", loads_[i].num_open, " requests open."));
    }
    for (const Lane& lane : lanes_) {
      const ReplicaTotals totals = lane.replica->totals();
      result_.totals.num_preemptions += totals.num_preemptions;
      result_.totals.num_steps += totals.num_steps;
      result_.totals.num_computed_tokens += totals.num_computed_tokens;
      result_.totals.prefix_queried_tokens += totals.prefix_queried_tokens;
      result_.totals.prefix_hit_tokens += totals.prefix_hit_tokens;
    }
    for (size_t i = 0; i < recorder_.outcomes.size(); ++i) {
      if (recorder_.outcomes[i].done()) result_.prompt_tokens += trace_.requests[i].input_len;
    }
    result_.outcomes = std::move(recorder_.outcomes);
    result_.itl = std::move(recorder_.itl);
    result_.series = std::move(recorder_.series);
    result_.all_steps = recorder_.all_steps;
    result_.blocked_steps = recorder_.blocked_steps;
    return std::move(result_);
  }

  const Trace& trace_;
  const CostModel& cost_;
  Recorder recorder_;
  Router router_;
  std::vector<Lane> lanes_;
  std::vector<ReplicaLoad> loads_;    // [num_replicas]
  std::vector<int32_t> prompt_work_;  // [num_requests] Choice::tokens until the first token
  size_t next_ = 0;                   // next request to arrive
  std::vector<DrawnToken> drawn_;
  SimResult result_;
};

}  // namespace

double ttft(const TraceRequest& request, const RequestOutcome& outcome) {
  return outcome.first_token - request.arrival;
}

double e2e(const TraceRequest& request, const RequestOutcome& outcome) {
  return outcome.last_token - request.arrival;
}

double tpot(const RequestOutcome& outcome, int32_t num_samples) {
  const int32_t num_tokens = outcome.num_tokens / num_samples;
  return num_tokens > 1 ? (outcome.last_token - outcome.first_token) / (num_tokens - 1) : 0.0;
}

SimResult simulate(const Trace& trace, const CostModel& cost, const SimOptions& options,
                   const SimProgress& progress) {
  if (options.num_replicas < 1)
    throw Error(cat("--replicas is ", options.num_replicas, "; it must be at least 1"));
  return Simulation(trace, cost, options).run(progress);
}

}  // namespace quire::sim
