#include "base/thread_priority.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>

namespace quire {
namespace {

// A scheduler with deadlines (Linux 6.6 and later) protects the running thread until its slice ends, also if
// its niceness is high, and preempts it only for threads with shorter slices. The default is a few
// milliseconds. Slices can be set since Linux 6.12; older versions ignore the value.
constexpr uint64_t kSliceNs = 50'000'000;
constexpr uint32_t kBatch = 3;  // SCHED_BATCH: does not preempt other threads when it wakes up
constexpr int kMaxNice = 19;

// sched_setattr(2); glibc has no declaration before 2.41.
struct SchedAttributes {
  uint32_t size = sizeof(SchedAttributes);
  uint32_t policy = 0;
  uint64_t flags = 0;
  int32_t nice = 0;
  uint32_t priority = 0;
  uint64_t runtime = 0;
  uint64_t deadline = 0;
  uint64_t period = 0;
};

}  // namespace

void lower_thread_priority(int nice) {
#ifdef __linux__
  // Linux has one niceness per thread.
  const auto id = static_cast<id_t>(::syscall(SYS_gettid));
  nice = std::min(kMaxNice, ::getpriority(PRIO_PROCESS, id) + nice);
  SchedAttributes attributes;
  attributes.policy = kBatch;
  attributes.nice = nice;
  attributes.runtime = kSliceNs;
  if (::syscall(SYS_sched_setattr, 0, &attributes, 0) != 0) (void)::setpriority(PRIO_PROCESS, id, nice);
#else
  (void)nice;
#endif
}

}  // namespace quire
