#include "hub/http_client.h"

#include <algorithm>
#include <array>
#include <boost/asio/connect.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/host_name_verification.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/ssl/ssl_stream.hpp>
#include <filesystem>
#include <functional>
#include <mutex>

#include "base/base64.h"
#include "base/strings.h"

namespace quire::hub {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using boost::system::error_code;
using tcp = asio::ip::tcp;
using TlsStream = beast::ssl_stream<beast::tcp_stream>;
using ResponseParser = http::response_parser<http::buffer_body>;

constexpr uint32_t kMaxHeaderBytes = 64 << 10;
constexpr size_t kBodyBytes = 256 << 10;
constexpr const char* kUserAgent = "quire (https; ranges)";

// Certificate files of distributions, besides the one that OpenSSL was configured with.
constexpr std::array<const char*, 5> kCertificateFiles = {
    "/etc/ssl/certs/ca-certificates.crt",  // Debian, Ubuntu, Arch
    "/etc/pki/tls/certs/ca-bundle.crt",    // Fedora, RHEL
    "/etc/ssl/ca-bundle.pem",              // openSUSE
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/cert.pem",  // Alpine
};

std::shared_ptr<asio::ssl::context> make_tls_context(const std::string& file, const std::string& directory) {
  auto context = std::make_shared<asio::ssl::context>(asio::ssl::context::tls_client);
  context->set_options(asio::ssl::context::default_workarounds | asio::ssl::context::no_tlsv1 |
                       asio::ssl::context::no_tlsv1_1);
  context->set_verify_mode(asio::ssl::verify_peer);
  error_code error;
  if (!file.empty()) {
    context->load_verify_file(file, error);
    if (error)
      throw HttpError(cat("SSL_CERT_FILE: cannot read certificates from ", file, ": ", error.message()),
                      false);
  }
  if (!directory.empty()) context->add_verify_path(directory, error);
  if (!file.empty() || !directory.empty()) return context;
  context->set_default_verify_paths(error);
  for (const char* path : kCertificateFiles) {
    if (!std::filesystem::exists(path, error)) continue;
    context->load_verify_file(path, error);
    break;
  }
  return context;
}

bool is_certificate_error(const error_code& error) {
  return error.category() == asio::error::get_ssl_category() &&
         ERR_GET_REASON(static_cast<unsigned long>(error.value())) == SSL_R_CERTIFICATE_VERIFY_FAILED;
}

}  // namespace

struct HttpTransport::Impl {
  explicit Impl(const Settings& settings)
      : proxies(settings.proxies),
        timeout(std::chrono::duration_cast<std::chrono::milliseconds>(
            std::chrono::duration<double>(settings.timeout))),
        certificates(settings.certificates),
        certificate_dir(settings.certificate_dir) {}

  // Certificates are read when the first https connection is opened.
  std::shared_ptr<asio::ssl::context> tls() {
    const std::lock_guard lock(mutex);
    if (!context) context = make_tls_context(certificates, certificate_dir);
    return context;
  }

  ProxySettings proxies;
  std::chrono::milliseconds timeout;
  std::string certificates;
  std::string certificate_dir;
  std::mutex mutex;
  std::shared_ptr<asio::ssl::context> context;
};

namespace {

// The handler of every asynchronous operation. One type for all, so that each operation is compiled once per
// kind of stream.
struct StoreResult {
  error_code* result;
  void operator()(error_code error, const auto&...) const { *result = error; }
};

// One connection to a server, directly or through a proxy.
class Connection {
 public:
  Connection(HttpTransport::Impl& transport, const Url& url) : transport_(transport), url_(url) { connect(); }

  const Url& url() const { return url_; }
  bool used() const { return used_; }

  // Sends a request and reads the head of its response.
  void exchange(const http::request<http::empty_body>& request, ResponseParser& parser) {
    const bool repeated = used_;
    used_ = true;
    await(
        [&](StoreResult handler) {
          visit([&](auto& stream) { http::async_write(stream, request, handler); });
        },
        repeated ? "the server closed the connection" : "cannot send the request");
    await(
        [&](StoreResult handler) {
          visit([&](auto& stream) { http::async_read_header(stream, buffer_, parser, handler); });
        },
        "no response");
  }
  // Reads a piece of the body, at most what fits into the parser's buffer.
  void read_some(ResponseParser& parser) {
    error_code error = run([&](StoreResult handler) {
      visit([&](auto& stream) { http::async_read_some(stream, buffer_, parser, handler); });
    });
    if (error == http::error::need_buffer) return;
    if (error) fail("the connection was interrupted", error);
  }
  // Whether requests to this proxy carry the whole URL.
  bool absolute_targets() const { return proxied_ && !url_.secure(); }
  const std::string& proxy_authorization() const { return proxy_authorization_; }

