#include "server/access.h"

#include <arpa/inet.h>

#include <algorithm>
#include <fstream>

#include "base/error.h"
#include "base/fingerprint.h"
#include "base/strings.h"
#include "server/openai/errors.h"

namespace quire {
namespace {

constexpr std::string_view kBearer = "Bearer ";

std::string_view offered_key(const HttpRequest& request) {
  const std::string_view authorization = request.headers.get("Authorization");
  if (authorization.size() > kBearer.size() &&
      equal_ignoring_case(authorization.substr(0, kBearer.size()), kBearer)) {
    return authorization.substr(kBearer.size());
  }
  return request.headers.get("X-Api-Key");
}

bool is_loopback_name(std::string_view name) {
  constexpr std::string_view kLocalhost = "localhost";
  constexpr std::string_view kSubdomain = ".localhost";
  if (equal_ignoring_case(name, kLocalhost)) return true;
  if (name.size() > kSubdomain.size() &&
      equal_ignoring_case(name.substr(name.size() - kSubdomain.size()), kSubdomain)) {
    return true;
  }
  const std::string text(name);
  in_addr v4{};
  if (::inet_pton(AF_INET, text.c_str(), &v4) == 1) return (ntohl(v4.s_addr) >> 24) == 127;
  in6_addr v6{};
  return ::inet_pton(AF_INET6, text.c_str(), &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

std::string_view strip(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) + 1 - begin);
}

bool contains(const std::vector<std::string>& names, std::string_view name) {
  return std::any_of(names.begin(), names.end(), [&](const auto& n) { return equal_ignoring_case(n, name); });
}

std::string salt_of(std::string_view key) {
  Fingerprint fingerprint;
  fingerprint.add("prefix cache salt of an API key");
  fingerprint.add(key);
  return fingerprint.text();
}

}  // namespace

std::vector<std::string> read_api_keys(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw Error(cat("cannot read the API keys in ", path));
  std::vector<std::string> keys;
  std::string line;
  while (std::getline(file, line)) {
    const std::string_view key = strip(line);
    if (!key.empty() && key.front() != '#') keys.emplace_back(key);
  }
  if (file.bad()) throw Error(cat("cannot read the API keys in ", path));
  if (keys.empty()) throw Error(cat(path, " contains no API key; write one key per line"));
  return keys;
}

std::string_view host_name(std::string_view host) {
  if (host.starts_with('[')) {
    const size_t end = host.find(']');
    return end == std::string_view::npos ? host : host.substr(1, end - 1);
  }
  // An IPv6 address without brackets has no port.
  const size_t colon = host.find(':');
  return colon == host.rfind(':') ? host.substr(0, colon) : host;
}

AccessPolicy::AccessPolicy(AccessOptions options, std::string listen_host)
    : options_(std::move(options)), listen_host_(std::move(listen_host)) {
  for (const std::string& key : options_.api_keys) {
    if (key.empty()) throw Error("an API key is empty; every client would have it");
    const bool sendable = std::all_of(key.begin(), key.end(), [](char c) { return c > ' ' && c < 0x7F; });
    if (!sendable) {
      throw Error(
          "an API key contains white space or characters that are not ASCII, which clients cannot send");
    }
    salts_.push_back(salt_of(key));
  }
}

std::optional<size_t> AccessPolicy::find_key(const HttpRequest& request) const {
  const std::string_view offered = offered_key(request);
  // All keys are compared, so that the time does not depend on which of them matches.
  std::optional<size_t> found;
  for (size_t i = 0; i < options_.api_keys.size(); ++i) {
    const bool equal = equal_constant_time(offered, options_.api_keys[i]);
    if (equal && !found) found = i;
  }
  return found;
}

bool AccessPolicy::offers_key(const HttpRequest& request) {
  return !offered_key(request).empty();
}

bool AccessPolicy::allows_origin(std::string_view origin) const {
  return contains(options_.allowed_origins, "*") || contains(options_.allowed_origins, origin);
}

bool AccessPolicy::allows_host(std::string_view host, bool loopback) const {
  if (!loopback && options_.allowed_hosts.empty()) return true;
  const std::string_view name = host_name(host);
  if (contains(options_.allowed_hosts, name) || contains(options_.allowed_hosts, "*")) return true;
  return is_loopback_name(name) || equal_ignoring_case(name, listen_host_);
}

std::optional<HttpResponse> AccessPolicy::check_site(const HttpRequest& request, bool loopback) const {
  // HTTP/1.0 clients may send no Host header; browsers always do.
  const std::string_view host = request.headers.get("Host");
  if (request.headers.contains("Host") && !allows_host(host, loopback)) {
    return error_response(403, cat("The host '", host.substr(0, 200),
                                   "' is not a name of this server; --allowed-hosts adds names."));
  }
  const std::string_view origin = request.headers.get("Origin");
  if (origin.empty() || allows_origin(origin)) return std::nullopt;
  const size_t scheme = origin.find("://");
  const bool same_origin =
      scheme != std::string_view::npos && equal_ignoring_case(origin.substr(scheme + 3), host);
  if (same_origin) return std::nullopt;
  return error_response(403, cat("Web pages of the origin '", origin.substr(0, 200),
                                 "' may not use this server; --allowed-origins adds origins."));
}

void AccessPolicy::add_cors(const HttpRequest& request, HttpHeaders& headers) const {
  if (options_.allowed_origins.empty()) return;
  headers.add("Vary", "Origin");
  const std::string_view origin = request.headers.get("Origin");
  if (origin.empty() || !allows_origin(origin)) return;
  headers.add("Access-Control-Allow-Origin", std::string(origin));
  headers.add("Access-Control-Expose-Headers", "X-Request-Id, X-Ignored-Params, Retry-After");
  // Credentials of the browser are for origins that were named, not for every page of the web.
  if (contains(options_.allowed_origins, origin)) headers.add("Access-Control-Allow-Credentials", "true");
}

HttpResponse AccessPolicy::preflight(const HttpRequest& request, const std::string& allow) const {
  HttpResponse response;
  response.status = 204;
  response.headers.add("Allow", allow);
  const std::string_view origin = request.headers.get("Origin");
  if (origin.empty() || !allows_origin(origin)) return response;
  response.headers.add("Access-Control-Allow-Methods", allow);
  const std::string_view wanted = request.headers.get("Access-Control-Request-Headers");
  response.headers.add("Access-Control-Allow-Headers",
                       wanted.empty() ? "Authorization, Content-Type" : std::string(wanted));
  response.headers.add("Access-Control-Max-Age", "600");
  return response;
}

}  // namespace quire
