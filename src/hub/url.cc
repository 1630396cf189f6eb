#include "hub/url.h"

#include <algorithm>
#include <cctype>
#include <charconv>

#include "base/strings.h"

namespace quire::hub {
namespace {

std::string default_port(const std::string& scheme) {
  return scheme == "https" ? "443" : "80";
}

bool has_forbidden_character(std::string_view text) {
  return std::ranges::any_of(text, [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte <= 0x20 || byte >= 0x7F;
  });
}

bool is_host(std::string_view host) {
  return !host.empty() && host.size() <= 253 && std::ranges::all_of(host, [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '-' || c == '_';
  });
}

bool is_ipv6(std::string_view host) {
  return !host.empty() && host.size() <= 45 && std::ranges::all_of(host, [](char c) {
    return std::isxdigit(static_cast<unsigned char>(c)) != 0 || c == ':' || c == '.';
  });
}

// Reads "user@host:port" into the URL.
bool read_authority(std::string_view text, Url& url) {
  if (const size_t at = text.rfind('@'); at != std::string_view::npos) {
    url.userinfo = text.substr(0, at);
    text.remove_prefix(at + 1);
  }
  std::string_view port;
  if (text.starts_with('[')) {
    const size_t end = text.find(']');
    if (end == std::string_view::npos || !is_ipv6(text.substr(1, end - 1))) return false;
    url.host = text.substr(1, end - 1);
    text.remove_prefix(end + 1);
    if (!text.empty() && text.front() != ':') return false;
    port = text.empty() ? text : text.substr(1);
  } else {
    const size_t colon = text.find(':');
    if (!is_host(text.substr(0, colon))) return false;
    url.host = lowercase(text.substr(0, colon));
    if (colon != std::string_view::npos) port = text.substr(colon + 1);
  }
  if (port.empty()) {
    url.port = default_port(url.scheme);
    return true;
  }
  uint16_t number = 0;
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), number);
  url.port = std::to_string(number);
  return error == std::errc() && end == port.data() + port.size() && number > 0;
}

}  // namespace

std::string Url::authority() const {
  const std::string name = host.find(':') == std::string::npos ? host : "[" + host + "]";
  return port == default_port(scheme) ? name : name + ":" + port;
}

std::string Url::origin() const {
  return scheme + "://" + host + ":" + port;
}

std::string Url::text() const {
  return scheme + "://" + authority() + target;
}

std::optional<Url> parse_url(std::string_view text) {
  if (has_forbidden_character(text) || text.size() > 16384) return std::nullopt;
  const size_t colon = text.find("://");
  if (colon == std::string_view::npos) return std::nullopt;
  Url url;
  url.scheme = lowercase(text.substr(0, colon));
  if (url.scheme != "http" && url.scheme != "https") return std::nullopt;
  text.remove_prefix(colon + 3);
  text = text.substr(0, text.find('#'));
  const size_t end = text.find_first_of("/?");
  if (!read_authority(text.substr(0, end), url)) return std::nullopt;
  url.target = end == std::string_view::npos ? "/" : std::string(text.substr(end));
  if (url.target.front() == '?') url.target.insert(0, "/");
  return url;
}

std::optional<Url> resolve_location(const Url& base, std::string_view location) {
  if (location.empty() || has_forbidden_character(location)) return std::nullopt;
  const size_t scheme = location.find("://");
  if (scheme != std::string_view::npos && scheme < location.find_first_of("/?#")) return parse_url(location);
  if (location.starts_with("//")) return parse_url(base.scheme + ":" + std::string(location));
  Url url = base;
  location = location.substr(0, location.find('#'));
  if (location.starts_with('/')) {
    url.target = location;
  } else {
    const std::string path = base.target.substr(0, base.target.find('?'));
    url.target = path.substr(0, path.rfind('/') + 1) + std::string(location);
  }
  return url;
}

std::string percent_encode(std::string_view text, bool keep_slashes) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) != 0 || c == '-' || c == '.' || c == '_' || c == '~' ||
        (c == '/' && keep_slashes)) {
      out += c;
    } else {
      out += '%';
      out += kDigits[byte >> 4];
      out += kDigits[byte & 15];
    }
  }
  return out;
}

std::string percent_decode(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    unsigned value = 0;
    if (text[i] == '%' && i + 2 < text.size() &&
        std::from_chars(text.data() + i + 1, text.data() + i + 3, value, 16).ptr == text.data() + i + 3) {
      out += static_cast<char>(value);
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

std::string proxy_of(const Url& url, const ProxySettings& settings) {
  const std::string& own = url.secure() ? settings.https : settings.http;
  const std::string& proxy = own.empty() ? settings.all : own;
  std::string_view rest = settings.exceptions;
  while (!rest.empty()) {
    const size_t comma = rest.find(',');
    std::string entry = lowercase(rest.substr(0, comma));
    rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
    std::erase_if(entry, [](char c) { return c == ' ' || c == '\t'; });
    if (entry == "*") return {};
    if (entry.starts_with("*.")) entry.erase(0, 1);
    const bool is_domain = entry.starts_with('.');
    if (is_domain) entry.erase(0, 1);
    if (entry.empty()) continue;
    if (url.host == entry || url.host + ":" + url.port == entry || url.authority() == entry ||
        url.host.ends_with("." + entry))
      return {};
  }
  return proxy;
}

}  // namespace quire::hub
