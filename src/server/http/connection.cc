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
#include <random>

#include "base/log.h"
#include "base/strings.h"

namespace quire {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using Clock = std::chrono::steady_clock;

constexpr size_t kReadBytes = 64 << 10;
// Input that a client may send ahead while its request is being answered.
constexpr size_t kMaxReadAhead = 256 << 10;
constexpr auto kHangupProbe = std::chrono::milliseconds(250);
constexpr auto kLingerIdle = std::chrono::seconds(2);
constexpr auto kLingerTotal = std::chrono::seconds(20);
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

// The answer to one request. Held by the connection while it is at it and by the handler for as long as that
// likes.
class Exchange final : public ResponseWriter, public std::enable_shared_from_this<Exchange> {
 public:
  Exchange(const std::shared_ptr<ConnectionShared>& shared, const std::shared_ptr<Connection>& connection,
           const HttpRequest& request, bool keep_alive)
      : shared_(shared),
        connection_(connection),
        version_(request.version),
        head_only_(request.method == "HEAD"),
        keep_alive_(keep_alive) {
    if (shared->app.decorate) shared->app.decorate(request, headers_);
  }

  void send(HttpResponse response) override {
    if (started_ || gone_) return;
    started_ = complete_ = true;
    if (response.close) keep_alive_ = false;
    add_headers(response);
    std::string bytes =
        response_head(response, static_cast<int64_t>(response.body.size()), version_, keep_alive_);
    if (!head_only_ && response.status != 204) bytes += response.body;
    emit(bytes);
  }

  void begin_stream(HttpResponse head) override {
    if (started_ || gone_) return;
    started_ = true;
    chunked_ = version_ >= 11;
    if (!chunked_) keep_alive_ = false;
    add_headers(head);
    emit(response_head(head, -1, version_, keep_alive_));
  }

  void write(std::string_view bytes) override {
    if (!started_ || complete_ || gone_ || head_only_ || bytes.empty()) return;
    if (!chunked_) return emit(bytes);
    constexpr std::string_view kDigits = "0123456789abcdef";
    std::string chunk;
    for (int shift = 60; shift >= 0; shift -= 4) {
      const auto digit = (bytes.size() >> shift) & 15;
      if (digit != 0 || !chunk.empty()) chunk += kDigits[digit];
    }
    chunk.reserve(bytes.size() + 24);
    chunk += "\r\n";
    chunk += bytes;
    chunk += "\r\n";
    emit(chunk);
  }

  void end() override {
    if (!started_ || complete_ || gone_) return;
    complete_ = true;
    emit(chunked_ && !head_only_ ? "0\r\n\r\n" : "");
  }

  bool gone() const override { return gone_; }

  void on_gone(std::function<void()> callback) override {
    if (gone_) {
      callback();
    } else if (!complete_) {
      gone_callback_ = std::move(callback);
    }
  }

  void on_silence(double interval_s, std::function<void()> callback) override {
    silence_ = seconds(interval_s);
    silence_callback_ = std::move(callback);
    if (const auto connection = connection_.lock()) connection->wake();
  }

  void post(std::function<void()> work) override {
    // In this order, so that the connection is let go before what it lives on.
    const auto shared = shared_.lock();
    if (!shared) return;
    const auto connection = connection_.lock();
    if (!connection) return;
    asio::post(connection->strand(), [self = shared_from_this(), work = std::move(work)] { work(); });
  }

  // The rest is for the connection.
  bool started() const { return started_; }
  bool complete() const { return complete_; }
  bool keep_alive() const { return keep_alive_; }

  void mark_gone() {
    if (gone_ || complete_) return drop_callbacks();
    gone_ = true;
    const auto callback = std::move(gone_callback_);
    drop_callbacks();
    if (callback) callback();
  }

  // Handlers refer to their exchange from these.
  void drop_callbacks() {
    gone_callback_ = nullptr;
    silence_callback_ = nullptr;
  }

