// A client that sends any bytes and understands just enough HTTP to read the answers.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace quire {

struct RawResponse {
  int status = 0;                              // 0: the connection ended, or nothing came in time
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;                            // chunks put together

  nlohmann::ordered_json json() const { return nlohmann::ordered_json::parse(body); }
};

class RawClient {
 public:
  explicit RawClient(uint16_t port);
  ~RawClient();
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  bool send(std::string_view bytes);  // false when the server has closed
  RawResponse response(bool head_only = false);
  std::string some(int timeout_ms = 5000);  // what has arrived, at least a byte; empty at the end
  bool at_end(
      int timeout_ms = 5000);  // the server closes, after at most so long; what came before is dropped
  void close();

  // A whole request with its answer, on this connection.
  RawResponse get(std::string_view path, std::string_view headers = "");
  RawResponse post(std::string_view path, std::string_view body, std::string_view headers = "");

 private:
  bool fill();

  int fd_ = -1;
  std::string buffer_;
};

std::string post_text(std::string_view path, std::string_view body, std::string_view headers = "");

}  // namespace quire
