#include "server/http/request_parser.h"

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/beast/http/basic_parser.hpp>
#include <boost/beast/http/error.hpp>
#include <limits>

#include "base/strings.h"

namespace quire {
namespace {

namespace http = boost::beast::http;
using boost::beast::error_code;
using boost::beast::string_view;

// Longest line of a chunked body that is not complete yet. The parser starts over at the line for each piece
// that arrives.
constexpr size_t kMaxUnparsedBytes = 128 << 10;

constexpr size_t kReserveBytes = 1 << 20;

class Parser final : public http::basic_parser<true> {
 public:
  HttpRequest request;
  size_t max_body_bytes = 0;
  bool body_overflow = false;
  bool bad_target = false;

 private:
  void on_request_impl(http::verb, string_view method, string_view target, int version,
                       error_code& ec) override {
    request.method.assign(method.data(), method.size());
    request.version = version;
    std::string_view text(target.data(), target.size());
    // An absolute target, as sent to a proxy.
    for (const std::string_view scheme : {"http://", "https://"}) {
      if (!text.starts_with(scheme)) continue;
      const size_t slash = text.find('/', scheme.size());
      text = slash == std::string_view::npos ? std::string_view("/") : text.substr(slash);
      break;
    }
    text = text.substr(0, text.find('#'));
    const size_t mark = text.find('?');
    if (mark != std::string_view::npos) request.query = text.substr(mark + 1);
    if (!percent_decode(text.substr(0, mark), request.path)) {
      bad_target = true;
      ec = http::error::bad_target;
    }
  }

  void on_field_impl(http::field, string_view name, string_view value, error_code&) override {
    request.headers.add({name.data(), name.size()}, {value.data(), value.size()});
  }

  void on_response_impl(int, string_view, int, error_code&) override {}
  void on_header_impl(error_code&) override {}
  void on_body_init_impl(const boost::optional<std::uint64_t>&, error_code&) override {}

  size_t append(string_view body, error_code& ec) {
    if (body.size() > max_body_bytes - request.body.size()) {
      body_overflow = true;
      ec = http::error::body_limit;
      return 0;
    }
    // Growing by doubling would copy a large body several times. A client that announces a size has to send a
    // part of it first.
    const auto announced = content_length();
    if (announced && *announced <= max_body_bytes && request.body.size() >= kReserveBytes) {
      request.body.reserve(static_cast<size_t>(*announced));
    }
    request.body.append(body.data(), body.size());
    return body.size();
  }
  size_t on_body_impl(string_view body, error_code& ec) override { return append(body, ec); }
  void on_chunk_header_impl(std::uint64_t, string_view, error_code&) override {}
  size_t on_chunk_body_impl(std::uint64_t, string_view body, error_code& ec) override {
    return append(body, ec);
  }
  void on_finish_impl(error_code&) override {}
};

// Whether the request line ends with a version of the form HTTP/1.1 and CRLF.
bool has_version(std::string_view request) {
  const std::string_view line = request.substr(0, request.find('\n'));
  constexpr size_t kLength = std::string_view(" HTTP/1.1\r").size();
  if (line.size() == request.size() || line.size() < kLength) return false;
  if (std::ranges::count(line, ' ') != 2) return false;  // method, target and version
  const std::string_view version = line.substr(line.size() - kLength);
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  return version.starts_with(" HTTP/") && is_digit(version[6]) && version[7] == '.' && is_digit(version[8]) &&
         version.ends_with('\r');
}

// request: from its first byte that is not consumed.
HttpParseError explain(error_code ec, std::string_view request) {
  if (ec == http::error::bad_version && has_version(request))
    return {505, "only HTTP/1.0 and HTTP/1.1 are supported"};
  return {400, cat("the request is not valid HTTP: ", ec.message())};
}

// uri-host [ ":" port ], loosely: enough to be sure that it has no other meaning for a proxy.
bool is_valid_host(std::string_view host) {
  return std::all_of(host.begin(), host.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           std::string_view("-._~!$&'()*+,;=%:[]").find(c) != std::string_view::npos;
  });
}

// What RFC 9112 (sections 3.2, 6.1, 6.3) and RFC 9110 (section 10.1.1) require a server to reject and the
// parser accepts.
std::optional<HttpParseError> check_fields(const HttpRequest& request) {
  const HttpHeaders& headers = request.headers;
  const size_t num_hosts = headers.count("Host");
  if (num_hosts > 1) return HttpParseError{400, "the request has more than one Host header"};
  if (num_hosts == 0 && request.version >= 11)
    return HttpParseError{400, "the request has no Host header, which HTTP/1.1 requires"};
  if (!is_valid_host(headers.get("Host"))) return HttpParseError{400, "the Host header is not valid"};
  if (const size_t num = headers.count("Transfer-Encoding"); num > 0) {
    // The end of the body would be found in different places by this server and a proxy in front of it.
    if (headers.contains("Content-Length"))
      return HttpParseError{400, "the request has both Transfer-Encoding and Content-Length"};
    if (request.version < 11) return HttpParseError{400, "HTTP/1.0 has no Transfer-Encoding"};
    if (num > 1 || !equal_ignoring_case(headers.get("Transfer-Encoding"), "chunked")) {
      return HttpParseError{
          501, "the Transfer-Encoding is not supported: send the body chunked or with a Content-Length"};
    }
  }
  if (request.version >= 11 && headers.contains("Expect") &&
      (headers.count("Expect") > 1 || !equal_ignoring_case(headers.get("Expect"), "100-continue"))) {
    return HttpParseError{417, "the only supported expectation is 'Expect: 100-continue'"};
  }
  return std::nullopt;
}

}  // namespace

