// Releases Python's global interpreter lock while C++ code runs.
#pragma once

#include <nanobind/nanobind.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>

namespace quire::python {

// Set when the interpreter begins to exit. Threads other than the exiting one then stay outside of Python:
// taking the GIL of an interpreter that is being destroyed ends the thread in the middle of C++ code.
struct ExitState {
  std::atomic<bool> exiting{false};
  pthread_t thread{};

  static ExitState& instance() {
    static ExitState state;
    return state;
  }
  void begin() {
    thread = pthread_self();
    exiting.store(true);
  }
  bool must_park() const { return exiting.load() && pthread_equal(thread, pthread_self()) == 0; }
};

class GilRelease {
 public:
  GilRelease() : state_(PyEval_SaveThread()) {}
  ~GilRelease() {
    while (ExitState::instance().must_park()) pause();
    PyEval_RestoreThread(state_);
  }
  GilRelease(const GilRelease&) = delete;
  GilRelease& operator=(const GilRelease&) = delete;

 private:
  PyThreadState* state_;
};

}  // namespace quire::python
