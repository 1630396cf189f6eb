#include "server/http/http_types.h"

#include <algorithm>
#include <array>
#include <ctime>

#include "base/hex.h"
#include "base/strings.h"

namespace quire {
namespace {

struct Reason {
  int status;
  std::string_view text;
};

constexpr std::array<Reason, 25> kReasons = {{
    {200, "OK"},
    {204, "No Content"},
    {304, "Not Modified"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {408, "Request Timeout"},
    {409, "Conflict"},
    {411, "Length Required"},
    {413, "Content Too Large"},
    {414, "URI Too Long"},
    {415, "Unsupported Media Type"},
    {417, "Expectation Failed"},
    {421, "Misdirected Request"},
    {422, "Unprocessable Content"},
    {429, "Too Many Requests"},
    {431, "Request Header Fields Too Large"},
    {500, "Internal Server Error"},
    {501, "Not Implemented"},
    {502, "Bad Gateway"},
    {503, "Service Unavailable"},
    {504, "Gateway Timeout"},
    {505, "HTTP Version Not Supported"},
}};

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

std::string http_date() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  std::array<char, 40> text;
  const size_t n = std::strftime(text.data(), text.size(), "%a, %d %b %Y %H:%M:%S GMT", &utc);
  return {text.data(), n};
}

// A header value from a handler must not be able to start another header.
void append_field(std::string& out, std::string_view name, std::string_view value) {
  out += name;
  out += ": ";
  for (const char c : value) out += c == '\r' || c == '\n' || c == '\0' ? ' ' : c;
  out += "\r\n";
}

}  // namespace

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return lower(x) == lower(y); });
}

void HttpHeaders::set(std::string_view name, std::string value) {
  std::erase_if(fields_, [&](const auto& f) { return equal_ignoring_case(f.first, name); });
  add(std::string(name), std::move(value));
}

std::string_view HttpHeaders::get(std::string_view name) const {
  for (const auto& [key, value] : fields_) {
    if (equal_ignoring_case(key, name)) return value;
  }
  return {};
}

size_t HttpHeaders::count(std::string_view name) const {
  return static_cast<size_t>(std::count_if(
      fields_.begin(), fields_.end(), [&](const auto& f) { return equal_ignoring_case(f.first, name); }));
}

std::string_view http_reason(int status) {
  for (const Reason& r : kReasons) {
    if (r.status == status) return r.text;
  }
  return "Unknown";
}

bool has_no_body(int status) {
  return status == 204 || status == 304;
}

bool percent_decode(std::string_view text, std::string& out) {
  out.clear();
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    if (i + 2 >= text.size()) return false;
    const int high = hex_value(text[i + 1]);
    const int low = hex_value(text[i + 2]);
    if (high < 0 || low < 0 || (high == 0 && low == 0)) return false;
    out += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return true;
}

std::string response_head(const HttpResponse& response, int64_t content_length, int version,
                          bool keep_alive) {
  std::string out = cat("HTTP/1.1 ", response.status, " ", http_reason(response.status), "\r\n");
  append_field(out, "Server", "quire");
  append_field(out, "Date", http_date());
  if (!response.content_type.empty() && !has_no_body(response.status))
    append_field(out, "Content-Type", response.content_type);
  for (const auto& [name, value] : response.headers.fields()) append_field(out, name, value);
  if (content_length >= 0) {
    if (!has_no_body(response.status)) append_field(out, "Content-Length", std::to_string(content_length));
  } else if (version >= 11) {
    append_field(out, "Transfer-Encoding", "chunked");
  }
  if (!keep_alive) {
    append_field(out, "Connection", "close");
  } else if (version < 11) {
    append_field(out, "Connection", "keep-alive");
  }
  out += "\r\n";
  return out;
}

}  // namespace quire