  Clock::time_point next_silence() const {
    return silence_callback_ && started_ && !complete_ ? last_write_ + silence_ : Clock::time_point::max();
  }
  void call_silence() {
    last_write_ = Clock::now();
    const auto callback = silence_callback_;
    callback();
  }

 private:
  void add_headers(HttpResponse& response) const {
    for (const auto& [name, value] : headers_.fields()) {
      if (!response.headers.contains(name)) response.headers.add(name, value);
    }
  }
  void emit(std::string_view bytes) {
    last_write_ = Clock::now();
    if (const auto connection = connection_.lock()) connection->enqueue(bytes);
  }

  std::weak_ptr<ConnectionShared> shared_;
  std::weak_ptr<Connection> connection_;
  HttpHeaders headers_;
  std::function<void()> gone_callback_;
  std::function<void()> silence_callback_;
  Clock::duration silence_{};
  Clock::time_point last_write_ = Clock::now();
  int version_;
  bool head_only_;
  bool keep_alive_;
  bool started_ = false;
  bool complete_ = false;
  bool chunked_ = false;
  bool gone_ = false;
};

Connection::Connection(std::shared_ptr<ConnectionShared> shared, Socket socket)
    : shared_(std::move(shared)), socket_(std::move(socket)), wake_(socket_.get_executor()) {
  shared_->num_connections.fetch_add(1);
}

Connection::~Connection() {
  count_body(0);
  shared_->num_connections.fetch_sub(1);
}

void Connection::start() {
  error_code ignored;
  socket_.non_blocking(true, ignored);
  socket_.set_option(asio::ip::tcp::no_delay(true), ignored);
  asio::co_spawn(
      strand(), [self = shared_from_this()] { return self->run(); }, asio::detached);
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
      if (more) more = co_await read_body(parser);
      if (more) more = co_await answer(parser);
      count_body(0);
    }
    if (!eof_ && !broken_ && !forced_) co_await linger();
  } catch (const std::exception& e) {
    log_error("a connection ended by an internal error: ", e.what());
  }
  if (exchange_) {
    shared_->num_exchanges.fetch_sub(1);
    exchange_->mark_gone();
    exchange_.reset();
  }
  close();
}

// Everything that happens on a connection is a flag or a buffer; this waits until one of them may have
// changed.
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
  while (true) {
    // Some clients end a body with a line break too many.
    while (!parser.started() && in_.starts_with("\r\n")) in_.erase(0, 2);
    in_.erase(0, parser.consume(in_));
    if (parser.error()) {
      co_await refuse(parser, shared_->app.error(parser.error()->status, parser.error()->message));
      co_return false;
    }
    if (parser.header_done()) co_return true;
    if (!begun && (parser.started() || !in_.empty())) {
      begun = true;
      deadline = Clock::now() + seconds(shared_->options.header_timeout_s);
    }
    if (eof_ || forced_ || (stop_soon_ && !begun)) co_return false;
    if (Clock::now() >= deadline) {
      if (begun)
        co_await refuse(parser, shared_->app.error(408, "the request's header did not arrive in time"));
      co_return false;
    }
    arm_read();
    co_await wait_event(deadline);
  }
}

