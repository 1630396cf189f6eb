// URLs with the schemes http and https, and the choice of a proxy.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace quire::hub {

struct Url {
  std::string scheme;    // "http" or "https"
  std::string userinfo;  // "user:password", percent-encoded; empty = none
  std::string host;      // without the brackets of an IPv6 address
  std::string port;      // always set
  std::string target;    // path and query, starts with "/"

  bool secure() const { return scheme == "https"; }
  std::string authority() const;  // host, and port unless it is the scheme's default
  std::string origin() const;     // "https://host:port"; equal origins are the same server
  std::string text() const;       // without userinfo
};

// nullopt if the text is not an absolute http or https URL, or has control characters or spaces.
std::optional<Url> parse_url(std::string_view text);

// The URL of a Location header: absolute, "//host/path", "/path" or "path".
std::optional<Url> resolve_location(const Url& base, std::string_view location);

// Letters, digits and "-._~" stay, and "/" if keep_slashes.
std::string percent_encode(std::string_view text, bool keep_slashes);
std::string percent_decode(std::string_view text);

// Values of HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY; empty = not set.
struct ProxySettings {
  std::string http;
  std::string https;
  std::string all;
  std::string exceptions;  // comma-separated hosts and domains, or "*"
};

// The proxy for a URL; empty = connect directly.
std::string proxy_of(const Url& url, const ProxySettings& settings);

}  // namespace quire::hub
