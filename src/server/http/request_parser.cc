#include "server/http/request_parser.h"

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

// Of a body, without a limit of its own: the parser would be asked to look at its unfinished line again and
// again.
constexpr size_t kMaxUnparsedBytes = 128 << 10;

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

HttpParseError explain(error_code ec) {
  if (ec == http::error::bad_version) return {505, "only HTTP/1.0 and HTTP/1.1 are spoken here"};
  return {400, cat("the request is not valid HTTP: ", ec.message())};
}

}  // namespace

struct HttpRequestParser::Impl {
  HttpLimits limits;
  Parser parser;
  size_t header_bytes = 0;  // taken of the header so far
};

HttpRequestParser::HttpRequestParser(const HttpLimits& limits) : impl_(std::make_unique<Impl>()) {
  impl_->limits = limits;
  impl_->parser.max_body_bytes = limits.max_body_bytes;
  // The limits are kept here. The parser's own for headers is for what it sees in one look, so that how the
  // bytes arrived would decide; and of a body the answer can name it.
  impl_->parser.header_limit(std::numeric_limits<uint32_t>::max());
  impl_->parser.body_limit(boost::none);
}

HttpRequestParser::~HttpRequestParser() = default;

size_t HttpRequestParser::consume(std::string_view bytes) {
  Parser& p = impl_->parser;
  size_t taken = 0;
  const bool want_body = p.is_header_done();
  p.eager(want_body);
  while (!error_ && taken < bytes.size() && !p.is_done() && p.is_header_done() == want_body) {
    error_code ec;
    const std::string_view rest = bytes.substr(taken);
    const size_t n = p.put(boost::asio::const_buffer(rest.data(), rest.size()), ec);
    taken += n;
    if (ec == http::error::need_more) {
      if (want_body && bytes.size() - taken > kMaxUnparsedBytes) {
        error_ = HttpParseError{400, "the request is not valid HTTP: a line without end"};
      }
      break;
    }
    if (ec) {
      error_ = p.body_overflow ? too_large_error() : explain(ec);
      break;
    }
    if (n == 0 && !p.is_done() && p.is_header_done() == want_body) break;
  }
  if (!want_body && !error_) {
    impl_->header_bytes += taken;
    // What is left over belongs to a header that has not ended.
    const size_t pending = p.is_header_done() ? 0 : bytes.size() - taken;
    if (impl_->header_bytes + pending > impl_->limits.max_header_bytes) {
      error_ = HttpParseError{
          431, cat("the request's header is larger than ", impl_->limits.max_header_bytes, " bytes")};
      return taken;
    }
  }
  if (p.is_header_done() && !want_body) {
    p.request.keep_alive = p.keep_alive();
    // Its body would be taken for the next request.
    if (!p.chunked() && p.request.headers.contains("Transfer-Encoding")) {
      error_ = HttpParseError{
          501, "the Transfer-Encoding is not supported: send the body chunked or with a Content-Length"};
    }
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
  if (!n) return {413, cat("the body is larger than ", limit, ", the most this server takes")};
  const auto shown = static_cast<int64_t>(std::min<uint64_t>(*n, std::numeric_limits<int64_t>::max()));
  return {413, cat("the body has ", format_bytes(shown), ", this server takes at most ", limit)};
}

}  // namespace quire
