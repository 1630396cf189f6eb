#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <thread>

#include "base/error.h"
#include "base/log.h"
#include "server/server.h"

namespace quire {
namespace {

// Where the signal handler leaves word; the one thing that it can reach.
std::atomic<int> signal_fd{-1};

void on_signal(int) {
  const int saved = errno;
  const uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(signal_fd.load(), &one, sizeof one);
  errno = saved;
}

// SIGINT and SIGTERM as something to wait for, while it lives. Blocking the signals instead would have to
// happen before the engine starts its threads.
class SignalWatch {
 public:
  SignalWatch() : fd_(::eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE)) {
    if (fd_ < 0) throw Error("cannot make an event descriptor for signals");
    signal_fd.store(fd_);
    struct sigaction action {};
    action.sa_handler = on_signal;
    action.sa_flags = SA_RESTART;
    sigemptyset(&action.sa_mask);
    ::sigaction(SIGINT, &action, &old_int_);
    ::sigaction(SIGTERM, &action, &old_term_);
    struct sigaction ignore {};
    ignore.sa_handler = SIG_IGN;
    ::sigaction(SIGPIPE, &ignore, &old_pipe_);
  }
  ~SignalWatch() {
    ::sigaction(SIGINT, &old_int_, nullptr);
    ::sigaction(SIGTERM, &old_term_, nullptr);
    ::sigaction(SIGPIPE, &old_pipe_, nullptr);
    signal_fd.store(-1);
    ::close(fd_);
  }
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

  // Until the next signal, or wake().
  void wait() const {
    uint64_t count = 0;
    while (::read(fd_, &count, sizeof count) < 0 && errno == EINTR) {
    }
  }
  void wake() const {
    const uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(fd_, &one, sizeof one);
  }

 private:
  int fd_;
  struct sigaction old_int_ {};
  struct sigaction old_term_ {};
  struct sigaction old_pipe_ {};
};

}  // namespace

int run_server(ServingEngine& engine, const ServerOptions& options) {
  const SignalWatch signals;
  Server server(engine, options);
  server.start();
  log_info("Listening on ", server.url());
  signals.wait();
  log_info("Shutting down: what runs may finish within ", options.shutdown_timeout_s,
           " s; a second signal ends it at once");

  std::atomic<bool> ended{false};
  std::thread second([&] {
    signals.wait();
    if (ended.load()) return;
    log_info("Second signal: ending now");
    server.stop();
  });
  const bool clean = server.shutdown();
  ended.store(true);
  signals.wake();
  second.join();
  log_info(clean ? "Shut down" : "Shut down; what was still running was ended");
  return 0;
}

int run_server(Engine& engine, const ServerOptions& options) {
  const auto serving = make_serving_engine(engine);
  return run_server(*serving, options);
}

}  // namespace quire
