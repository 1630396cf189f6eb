#include "base/thread_pool.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <fstream>
#include <set>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/cgroup.h"
#include "base/error.h"
#include "base/thread_name.h"

namespace quire {
namespace {

constexpr int kMaxThreads = 1023;
// Longer than the pause between two ops of a step, too short to show up in a CPU monitor.
constexpr auto kSpin = std::chrono::microseconds(300);
constexpr int kPausesPerClockRead = 32;

inline void cpu_pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// One CPU per physical core of the affinity mask.
std::vector<int> physical_cpus() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  std::vector<int> cpus;
  if (sched_getaffinity(0, sizeof(mask), &mask) != 0) return cpus;
  std::set<std::string> cores_seen;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &mask)) continue;
    std::ifstream file("/sys/devices/system/cpu/cpu" + std::to_string(cpu) +
                       "/topology/thread_siblings_list");
    std::string siblings;
    // If the topology is hidden, each CPU counts as a core.
    if (file && std::getline(file, siblings) && !cores_seen.insert(siblings).second) continue;
    cpus.push_back(cpu);
  }
  return cpus;
}

void bind_to_cpu(std::thread& thread, int cpu) {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  CPU_SET(cpu, &mask);
  // A failure costs speed only.
  pthread_setaffinity_np(thread.native_handle(), sizeof(mask), &mask);
}

}  // namespace

// One word holds the shared state, so that a thread joins a loop with one compare-and-swap:
//
//   bit 31..12 loop number | bit 11 stop | bit 10 open | bit 9..0 threads inside
//
// The caller opens a loop, works on it, closes it when no range is left and waits until no thread is inside.
// A thread that is parked or not scheduled misses the loop, and the caller does not wait for it.
struct ThreadPool::Impl {
  static constexpr uint32_t kInside = (1U << 10) - 1;
  static constexpr uint32_t kOpen = 1U << 10;
  static constexpr uint32_t kStop = 1U << 11;
  static constexpr uint32_t kLoop = 1U << 12;
  static constexpr uint32_t kLoopMask = ~(kLoop - 1);

  alignas(64) std::atomic<uint32_t> state{0};
  alignas(64) std::atomic<int64_t> next{0};
  // The open loop. Written while no thread is inside, published by `state`.
  alignas(64) int64_t n = 0;
  int64_t grain = 1;
  int64_t parts = 0;  // a range is 1 / parts of the remaining indices; 0 = `grain` indices
  Body body = nullptr;
  void* arg = nullptr;
  // The first exception of the open loop. `failed` decides which thread may write `error`.
  std::atomic<bool> failed{false};
  std::exception_ptr error;
  std::vector<std::thread> workers;

  void run_long_first(int thread) {
    int64_t begin = next.load(std::memory_order_relaxed);
    while (begin < n) {
      const int64_t end = std::min(n, begin + std::max(grain, (n - begin) / parts));
      if (!next.compare_exchange_weak(begin, end, std::memory_order_relaxed)) continue;
      body(arg, begin, end, thread);
      begin = next.load(std::memory_order_relaxed);
    }
  }

  void run_ranges(int thread) {
    if (parts > 0) return run_long_first(thread);
    while (true) {
      const int64_t begin = next.fetch_add(grain, std::memory_order_relaxed);
      if (begin >= n) return;
      body(arg, begin, std::min(n, begin + grain), thread);
    }
  }

  // An exception must not leave a worker, and the caller must not unwind the frame that the bodies use while
  // a worker is inside the loop. Both hand the exception over and let the loop end without further ranges.
  void run_ranges_guarded(int thread) noexcept {
    try {
      run_ranges(thread);
    } catch (...) {
      if (!failed.exchange(true, std::memory_order_relaxed)) error = std::current_exception();
      next.store(n, std::memory_order_relaxed);
    }
  }

