// An HTTP/1.1 client for the hub: https with the system's certificates, proxies, timeouts, and connections
// that are kept open. It does not follow redirects.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "hub/settings.h"
#include "hub/url.h"

namespace quire::hub {

// A request failed before a complete response was received.
class HttpError : public Error {
 public:
  HttpError(const std::string& message, bool retry) : Error(message), can_retry(retry) {}
  bool can_retry;  // false if another attempt cannot help: certificates, proxy settings
};

struct HttpHead {
  int status = 0;
  std::map<std::string, std::string, std::less<>> headers;  // by lowercase name
  std::optional<uint64_t> content_length;

  std::string header(std::string_view name) const;  // "" if the response does not have it
};

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

// State shared by all connections: proxies, TLS certificates, the timeout. Thread-safe.
class HttpTransport {
 public:
  explicit HttpTransport(const Settings& settings);
  ~HttpTransport();

  struct Impl;
  Impl& impl() const { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

// Used by one thread. Keeps one connection per server open.
class HttpClient {
 public:
  explicit HttpClient(std::shared_ptr<const HttpTransport> transport);
  ~HttpClient();

  HttpHead head(const Url& url, const HttpHeaders& headers);

  // Receives the head first and returns whether the body is wanted; otherwise the connection is closed.
  using AcceptHead = std::function<bool(const HttpHead&)>;
  // Receives the body in pieces. An exception from it ends the request.
  using BodySink = std::function<void(std::string_view)>;
  HttpHead get(const Url& url, const HttpHeaders& headers, const AcceptHead& accept, const BodySink& body);

  // A body in memory of at most `limit` bytes; a longer one is an HttpError.
  struct Response {
    HttpHead head;
    std::string body;
  };
  Response get(const Url& url, const HttpHeaders& headers, size_t limit);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace quire::hub
