#include "cli/chat/interrupts.h"

#include <csignal>
#include <cstdlib>

namespace quire::cli {
namespace {

sigset_t signal_set(std::initializer_list<int> signals) {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : signals) sigaddset(&set, signal);
  return set;
}

}  // namespace

Interrupts::Interrupts() {
  // The line editor handles the last three in the thread that it runs in.
  const sigset_t set = signal_set({SIGINT, SIGWINCH, SIGTSTP, SIGCONT});
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  thread_ = std::thread([this] { run(); });
}

Interrupts::~Interrupts() {
  stop_ = true;
  pthread_kill(thread_.native_handle(), SIGINT);
  thread_.join();
}

void Interrupts::start_conversation() {
  const sigset_t set = signal_set({SIGWINCH, SIGTSTP, SIGCONT});
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  const std::lock_guard lock(mutex_);
  in_conversation_ = true;
}

void Interrupts::watch(Stream* stream) {
  const std::lock_guard lock(mutex_);
  stream_ = stream;
}

void Interrupts::run() {
  const sigset_t set = signal_set({SIGINT});
  int signal = 0;
  while (sigwait(&set, &signal) == 0 && !stop_) {
    const std::lock_guard lock(mutex_);
    if (stream_ != nullptr) {
      stream_->cancel();
    } else if (!in_conversation_) {
      std::_Exit(128 + SIGINT);
    }
  }
}

}  // namespace quire::cli