 private:
  using Start = std::function<void(StoreResult)>;

  error_code run(const Start& start) {
    error_code result = asio::error::operation_aborted;
    lowest().expires_after(transport_.timeout);
    start({&result});
    context_.restart();
    context_.run();
    return result;
  }
  void await(const Start& start, std::string_view what) {
    if (const error_code error = run(start)) fail(what, error);
  }
  template <typename Use>
  void visit(Use use) {
    if (tls_) {
      use(*tls_);
    } else {
      use(*plain_);
    }
  }
  beast::tcp_stream& lowest() { return tls_ ? tls_->next_layer() : *plain_; }

  [[noreturn]] void fail(std::string_view what, const error_code& error) const {
    if (is_certificate_error(error)) {
      throw HttpError(cat(url_.origin(), ": the certificate is not trusted: ", error.message(),
                          "; if the network inspects https, set SSL_CERT_FILE to its certificate"),
                      false);
    }
    const std::string reason =
        error == beast::error::timeout
            ? cat("no data for ", fixed(std::chrono::duration<double>(transport_.timeout).count(), 0), " s")
            : error.message();
    throw HttpError(cat(url_.origin(), ": ", what, ": ", reason), true);
  }

  void connect() {
    plain_.emplace(context_);
    Url server = url_;
    const std::string proxy = proxy_of(url_, transport_.proxies);
    if (!proxy.empty()) {
      const auto parsed = parse_url(proxy.find("://") == std::string::npos ? "http://" + proxy : proxy);
      if (!parsed || parsed->secure())
        throw HttpError(cat("the proxy '", proxy.substr(proxy.rfind('@') + 1),
                            "' is not supported; use http://HOST:PORT, or NO_PROXY for a direct connection"),
                        false);
      server = *parsed;
      proxied_ = true;
      if (!server.userinfo.empty()) proxy_authorization_ = "Basic " + base64(percent_decode(server.userinfo));
    }
    tcp::resolver resolver(context_);
    error_code error;
    const auto addresses = resolver.resolve(server.host, server.port, error);
    if (error)
      throw HttpError(
          cat(proxied_ ? "the proxy " : "", server.host, ": cannot resolve the host name: ", error.message()),
          true);
    await([&](StoreResult handler) { plain_->async_connect(addresses, handler); },
          proxied_ ? "cannot connect to the proxy" : "cannot connect");
    plain_->socket().set_option(tcp::no_delay(true), error);
    if (!url_.secure()) return;
    if (proxied_) open_tunnel();
    start_tls();
  }

  void open_tunnel() {
    http::request<http::empty_body> request(http::verb::connect, url_.host + ":" + url_.port, 11);
    request.set(http::field::host, url_.host + ":" + url_.port);
    request.set(http::field::user_agent, kUserAgent);
    if (!proxy_authorization_.empty()) request.set(http::field::proxy_authorization, proxy_authorization_);
    await([&](StoreResult handler) { http::async_write(*plain_, request, handler); },
          "cannot connect through the proxy");
    ResponseParser parser;
    parser.skip(true);
    parser.header_limit(kMaxHeaderBytes);
    await([&](StoreResult handler) { http::async_read_header(*plain_, buffer_, parser, handler); },
          "cannot connect through the proxy");
    const unsigned status = parser.get().result_int();
    if (status != 200)
      throw HttpError(cat(url_.origin(), ": the proxy refused the connection with status ", status),
                      status >= 500);
    buffer_.clear();
  }

  void start_tls() {
    tls_context_ = transport_.tls();
    tls_.emplace(std::move(*plain_), *tls_context_);
    plain_.reset();
    error_code not_an_address;
    asio::ip::make_address(url_.host, not_an_address);
    if (not_an_address) SSL_set_tlsext_host_name(tls_->native_handle(), url_.host.c_str());
    tls_->set_verify_callback(asio::ssl::host_name_verification(url_.host));
    await([&](StoreResult handler) { tls_->async_handshake(asio::ssl::stream_base::client, handler); },
          "cannot open a TLS connection");
  }

