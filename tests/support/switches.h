// Context switches of the threads of this process: what a thread that waits costs. A sleep or a wait is one
// voluntary switch.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <system_error>
#include <thread>

#include "support/eventually.h"
#include "support/sanitizers.h"

namespace quire::test {

struct ThreadState {
  std::string name;
  char state = '?';  // R = running or ready to run, S = sleeping
  int64_t voluntary = 0, involuntary = 0;
  bool operator==(const ThreadState&) const = default;
};

// `task`: a folder of /proc/self/task.
inline ThreadState thread_state(const std::filesystem::path& task) {
  ThreadState result;
  std::ifstream file(task / "status");
  std::string key;
  while (file >> key) {
    if (key == "Name:") file >> result.name;
    if (key == "State:") file >> result.state;
    if (key == "voluntary_ctxt_switches:") file >> result.voluntary;
    if (key == "nonvoluntary_ctxt_switches:") file >> result.involuntary;
  }
  return result;
}

// How often the calling thread has waited for something.
inline int64_t num_waits() {
  return thread_state("/proc/thread-self").voluntary;
}

// The threads of the process except the calling one and those of the sanitizers.
inline std::map<std::string, ThreadState> other_threads() {
  const std::string self = std::filesystem::read_symlink("/proc/thread-self").filename();
  const std::string main_name = thread_state("/proc/self").name;
  std::map<std::string, ThreadState> threads;
  std::error_code ended;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task", ended)) {
    ThreadState thread = thread_state(task.path());
    // Thread sanitizer has a thread that wakes up all the time. It has no name of its own.
    if (task.path().filename() == self || (kThreadSanitizer && thread.name == main_name)) continue;
    threads.emplace(task.path().filename(), std::move(thread));
  }
  return threads;
}

// Waits until all other threads sleep and none of them wakes up during `period`. False if that never happens:
// some thread computes or polls.
[[nodiscard]] inline bool others_sleep(std::chrono::milliseconds period) {
  return eventually([&] {
    const auto before = other_threads();
    for (const auto& [id, thread] : before) {
      if (thread.state != 'S') return false;
    }
    std::this_thread::sleep_for(period);
    return other_threads() == before;
  });
}

}  // namespace quire::test
