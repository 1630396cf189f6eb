#include "server/http/exchange.h"

#include <boost/asio/post.hpp>
#include <utility>

#include "base/log.h"

namespace quire {
namespace {

namespace asio = boost::asio;

constexpr size_t kMaxRecordedMethod = 20;
constexpr size_t kMaxRecordedPath = 200;

}  // namespace

Exchange::Exchange(const std::shared_ptr<ConnectionShared>& shared,
                   const std::shared_ptr<Connection>& connection, const HttpRequest& request, bool keep_alive,
                   Clock::time_point begin)
    : shared_(shared),
      connection_(connection),
      request_id_(request.id),
      method_(request.method.substr(0, kMaxRecordedMethod)),
      path_(request.path.substr(0, kMaxRecordedPath)),
      begin_(begin),
      version_(request.version),
      head_only_(request.method == "HEAD"),
      keep_alive_(keep_alive) {
  if (shared->app.decorate) shared->app.decorate(request, headers_);
}

void Exchange::send(HttpResponse response) {
  if (started_ || disconnected_) return;
  if (response.close) keep_alive_ = false;
  add_headers(response);
  std::string head =
      response_head(response, static_cast<int64_t>(response.body.size()), version_, keep_alive_);
  started_ = complete_ = true;
  status_ = response.status;
  remark_ = std::move(response.remark);
  emit(std::move(head));
  if (!head_only_ && !has_no_body(response.status)) emit(std::move(response.body));
  record();
}

void Exchange::begin_stream(HttpResponse head) {
  if (started_ || disconnected_) return;
  chunked_ = version_ >= 11;
  if (!chunked_) keep_alive_ = false;
  add_headers(head);
  std::string bytes = response_head(head, -1, version_, keep_alive_);
  started_ = true;
  status_ = head.status;
  emit(std::move(bytes));
}

void Exchange::write(std::string_view bytes) {
  if (!started_ || complete_ || disconnected_ || head_only_ || bytes.empty()) return;
  if (!chunked_) return emit(std::string(bytes));
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string chunk;
  chunk.reserve(bytes.size() + 24);
  for (int shift = 60; shift >= 0; shift -= 4) {
    const auto digit = (bytes.size() >> shift) & 15;
    if (digit != 0 || !chunk.empty()) chunk += kDigits[digit];
  }
  chunk += "\r\n";
  chunk += bytes;
  chunk += "\r\n";
  emit(std::move(chunk));
}

void Exchange::end() {
  if (!started_ || complete_ || disconnected_) return;
  complete_ = true;
  emit(chunked_ && !head_only_ ? "0\r\n\r\n" : "");
  record();
}

void Exchange::set_outcome(int status, std::string remark) {
  status_ = status;
  remark_ = std::move(remark);
}

// The record of a request is worth no failure of the request.
void Exchange::record() noexcept {
  const auto shared = shared_.lock();
  if (recorded_ || !shared || !shared->app.record) return;
  recorded_ = true;
  try {
    const std::chrono::duration<double> elapsed = Clock::now() - begin_;
    shared->app.record({method_, path_, status_, remark_, !complete_ && !failed_, elapsed.count()});
  } catch (...) {
    drop_log_line();
  }
}

void Exchange::on_disconnect(std::function<void()> callback) {
  if (disconnected_) {
    callback();
  } else if (!complete_) {
    disconnect_callback_ = std::move(callback);
  }
}

void Exchange::on_silence(double interval_s, std::function<void()> callback) {
  silence_ = std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(interval_s));
  silence_callback_ = std::move(callback);
  if (const auto connection = connection_.lock()) connection->wake();
}

void Exchange::post_function(std::function<void()> work) noexcept {
  // In this order, so that the connection is released before what it lives on.
  const auto shared = shared_.lock();
  if (!shared) return;
  const auto connection = connection_.lock();
  if (!connection) return;
  {
    const std::lock_guard lock(posted_mutex_);
    try {
      if (work) {
        posted_.push_back(std::move(work));
      } else {
        post_failed_.store(true);
      }
    } catch (...) {
      post_failed_.store(true);
    }
    if (std::exchange(wake_pending_, true)) return;
  }
  try {
    asio::post(connection->executor(), [self = shared_from_this()] {
      self->end_wake();
      self->run_posted();
    });
  } catch (...) {
    // The connection looks for posted work at least once per second.
    end_wake();
  }
}

void Exchange::end_wake() noexcept {
  const std::lock_guard lock(posted_mutex_);
  wake_pending_ = false;
}

void Exchange::run_posted() {
  std::vector<std::function<void()>> posted;
  {
    const std::lock_guard lock(posted_mutex_);
    posted.swap(posted_);
  }
  try {
    if (post_failed_.exchange(false)) return fail("out of memory, or failed for a reason that was logged");
    for (auto& work : posted) std::exchange(work, nullptr)();
  } catch (const std::exception& e) {
    fail(e.what());
  }
}

void Exchange::fail(std::string_view what) {
  if (complete_ || disconnected_) return;
  try {
    log_error("request ", request_id_, ": ", what);
    failed_ = true;
    status_ = 500;
    remark_ = what;
    const auto shared = shared_.lock();
    if (shared && !started_) {
      HttpResponse response =
          shared->app.error(500, "an internal error occurred; the server's log has the details");
      response.close = true;
      send(std::move(response));
    }
  } catch (...) {
    // Without memory for a response, closing the connection is all that is left.
  }
  if (complete_) {
    // Nobody waits for the rest of the request.
    const auto callback = std::exchange(disconnect_callback_, nullptr);
    drop_callbacks();
    if (callback) callback();
  } else if (const auto connection = connection_.lock()) {
    connection->abandon();
  }
}

void Exchange::close() {
  if (disconnected_ || complete_) return drop_callbacks();
  disconnected_ = true;
  record();
  const auto callback = std::move(disconnect_callback_);
  drop_callbacks();
  if (callback) callback();
}

// Handlers hold their exchange in these, and the exchange holds them.
void Exchange::drop_callbacks() {
  disconnect_callback_ = nullptr;
  silence_callback_ = nullptr;
}

Exchange::Clock::time_point Exchange::next_silence() const {
  return silence_callback_ && started_ && !complete_ ? last_write_ + silence_ : Clock::time_point::max();
}

void Exchange::call_silence() {
  last_write_ = Clock::now();
  const auto callback = silence_callback_;
  callback();
}

void Exchange::add_headers(HttpResponse& response) const {
  for (const auto& [name, value] : headers_.fields()) {
    if (!response.headers.contains(name)) response.headers.add(name, value);
  }
}

void Exchange::emit(std::string bytes) {
  last_write_ = Clock::now();
  if (const auto connection = connection_.lock()) connection->enqueue(std::move(bytes));
}

}  // namespace quire
