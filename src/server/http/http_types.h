// HTTP messages as plain values: what a handler reads and what it responds with. Nothing above this header
// depends on sockets, so that it can be tested without one.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace quire {

// Field names compare without regard to case. Order is kept.
class HttpHeaders {
 public:
  void add(std::string name, std::string value) { fields_.emplace_back(std::move(name), std::move(value)); }
  // Replaces all fields of that name.
  void set(std::string_view name, std::string value);
  // The first value; empty if there is no such field.
  std::string_view get(std::string_view name) const;
  size_t count(std::string_view name) const;
  bool contains(std::string_view name) const { return count(name) > 0; }
  const std::vector<std::pair<std::string, std::string>>& fields() const { return fields_; }

 private:
  std::vector<std::pair<std::string, std::string>> fields_;
};

struct HttpRequest {
  std::string method;  // "GET", as received
  std::string path;    // target up to '?', percent-decoded
  std::string query;   // after '?', as received
  int version = 11;    // 10 or 11
  bool keep_alive = true;
  HttpHeaders headers;
  std::string body;
  std::shared_ptr<void> body_charge;  // counts the body against a limit as long as it lives
  std::string id;          // X-Request-Id, or one made by the server; letters, digits and -_.: only
  std::string client;      // names the API key, if there are keys; never the key itself
  std::string cache_salt;  // keeps the prefix cache entries of API keys apart; empty = shared by all
};

struct HttpResponse {
  int status = 200;
  std::string body;
  std::string content_type = "application/json";
  HttpHeaders headers;
  bool close = false;  // close the connection after this response
  std::string remark;  // for the log, not sent: why the request failed, or what it took
};

// Takes the response to one request. A handler calls either send() once, or begin_stream(), write() any
// number of times and end().
//
// Threads: handlers are called on the connection's thread, and all members except post() and post_failure()
// may be called there only. post() may be called from any thread and runs its function on the connection's
// thread. After the client has disconnected, writes are ignored.
class ResponseWriter {
 public:
  virtual ~ResponseWriter() = default;

  virtual void send(HttpResponse response) = 0;
  // Sends status, content type and headers of `head`; its body is ignored.
  virtual void begin_stream(HttpResponse head) = 0;
  virtual void write(std::string_view bytes) = 0;
  virtual void end() = 0;
  // For the log, before end(): the remark on a stream, and the status with which it would have begun if its
  // error had been known.
  virtual void set_outcome(int status, std::string remark) = 0;

  // The client has closed the connection or has not read for too long, or the server is being stopped.
  virtual bool disconnected() const = 0;
  // `callback` is called at most once, if the client disconnects before the response is complete.
  virtual void on_disconnect(std::function<void()> callback) = 0;
  // `callback` is called when nothing has been written to the stream for `interval_s` seconds, and again
  // after each further interval. It sends keep-alive comments.
  virtual void on_silence(double interval_s, std::function<void()> callback) = 0;

  // If memory is too short to queue `work`, or if it throws, the request fails with status 500. A template,
  // because a caller on the engine thread cannot handle the std::bad_alloc of making a std::function.
  template <typename Work>
  void post(Work work) noexcept {
    std::function<void()> function;
    try {
      function = std::move(work);
    } catch (...) {  // post_function() gets an empty function
    }
    post_function(std::move(function));
  }
  // Any thread. Fails the request with status 500, as far as it has no response yet.
  void post_failure() noexcept { post_function({}); }

 protected:
  // Empty work stands for a failure.
  virtual void post_function(std::function<void()> work) noexcept = 0;
};

// One request and its end, for the log. The views are valid during the call that passes the record.
struct RequestRecord {
  std::string_view method;  // empty if the header could not be read
  std::string_view path;
  int status = 0;             // that of an error within a stream, if there was one
  std::string_view remark;    // HttpResponse::remark
  bool disconnected = false;  // before the response was complete
  double seconds = 0.0;       // from the first byte of the request to the last one of the response
};

// Must not keep references to `request` beyond the call, but may move it away and respond later.
using HttpHandler = std::function<void(HttpRequest& request, const std::shared_ptr<ResponseWriter>& writer)>;

// "Not Found"; "Unknown" for a status without a name here.
std::string_view http_reason(int status);

// Whether responses of this status end after their header.
bool has_no_body(int status);

bool equal_ignoring_case(std::string_view a, std::string_view b);

// %41 -> A. False if an escape is malformed or stands for NUL.
bool percent_decode(std::string_view text, std::string& out);

// The status line and the header fields, up to and including the empty line. content_length < 0 means a
// stream: chunked with HTTP/1.1, ended by the end of the connection with HTTP/1.0.
std::string response_head(const HttpResponse& response, int64_t content_length, int version, bool keep_alive);

}  // namespace quire
