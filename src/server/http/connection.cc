#include "server/http/connection.h"

#include <poll.h>

#include <algorithm>
#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <exception>
#include <random>
#include <thread>
#include <utility>

#include "base/log.h"
#include "base/strings.h"
#include "server/http/exchange.h"

namespace quire {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using Clock = std::chrono::steady_clock;

constexpr size_t kReadBytes = 64 << 10;
// A body that is larger is received by the thread for large bodies, in turns of this size. Copying it would
// otherwise keep the HTTP threads from the streams of other clients.
constexpr size_t kLargeBodyBytes = 64 << 10;
constexpr size_t kReceiveBytes = 1 << 20;
// Input that a client may send ahead while its request is served.
constexpr size_t kMaxReadAhead = 256 << 10;
// A client that reads as fast as the server writes must not keep the thread to itself.
constexpr size_t kMaxBytesPerFlush = 1 << 20;
constexpr auto kHangupProbe = std::chrono::milliseconds(250);
constexpr auto kLingerIdle = std::chrono::seconds(2);
constexpr auto kLingerTotal = std::chrono::seconds(20);
// A client that was too slow for its request does not get much more time.
constexpr auto kLingerAfterTimeout = std::chrono::milliseconds(500);
constexpr size_t kMaxRequestIdBytes = 128;

Clock::duration seconds(double s) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(s));
}

std::string new_request_id() {
  thread_local std::mt19937_64 generator = [] {
    std::random_device device;
    std::seed_seq seed{device(), device(), device(), device()};
    return std::mt19937_64(seed);
  }();
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string id;
  for (int word = 0; word < 2; ++word) {
    uint64_t bits = generator();
    for (int i = 0; i < 16; ++i, bits >>= 4) id += kDigits[bits & 15];
  }
  return id;
}

bool valid_request_id(std::string_view id) {
  return !id.empty() && id.size() <= kMaxRequestIdBytes && std::all_of(id.begin(), id.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
           c == '_' || c == '.' || c == ':';
  });
}

}  // namespace

Connection::Connection(std::shared_ptr<ConnectionShared> shared, Socket socket)
    : shared_(std::move(shared)),
      socket_(std::move(socket)),
      wake_(socket_.get_executor()),
      linger_total_(kLingerTotal) {
  shared_->num_connections.fetch_add(1);
}

Connection::~Connection() {
  shared_->num_connections.fetch_sub(1);
}

void Connection::start() {
  error_code ignored;
  socket_.non_blocking(true, ignored);
  socket_.set_option(asio::ip::tcp::no_delay(true), ignored);
  asio::co_spawn(
      executor(), [self = shared_from_this()] { return self->run(); }, asio::detached);
}

void Connection::stop(bool force) {
  stop_soon_ = true;
  forced_ = forced_ || force;
  wake();
}

asio::awaitable<void> Connection::run() {
  try {
    bool more = true;
    while (more && !stop_soon_) {
      HttpRequestParser parser(shared_->options.limits);
      more = co_await read_header(parser);
      if (more) more = co_await check_header(parser);
      if (more) more = co_await read_body(parser);
      if (more) more = co_await respond(parser);
      body_charge_.reset();
    }
    if (!eof_ && !broken_ && !forced_) co_await linger();
  } catch (const std::exception& e) {
    log_error("a connection was closed because of an internal error: ", e.what());
  }
  end_exchange();
  close();
}

// Events of a connection set flags or fill buffers. This waits until one of them may have changed.
asio::awaitable<void> Connection::wait_event(Clock::time_point deadline) {
  error_code ignored;
  wake_.expires_at(deadline);
  co_await wake_.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
}

void Connection::wake() {
  wake_.cancel();
}

