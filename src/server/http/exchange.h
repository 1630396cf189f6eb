// The response to one request on a connection (private to http/). The connection holds it while it serves
// the request, a handler for as long as it likes.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "server/http/connection.h"

namespace quire {

// Counts the bytes of one body in ConnectionShared::body_bytes.
class BodyCharge {
 public:
  explicit BodyCharge(std::shared_ptr<ConnectionShared> shared) : shared_(std::move(shared)) {}
  ~BodyCharge() { set(0); }
  BodyCharge(const BodyCharge&) = delete;
  BodyCharge& operator=(const BodyCharge&) = delete;

  void set(size_t bytes) {
    shared_->body_bytes.fetch_add(static_cast<int64_t>(bytes) - static_cast<int64_t>(bytes_));
    bytes_ = bytes;
  }

 private:
  std::shared_ptr<ConnectionShared> shared_;
  size_t bytes_ = 0;
};

class Exchange final : public ResponseWriter, public std::enable_shared_from_this<Exchange> {
 public:
  using Clock = std::chrono::steady_clock;

  Exchange(const std::shared_ptr<ConnectionShared>& shared, const std::shared_ptr<Connection>& connection,
           const HttpRequest& request, bool keep_alive, Clock::time_point begin);

  void send(HttpResponse response) override;
  void begin_stream(HttpResponse head) override;
  void write(std::string_view bytes) override;
  void end() override;
  void set_outcome(int status, std::string remark) override;
  bool disconnected() const override { return disconnected_; }
  void on_disconnect(std::function<void()> callback) override;
  void on_silence(double interval_s, std::function<void()> callback) override;

  // The rest is for the connection.
  bool started() const { return started_; }
  bool complete() const { return complete_; }
  bool keep_alive() const { return keep_alive_; }

  // Runs what was posted. The connection calls this now and then, in case a wake-up was lost for want of
  // memory.
  void run_posted();
  // An internal error: responds with 500, or cuts the connection if the response has begun.
  void fail(std::string_view what);
  // Nothing more will be sent. Calls the disconnect callback if the response is incomplete.
  void close();
  Clock::time_point next_silence() const;
  void call_silence();

 protected:
  void post_function(std::function<void()> work) noexcept override;

 private:
  void add_headers(HttpResponse& response) const;
  void emit(std::string bytes);
  void record() noexcept;
  void drop_callbacks();
  void end_wake() noexcept;

  std::weak_ptr<ConnectionShared> shared_;
  std::weak_ptr<Connection> connection_;
  HttpHeaders headers_;
  std::string request_id_;
  std::string method_;
  std::string path_;
  std::string remark_;
  std::function<void()> disconnect_callback_;
  std::function<void()> silence_callback_;
  Clock::duration silence_{};
  Clock::time_point begin_;
  Clock::time_point last_write_ = Clock::now();
  int version_;
  int status_ = 0;
  bool head_only_;
  bool keep_alive_;
  bool started_ = false;
  bool complete_ = false;
  bool chunked_ = false;
  bool disconnected_ = false;
  bool failed_ = false;  // by an internal error
  bool recorded_ = false;

  std::mutex posted_mutex_;
  std::vector<std::function<void()>> posted_;
  bool wake_pending_ = false;  // run_posted() is queued on the connection's thread; at most once
  // post_failure() was called, or memory was too short for posted work.
  std::atomic<bool> post_failed_{false};
};

}  // namespace quire
