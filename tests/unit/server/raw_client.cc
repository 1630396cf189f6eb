#include "unit/server/raw_client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <chrono>

#include "base/strings.h"
#include "support/eventually.h"

namespace quire {
namespace {

// False if nothing can be read after a time that only a hang takes.
bool readable(int fd) {
  pollfd p{fd, POLLIN, 0};
  constexpr auto kTimeout = std::chrono::milliseconds(test::kHang).count();
  return fd >= 0 && ::poll(&p, 1, static_cast<int>(kTimeout)) > 0;
}

}  // namespace

RawClient::RawClient(uint16_t port) : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) close();
}

RawClient::~RawClient() {
  close();
}

void RawClient::close() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

bool RawClient::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const auto n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

bool RawClient::fill() {
  const std::string more = some();
  buffer_ += more;
  return !more.empty();
}

std::string RawClient::some() {
  if (!readable(fd_)) return {};
  std::array<char, 65536> bytes;
  const auto n = ::recv(fd_, bytes.data(), bytes.size(), 0);
  return n > 0 ? std::string(bytes.data(), static_cast<size_t>(n)) : std::string();
}

bool RawClient::at_end() {
  while (true) {
    if (!readable(fd_)) return false;
    std::array<char, 65536> bytes;
    if (::recv(fd_, bytes.data(), bytes.size(), 0) <= 0) return true;
  }
}

RawResponse RawClient::response(bool head_only) {
  RawResponse r;
  size_t end = 0;
  while ((end = buffer_.find("\r\n\r\n")) == std::string::npos) {
    if (!fill()) return r;
  }
  const std::string head = buffer_.substr(0, end);
  buffer_.erase(0, end + 4);
  r.status = std::stoi(head.substr(9, 3));
  for (size_t at = head.find("\r\n"); at != std::string::npos;) {
    const size_t next = head.find("\r\n", at + 2);
    const std::string line = head.substr(at + 2, next == std::string::npos ? next : next - at - 2);
    std::string name = line.substr(0, line.find(':'));
    std::transform(name.begin(), name.end(), name.begin(),
                   [](char c) { return static_cast<char>(std::tolower(c)); });
    r.headers[name] = line.substr(std::min(line.size(), line.find(':') + 2));
    at = next;
  }
  if (head_only || r.status == 304 || r.status == 204 || r.status == 100) return r;
  if (r.headers.contains("content-length")) {
    const size_t n = std::stoul(r.headers["content-length"]);
    while (buffer_.size() < n && fill()) {
    }
    r.body = buffer_.substr(0, n);
    buffer_.erase(0, n);
  } else if (r.headers.contains("transfer-encoding")) {
    while (true) {
      while (buffer_.find("\r\n") == std::string::npos) {
        if (!fill()) return r;
      }
      const size_t n = std::stoul(buffer_, nullptr, 16);
      const size_t begin = buffer_.find("\r\n") + 2;
      while (buffer_.size() < begin + n + 2) {
        if (!fill()) return r;
      }
      r.body += buffer_.substr(begin, n);
      buffer_.erase(0, begin + n + 2);
      if (n == 0) break;
    }
  } else {
    while (fill()) {
    }
    r.body.swap(buffer_);
  }
  return r;
}

std::string post_text(std::string_view path, std::string_view body, std::string_view headers) {
  return cat("POST ", path,
             " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: ",
             body.size(), "\r\n", headers, "\r\n", body);
}

RawResponse RawClient::get(std::string_view path, std::string_view headers) {
  send(cat("GET ", path, " HTTP/1.1\r\nHost: localhost\r\n", headers, "\r\n"));
  return response();
}

RawResponse RawClient::post(std::string_view path, std::string_view body, std::string_view headers) {
  send(post_text(path, body, headers));
  return response();
}

}  // namespace quire