  HttpTransport::Impl& transport_;
  Url url_;
  asio::io_context context_{1};
  std::shared_ptr<asio::ssl::context> tls_context_;
  std::optional<beast::tcp_stream> plain_;
  std::optional<TlsStream> tls_;
  beast::flat_buffer buffer_{kMaxHeaderBytes + kBodyBytes};
  bool proxied_ = false;
  bool used_ = false;
  std::string proxy_authorization_;
};

HttpHead head_of(ResponseParser& parser) {
  HttpHead head;
  head.status = static_cast<int>(parser.get().result_int());
  for (const auto& field : parser.get()) {
    head.headers.emplace(lowercase(std::string_view(field.name_string())), std::string(field.value()));
  }
  if (const auto length = parser.content_length()) head.content_length = *length;
  return head;
}

}  // namespace

std::string HttpHead::header(std::string_view name) const {
  const auto it = headers.find(name);
  return it == headers.end() ? std::string() : it->second;
}

HttpTransport::HttpTransport(const Settings& settings) : impl_(std::make_unique<Impl>(settings)) {}
HttpTransport::~HttpTransport() = default;

struct HttpClient::Impl {
  std::shared_ptr<const HttpTransport> transport;
  std::map<std::string, std::unique_ptr<Connection>> connections;  // by origin

  // The open connection to the server of a URL, or a new one.
  Connection& connection_to(const Url& url) {
    auto& connection = connections[url.origin()];
    if (!connection) {
      try {
        connection = std::make_unique<Connection>(transport->impl(), url);
      } catch (...) {
        connections.erase(url.origin());
        throw;
      }
    }
    return *connection;
  }

  // Sends the request and reads the head. A connection that the server has closed meanwhile is replaced.
  Connection& exchange(http::verb verb, const Url& url, const HttpHeaders& headers,
                       std::optional<ResponseParser>& parser) {
    while (true) {
      Connection& connection = connection_to(url);
      const bool reused = connection.used();
      http::request<http::empty_body> request(verb, connection.absolute_targets() ? url.text() : url.target,
                                              11);
      request.set(http::field::host, url.authority());
      request.set(http::field::user_agent, kUserAgent);
      request.set(http::field::accept_encoding, "identity");
      if (connection.absolute_targets() && !connection.proxy_authorization().empty())
        request.set(http::field::proxy_authorization, connection.proxy_authorization());
      for (const auto& [name, value] : headers) request.set(name, value);
      parser.emplace();
      parser->header_limit(kMaxHeaderBytes);
      parser->body_limit(boost::none);
      if (verb == http::verb::head) parser->skip(true);
      try {
        connection.exchange(request, *parser);
        return connection;
      } catch (const HttpError& error) {
        connections.erase(url.origin());
        if (!reused || !error.can_retry) throw;
      }
    }
  }
};

HttpClient::HttpClient(std::shared_ptr<const HttpTransport> transport) : impl_(std::make_unique<Impl>()) {
  impl_->transport = std::move(transport);
}
HttpClient::~HttpClient() = default;

HttpHead HttpClient::head(const Url& url, const HttpHeaders& headers) {
  std::optional<ResponseParser> parser;
  impl_->exchange(http::verb::head, url, headers, parser);
  HttpHead head = head_of(*parser);
  if (!parser->get().keep_alive()) impl_->connections.erase(url.origin());
  return head;
}

HttpHead HttpClient::get(const Url& url, const HttpHeaders& headers, const AcceptHead& accept,
                         const BodySink& body) {
  std::optional<ResponseParser> parser;
  Connection& connection = impl_->exchange(http::verb::get, url, headers, parser);
  HttpHead head = head_of(*parser);
  try {
    if (!accept(head)) {
      impl_->connections.erase(url.origin());
      return head;
    }
    std::vector<char> buffer(kBodyBytes);
    while (!parser->is_done()) {
      auto& place = parser->get().body();
      place.data = buffer.data();
      place.size = buffer.size();
      connection.read_some(*parser);
      body({buffer.data(), buffer.size() - place.size});
    }
  } catch (...) {
    impl_->connections.erase(url.origin());
    throw;
  }
  if (!parser->get().keep_alive()) impl_->connections.erase(url.origin());
  return head;
}

HttpClient::Response HttpClient::get(const Url& url, const HttpHeaders& headers, size_t limit) {
  Response response;
  response.head = get(
      url, headers, [](const HttpHead&) { return true; },
      [&](std::string_view piece) {
        if (response.body.size() + piece.size() > limit)
          throw HttpError(
              cat(url.origin(), ": the response is longer than ", format_bytes(static_cast<int64_t>(limit))),
              false);
        response.body += piece;
      });
  return response;
}

}  // namespace quire::hub
