// Threads for the work of a request that may take longer than a few milliseconds: parsing JSON, rendering
// chat templates, tokenization, writing large responses. HTTP threads only move bytes, so that /health and
// /metrics respond regardless of what other requests do.
//
// Tasks are sorted into lanes by the size of what they work on. Each lane has its own threads and serves its
// tasks in order of arrival: a large request never delays a small one. Constraints of outputs, of which a
// short one may take seconds to compile, have lanes of their own. Threads of the lanes for large requests and
// for constraints run at a lower priority, and a tenth of the time while the engine is busy, because they
// compete with it for the processor.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <stop_token>
#include <thread>
#include <vector>

#include "base/yield_point.h"

namespace quire {

class WorkPool {
 public:
  struct LaneOptions {
    size_t max_bytes;  // largest task of the lane
    int num_threads;
    int nice;  // added to the niceness of the threads; above 0, they also wait for the engine
  };
  // Must not throw. The yield point is cancelled when the client disconnects or the server stops; the task
  // then returns early, but still has to reply.
  using Task = std::function<void(const YieldPoint&)>;

  // Whether the engine has requests. Any thread.
  using EngineBusy = std::function<bool()>;

  // The last lane of `lanes` takes every task that is too large for the others.
  WorkPool(std::span<const LaneOptions> lanes, EngineBusy engine_busy);
  // The lanes that a server has.
  explicit WorkPool(EngineBusy engine_busy);
  // Closes the pool. A pool that its own tasks own must be closed before.
  ~WorkPool();
  WorkPool(const WorkPool&) = delete;
  WorkPool& operator=(const WorkPool&) = delete;

  // Runs the task once, on a thread of the lane for `bytes`. False if the queue of the lane is full or the
  // pool is closed; the task is then never run. Throws std::bad_alloc. Any thread.
  bool submit(size_t bytes, const std::stop_source& stop, Task task);
  // Lanes for what the size of a request does not tell.
  enum class Special : uint8_t {
    kWaiting,    // for tasks that wait for the engine instead of computing
    kCompiling,  // compiling constraints, as far as that is quick; at a lower priority
    kLongCompiling,
  };
  bool submit(Special lane, const std::stop_source& stop, Task task);
  // Cancels the yield points of all tasks that wait or run now.
  void cancel_all() noexcept;
  // Cancels all tasks, waits for them and ends the threads; further tasks are refused. Not on a thread of the
  // pool. Calls after the first one do nothing.
  void close();

 private:
  struct Entry {
    std::stop_source stop;
    Task task;
  };
  struct Lane {
    size_t max_bytes = 0;
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<Entry> waiting;
    std::vector<std::stop_source> running;  // one per thread; without a state if the thread is idle
    bool stopping = false;
  };

  void add_lane(const LaneOptions& options);
  static bool submit_to(Lane& lane, const std::stop_source& stop, Task task);
  void run(Lane& lane, size_t thread, int nice) const;

  const EngineBusy engine_busy_;
  std::vector<std::unique_ptr<Lane>> lanes_;  // those of Special, then the others ascending by max_bytes
  std::vector<std::thread> threads_;
};

}  // namespace quire
