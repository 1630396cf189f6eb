// A small HTTP/1.1 client for benchmarks: plain connections, no TLS, no redirects. Parsers take bytes as they
// come and touch no socket; HttpExchange moves one request over one non-blocking connection. One thread at a
// time each.
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
  std::string path;  // what stands before every endpoint, without a slash at the end; mostly empty
};
// "http://127.0.0.1:8000". Throws Error; https is one with its own words.
Url parse_url(const std::string& text);

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

// The bytes of a request; Host and Content-Length are added.
std::string request_text(const Url& url, std::string_view method, std::string_view endpoint,
                         const HttpHeaders& headers, std::string_view body);

// Reads a response: status line, headers, and a body by length, in chunks, or until the connection ends.
class ResponseParser {
 public:
  // Takes what came and appends what is body to `body`. Bytes behind the end are left out. Throws Error where
  // this is no HTTP.
  void feed(std::string_view bytes, std::string& body);
  // The server closed the connection. Throws Error where the response was not whole.
  void finish();

  bool done() const { return state_ == State::kDone; }
  bool begun() const { return begun_; }
  int status() const { return status_; }
  bool keep_alive() const { return keep_alive_; }  // the connection may be used again once done()

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
  uint64_t left_ = 0;  // bytes of body or of the chunk
  int status_ = 0;
  bool begun_ = false;
  bool keep_alive_ = true;
  bool chunked_ = false;
  bool has_length_ = false;
};

// Reads server-sent events (WHATWG HTML 9.2): `on_data` gets the data of each event.
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

// A socket that closes itself.
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

// Where a server is; looked up once. Throws Error.
class Address {
 public:
  explicit Address(const Url& url);
  // A non-blocking socket that connects or has connected. Throws Error.
  Socket connect() const;

 private:
  struct Entry {
    int family = 0;
    std::string bytes;  // a sockaddr
  };
  std::vector<Entry> entries_;  // in the resolver's order
  std::string name_;
};

// One request and its response. A `reused` connection that the server had meanwhile closed shows as stale().
class HttpExchange {
 public:
  HttpExchange(Socket socket, bool reused, std::string_view request);  // `request` must outlive it
  int fd() const { return socket_.fd(); }
  short wanted() const;  // poll's events
  // Sends and receives what can be without waiting; appends body bytes. Throws Error when the connection or
  // the response broke.
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
// One request of its own connection. Throws Error, also when nothing came for timeout_s.
HttpResponse http_request(const Address& address, const std::string& request, double timeout_s);

}  // namespace quire::cli
