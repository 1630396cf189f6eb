// Turns the bytes of a connection into one HttpRequest, in two parts: the header, after which the server
// decides whether it wants the body at all, and the body. One parser per request; one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "server/http/http_types.h"

namespace quire {

struct HttpLimits {
  size_t max_header_bytes = 64 << 10;  // request line and header fields together
  size_t max_body_bytes = 32 << 20;
};

// Why a request cannot be read; the connection is closed after the response.
struct HttpParseError {
  int status = 400;
  std::string message;
};

class HttpRequestParser {
 public:
  explicit HttpRequestParser(const HttpLimits& limits);
  ~HttpRequestParser();
  HttpRequestParser(const HttpRequestParser&) = delete;
  HttpRequestParser& operator=(const HttpRequestParser&) = delete;

  // Consumes bytes up to the end of the header (before header_done()) or of the body (after it) and returns
  // how many. Bytes that were not consumed are to be passed again, followed by more. Sets error() if the
  // bytes are not valid HTTP. Empty lines before the header are consumed too.
  size_t consume(std::string_view bytes);

  const std::optional<HttpParseError>& error() const { return error_; }
  bool started() const;  // some byte of the request was consumed
  bool header_done() const;
  bool done() const;

  // The following are known once header_done().
  HttpRequest& request();
  std::optional<uint64_t> content_length() const;
  bool expects_continue() const;
  // Whether the announced length of the body is above the limit (a chunked body is checked while it is read).
  bool body_too_large() const;
  HttpParseError too_large_error() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
  std::optional<HttpParseError> error_;
};

}  // namespace quire
