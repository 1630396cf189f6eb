// Parallel loops over a fixed set of threads.
#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>

namespace quire {

// How long the ranges of a loop are.
enum class Ranges {
  kEven,       // each a grain; the last may be shorter
  kLongFirst,  // half of a thread's share of what is left, at least a grain: long ranges without threads
               // that wait for each other at the end
};

// A fixed set of threads that run one parallel loop at a time. They spin for a short while after a loop, so
// that the ops of a step follow each other without a system call, then park on a futex: an idle engine uses
// no CPU. Owned by the executor. One thread (the owner) calls parallel_for; never from inside a loop body.
class ThreadPool {
 public:
  // `threads` counts the caller: 1 makes no thread at all. pin: bind each made thread to one core of the
  // process's set, the first core being left to the caller, which is not bound. Throws Error outside 1..1023
  // or when a thread cannot be made.
  explicit ThreadPool(int threads, bool pin = false);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int num_threads() const;

  // body(arg, begin, end, thread) for disjoint ranges that cover [0, n). Ranges are handed out dynamically;
  // results may not depend on which thread does what. `thread` is in [0, num_threads()). Returns when all is
  // done; what the bodies wrote is then visible to the caller. Bodies must not throw.
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

// The physical cores this process may run on (affinity mask and cgroup quota), at least 1.
int available_cores();

}  // namespace quire
