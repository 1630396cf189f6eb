#include "base/thread_priority.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

namespace quire {
namespace {

int niceness() {
  return ::getpriority(PRIO_PROCESS, static_cast<id_t>(::syscall(SYS_gettid)));
}

TEST(ThreadPriority, AppliesToTheCallingThreadOnly) {
  const int before = niceness();
  const int policy = ::sched_getscheduler(0);
  std::thread([&] {
    lower_thread_priority(7);
    EXPECT_EQ(niceness(), std::min(19, before + 7));
    EXPECT_EQ(::sched_getscheduler(0), SCHED_BATCH);
    lower_thread_priority(100);
    EXPECT_EQ(niceness(), 19);
  }).join();
  EXPECT_EQ(niceness(), before);
  EXPECT_EQ(::sched_getscheduler(0), policy);
}

}  // namespace
}  // namespace quire
