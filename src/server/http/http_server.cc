#include "server/http/http_server.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "base/strings.h"
#include "base/thread_name.h"
#include "base/thread_priority.h"
#include "server/http/connection.h"

namespace quire {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

using Acceptor = asio::basic_socket_acceptor<tcp, Connection::Executor>;

constexpr int kListenBacklog = 4096;
constexpr int kMaxAccepted = 16;  // connections in one go
constexpr double kForcedEndSeconds = 5.0;
constexpr int kBodyThreadNice = 10;
constexpr auto kAcceptPause = std::chrono::milliseconds(100);
constexpr auto kAcceptRetry = std::chrono::milliseconds(10);
constexpr auto kAcceptWarningInterval = std::chrono::seconds(10);

// Thousands of connections need as many descriptors; the soft limit is usually 1024.
void raise_descriptor_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

void run(asio::io_context& io) {
  while (true) {
    try {
      io.run();
      return;
    } catch (const std::exception& e) {
      log_error("internal error in the server: ", e.what());
    }
  }
}

[[noreturn]] void fail_to_listen(const std::string& host, uint16_t port, const error_code& ec) {
  throw Error(
      cat("cannot listen on ", host, ":", port, ": ", ec.message(),
          ec == asio::error::address_in_use ? " (the port is in use; choose another one with --port)" : ""));
}

}  // namespace

BoundSocket::BoundSocket(const std::string& host, uint16_t port) {
  error_code ec;
  asio::io_context io;
  tcp::resolver resolver(io);
  const auto found = resolver.resolve(host, std::to_string(port), tcp::resolver::passive, ec);
  if (ec || found.empty()) fail_to_listen(host, port, ec);
  // An IPv4 address if the name has both kinds: clients try it first for "localhost".
  auto chosen =
      std::find_if(found.begin(), found.end(), [](const auto& e) { return e.endpoint().address().is_v4(); });
  if (chosen == found.end()) chosen = found.begin();
  const tcp::endpoint endpoint = chosen->endpoint();
  tcp::acceptor acceptor(io);
  acceptor.open(endpoint.protocol(), ec);
  if (ec) fail_to_listen(host, port, ec);
  acceptor.set_option(tcp::acceptor::reuse_address(true), ec);
  acceptor.bind(endpoint, ec);
  if (ec) fail_to_listen(host, port, ec);
  is_v6_ = endpoint.address().is_v6();
  is_loopback_ = endpoint.address().is_loopback();
  fd_ = acceptor.release(ec);
  if (ec) fail_to_listen(host, port, ec);
}

BoundSocket::~BoundSocket() {
  if (fd_ >= 0) ::close(fd_);
}

int BoundSocket::release() {
  return std::exchange(fd_, -1);
}

struct HttpServer::Impl {
  std::shared_ptr<ConnectionShared> shared = std::make_shared<ConnectionShared>();
  std::optional<Acceptor> acceptor;  // with its timer on the first thread
  std::optional<asio::steady_timer> accept_pause;
  size_t next_io = 0;  // index of the HTTP thread that gets the next connection
  std::vector<asio::executor_work_guard<Connection::Executor>> work;
  std::vector<std::thread> threads;
  uint16_t port = 0;
  bool is_loopback = false;
  std::chrono::steady_clock::time_point last_warning{};

  std::mutex stop_mutex;  // one stop() at a time

  // Connections that may have to be stopped. Expired entries are removed as the list grows.
  std::mutex mutex;
  std::vector<std::weak_ptr<Connection>> connections;
  size_t sweep_at = 64;

  void open();
  void accept() noexcept;
  void on_acceptable(error_code ec);
  void pause_accepting(std::string_view reason);
  void add(const std::shared_ptr<Connection>& connection);
  void tell_all(bool force) noexcept;
  void close_listener() noexcept;
  bool wait_for_end(double timeout_s) const;
};

void HttpServer::Impl::open() {
  const HttpServerOptions& o = shared->options;
  const std::shared_ptr<BoundSocket> socket =
      o.socket ? o.socket : std::make_shared<BoundSocket>(o.host, o.port);
  error_code ec;
  acceptor.emplace(*shared->ios.front());
  acceptor->assign(socket->is_v6() ? tcp::v6() : tcp::v4(), socket->release(), ec);
  if (!ec) acceptor->listen(kListenBacklog, ec);
  if (!ec) acceptor->non_blocking(true, ec);
  if (ec) fail_to_listen(o.host, o.port, ec);
  port = acceptor->local_endpoint().port();
  is_loopback = socket->is_loopback();
}

// Waits for the next connection. Without memory even that can fail; the listener must survive it.
void HttpServer::Impl::accept() noexcept {
  while (true) {
    try {
      return acceptor->async_wait(Acceptor::wait_read, [this](error_code ec) { on_acceptable(ec); });
    } catch (...) {
      if (shared->stopping.load()) return;
      std::this_thread::sleep_for(kAcceptRetry);
    }
  }
}

