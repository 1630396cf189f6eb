// A small HTTP server for tests of the benchmark client: one thread, one connection at a time, responses as
// raw bytes.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace quire::cli {

class TestServer {
 public:
  struct Answer {
    std::vector<std::string> pieces;  // sent one after the other, a millisecond apart
    bool keep_open = false;           // keep the connection open for the next request
  };
  // Receives the bytes of a request (header and body) and its number, starting at 0.
  using Handler = std::function<Answer(const std::string& request, int number)>;

  explicit TestServer(Handler handler) : handler_(std::move(handler)) {
    listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    if (bind(listener_, reinterpret_cast<sockaddr*>(&address), size) == 0 && listen(listener_, 64) == 0 &&
        getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) == 0) {
      port_ = ntohs(address.sin_port);
    }
    thread_ = std::thread([this] { run(); });
  }
  ~TestServer() {
    stop_ = true;
    thread_.join();
    for (auto& connection : connections_) close(connection.fd);
    close(listener_);
  }
  std::string base_url() const { return "http://127.0.0.1:" + std::to_string(port_); }
  int num_connections() const { return num_connections_; }

 private:
  struct Connection {
    int fd = -1;
    std::string input;
  };

  void run() {
    while (!stop_) {
      std::vector<pollfd> polls = {{listener_, POLLIN, 0}};
      for (const auto& connection : connections_) polls.push_back({connection.fd, POLLIN, 0});
      poll(polls.data(), polls.size(), 5);
      for (size_t i = connections_.size(); i-- > 0;) {
        if (polls[i + 1].revents == 0 || serve(connections_[i])) continue;
        close(connections_[i].fd);
        connections_.erase(connections_.begin() + static_cast<std::ptrdiff_t>(i));
      }
      if (polls[0].revents != 0) {
        connections_.push_back({accept(listener_, nullptr, nullptr), {}});
        ++num_connections_;
      }
    }
  }

  // Returns false if the connection is to be closed.
  bool serve(Connection& connection) {
    char buffer[4096];
    const ssize_t count = recv(connection.fd, buffer, sizeof(buffer), 0);
    if (count <= 0) return false;
    connection.input.append(buffer, static_cast<size_t>(count));
    const size_t end = connection.input.find("\r\n\r\n");
    if (end == std::string::npos) return true;
    const size_t length = connection.input.find("Content-Length: ");
    const size_t body = length < end ? std::stoul(connection.input.substr(length + 16)) : 0;
    if (connection.input.size() < end + 4 + body) return true;
    const Answer answer = handler_(connection.input, num_requests_++);
    connection.input.clear();
    for (const auto& piece : answer.pieces) {
      send(connection.fd, piece.data(), piece.size(), MSG_NOSIGNAL);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return answer.keep_open;
  }

  Handler handler_;
  int listener_ = -1;
  int port_ = 0;
  int num_requests_ = 0;
  std::vector<Connection> connections_;
  std::atomic<int> num_connections_ = 0;
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

}  // namespace quire::cli
