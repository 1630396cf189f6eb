// Records prefill chunks, preemptions and ends of requests while the engine is watched. Engine thread only.
// Otherwise nothing is recorded, and a step costs one comparison.
#pragma once

#include <cstdint>
#include <deque>
#include <unordered_map>
#include <vector>

#include "contract/step_plan.h"
#include "engine/engine_view.h"

namespace quire {

class Scheduler;

class ViewRecorder {
 public:
  // Watches for some seconds from now on.
  void watch(double now) { watched_until_ = now + kWatchSeconds; }
  // Forgets everything when the watch is over.
  bool watching(double now) {
    if (watched_until_ == 0.0) return false;
    if (now <= watched_until_) return true;
    *this = {};
    return false;
  }

  // The plan of a step before its commit, while its sequences are known.
  void note_plan(const StepPlan& plan, const Scheduler& scheduler);
  // The end of the step.
  void note_step(double begin, double end, const Scheduler& scheduler);
  // Takes the entry over and adds its history.
  void note_end(EndedRequest ended);

  // Empty for a request without history.
  RequestHistory history(RequestId id) const;
  // Those of the last minute.
  std::vector<EndedRequest> ended(double now);

 private:
  struct Chunk {
    RequestId request;
    int32_t num_tokens;
  };

  void note_preempted(double now, const Scheduler& scheduler);

  static constexpr double kWatchSeconds = 5.0;

  double watched_until_ = 0.0;  // 0 = not watched
  double next_scan_ = 0.0;      // time of the next search for preempted requests
  int64_t num_preemptions_ = -1;
  bool any_paused_ = false;
  std::vector<Chunk> planned_;
  std::vector<RequestId> preempted_;  // scratch
  std::unordered_map<RequestId, RequestHistory> histories_;
  std::deque<EndedRequest> ended_;
};

}  // namespace quire
