// Ctrl-C during a conversation.
#pragma once

#include <atomic>
#include <mutex>
#include <thread>

#include "quire/llm.h"

namespace quire::cli {

// Receives SIGINT on a thread of its own, which may therefore lock. SIGINT cancels the response that is
// watched. It ends the process before start_conversation(), while the model is loaded, and has no effect
// between responses. Must be created before all other threads, because threads inherit the signal mask.
class Interrupts {
 public:
  Interrupts();
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  // Called when all other threads exist: the calling thread alone handles the signals of the terminal.
  void start_conversation();
  // Cancels `stream` on SIGINT until watch(nullptr). `stream` must not be destroyed before.
  void watch(Stream* stream);

 private:
  void run();

  std::mutex mutex_;
  Stream* stream_ = nullptr;
  bool in_conversation_ = false;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace quire::cli
