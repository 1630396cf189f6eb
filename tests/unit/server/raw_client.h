// A client that sends any bytes and parses just enough HTTP to read responses.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace quire {

struct RawResponse {
  int status = 0;                              // 0 = the connection ended or timed out
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;  // concatenated chunks, in part if the connection ended or timed out

  nlohmann::ordered_json json() const { return nlohmann::ordered_json::parse(body); }
};

class RawClient {
 public:
  explicit RawClient(uint16_t port);
  ~RawClient();
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  bool send(std::string_view bytes);  // false if the server has closed the connection
  RawResponse response(bool head_only = false);
  std::string some();  // the bytes that have arrived, at least one; empty at the end
  bool at_end();       // waits for the server to close; discards data before that
  void close();

  // Sends a request and returns its response, on this connection.
  RawResponse get(std::string_view path, std::string_view headers = "");
  RawResponse post(std::string_view path, std::string_view body, std::string_view headers = "");

 private:
  bool fill();

  int fd_ = -1;
  std::string buffer_;
};

std::string post_text(std::string_view path, std::string_view body, std::string_view headers = "");

}  // namespace quire