asio::awaitable<bool> Connection::read_body(HttpRequestParser& parser) {
  HttpRequest& request = parser.request();
  const std::string_view given_id = request.headers.get("X-Request-Id");
  request.id = valid_request_id(given_id) ? std::string(given_id) : new_request_id();
  if (shared_->app.precheck) {
    if (auto response = shared_->app.precheck(request)) {
      // A request without a body leaves the connection in order; otherwise the body is not worth reading.
      if (!parser.done()) {
        co_await refuse(parser, std::move(*response));
        co_return false;
      }
      auto exchange =
          std::make_shared<Exchange>(shared_, shared_from_this(), request, request.keep_alive && !stop_soon_);
      exchange->send(std::move(*response));
      co_await finish_exchange(*exchange);
      // The answer is given: the caller goes on with the next request.
      parser.request().method.clear();
      co_return exchange->keep_alive() && !broken_;
    }
  }
  if (!parser.done() && parser.body_too_large()) {
    const HttpParseError error = parser.too_large_error();
    co_await refuse(parser, shared_->app.error(error.status, error.message));
    co_return false;
  }
  if (!parser.done() && parser.expects_continue() && in_.empty()) enqueue("HTTP/1.1 100 Continue\r\n\r\n");

  auto deadline = Clock::now() + seconds(shared_->options.body_timeout_s);
  while (!parser.done()) {
    const size_t taken = parser.consume(in_);
    in_.erase(0, taken);
    if (taken > 0) deadline = Clock::now() + seconds(shared_->options.body_timeout_s);
    count_body(request.body.size());
    if (parser.error()) {
      co_await refuse(parser, shared_->app.error(parser.error()->status, parser.error()->message));
      co_return false;
    }
    if (parser.done()) break;
    if (shared_->body_bytes.load() > static_cast<int64_t>(shared_->options.max_total_body_bytes)) {
      co_await refuse(parser, shared_->app.error(503, "too many large requests at once; try again later"));
      co_return false;
    }
    if (eof_ || forced_) co_return false;
    if (Clock::now() >= deadline) {
      co_await refuse(parser, shared_->app.error(408, "the request's body stopped arriving"));
      co_return false;
    }
    arm_read();
    co_await wait_event(deadline);
  }
  co_return true;
}

asio::awaitable<bool> Connection::answer(HttpRequestParser& parser) {
  HttpRequest& request = parser.request();
  if (request.method.empty()) co_return true;  // answered before its body
  exchange_ =
      std::make_shared<Exchange>(shared_, shared_from_this(), request, request.keep_alive && !stop_soon_);
  shared_->num_exchanges.fetch_add(1);
  try {
    shared_->app.handle(request, exchange_);
  } catch (const std::exception& e) {
    log_error("request ", request.id, ": ", e.what());
    HttpResponse response = shared_->app.error(500, "an internal error; the server's log has the details");
    response.close = true;
    if (!exchange_->started()) {
      exchange_->send(std::move(response));
    } else {
      broken_ = true;  // the answer is half sent, a cut is the only honest end
    }
  }
  request.body = std::string();
  count_body(0);
  co_await finish_exchange(*exchange_);
  shared_->num_exchanges.fetch_sub(1);
  const bool keep = exchange_->complete() && exchange_->keep_alive() && !broken_;
  exchange_->mark_gone();
  exchange_.reset();
  co_return keep;
}

// Until the answer is complete and sent, or the client has gone.
asio::awaitable<void> Connection::finish_exchange(Exchange& exchange) {
  while (!exchange.complete() || out_begin_ < out_.size()) {
    if (broken_ || forced_ || (eof_ && !exchange.complete())) break;
    const auto now = Clock::now();
    auto deadline = Clock::time_point::max();
    if (out_begin_ < out_.size()) {
      deadline = write_progress_ + seconds(shared_->options.write_timeout_s);
      if (now >= deadline || out_.size() - out_begin_ > shared_->options.max_backlog_bytes) {
        // A whole answer may be larger than the backlog of a stream, so its size alone is no sign of a client
        // that went away.
        if (now >= deadline || !exchange.complete()) {
          broken_ = true;
          break;
        }
      }
    }
    if (now >= exchange.next_silence()) exchange.call_silence();
    deadline = std::min(deadline, exchange.next_silence());
    if (!exchange.complete()) {
      if (in_.size() < kMaxReadAhead) {
        arm_read();
      } else {
        // Reading on would let memory grow, so a hang-up is asked for instead.
        deadline = std::min(deadline, now + kHangupProbe);
        probe_hangup();
        if (eof_) continue;
      }
    }
    co_await wait_event(deadline);
  }
}

