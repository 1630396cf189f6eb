// Access control: API keys, and checks that keep web pages of other sites away from the server. All functions
// may be called on any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/http/http_types.h"

namespace quire {

struct AccessOptions {
  std::vector<std::string> api_keys;  // empty = every client may use the server
  // Web origins whose pages may use the server, e.g. "https://example.com"; "*" = all of them.
  std::vector<std::string> allowed_origins;
  // Names by which the server may be addressed in the Host header. A server on a loopback address can always
  // be addressed by its loopback names; one on another address accepts every name if this is empty.
  std::vector<std::string> allowed_hosts;
};

// Removes white space around each line of a key file. Throws Error if the file cannot be read or contains no
// key.
std::vector<std::string> read_api_keys(const std::string& path);

class AccessPolicy {
 public:
  // `listen_host`: the address that the server listens on. Throws Error if a key is empty or cannot be sent
  // in a header.
  AccessPolicy(AccessOptions options, std::string listen_host);

  bool has_keys() const { return !options_.api_keys.empty(); }
  // Index of the API key that the request was sent with; nullopt if it is missing or wrong.
  std::optional<size_t> find_key(const HttpRequest& request) const;
  // Whether the request was sent with any key.
  static bool offers_key(const HttpRequest& request);
  // Differs between keys and cannot be guessed without the key.
  const std::string& cache_salt(size_t key) const { return salts_[key]; }

  // Why the request may come from a web page of another site (DNS rebinding, cross-site requests); nullopt if
  // it does not. `loopback`: whether the server listens on a loopback address.
  std::optional<HttpResponse> check_site(const HttpRequest& request, bool loopback) const;
  // Adds the CORS headers for an allowed origin.
  void add_cors(const HttpRequest& request, HttpHeaders& headers) const;
  // The response to OPTIONS. `allow`: the methods of the path.
  HttpResponse preflight(const HttpRequest& request, const std::string& allow) const;

 private:
  bool allows_origin(std::string_view origin) const;
  bool allows_host(std::string_view host, bool loopback) const;

  AccessOptions options_;
  std::string listen_host_;
  std::vector<std::string> salts_;  // one per key
};

// The host part of a Host header or an origin: without port and brackets.
std::string_view host_name(std::string_view host);

}  // namespace quire
