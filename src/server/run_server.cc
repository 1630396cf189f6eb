#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <thread>

#include "base/error.h"
#include "base/log.h"
#include "server/server.h"

namespace quire {
namespace {

// The event descriptor that the signal handler writes to; a handler can only reach globals.
std::atomic<int> signal_fd{-1};

void on_signal(int) {
  const int saved = errno;
  const uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(signal_fd.load(), &one, sizeof one);
  errno = saved;
}

// Turns SIGINT and SIGTERM into events to wait for. (Blocking the signals and using signalfd would require
// that no thread exists yet.)
class SignalWatch {
 public:
  SignalWatch() : fd_(::eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE)) {
    if (fd_ < 0) throw Error("cannot create an event descriptor for signals");
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

  // Blocks until the next signal or wake().
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

// Wakes the watch when the engine fails, while it lives.
class FailureWatch {
 public:
  FailureWatch(ServingEngine& engine, const SignalWatch& signals) : engine_(engine) {
    engine.on_failure([&signals] { signals.wake(); });
  }
  ~FailureWatch() { engine_.on_failure({}); }
  FailureWatch(const FailureWatch&) = delete;
  FailureWatch& operator=(const FailureWatch&) = delete;

 private:
  ServingEngine& engine_;
};

// Stops the server at once when another signal arrives, while it lives.
class SecondSignal {
 public:
  SecondSignal(const SignalWatch& signals, Server& server)
      : signals_(signals), thread_([this, &server] {
          signals_.wait();
          if (ended_.load()) return;
          log_info("Second signal: stopping now");
          server.stop();
        }) {}
  ~SecondSignal() {
    ended_.store(true);
    signals_.wake();
    thread_.join();
  }
  SecondSignal(const SecondSignal&) = delete;
  SecondSignal& operator=(const SecondSignal&) = delete;

 private:
  const SignalWatch& signals_;
  std::atomic<bool> ended_{false};
  std::thread thread_;  // last: it uses the members above
};

// For this long a server whose engine has failed still answers: errors to its clients, 503 to health checks.
constexpr auto kFailureNotice = std::chrono::milliseconds(400);

int end_after_failure(Server& server) {
  std::this_thread::sleep_for(kFailureNotice);
  server.stop();
  return 1;
}

}  // namespace

int run_server(ServingEngine& engine, const ServerOptions& options) {
  const SignalWatch signals;
  Server server(engine, options);
  server.start();
  log_info("Listening on ", server.url());
  const FailureWatch failures(engine, signals);
  signals.wait();
  if (engine.failure()) return end_after_failure(server);
  log_info("Shutting down: running requests have ", options.shutdown_timeout_s,
           " s to finish; a second signal stops the server at once");

  const bool clean = [&] {
    const SecondSignal second(signals, server);
    return server.shutdown();
  }();
  log_info(clean ? "Shut down" : "Shut down; requests that were still running were aborted");
  return engine.failure() ? 1 : 0;
}

int run_server(Engine& engine, const ServerOptions& options) {
  const auto serving = make_serving_engine(engine);
  return run_server(*serving, options);
}

}  // namespace quire