asio::awaitable<void> Connection::refuse(HttpRequestParser& parser, HttpResponse response) {
  HttpRequest none;
  response.close = true;
  const auto exchange = std::make_shared<Exchange>(shared_, shared_from_this(),
                                                   parser.header_done() ? parser.request() : none, false);
  exchange->send(std::move(response));
  // Before waiting: what still arrives is of no interest.
  discard_input_ = true;
  in_ = std::string();
  co_await finish_exchange(*exchange);
}

// Closing a socket with unread input resets the connection and may destroy the answer on its way. So:
// announce the end, then read until the client has ended too, for a while.
asio::awaitable<void> Connection::linger() {
  error_code ec;
  socket_.shutdown(asio::ip::tcp::socket::shutdown_send, ec);
  discard_input_ = true;
  in_ = std::string();
  const auto end = Clock::now() + kLingerTotal;
  while (!ec && !eof_ && !forced_ && !stop_soon_ && Clock::now() < end) {
    const auto idle_end = Clock::now() + kLingerIdle;
    arm_read();
    co_await wait_event(std::min(end, idle_end));
    if (Clock::now() >= idle_end) break;
  }
}

void Connection::arm_read() {
  if (read_armed_ || eof_) return;
  read_armed_ = true;
  socket_.async_wait(Socket::wait_read, [self = shared_from_this()](error_code ec) {
    self->read_armed_ = false;
    if (ec == asio::error::operation_aborted) return;
    self->pull();
    self->wake();
  });
}

void Connection::pull() {
  std::array<char, kReadBytes> buffer;
  error_code ec;
  const size_t n = socket_.read_some(asio::buffer(buffer), ec);
  if (ec == asio::error::would_block || ec == asio::error::try_again || ec == asio::error::interrupted)
    return;
  if (ec) {
    eof_ = true;
    if (ec != asio::error::eof) broken_ = true;
    return;
  }
  if (!discard_input_) in_.append(buffer.data(), n);
}

void Connection::probe_hangup() {
  pollfd p{socket_.native_handle(), POLLRDHUP, 0};
  if (::poll(&p, 1, 0) > 0 && (p.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0) eof_ = true;
}

void Connection::enqueue(std::string_view bytes) {
  if (broken_) return;
  if (out_begin_ == out_.size()) {
    out_.clear();
    out_begin_ = 0;
    write_progress_ = Clock::now();
  }
  out_ += bytes;
  flush();
  wake();
}

void Connection::flush() {
  if (write_armed_) return;
  while (!broken_ && out_begin_ < out_.size()) {
    error_code ec;
    const size_t n = socket_.write_some(asio::buffer(out_.data() + out_begin_, out_.size() - out_begin_), ec);
    if (ec == asio::error::would_block || ec == asio::error::try_again) return arm_write();
    if (ec && ec != asio::error::interrupted) {
      broken_ = true;
      return;
    }
    out_begin_ += n;
    if (n > 0) write_progress_ = Clock::now();
  }
  if (out_begin_ == out_.size()) {
    out_begin_ = 0;
    // A large answer does not stay allocated while the connection idles.
    if (out_.capacity() > kReadBytes) {
      out_ = std::string();
    } else {
      out_.clear();
    }
  }
}

void Connection::arm_write() {
  write_armed_ = true;
  // What is sent need not be kept while a slow client takes the rest.
  if (out_begin_ > out_.size() / 2) {
    out_.erase(0, out_begin_);
    out_begin_ = 0;
  }
  socket_.async_wait(Socket::wait_write, [self = shared_from_this()](error_code ec) {
    self->write_armed_ = false;
    if (ec) self->broken_ = true;
    self->flush();
    self->wake();
  });
}

void Connection::count_body(size_t bytes) {
  if (bytes == counted_body_) return;
  shared_->body_bytes.fetch_add(static_cast<int64_t>(bytes) - static_cast<int64_t>(counted_body_));
  counted_body_ = bytes;
}

void Connection::close() {
  eof_ = broken_ = true;
  error_code ignored;
  socket_.close(ignored);
}

}  // namespace quire
