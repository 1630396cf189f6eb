// Constraints that take long to compile, next to other requests. Compilations wait for their cancellation, so
// that a request which waits for one of them never ends.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/strings.h"
#include "unit/server/server_fixture.h"

namespace quire {
namespace {

class CompileLanesTest : public ServerTest {
 protected:
  CompileLanesTest() {
    engine.compiles = true;
    engine.before_compile = [this](const StructuredOutputs& spec, const CompileOptions& how) {
      compile(spec.text, how);
    };
  }

  // "cached" has been compiled before, "quick" takes little, "long" takes more, and everything else holds the
  // first thread that compiles it.
  void compile(const std::string& text, const CompileOptions& how) {
    if (text == "cached") return;
    if (how.effort == CompileEffort::kCached) throw NeedsMoreEffort();
    if (text == "quick") return;
    if (text == "long" && how.effort == CompileEffort::kQuick) throw NeedsMoreEffort();
    ++num_held;
    while (!how.yield_point.cancelled()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    --num_held;
    how.yield_point.check();
  }

  static std::string request(const std::string& regex) {
    return cat(R"({"prompt":"ab","max_tokens":2,"guided_regex":")", regex, R"("})");
  }
  // Sends a request whose response is not waited for.
  void send(const std::string& regex) {
    clients.push_back(std::make_unique<RawClient>(server->port()));
    clients.back()->send(post_text("/v1/completions", request(regex)));
  }
  int status_of(const std::string& regex) const {
    return RawClient(server->port()).post("/v1/completions", request(regex)).status;
  }
  bool eventually_held(int count) const {
    return test::eventually([&] { return num_held.load() == count; });
  }

  std::atomic<int> num_held{0};
  std::vector<std::unique_ptr<RawClient>> clients;
};

TEST_F(CompileLanesTest, DelayNoOtherRequests) {
  start();
  send("long");
  ASSERT_TRUE(eventually_held(1));
  for (int i = 0; i < 8; ++i) send(i % 2 == 0 ? "held" : "long");
  ASSERT_TRUE(eventually_held(2)) << "one thread for those that are quick, one for the others";
  RawClient client(server->port());
  EXPECT_EQ(client.get("/health").status, 200);
  EXPECT_EQ(client.post("/tokenize", R"({"prompt":"ab"})").status, 200);
  EXPECT_EQ(client.post("/v1/completions", R"({"prompt":"ab","max_tokens":2})").status, 200);
  EXPECT_EQ(
      client.post("/v1/chat/completions", R"({"messages":[{"role":"user","content":"a"}],"max_tokens":2})")
          .status,
      200);
  EXPECT_EQ(status_of("cached"), 200);
  EXPECT_EQ(num_held.load(), 2);
}

TEST_F(CompileLanesTest, LetConstraintsPassThatTakeLittle) {
  start();
  send("long");
  send("long");
  ASSERT_TRUE(eventually_held(1));
  EXPECT_EQ(status_of("quick"), 200);
  EXPECT_EQ(num_held.load(), 1);
}

TEST_F(CompileLanesTest, StopWhenTheClientDisconnects) {
  start();
  send("held");
  ASSERT_TRUE(eventually_held(1));
  clients.clear();
  EXPECT_TRUE(eventually_held(0));
  EXPECT_EQ(status_of("quick"), 200);
}

TEST_F(CompileLanesTest, StopWhenTheServerShutsDown) {
  start();
  send("held");
  ASSERT_TRUE(eventually_held(1));
  server->shutdown();
  EXPECT_EQ(clients[0]->response().status, 503);
}

}  // namespace
}  // namespace quire
