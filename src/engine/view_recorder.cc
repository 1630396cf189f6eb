#include "engine/view_recorder.h"

#include <algorithm>
#include <utility>

#include "sched/scheduler.h"

namespace quire {
namespace {

constexpr size_t kMaxChunks = 24;    // per request
constexpr size_t kMaxPauses = 8;     // per request
constexpr size_t kMaxEnded = 256;    // requests
constexpr double kKeepEnded = 60.0;  // seconds
constexpr double kScanInterval = 0.02;

bool is_paused(const RequestHistory& history) {
  return !history.pauses.empty() && history.pauses.back().end == 0.0;
}

}  // namespace

void ViewRecorder::note_plan(const StepPlan& plan, const Scheduler& scheduler) {
  planned_.clear();
  for (const ScheduledSequence& sequence : plan.scheduled) {
    if (sequence.num_new_tokens <= 1) continue;
    planned_.push_back({scheduler.request_of(sequence.seq), sequence.num_new_tokens});
  }
}

void ViewRecorder::note_step(double begin, double end, const Scheduler& scheduler) {
  for (const Chunk& chunk : planned_) {
    if (chunk.request < 0) continue;
    std::vector<PrefillChunk>& chunks = histories_[chunk.request].chunks;
    if (chunks.size() == kMaxChunks) chunks.erase(chunks.begin());
    chunks.push_back({begin, end, chunk.num_tokens});
  }
  planned_.clear();
  const int64_t num_preemptions = scheduler.stats().num_preemptions;
  const bool more = num_preemptions_ >= 0 && num_preemptions != num_preemptions_;
  if ((more || any_paused_) && end >= next_scan_) {
    next_scan_ = end + kScanInterval;
    note_preempted(end, scheduler);
    num_preemptions_ = num_preemptions;
  }
  if (num_preemptions_ < 0) num_preemptions_ = num_preemptions;
}

void ViewRecorder::note_preempted(double now, const Scheduler& scheduler) {
  scheduler.preempted_requests(preempted_);
  std::sort(preempted_.begin(), preempted_.end());
  for (auto& [id, history] : histories_) {
    if (is_paused(history) && !std::binary_search(preempted_.begin(), preempted_.end(), id))
      history.pauses.back().end = now;
  }
  for (const RequestId id : preempted_) {
    RequestHistory& history = histories_[id];
    if (is_paused(history)) continue;
    if (history.pauses.size() == kMaxPauses) history.pauses.erase(history.pauses.begin());
    history.pauses.push_back({now, 0.0});
  }
  any_paused_ = !preempted_.empty();
}

void ViewRecorder::note_end(EndedRequest ended) {
  if (const auto it = histories_.find(ended.id); it != histories_.end()) {
    ended.history = std::move(it->second);
    histories_.erase(it);
  }
  if (is_paused(ended.history)) ended.history.pauses.back().end = ended.end;
  if (ended_.size() == kMaxEnded) ended_.pop_front();
  ended_.push_back(std::move(ended));
}

RequestHistory ViewRecorder::history(RequestId id) const {
  const auto it = histories_.find(id);
  return it == histories_.end() ? RequestHistory{} : it->second;
}

std::vector<EndedRequest> ViewRecorder::ended(double now) {
  while (!ended_.empty() && ended_.front().end < now - kKeepEnded) ended_.pop_front();
  return {ended_.begin(), ended_.end()};
}

}  // namespace quire
