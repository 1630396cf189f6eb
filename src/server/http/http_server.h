// The HTTP server: a listener and its connections on a few threads. It knows bytes, time limits and orderly
// ends; what a request means is the HttpApp's business.
//
// Each connection runs on a strand of one io_context that all threads serve, so a connection's code is never
// run by two threads at once, and a handler that works for long holds up one thread and not the others.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "server/http/http_types.h"
#include "server/http/request_parser.h"

namespace quire {

struct HttpServerOptions {
  std::string host = "127.0.0.1";
  uint16_t port = 8000;  // 0: a free one
  int num_threads = 2;
  HttpLimits limits;
  double header_timeout_s = 30.0;  // for the whole header, from its first byte
  double body_timeout_s = 60.0;    // without a byte of the body
  double idle_timeout_s = 75.0;    // a kept-alive connection without a request
  double write_timeout_s = 60.0;   // without a byte of the answer taken
  size_t max_backlog_bytes =
      4 << 20;  // of a stream's bytes not yet taken by the client; more: the client counts as gone
  size_t max_total_body_bytes = size_t{1} << 30;  // of all bodies being read at one time; more: 503
};

// What the server asks of the program above it. All of it may be called on any of the server's threads,
// several at once.
struct HttpApp {
  // Looks at a request whose body is not read yet; an answer here spares the body. Optional.
  std::function<std::optional<HttpResponse>(const HttpRequest&)> precheck;
  HttpHandler handle;
  // The body of an error that the HTTP layer itself found.
  std::function<HttpResponse(int status, const std::string& message)> error;
  // Adds headers that every answer carries. The request may be incomplete (method and headers empty).
  // Optional.
  std::function<void(const HttpRequest&, HttpHeaders&)> decorate;
};

class HttpServer {
 public:
  HttpServer(HttpServerOptions options, HttpApp app);
  // Stops at once.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // Opens the port and starts the threads. Throws Error when the address cannot be used.
  void start();
  uint16_t port() const;
  // Closes the listener and idle connections at once, and others behind the answer that they are at, or after
  // `timeout_s` seconds whatever they are at. Returns when all threads have ended. No handler may post()
  // afterwards.
  void stop(double timeout_s);
  // Ends all connections at once, without waiting. May be called while stop() waits, and makes it return
  // soon.
  void cut();

  int64_t num_connections() const;
  int64_t num_exchanges() const;  // requests being answered

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace quire
