// A fiber: a call stack with its own registers. The emulated device runs each CUDA thread of a block in one.
// All fibers run on the host thread that called launch, which resumes one fiber at a time.
#pragma once

#include <cstddef>
#include <memory>

namespace emulated {

// Switches are announced to the sanitizer that the kernels are compiled with, EMULATED_ASAN or EMULATED_TSAN.
// A switch does not order memory accesses for ThreadSanitizer: only acquire and release below do.
class Fiber {
 public:
  Fiber();
  ~Fiber();
  Fiber(Fiber&&) noexcept;

  // Prepares the fiber to run entry() from the start, on the same stack as before. The entry function must
  // end with a call of finish().
  void start(void (*entry)());
  void resume();   // called by the host thread; returns at the fiber's next suspend() or finish()
  void suspend();  // called by the fiber
  [[noreturn]] void finish();
  void entered();  // the first call in the entry function

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Happens-before edges and memory accesses as ThreadSanitizer sees them. They do nothing in other builds.
namespace tsan {
void acquire(void* sync);
void release(void* sync);
void read(const void* address, size_t bytes);
void write(void* address, size_t bytes);
}  // namespace tsan

}  // namespace emulated