asio::awaitable<bool> Connection::read_header(HttpRequestParser& parser) {
  auto deadline = Clock::now() + seconds(shared_->options.idle_timeout_s);
  bool begun = false;
  request_begin_ = Clock::now();
  while (true) {
    in_.erase(0, parser.consume(in_));
    if (parser.error()) {
      co_await refuse(parser, parser.error()->status, parser.error()->message);
      co_return false;
    }
    if (parser.header_done()) co_return true;
    if (!begun && (parser.started() || !in_.empty())) {
      begun = true;
      request_begin_ = Clock::now();
      deadline = request_begin_ + seconds(shared_->options.header_timeout_s);
    }
    if (eof_ || forced_ || (stop_soon_ && !begun)) co_return false;
    if (Clock::now() >= deadline) {
      linger_total_ = kLingerAfterTimeout;
      if (begun) co_await refuse(parser, 408, "the request's header did not arrive in time");
      co_return false;
    }
    arm_read();
    co_await wait_event(deadline);
  }
}

// Refuses requests that can be refused before their body is read.
asio::awaitable<bool> Connection::check_header(HttpRequestParser& parser) {
  HttpRequest& request = parser.request();
  const std::string_view given_id = request.headers.get("X-Request-Id");
  request.id = valid_request_id(given_id) ? std::string(given_id) : new_request_id();
  if (shared_->app.precheck) {
    if (auto response = shared_->app.precheck(request)) {
      // Without a body the connection can be kept; a body is not worth reading.
      if (!parser.done()) {
        co_await refuse(parser, std::move(*response));
        co_return false;
      }
      auto exchange = std::make_shared<Exchange>(shared_, shared_from_this(), request,
                                                 request.keep_alive && !stop_soon_, request_begin_);
      exchange->send(std::move(*response));
      co_await finish_exchange(*exchange);
      // The response is complete: respond() has nothing to do.
      parser.request().method.clear();
      co_return exchange->keep_alive() && !broken_;
    }
  }
  if (!parser.done() && parser.body_too_large()) {
    const HttpParseError error = parser.too_large_error();
    co_await refuse(parser, error.status, error.message);
    co_return false;
  }
  if (!parser.done() && parser.expects_continue() && in_.empty()) enqueue("HTTP/1.1 100 Continue\r\n\r\n");
  co_return true;
}

asio::awaitable<bool> Connection::read_body(HttpRequestParser& parser) {
  const HttpRequest& request = parser.request();
  body_charge_ = std::make_shared<BodyCharge>(shared_);
  auto deadline = Clock::now() + seconds(shared_->options.body_timeout_s);
  background_ = false;
  while (!parser.done()) {
    size_t taken = 0;
    if (background_ && readable_) {
      const size_t before = request.body.size();
      co_await receive_in_background(&parser);
      taken = request.body.size() - before;
    } else {
      taken = parser.consume(in_);
      in_.erase(0, taken);
    }
    if (taken > 0) deadline = Clock::now() + seconds(shared_->options.body_timeout_s);
    body_charge_->set(request.body.size());
    if (parser.error()) {
      co_await refuse(parser, parser.error()->status, parser.error()->message);
      co_return false;
    }
    if (parser.done()) break;
    if (shared_->body_bytes.load() > static_cast<int64_t>(shared_->options.max_total_body_bytes)) {
      co_await refuse(parser, 503, "too many large requests at once; try again later");
      co_return false;
    }
    if (eof_ || forced_) co_return false;
    if (Clock::now() >= deadline) {
      linger_total_ = kLingerAfterTimeout;
      co_await refuse(parser, 408, "the request's body stopped arriving");
      co_return false;
    }
    background_ =
        std::max<size_t>(request.body.size(), parser.content_length().value_or(0)) > kLargeBodyBytes;
    if (readable_) continue;
    arm_read();
    co_await wait_event(deadline);
  }
  background_ = readable_ = false;
  co_return true;
}