// async_accept() would be shorter, but if it cannot register the new connection, it throws instead of calling
// its handler, and the listener ends.
void HttpServer::Impl::on_acceptable(error_code ec) {
  if (shared->stopping.load() || ec == asio::error::operation_aborted) return;
  try {
    for (int i = 0; i < kMaxAccepted && !ec; ++i) {
      Connection::Socket socket(*shared->ios[next_io]);
      acceptor->accept(socket, ec);
      if (ec) break;
      next_io = (next_io + 1) % shared->ios.size();
      const auto connection = std::make_shared<Connection>(shared, std::move(socket));
      add(connection);
      connection->start();
    }
    const bool try_again = !ec || ec == asio::error::would_block || ec == asio::error::connection_aborted ||
                           ec == asio::error::interrupted;
    if (!try_again) return pause_accepting(ec.message());
  } catch (const std::exception& e) {
    // The new connection is lost, the listener is not.
    log_warning("cannot serve a new connection: ", e.what());
  }
  accept();
}

// Out of descriptors or memory: the client stays in the backlog, so retrying at once would only use up the
// CPU.
void HttpServer::Impl::pause_accepting(std::string_view reason) {
  const auto now = std::chrono::steady_clock::now();
  if (now - last_warning > kAcceptWarningInterval) {
    last_warning = now;
    log_warning("cannot accept connections for now: ", reason, " (", shared->num_connections.load(),
                " are open)");
  }
  accept_pause->expires_after(kAcceptPause);
  accept_pause->async_wait([this](error_code e) {
    if (!e) accept();
  });
}

void HttpServer::Impl::add(const std::shared_ptr<Connection>& connection) {
  const std::lock_guard lock(mutex);
  connections.push_back(connection);
  if (connections.size() >= sweep_at) {
    std::erase_if(connections, [](const auto& c) { return c.expired(); });
    sweep_at = std::max<size_t>(64, 2 * connections.size());
  }
}

// Without memory for a post, a connection ends when its thread does.
void HttpServer::Impl::tell_all(bool force) noexcept {
  const std::lock_guard lock(mutex);
  for (const auto& weak : connections) {
    const auto c = weak.lock();
    if (!c) continue;
    try {
      asio::post(c->executor(), [c, force] { c->stop(force); });
    } catch (...) {
    }
  }
}

bool HttpServer::Impl::wait_for_end(double timeout_s) const {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(timeout_s);
  while (shared->num_connections.load() > 0) {
    if (std::chrono::steady_clock::now() >= end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

HttpServer::HttpServer(HttpServerOptions options, HttpApp app) : impl_(std::make_shared<Impl>()) {
  impl_->shared->options = std::move(options);
  impl_->shared->app = std::move(app);
  for (int i = 0; i < std::max(1, impl_->shared->options.num_threads); ++i)
    impl_->shared->ios.push_back(std::make_unique<asio::io_context>(1));
}

HttpServer::~HttpServer() {
  stop(0.0);
}

void HttpServer::start() {
  raise_descriptor_limit();
  impl_->open();
  impl_->accept_pause.emplace(impl_->acceptor->get_executor());
  asio::post(impl_->acceptor->get_executor(), [impl = impl_.get()] { impl->accept(); });
  for (const auto& io : impl_->shared->ios) {
    impl_->work.emplace_back(io->get_executor());
    impl_->threads.emplace_back([io = io.get()] {
      name_this_thread("quire-http");
      run(*io);
    });
  }
  impl_->work.emplace_back(impl_->shared->body_io.get_executor());
  impl_->threads.emplace_back([shared = impl_->shared.get()] {
    name_this_thread("quire-receive");
    lower_thread_priority(kBodyThreadNice);
    run(shared->body_io);
  });
}

uint16_t HttpServer::port() const {
  return impl_->port;
}
bool HttpServer::is_loopback() const {
  return impl_->is_loopback;
}
int64_t HttpServer::num_connections() const {
  return impl_->shared->num_connections.load();
}
int64_t HttpServer::num_exchanges() const {
  return impl_->shared->num_exchanges.load();
}

// Without memory for the post, the listener accepts nothing more and is closed with the server.
void HttpServer::Impl::close_listener() noexcept {
  shared->stopping.store(true);
  try {
    asio::post(acceptor->get_executor(), [this] {
      error_code ignored;
      acceptor->close(ignored);
      accept_pause->cancel();
    });
  } catch (...) {
  }
}

void HttpServer::cut() {
  if (!impl_->acceptor) return;
  impl_->close_listener();
  impl_->tell_all(true);
}

void HttpServer::stop(double timeout_s) {
  const std::lock_guard lock(impl_->stop_mutex);
  if (impl_->threads.empty()) return;
  impl_->close_listener();
  impl_->tell_all(false);
  if (!impl_->wait_for_end(timeout_s)) {
    impl_->tell_all(true);
    impl_->wait_for_end(kForcedEndSeconds);
  }
  impl_->work.clear();
  for (const auto& io : impl_->shared->ios) io->stop();
  impl_->shared->body_io.stop();
  for (auto& t : impl_->threads) t.join();
  impl_->threads.clear();
}

}  // namespace quire
