// Parallel loops over a fixed set of threads.
#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>

namespace quire {

// Length of the ranges of a loop.
enum class Ranges {
  kEven,       // `grain` indices each; the last may be shorter
  kLongFirst,  // guided: half of a thread's share of the remaining indices, at least `grain`. Starts with
               // long ranges and ends with short ones, so that threads do not wait for each other at the end.
};

// A fixed set of threads that run one parallel loop at a time. They spin for a short while after a loop, so
// that consecutive ops of a step need no system call, then park on a futex, so an idle engine uses no CPU.
// Owned by the executor. One thread (the owner) calls parallel_for; never from inside a loop body.
class ThreadPool {
 public:
  // `threads` includes the caller: 1 starts no thread. pin: bind each started thread to one core of the
  // process's affinity mask; the first core is left to the caller, which is not bound. Throws Error if
  // `threads` is not in 1..1023 or a thread cannot be started.
  explicit ThreadPool(int threads, bool pin = false);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int num_threads() const;

  // Calls body(arg, begin, end, thread) for disjoint ranges that cover [0, n), with `thread` in [0,
  // num_threads()). Ranges are assigned to threads dynamically. Returns when all are done and their writes
  // are visible. If a body throws, no further ranges start, and the first exception is rethrown at the end.
  using Body = void (*)(void* arg, int64_t begin, int64_t end, int thread);
  void parallel_for(int64_t n, int64_t grain, Body body, void* arg, Ranges ranges = Ranges::kEven);

  template <typename F>
  void parallel_for(int64_t n, int64_t grain, F&& f, Ranges ranges = Ranges::kEven) {
    using Fn = std::remove_reference_t<F>;
    const Body call = [](void* arg, int64_t b, int64_t e, int t) { (*static_cast<Fn*>(arg))(b, e, t); };
    parallel_for(n, grain, call, const_cast<void*>(static_cast<const void*>(&f)), ranges);
  }

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Number of physical cores that this process may use (affinity mask and cgroup quota), at least 1.
int available_cores();

}  // namespace quire
