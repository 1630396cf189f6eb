// A server on a free port of this machine, over a fake engine.
#pragma once

#include <gtest/gtest.h>

#include <memory>

#include "server/server.h"
#include "support/eventually.h"
#include "unit/server/fake_engine.h"
#include "unit/server/raw_client.h"

namespace quire {

class ServerTest : public testing::Test {
 protected:
  ServerTest() {
    options.http.port = 0;
    options.http.num_threads = 2;
    options.log_requests = RequestLog::kNone;
  }
  void TearDown() override { server.reset(); }

  uint16_t start() {
    server = std::make_unique<Server>(engine, options);
    server->start();
    return server->port();
  }

  FakeEngine engine;
  ServerOptions options;
  std::unique_ptr<Server> server;
};

// The JSON of each "data:" line of a stream; the last line must be [DONE].
inline std::vector<Json> events(const std::string& stream, bool* done = nullptr) {
  std::vector<Json> result;
  bool end_seen = false;
  size_t at = 0;
  while (at < stream.size()) {
    const size_t end = stream.find("\n\n", at);
    const std::string event = stream.substr(at, end - at);
    at = end == std::string::npos ? stream.size() : end + 2;
    if (event == "data: [DONE]") {
      end_seen = true;
    } else if (event.starts_with("data: ")) {
      EXPECT_FALSE(end_seen);
      result.push_back(Json::parse(event.substr(6)));
    } else {
      EXPECT_TRUE(event.starts_with(":")) << event;
    }
  }
  if (done != nullptr) *done = end_seen;
  return result;
}

}  // namespace quire