asio::awaitable<void> Connection::receive_in_background(HttpRequestParser* parser) {
  readable_ = false;
  received_.store(false);
  asio::post(shared_->body_io, [self = shared_from_this(), executor = executor(), parser]() mutable noexcept {
    try {
      self->shared_->body_pacer.pace();
      self->receive(parser);
    } catch (...) {
      self->receive_error_ = std::current_exception();
    }
    self->received_.store(true);
    try {
      asio::post(executor, [self = std::move(self)] { self->wake(); });
    } catch (...) {  // no memory: the connection looks once per second
    }
  });
  // This coroutine waits meanwhile, so that nothing else uses the socket, the parser or the input. It may not
  // end before, not even if there is no memory to wait for an event.
  while (!received_.load()) {
    bool waited = false;
    try {
      co_await wait_event(Clock::now() + seconds(shared_->options.posted_work_check_s));
      waited = true;
    } catch (const std::exception&) {
    }
    if (!waited) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  if (receive_error_) std::rethrow_exception(std::exchange(receive_error_, nullptr));
}

void Connection::receive(HttpRequestParser* parser) {
  for (size_t received = 0; received < kReceiveBytes && !eof_; received += kReadBytes) {
    if (!pull()) return;
    if (parser == nullptr) continue;
    in_.erase(0, parser->consume(in_));
    if (parser->done() || parser->error()) return;
  }
  readable_ = !eof_;  // there may be more
}

asio::awaitable<bool> Connection::respond(HttpRequestParser& parser) {
  HttpRequest& request = parser.request();
  if (request.method.empty()) co_return true;  // check_header() has responded
  exchange_ = std::make_shared<Exchange>(shared_, shared_from_this(), request,
                                         request.keep_alive && !stop_soon_, request_begin_);
  shared_->num_exchanges.fetch_add(1);
  request.body_charge = std::move(body_charge_);
  try {
    shared_->app.handle(request, exchange_);
  } catch (const std::exception& e) {
    exchange_->fail(e.what());
  }
  request.body = std::string();
  request.body_charge.reset();
  co_await finish_exchange(*exchange_);
  const bool keep = exchange_->complete() && exchange_->keep_alive() && !broken_;
  end_exchange();
  co_return keep;
}

void Connection::end_exchange() {
  if (!exchange_) return;
  shared_->num_exchanges.fetch_sub(1);
  const auto exchange = std::move(exchange_);
  exchange_.reset();
  try {
    exchange->close();
  } catch (const std::exception& e) {
    log_error("an internal error occurred while a request was cancelled: ", e.what());
  }
}

// Returns when the response is complete and sent, or the client has disconnected.
asio::awaitable<void> Connection::finish_exchange(Exchange& exchange) {
  while (!exchange.complete() || !out_.empty()) {
    if (broken_ || forced_ || (eof_ && !exchange.complete())) break;
    // First: what posted work changes is waited for below, and its wake-up came before the wait.
    if (!exchange.complete()) exchange.run_posted();
    if (exchange.complete() && out_.empty()) break;
    const auto now = Clock::now();
    auto deadline = Clock::time_point::max();
    if (!out_.empty()) {
      deadline = write_progress_ + seconds(shared_->options.write_timeout_s);
      if (now >= deadline || out_.size() > shared_->options.max_backlog_bytes) {
        // A complete response may be larger than the backlog of a stream. Its size alone does not mean that
        // the client has stopped reading.
        if (now >= deadline || !exchange.complete()) {
          broken_ = true;
          break;
        }
      }
    }
    if (now >= exchange.next_silence()) exchange.call_silence();
    deadline = std::min(deadline, exchange.next_silence());
    if (!exchange.complete()) {
      deadline = std::min(deadline, now + seconds(shared_->options.posted_work_check_s));
      if (in_.size() < kMaxReadAhead) {
        arm_read();
      } else {
        // Reading more would let memory grow, so the socket is asked whether the client has hung up.
        deadline = std::min(deadline, now + kHangupProbe);
        probe_hangup();
        if (eof_) continue;
      }
    }
    co_await wait_event(deadline);
  }
}

asio::awaitable<void> Connection::refuse(HttpRequestParser& parser, int status, const std::string& message) {
  co_await refuse(parser, shared_->app.error(status, message));
}

asio::awaitable<void> Connection::refuse(HttpRequestParser& parser, HttpResponse response) {
  HttpRequest none;
  response.close = true;
  const auto exchange = std::make_shared<Exchange>(
      shared_, shared_from_this(), parser.header_done() ? parser.request() : none, false, request_begin_);
  exchange->send(std::move(response));
  // Before waiting: further input is discarded.
  discard_input_ = true;
  in_ = std::string();
  co_await finish_exchange(*exchange);
}

// Closing a socket with unread input resets the connection, and the client may lose the response. So the
// server shuts down its side and reads for a while until the client has closed too.
asio::awaitable<void> Connection::linger() {
  error_code ec;
  socket_.shutdown(asio::ip::tcp::socket::shutdown_send, ec);
  discard_input_ = true;
  in_ = std::string();
  background_ = true;
  const auto end = Clock::now() + linger_total_;
  while (!ec && !eof_ && !forced_ && !stop_soon_ && Clock::now() < end) {
    const auto idle_end = Clock::now() + kLingerIdle;
    if (readable_) {
      co_await receive_in_background(nullptr);
      continue;
    }
    arm_read();
    co_await wait_event(std::min(end, idle_end));
    if (Clock::now() >= idle_end) break;
  }
}

void Connection::arm_read() {
  if (read_armed_ || eof_) return;
  socket_.async_wait(Socket::wait_read, [self = shared_from_this()](error_code ec) {
    self->read_armed_ = false;
    if (ec == asio::error::operation_aborted) return;
    if (self->background_) {
      self->readable_ = true;
    } else {
      self->pull();
    }
    self->wake();
  });
  read_armed_ = true;
}

bool Connection::pull() {
  std::array<char, kReadBytes> buffer;
  error_code ec;
  const size_t n = socket_.read_some(asio::buffer(buffer), ec);
  if (ec == asio::error::would_block || ec == asio::error::try_again || ec == asio::error::interrupted)
    return false;
  if (ec) {
    eof_ = true;
    if (ec != asio::error::eof) broken_ = true;
    return false;
  }
  if (discard_input_) return true;
  try {
    in_.append(buffer.data(), n);
  } catch (const std::bad_alloc&) {
    eof_ = broken_ = true;  // bytes are missing from here on
    return false;
  }
  return true;
}

void Connection::probe_hangup() {
  pollfd p{socket_.native_handle(), POLLRDHUP, 0};
  if (::poll(&p, 1, 0) > 0 && (p.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0) eof_ = true;
}

void Connection::enqueue(std::string bytes) {
  if (broken_) return;
  if (out_.empty()) write_progress_ = Clock::now();
  out_.push(std::move(bytes));
  flush();
  wake();
}

void Connection::abandon() {
  broken_ = true;
  wake();
}

void Connection::flush() {
  if (write_armed_) return;
  size_t sent = 0;
  while (!broken_ && !out_.empty()) {
    if (sent >= kMaxBytesPerFlush) return arm_write();
    const std::string_view bytes = out_.front();
    error_code ec;
    const size_t n =
        socket_.write_some(asio::buffer(bytes.data(), std::min(bytes.size(), kMaxBytesPerFlush)), ec);
    if (ec == asio::error::would_block || ec == asio::error::try_again) return arm_write();
    if (ec && ec != asio::error::interrupted) {
      broken_ = true;
      return;
    }
    out_.pop(n);
    sent += n;
    if (n > 0) write_progress_ = Clock::now();
  }
}

void Connection::arm_write() {
  socket_.async_wait(Socket::wait_write, [self = shared_from_this()](error_code ec) {
    self->write_armed_ = false;
    if (ec) self->broken_ = true;
    self->flush();
    self->wake();
  });
  write_armed_ = true;
}

void Connection::close() {
  eof_ = broken_ = true;
  error_code ignored;
  socket_.close(ignored);
}

}  // namespace quire