struct HttpRequestParser::Impl {
  HttpLimits limits;
  Parser parser;
  size_t header_bytes = 0;   // consumed so far, empty lines before the header included
  bool line_begins = false;  // the last byte of the header ended a line

  // Lines that continue the one before ("obs-fold") are read differently by different servers; RFC 9112
  // section 5.2 lets a server reject them.
  bool has_folded_line(std::string_view bytes) {
    for (const char c : bytes) {
      if (line_begins && (c == ' ' || c == '\t')) return true;
      line_begins = c == '\n';
    }
    return false;
  }
};

HttpRequestParser::HttpRequestParser(const HttpLimits& limits) : impl_(std::make_unique<Impl>()) {
  impl_->limits = limits;
  impl_->parser.max_body_bytes = limits.max_body_bytes;
  // The limits are checked in this file: the parser's own header limit applies to the bytes of one call, so
  // that it would depend on how they arrive, and its error for a body does not name the limit.
  impl_->parser.header_limit(std::numeric_limits<uint32_t>::max());
  impl_->parser.body_limit(boost::none);
}

HttpRequestParser::~HttpRequestParser() = default;

size_t HttpRequestParser::consume(std::string_view bytes) {
  Parser& p = impl_->parser;
  size_t taken = 0;
  // Some clients send an empty line too many after a body.
  if (!p.got_some()) {
    while (bytes.substr(taken).starts_with("\r\n")) taken += 2;
    if (bytes.substr(taken) == "\r") bytes.remove_suffix(1);  // may be half of another one
  }
  const bool want_body = p.is_header_done();
  p.eager(want_body);
  while (!error_ && taken < bytes.size() && !p.is_done() && p.is_header_done() == want_body) {
    error_code ec;
    const std::string_view rest = bytes.substr(taken);
    const size_t n = p.put(boost::asio::const_buffer(rest.data(), rest.size()), ec);
    taken += n;
    if (ec == http::error::need_more) {
      if (want_body && bytes.size() - taken > kMaxUnparsedBytes) {
        error_ = HttpParseError{400, "the request is not valid HTTP: a line of the chunked body is too long"};
      }
      break;
    }
    if (ec) {
      error_ = p.body_overflow ? too_large_error() : explain(ec, rest);
      break;
    }
    if (n == 0 && !p.is_done() && p.is_header_done() == want_body) break;
  }
  if (!want_body && !error_) {
    if (impl_->has_folded_line(bytes.substr(0, taken))) {
      error_ = HttpParseError{400, "the request is not valid HTTP: a header line begins with white space"};
      return taken;
    }
    impl_->header_bytes += taken;
    // Bytes that were not consumed belong to a header that has not ended.
    const size_t pending = p.is_header_done() ? 0 : bytes.size() - taken;
    if (impl_->header_bytes + pending > impl_->limits.max_header_bytes) {
      error_ = HttpParseError{
          431, cat("the request's header is larger than ", impl_->limits.max_header_bytes, " bytes")};
      return taken;
    }
  }
  if (p.is_header_done() && !want_body && !error_) {
    p.request.keep_alive = p.keep_alive();
    error_ = check_fields(p.request);
  }
  return taken;
}

bool HttpRequestParser::started() const {
  return impl_->parser.got_some();
}
bool HttpRequestParser::header_done() const {
  return impl_->parser.is_header_done();
}
bool HttpRequestParser::done() const {
  return impl_->parser.is_done();
}
HttpRequest& HttpRequestParser::request() {
  return impl_->parser.request;
}

std::optional<uint64_t> HttpRequestParser::content_length() const {
  const auto n = impl_->parser.content_length();
  if (!n) return std::nullopt;
  return *n;
}

bool HttpRequestParser::expects_continue() const {
  return impl_->parser.request.version >= 11 &&
         equal_ignoring_case(impl_->parser.request.headers.get("Expect"), "100-continue");
}

bool HttpRequestParser::body_too_large() const {
  const auto n = content_length();
  return n && *n > impl_->limits.max_body_bytes;
}

HttpParseError HttpRequestParser::too_large_error() const {
  const auto n = content_length();
  const std::string limit = format_bytes(static_cast<int64_t>(impl_->limits.max_body_bytes));
  if (!n)
    return {413, cat("the body is larger than ", limit, ", the limit of this server (--max-body-size)")};
  const auto shown = static_cast<int64_t>(std::min<uint64_t>(*n, std::numeric_limits<int64_t>::max()));
  return {413, cat("the body has ", format_bytes(shown), ", the limit of this server is ", limit,
                   " (--max-body-size)")};
}

}  // namespace quire
