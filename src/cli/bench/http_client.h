// A small HTTP/1.1 client for benchmarks, without TLS and redirects. The parsers are incremental and do not
// use sockets; HttpExchange runs one request over one non-blocking connection. Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace quire::cli {

struct Url {
  std::string host;  // without the brackets of an IPv6 address
  std::string port;
  std::string path;  // prefix of every endpoint without a trailing slash; usually empty
};
// Parses "http://127.0.0.1:8000". Throws Error, also for https.
Url parse_url(const std::string& text);

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

// Returns the bytes of a request, with Host and Content-Length.
std::string request_text(const Url& url, std::string_view method, std::string_view endpoint,
                         const HttpHeaders& headers, std::string_view body);

// Parses a response: status line, headers, and a body with Content-Length, chunked, or until the connection
// closes.
class ResponseParser {
 public:
  // Parses received bytes and appends decoded body bytes to `body`. Ignores bytes after the end of the
  // response. Throws Error if the input is not HTTP.
  void feed(std::string_view bytes, std::string& body);
  // Called when the server closes the connection. Throws Error if the response is incomplete.
  void finish();

  bool done() const { return state_ == State::kDone; }
  bool begun() const { return begun_; }
  int status() const { return status_; }
  bool keep_alive() const { return keep_alive_; }  // the connection can be reused after done()

 private:
  enum class State {
    kStatus,
    kHeaders,
    kLength,
    kUntilClose,
    kChunkSize,
    kChunk,
    kChunkEnd,
    kTrailers,
    kDone
  };
  void take_line(const std::string& line);
  void take_status(const std::string& line);
  void take_header(const std::string& line);
  void end_headers();

  State state_ = State::kStatus;
  std::string line_;
  uint64_t left_ = 0;  // remaining bytes of the body or chunk
  int status_ = 0;
  bool begun_ = false;
  bool keep_alive_ = true;
  bool chunked_ = false;
  bool has_length_ = false;
};

// Parses server-sent events (WHATWG HTML 9.2) and calls `on_data` with the data of each event.
class SseParser {
 public:
  void feed(std::string_view bytes, const std::function<void(const std::string& data)>& on_data);

 private:
  void take_line(const std::function<void(const std::string& data)>& on_data);
  std::string line_;
  std::string data_;
  bool has_data_ = false;
  bool after_return_ = false;
};

// Owns a socket and closes it in the destructor.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept;
  ~Socket();
  int fd() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

// The resolved address of a server. The constructor throws Error if the lookup fails.
class Address {
 public:
  explicit Address(const Url& url);
  // Returns a non-blocking socket that is connected or connecting. Throws Error.
  Socket connect() const;

 private:
  struct Entry {
    int family = 0;
    std::string bytes;  // a sockaddr
  };
  std::vector<Entry> entries_;  // in the resolver's order
  std::string name_;
};

// One request and its response. stale() is true if the server had closed a `reused` connection.
class HttpExchange {
 public:
  HttpExchange(Socket socket, bool reused, std::string_view request);  // `request` must outlive it
  int fd() const { return socket_.fd(); }
  short wanted() const;  // events for poll()
  // Sends and receives without blocking and appends body bytes. Throws Error if the connection or the
  // response is broken.
  void advance(std::string& body);
  bool done() const { return response_.done(); }
  bool stale() const { return stale_; }
  const ResponseParser& response() const { return response_; }
  Socket take_socket() { return std::move(socket_); }

 private:
  bool send();
  Socket socket_;
  bool reused_;
  bool stale_ = false;
  std::string_view request_;
  size_t sent_ = 0;
  ResponseParser response_;
};

struct HttpResponse {
  int status = 0;
  std::string body;
};
// Runs one request on a new connection. Throws Error, also after timeout_s without data.
HttpResponse http_request(const Address& address, const std::string& request, double timeout_s);

}  // namespace quire::cli
