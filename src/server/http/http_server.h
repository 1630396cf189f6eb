// The HTTP server: a listener and its connections on a few threads. It handles bytes, time limits and
// shutdown; the meaning of a request belongs to the HttpApp.
//
// Each connection belongs to one of the threads, which runs all its code. Handlers must return within a few
// milliseconds; longer work belongs on a WorkPool.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "server/http/http_types.h"
#include "server/http/request_parser.h"

namespace quire {

// An address that is reserved for a server: other programs cannot use it, and clients cannot connect yet. It
// may be used by one HttpServer.
class BoundSocket {
 public:
  // Throws Error if the address cannot be used.
  BoundSocket(const std::string& host, uint16_t port);
  ~BoundSocket();
  BoundSocket(const BoundSocket&) = delete;
  BoundSocket& operator=(const BoundSocket&) = delete;

  bool is_v6() const { return is_v6_; }
  bool is_loopback() const { return is_loopback_; }
  int release();  // the descriptor, which belongs to the caller; -1 the second time

 private:
  int fd_ = -1;
  bool is_v6_ = false;
  bool is_loopback_ = false;
};

struct HttpServerOptions {
  std::string host = "127.0.0.1";
  uint16_t port = 8000;                 // 0 = any free port
  std::shared_ptr<BoundSocket> socket;  // of this address; null = it is bound when the server starts
  int num_threads = 2;
  HttpLimits limits;
  double header_timeout_s = 30.0;  // for the whole header, from its first byte
  double body_timeout_s = 60.0;    // between two pieces of the body
  double idle_timeout_s = 75.0;    // between two requests of a connection
  double write_timeout_s = 60.0;   // until the client reads more of the response
  // A connection that waits looks this often for posted work, in case its wake-up was lost for want of
  // memory.
  double posted_work_check_s = 1.0;
  // Bytes of a stream that the client has not read. A client with more counts as disconnected.
  size_t max_backlog_bytes = 4 << 20;
  // Bytes of all bodies that are received or wait to be parsed. Further bodies are refused with 503.
  size_t max_total_body_bytes = size_t{1} << 30;
};

// The application that the server calls. The functions may be called on any thread of the server, several at
// once.
struct HttpApp {
  // Called before the body of a request is read. A response refuses the request without reading the body.
  // Optional.
  std::function<std::optional<HttpResponse>(const HttpRequest&)> precheck;
  HttpHandler handle;
  // The response to an error that the HTTP layer found.
  std::function<HttpResponse(int status, const std::string& message)> error;
  // Adds headers that every response has. The request may be incomplete (method and headers empty). Optional.
  std::function<void(const HttpRequest&, HttpHeaders&)> decorate;
  // Called once per request, when its response has been queued as a whole or never will be. Optional.
  std::function<void(const RequestRecord&)> record;
  // Whether large bodies are received slowly, to leave the processor to more important work. Optional.
  std::function<bool()> busy;
};

class HttpServer {
 public:
  HttpServer(HttpServerOptions options, HttpApp app);
  // Stops at once.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // Opens the port and starts the threads. Throws Error if the address cannot be used.
  void start();
  uint16_t port() const;
  // Whether the address is reachable from this machine only. Once started.
  bool is_loopback() const;
  // Closes the listener and idle connections at once, and each other connection after its current response,
  // or `timeout_s` seconds from now. Returns when all threads have ended. No handler may
  // post() afterwards.
  void stop(double timeout_s);
  // Closes all connections at once, without waiting. May be called while stop() waits, which then returns
  // soon.
  void cut();

  int64_t num_connections() const;
  int64_t num_exchanges() const;  // requests without a complete response

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace quire
