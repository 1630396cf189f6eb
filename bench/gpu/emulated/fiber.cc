#include "fiber.h"

#include <cstdlib>
#include <new>

#if !defined(__x86_64__) || defined(EMULATED_UCONTEXT)
#include <ucontext.h>
#endif

#ifdef EMULATED_TSAN
extern "C" {
void* __tsan_get_current_fiber();
void* __tsan_create_fiber(unsigned flags);
void __tsan_destroy_fiber(void* fiber);
void __tsan_switch_to_fiber(void* fiber, unsigned flags);
void __tsan_acquire(void* sync);
void __tsan_release(void* sync);
void __tsan_read_range(void* address, unsigned long bytes);
void __tsan_write_range(void* address, unsigned long bytes);
}
#endif
#ifdef EMULATED_ASAN
extern "C" {
void __sanitizer_start_switch_fiber(void** fake_stack, const void* bottom, size_t size);
void __sanitizer_finish_switch_fiber(void* fake_stack, const void** old_bottom, size_t* old_size);
void __asan_unpoison_memory_region(const volatile void* address, size_t size);
}
#endif

namespace emulated {
namespace {

constexpr size_t kStackBytes = 128 << 10;

struct Free {
  void operator()(void* p) const { std::free(p); }
};

#if defined(__x86_64__) && !defined(EMULATED_UCONTEXT)
// Saves the registers that a call preserves, stores the stack pointer in *save, and continues on the stack
// `load`. swapcontext does the same, but also makes a system call for the signal mask, which takes 15 times
// as long.
extern "C" void emulated_switch(void** save, void* load);
asm(R"(
.text
.globl emulated_switch
.type emulated_switch,@function
emulated_switch:
  pushq %rbp; pushq %rbx; pushq %r12; pushq %r13; pushq %r14; pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15; popq %r14; popq %r13; popq %r12; popq %rbx; popq %rbp
  ret
)");

class Context {
 public:
  void prepare(char* stack, void (*entry)()) {
    auto** top = reinterpret_cast<void**>(stack + kStackBytes - 16);
    *--top = nullptr;  // return address of entry, which never returns
    *--top = reinterpret_cast<void*>(entry);
    for (int i = 0; i < 6; ++i) *--top = nullptr;
    stack_pointer_ = top;
  }
  void switch_to(Context& other) { emulated_switch(&stack_pointer_, other.stack_pointer_); }

 private:
  void* stack_pointer_ = nullptr;
};
#else
class Context {
 public:
  void prepare(char* stack, void (*entry)()) {
    getcontext(&context_);
    context_.uc_stack.ss_sp = stack;
    context_.uc_stack.ss_size = kStackBytes;
    context_.uc_link = nullptr;
    makecontext(&context_, entry, 0);
  }
  void switch_to(Context& other) { swapcontext(&context_, &other.context_); }

 private:
  ucontext_t context_{};
};
#endif

// The host thread while a fiber runs.
struct Host {
  Context context;
  void* tsan_fiber = nullptr;
  void* fake_stack = nullptr;
  const void* stack_bottom = nullptr;
  size_t stack_bytes = 0;
} host;

}  // namespace

struct Fiber::State {
  Context context;
  std::unique_ptr<char, Free> stack;
  void* tsan_fiber = nullptr;
  void* fake_stack = nullptr;
};

Fiber::Fiber() : state_(std::make_unique<State>()) {}
Fiber::Fiber(Fiber&&) noexcept = default;

Fiber::~Fiber() {
#ifdef EMULATED_TSAN
  if (state_ && state_->tsan_fiber != nullptr) __tsan_destroy_fiber(state_->tsan_fiber);
#endif
}

void Fiber::start(void (*entry)()) {
  if (!state_->stack) state_->stack.reset(static_cast<char*>(std::aligned_alloc(4096, kStackBytes)));
  if (!state_->stack) throw std::bad_alloc();
  state_->context.prepare(state_->stack.get(), entry);
  state_->fake_stack = nullptr;
#ifdef EMULATED_ASAN
  // A launch that failed left calls on the stack that did not return.
  __asan_unpoison_memory_region(state_->stack.get(), kStackBytes);
#endif
#ifdef EMULATED_TSAN
  if (state_->tsan_fiber == nullptr) state_->tsan_fiber = __tsan_create_fiber(0);
#endif
}

void Fiber::resume() {
#ifdef EMULATED_ASAN
  __sanitizer_start_switch_fiber(&host.fake_stack, state_->stack.get(), kStackBytes);
#endif
#ifdef EMULATED_TSAN
  constexpr unsigned kNoSync = 1;
  host.tsan_fiber = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(state_->tsan_fiber, kNoSync);
#endif
  host.context.switch_to(state_->context);
#ifdef EMULATED_ASAN
  __sanitizer_finish_switch_fiber(host.fake_stack, nullptr, nullptr);
#endif
}

void Fiber::entered() {
#ifdef EMULATED_ASAN
  __sanitizer_finish_switch_fiber(nullptr, &host.stack_bottom, &host.stack_bytes);
#endif
}

void Fiber::suspend() {
#ifdef EMULATED_ASAN
  __sanitizer_start_switch_fiber(&state_->fake_stack, host.stack_bottom, host.stack_bytes);
#endif
#ifdef EMULATED_TSAN
  constexpr unsigned kNoSync = 1;
  __tsan_switch_to_fiber(host.tsan_fiber, kNoSync);
#endif
  state_->context.switch_to(host.context);
#ifdef EMULATED_ASAN
  __sanitizer_finish_switch_fiber(state_->fake_stack, &host.stack_bottom, &host.stack_bytes);
#endif
}

void Fiber::finish() {
#ifdef EMULATED_ASAN
  // A null pointer releases the fake stack of the fiber.
  __sanitizer_start_switch_fiber(nullptr, host.stack_bottom, host.stack_bytes);
#endif
#ifdef EMULATED_TSAN
  constexpr unsigned kNoSync = 1;
  __tsan_switch_to_fiber(host.tsan_fiber, kNoSync);
#endif
  state_->context.switch_to(host.context);
  std::abort();
}

namespace tsan {
#ifdef EMULATED_TSAN
void acquire(void* sync) {
  __tsan_acquire(sync);
}
void release(void* sync) {
  __tsan_release(sync);
}
void read(const void* address, size_t bytes) {
  __tsan_read_range(const_cast<void*>(address), bytes);
}
void write(void* address, size_t bytes) {
  __tsan_write_range(address, bytes);
}
#else
void acquire(void*) {}
void release(void*) {}
void read(const void*, size_t) {}
void write(void*, size_t) {}
#endif
}  // namespace tsan

}  // namespace emulated
