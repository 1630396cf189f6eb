#include "cli/bench/http_client.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>

#include "base/error.h"
#include "base/strings.h"

namespace quire::cli {
namespace {

constexpr size_t kMaxLine = size_t{64} << 10;
constexpr size_t kMaxEvent = size_t{16} << 20;

std::string trimmed(const std::string& text) {
  const size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

std::string system_message(int code) {
  std::array<char, 256> buffer{};
  return strerror_r(code, buffer.data(), buffer.size());  // the GNU variant, which may return a static string
}

bool parse_number(std::string_view text, int base, uint64_t& value) {
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  return code == std::errc() && end == text.data() + text.size() && !text.empty();
}

}  // namespace

Url parse_url(const std::string& text) {
  constexpr std::string_view kScheme = "http://";
  if (text.rfind("https://", 0) == 0) {
    throw Error(cat(text,
                    ": https is not spoken here; give the server's http address, or put a proxy that ends "
                    "TLS before it"));
  }
  if (text.rfind(kScheme, 0) != 0)
    throw Error(cat("'", text, "' is not a valid URL; use for example http://127.0.0.1:8000"));
  const size_t begin = kScheme.size();
  const size_t slash = std::min(text.find('/', begin), text.size());
  std::string place = text.substr(begin, slash - begin);
  Url url;
  url.path = text.substr(slash);
  while (!url.path.empty() && url.path.back() == '/') url.path.pop_back();
  url.port = "80";
  size_t colon = place.rfind(':');
  if (!place.empty() && place.front() == '[') {
    const size_t bracket = place.find(']');
    if (bracket == std::string::npos) throw Error(cat("'", text, "' is not a valid URL: missing ']'"));
    if (colon < bracket) colon = std::string::npos;
    url.host = place.substr(1, bracket - 1);
  } else {
    url.host = place.substr(0, colon);
  }
  if (colon != std::string::npos) url.port = place.substr(colon + 1);
  uint64_t port = 0;
  if (url.host.empty() || !parse_number(url.port, 10, port) || port == 0 || port > 65535) {
    throw Error(cat("'", text, "' is not a valid URL; use for example http://127.0.0.1:8000"));
  }
  const auto unprintable = [](unsigned char c) { return c <= 0x20 || c == 0x7F; };
  if (std::any_of(text.begin(), text.end(), unprintable))
    throw Error(cat("'", text, "' is not a valid URL: it contains spaces or control characters"));
  return url;
}

std::string request_text(const Url& url, std::string_view method, std::string_view endpoint,
                         const HttpHeaders& headers, std::string_view body) {
  const bool v6 = url.host.find(':') != std::string::npos;
  std::string out = cat(method, " ", url.path, endpoint, " HTTP/1.1\r\nHost: ", v6 ? "[" : "", url.host,
                        v6 ? "]" : "", ":", url.port, "\r\nUser-Agent: quire-bench\r\n");
  for (const auto& [name, value] : headers) out += cat(name, ": ", value, "\r\n");
  if (!body.empty()) out += cat("Content-Type: application/json\r\nContent-Length: ", body.size(), "\r\n");
  out += "\r\n";
  out += body;
  return out;
}

void ResponseParser::feed(std::string_view bytes, std::string& body) {
  while (!bytes.empty() && state_ != State::kDone) {
    begun_ = true;
    if (state_ == State::kUntilClose) {
      body += bytes;
      return;
    }
    if (state_ == State::kLength || state_ == State::kChunk) {
      const size_t count = static_cast<size_t>(std::min<uint64_t>(left_, bytes.size()));
      body += bytes.substr(0, count);
      bytes.remove_prefix(count);
      left_ -= count;
      if (left_ == 0) state_ = state_ == State::kChunk ? State::kChunkEnd : State::kDone;
      continue;
    }
    const size_t end = bytes.find('\n');
    line_ += bytes.substr(0, end);
    if (line_.size() > kMaxLine) throw Error("invalid response: a header line is too long");
    if (end == std::string_view::npos) return;
    bytes.remove_prefix(end + 1);
    if (!line_.empty() && line_.back() == '\r') line_.pop_back();
    take_line(std::exchange(line_, {}));
  }
}

void ResponseParser::take_line(const std::string& line) {
  switch (state_) {
    case State::kStatus:
      take_status(line);
      break;
    case State::kHeaders:
      if (line.empty()) {
        end_headers();
      } else {
        take_header(line);
      }
      break;
    case State::kChunkSize: {
      const std::string size = trimmed(line.substr(0, line.find(';')));
      if (!parse_number(size, 16, left_)) throw Error(cat("invalid response: chunk length '", size, "'"));
      state_ = left_ == 0 ? State::kTrailers : State::kChunk;
      break;
    }
    case State::kChunkEnd:
      if (!line.empty()) throw Error("invalid response: a chunk is longer than its stated length");
      state_ = State::kChunkSize;
      break;
    case State::kTrailers:
      if (line.empty()) state_ = State::kDone;
      break;
    default:
      break;
  }
}

void ResponseParser::take_status(const std::string& line) {
  uint64_t code = 0;
  if (line.rfind("HTTP/1.", 0) != 0 || line.size() < 12 ||
      !parse_number(std::string_view(line).substr(9, 3), 10, code)) {
    throw Error("invalid response: not HTTP/1.1");
  }
  status_ = static_cast<int>(code);
  keep_alive_ = line[7] != '0';
  state_ = State::kHeaders;
}

void ResponseParser::take_header(const std::string& line) {
  const size_t colon = line.find(':');
  if (colon == std::string::npos) throw Error("invalid response: a header has no colon");
  const std::string name = lowercase(line.substr(0, colon));
  const std::string value = trimmed(line.substr(colon + 1));
  if (name == "content-length") {
    if (!parse_number(value, 10, left_)) throw Error(cat("invalid response: Content-Length '", value, "'"));
    has_length_ = true;
  } else if (name == "transfer-encoding") {
    chunked_ = lowercase(value).find("chunked") != std::string::npos;
  } else if (name == "connection") {
    const std::string how = lowercase(value);
    if (how.find("close") != std::string::npos) keep_alive_ = false;
    if (how.find("keep-alive") != std::string::npos) keep_alive_ = true;
  }
}

void ResponseParser::end_headers() {
  if (status_ >= 100 && status_ < 200) {  // an interim response; the real one follows
    state_ = State::kStatus;
  } else if (status_ == 204 || status_ == 304) {
    state_ = State::kDone;
  } else if (chunked_) {
    state_ = State::kChunkSize;
  } else if (has_length_) {
    state_ = left_ == 0 ? State::kDone : State::kLength;
  } else {
    keep_alive_ = false;
    state_ = State::kUntilClose;
  }
}

void ResponseParser::finish() {
  keep_alive_ = false;
  if (state_ == State::kUntilClose) state_ = State::kDone;
  if (state_ != State::kDone) throw Error("the server closed the connection before the end of the response");
}

void SseParser::feed(std::string_view bytes, const std::function<void(const std::string& data)>& on_data) {
  for (const char c : bytes) {
    const bool pair = c == '\n' && after_return_;  // the second half of "\r\n"
    after_return_ = c == '\r';
    if (pair) continue;
    if (c == '\n' || c == '\r') {
      take_line(on_data);
    } else {
      line_ += c;
      if (line_.size() + data_.size() > kMaxEvent)
        throw Error("invalid response: an event of the stream is too long");
    }
  }
}

void SseParser::take_line(const std::function<void(const std::string& data)>& on_data) {
  const std::string line = std::exchange(line_, {});
  if (line.empty()) {
    const std::string data = std::exchange(data_, {});
    if (std::exchange(has_data_, false)) on_data(data);
    return;
  }
  if (line.rfind("data:", 0) != 0) return;  // comments, event names, ids
  const size_t begin = line.size() > 5 && line[5] == ' ' ? 6 : 5;
  if (has_data_) data_ += '\n';
  data_ += line.substr(begin);
  has_data_ = true;
}

Socket& Socket::operator=(Socket&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

Socket::~Socket() {
  if (fd_ >= 0) ::close(fd_);
}

Address::Address(const Url& url) : name_(cat(url.host, ":", url.port)) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int code = getaddrinfo(url.host.c_str(), url.port.c_str(), &hints, &found);
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, freeaddrinfo);
  if (code != 0) throw Error(cat(url.host, ": ", gai_strerror(code)));
  for (const addrinfo* a = found; a != nullptr; a = a->ai_next) {
    entries_.push_back({a->ai_family, std::string(reinterpret_cast<const char*>(a->ai_addr), a->ai_addrlen)});
  }
}

Socket Address::connect() const {
  int code = EADDRNOTAVAIL;
  for (const auto& entry : entries_) {
    Socket socket(::socket(entry.family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!socket) {
      code = errno;
      continue;
    }
    const int on = 1;
    setsockopt(socket.fd(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    const auto* address = reinterpret_cast<const sockaddr*>(entry.bytes.data());
    if (::connect(socket.fd(), address, static_cast<socklen_t>(entry.bytes.size())) == 0) return socket;
    code = errno;
    if (code != EINPROGRESS) continue;
    if (entries_.size() == 1) return socket;
    // "localhost" may resolve to ::1 and 127.0.0.1, so wait until this address accepts before trying the
    // next.
    pollfd wait{socket.fd(), POLLOUT, 0};
    socklen_t size = sizeof(code);
    if (poll(&wait, 1, 2000) == 1 && getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &code, &size) == 0 &&
        code == 0)
      return socket;
  }
  throw Error(cat(name_, ": cannot connect: ", system_message(code)));
}

HttpExchange::HttpExchange(Socket socket, bool reused, std::string_view request)
    : socket_(std::move(socket)), reused_(reused), request_(request) {}

short HttpExchange::wanted() const {
  return static_cast<short>(sent_ < request_.size() ? POLLIN | POLLOUT : POLLIN);
}

bool HttpExchange::send() {
  while (sent_ < request_.size()) {
    const ssize_t count =
        ::send(socket_.fd(), request_.data() + sent_, request_.size() - sent_, MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && (errno == EAGAIN || errno == ENOTCONN)) return true;
    if (count < 0) return false;
    sent_ += static_cast<size_t>(count);
  }
  return true;
}

void HttpExchange::advance(std::string& body) {
  const bool sent = send();
  const int send_error = sent ? 0 : errno;
  // A server may respond (413, 401) and close before it has read the whole request, so read the response even
  // if sending failed.
  std::array<char, 1 << 16> buffer;
  while (!response_.done()) {
    const ssize_t count = ::recv(socket_.fd(), buffer.data(), buffer.size(), 0);
    if (count > 0) {
      response_.feed({buffer.data(), static_cast<size_t>(count)}, body);
      continue;
    }
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && (errno == EAGAIN || errno == ENOTCONN) && sent) return;
    stale_ = reused_ && !response_.begun();
    if (stale_) return;
    // The error of send() ("connection refused") is more precise than that of the following recv().
    if (!sent && !response_.begun()) throw Error(cat("the connection failed: ", system_message(send_error)));
    if (count == 0) {
      response_.finish();
      return;
    }
    throw Error(cat("the connection broke: ", system_message(errno)));
  }
}

HttpResponse http_request(const Address& address, const std::string& request, double timeout_s) {
  HttpExchange exchange(address.connect(), false, request);
  HttpResponse response;
  while (!exchange.done()) {
    pollfd wait{exchange.fd(), exchange.wanted(), 0};
    const int ready = poll(&wait, 1, static_cast<int>(std::min(timeout_s * 1e3, 2e9)));
    if (ready < 0 && errno == EINTR) continue;
    if (ready == 0) throw Error(cat("no response within ", timeout_s, " s"));
    exchange.advance(response.body);
  }
  response.status = exchange.response().status();
  return response;
}

}  // namespace quire::cli
