#include "server/http/work_pool.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "base/thread_name.h"
#include "base/thread_priority.h"

namespace quire {
namespace {

constexpr size_t kMaxWaitingTasks = 4096;  // per lane

// A task of 64 KiB takes some milliseconds, one of 1 MiB about a second in the worst case.
constexpr std::array<WorkPool::LaneOptions, 3> kServerLanes = {{
    {64 << 10, 2, 0},
    {1 << 20, 1, 5},
    {std::numeric_limits<size_t>::max(), 1, 10},
}};

// In the order of WorkPool::Special.
constexpr std::array<WorkPool::LaneOptions, 3> kSpecialLanes = {{{0, 1, 0}, {0, 1, 5}, {0, 1, 10}}};

}  // namespace

WorkPool::WorkPool(EngineBusy engine_busy) : WorkPool(kServerLanes, std::move(engine_busy)) {}

WorkPool::WorkPool(std::span<const LaneOptions> lanes, EngineBusy engine_busy)
    : engine_busy_(std::move(engine_busy)) {
  try {
    for (const LaneOptions& options : kSpecialLanes) add_lane(options);
    for (const LaneOptions& options : lanes) add_lane(options);
  } catch (...) {
    // Threads that were started before the failure would otherwise end the process.
    close();
    throw;
  }
}

WorkPool::~WorkPool() {
  close();
}

void WorkPool::close() {
  cancel_all();
  for (const auto& lane : lanes_) {
    const std::lock_guard lock(lane->mutex);
    lane->stopping = true;
    lane->changed.notify_all();
  }
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

void WorkPool::add_lane(const LaneOptions& options) {
  auto lane = std::make_unique<Lane>();
  lane->max_bytes = options.max_bytes;
  lane->running.assign(static_cast<size_t>(options.num_threads), std::stop_source(std::nostopstate));
  lanes_.push_back(std::move(lane));
  for (size_t i = 0; i < lanes_.back()->running.size(); ++i) {
    threads_.emplace_back(
        [this, lane = lanes_.back().get(), i, nice = options.nice] { run(*lane, i, nice); });
  }
}

bool WorkPool::submit(size_t bytes, const std::stop_source& stop, Task task) {
  size_t i = kSpecialLanes.size();
  while (i + 1 < lanes_.size() && bytes > lanes_[i]->max_bytes) ++i;
  return submit_to(*lanes_[i], stop, std::move(task));
}

bool WorkPool::submit(Special lane, const std::stop_source& stop, Task task) {
  return submit_to(*lanes_[static_cast<size_t>(lane)], stop, std::move(task));
}

bool WorkPool::submit_to(Lane& lane, const std::stop_source& stop, Task task) {
  const std::lock_guard lock(lane.mutex);
  if (lane.stopping || lane.waiting.size() >= kMaxWaitingTasks) return false;
  lane.waiting.push_back({stop, std::move(task)});
  lane.changed.notify_one();
  return true;
}

void WorkPool::cancel_all() noexcept {
  for (const auto& lane : lanes_) {
    // One after the other, without a copy of the list, for which there may be no memory. Callbacks of the
    // tokens run here and may take locks, so they run outside of the lane's.
    while (true) {
      std::stop_source stop(std::nostopstate);
      const auto is_next = [&](const std::stop_source& source) {
        if (source.stop_possible() && !source.stop_requested()) stop = source;
        return stop.stop_possible();
      };
      {
        const std::lock_guard lock(lane->mutex);
        if (!std::ranges::any_of(lane->running, is_next) &&
            !std::ranges::any_of(lane->waiting, is_next, &Entry::stop))
          break;
      }
      stop.request_stop();
    }
  }
}

void WorkPool::run(Lane& lane, size_t thread, int nice) const {
  name_this_thread("quire-work");
  if (nice != 0) lower_thread_priority(nice);
  Pacer pacer(engine_busy_);
  std::unique_lock lock(lane.mutex);
  while (true) {
    lane.changed.wait(lock, [&] { return lane.stopping || !lane.waiting.empty(); });
    if (lane.waiting.empty()) return;
    Entry entry = std::move(lane.waiting.front());
    lane.waiting.pop_front();
    lane.running[thread] = entry.stop;
    lock.unlock();
    entry.task(YieldPoint(entry.stop.get_token(), nice != 0 ? &pacer : nullptr));
    // The task may own large objects, so that they are freed outside of the lock.
    entry.task = nullptr;
    lock.lock();
    lane.running[thread] = std::stop_source(std::nostopstate);
  }
}

}  // namespace quire
