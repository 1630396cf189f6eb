// HTTP as plain values: what a handler reads and what it answers with. No socket is named here, so that
// everything above this header is tested without one.
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
  // The first value, or an empty text where there is none.
  std::string_view get(std::string_view name) const;
  bool contains(std::string_view name) const;
  const std::vector<std::pair<std::string, std::string>>& fields() const { return fields_; }

 private:
  std::vector<std::pair<std::string, std::string>> fields_;
};

struct HttpRequest {
  std::string method;  // "GET", as received
  std::string path;    // target up to '?', percent-decoded
  std::string query;   // behind '?', as received
  int version = 11;    // 10 or 11
  bool keep_alive = true;
  HttpHeaders headers;
  std::string body;
  std::string id;      // X-Request-Id, or one the server made; letters, digits and -_.: only
  std::string client;  // who asks, where API keys tell clients apart: a name of the key, never the key itself
};

struct HttpResponse {
  int status = 200;
  std::string body;
  std::string content_type = "application/json";
  HttpHeaders headers;
  bool close = false;  // end the connection behind this answer
};

// Where a handler puts the answer to one request. Exactly one of: send() once; or begin_stream(), write()...,
// end().
//
// Threads: handlers are called on the connection's strand and every member but post() may be called there
// only; post() may be called from any thread and runs its function on that strand. After the client has gone
// all writes are ignored.
class ResponseWriter {
 public:
  virtual ~ResponseWriter() = default;

  virtual void send(HttpResponse response) = 0;
  // status, content type and headers of `head`; its body is ignored.
  virtual void begin_stream(HttpResponse head) = 0;
  virtual void write(std::string_view bytes) = 0;
  virtual void end() = 0;

  // The client has closed the connection, stopped reading for too long, or the server is being stopped.
  virtual bool gone() const = 0;
  // Called at most once, when the client goes before the answer is complete; dropped when the answer is
  // complete.
  virtual void on_gone(std::function<void()> callback) = 0;
  // Called at the first moment at which nothing was written to a stream for `interval_s` seconds, and again
  // after each further interval. For signs of life.
  virtual void on_silence(double interval_s, std::function<void()> callback) = 0;

  virtual void post(std::function<void()> work) = 0;
};

// Must not keep references to `request` beyond the call; may answer later.
using HttpHandler = std::function<void(HttpRequest& request, const std::shared_ptr<ResponseWriter>& writer)>;

// "Not Found"; "Unknown" for a number that has no name here.
std::string_view http_reason(int status);

bool equal_ignoring_case(std::string_view a, std::string_view b);

// %41 -> A. False where an escape is broken or stands for NUL.
bool percent_decode(std::string_view text, std::string& out);

// The status line and header block, up to and including the empty line. content_length < 0 means chunked
// (HTTP/1.1) or up to the end of the connection (HTTP/1.0).
std::string response_head(const HttpResponse& response, int64_t content_length, int version, bool keep_alive);

}  // namespace quire