  void work(int thread) {
    uint32_t last_loop = 1;  // no loop number has its low bits set
    auto spin_until = std::chrono::steady_clock::now() + kSpin;
    int pauses = 0;
    while (true) {
      uint32_t seen = state.load(std::memory_order_acquire);
      if ((seen & kStop) != 0) return;
      if ((seen & kOpen) != 0 && (seen & kLoopMask) != last_loop) {
        if (!state.compare_exchange_weak(seen, seen + 1, std::memory_order_acq_rel)) continue;
        last_loop = seen & kLoopMask;
        run_ranges_guarded(thread);
        state.fetch_sub(1, std::memory_order_acq_rel);
        spin_until = std::chrono::steady_clock::now() + kSpin;
        pauses = 0;
        continue;
      }
      cpu_pause();
      if (++pauses % kPausesPerClockRead != 0 || std::chrono::steady_clock::now() < spin_until) continue;
      state.wait(seen, std::memory_order_acquire);
      spin_until = std::chrono::steady_clock::now() + kSpin;
      pauses = 0;
    }
  }

  void stop() {
    state.fetch_or(kStop, std::memory_order_release);
    state.notify_all();
    for (auto& worker : workers) worker.join();
  }
};

ThreadPool::ThreadPool(int threads, bool pin) : impl_(std::make_unique<Impl>()) {
  if (threads < 1 || threads > kMaxThreads) {
    throw Error("cannot create a pool of " + std::to_string(threads) + " threads: the number must be 1 to " +
                std::to_string(kMaxThreads));
  }
  const std::vector<int> cpus = pin ? physical_cpus() : std::vector<int>();
  impl_->workers.reserve(static_cast<size_t>(threads - 1));
  for (int i = 1; i < threads; ++i) {
    try {
      impl_->workers.emplace_back([impl = impl_.get(), i] {
        name_this_thread("quire-worker");
        impl->work(i);
      });
    } catch (const std::system_error& e) {
      impl_->stop();
      throw Error("cannot start thread " + std::to_string(i) + " of " + std::to_string(threads) + ": " +
                  e.what());
    }
    if (!cpus.empty()) bind_to_cpu(impl_->workers.back(), cpus[static_cast<size_t>(i) % cpus.size()]);
  }
}

ThreadPool::~ThreadPool() {
  impl_->stop();
}

int ThreadPool::num_threads() const {
  return static_cast<int>(impl_->workers.size()) + 1;
}

void ThreadPool::parallel_for(int64_t n, int64_t grain, Body body, void* arg, Ranges ranges) {
  if (n <= 0) return;
  grain = std::max<int64_t>(grain, 1);
  if (n <= grain || impl_->workers.empty()) {
    body(arg, 0, n, 0);
    return;
  }
  Impl& pool = *impl_;
  pool.n = n;
  pool.grain = grain;
  pool.parts = ranges == Ranges::kLongFirst ? 2 * num_threads() : 0;
  pool.body = body;
  pool.arg = arg;
  pool.next.store(0, std::memory_order_relaxed);
  const uint32_t opened =
      ((pool.state.load(std::memory_order_relaxed) & Impl::kLoopMask) + Impl::kLoop) | Impl::kOpen;
  pool.state.store(opened, std::memory_order_release);
  pool.state.notify_all();
  pool.run_ranges_guarded(0);
  uint32_t seen = pool.state.fetch_and(~Impl::kOpen, std::memory_order_acq_rel);
  for (int pauses = 0; (seen & Impl::kInside) != 0; ++pauses) {
    // A worker is on its last range. It may have been descheduled and need this core.
    if (pauses < 4096) {
      cpu_pause();
    } else {
      sched_yield();
    }
    seen = pool.state.load(std::memory_order_acquire);
  }
  if (pool.failed.load(std::memory_order_relaxed)) {
    pool.failed.store(false, std::memory_order_relaxed);
    std::rethrow_exception(std::exchange(pool.error, nullptr));
  }
}

int available_cores() {
  int cores = std::max(1, static_cast<int>(physical_cpus().size()));
  if (const auto quota = cgroup_cpus()) cores = std::min(cores, std::max(1, static_cast<int>(*quota)));
  return std::min(cores, kMaxThreads);
}

}  // namespace quire
