// The HTTP layer over real sockets: order, limits, timeouts, and faulty clients.
#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "base/strings.h"
#include "unit/server/server_fixture.h"

namespace quire {
namespace {

using HttpServerTest = ServerTest;

TEST(BoundSocket, ReservesAnAddressForAServer) {
  HttpServerOptions options;
  options.port = 0;
  options.socket = std::make_shared<BoundSocket>("127.0.0.1", 0);
  HttpServer server(options, {});
  server.start();
  EXPECT_NE(server.port(), 0);
  EXPECT_TRUE(server.is_loopback());
  EXPECT_EQ(options.socket->release(), -1) << "the server owns it";
  EXPECT_THROW(BoundSocket("127.0.0.1", server.port()), Error);
  EXPECT_THROW(BoundSocket("256.0.0.1", 0), Error);
}

TEST_F(HttpServerTest, RespondsToSeveralRequestsOnOneConnection) {
  RawClient client(start());
  for (int i = 0; i < 3; ++i) EXPECT_EQ(client.get("/health").status, 200);
}

TEST_F(HttpServerTest, RespondsToPipelinedRequestsInOrder) {
  RawClient client(start());
  const std::string version = "GET /version HTTP/1.1\r\nHost: localhost\r\n\r\n";
  client.send(version + post_text("/v1/completions", R"({"prompt":"ab","max_tokens":2})") +
              "GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n" + version);
  EXPECT_TRUE(client.response().json().contains("version"));
  EXPECT_EQ(client.response().json()["choices"][0]["text"], "ba");
  EXPECT_EQ(client.response().status, 404);
  EXPECT_TRUE(client.response().json().contains("version"));
}

TEST_F(HttpServerTest, ClosesTheConnectionOnRequest) {
  RawClient client(start());
  const RawResponse r = client.get("/health", "Connection: close\r\n");
  EXPECT_EQ(r.status, 200);
  EXPECT_EQ(r.headers.at("connection"), "close");
  EXPECT_TRUE(client.at_end());
}

TEST_F(HttpServerTest, SupportsHttp10) {
  const uint16_t port = start();
  RawClient client(port);
  client.send("GET /version HTTP/1.0\r\n\r\n");
  EXPECT_EQ(client.response().status, 200);
  EXPECT_TRUE(client.at_end());
  RawClient streaming(port);
  const std::string body = R"({"prompt":"abc","max_tokens":3,"stream":true})";
  streaming.send(cat("POST /v1/completions HTTP/1.0\r\nContent-Length: ", body.size(), "\r\n\r\n", body));
  const RawResponse r = streaming.response();
  EXPECT_FALSE(r.headers.contains("transfer-encoding"));
  EXPECT_TRUE(r.body.ends_with("data: [DONE]\n\n"));
}

TEST_F(HttpServerTest, RespondsToHeadWithoutABody) {
  RawClient client(start());
  client.send("HEAD /version HTTP/1.1\r\nHost: localhost\r\n\r\n");
  const RawResponse r = client.response(true);
  EXPECT_EQ(r.status, 200);
  EXPECT_NE(r.headers.at("content-length"), "0");
  EXPECT_EQ(client.get("/health").status, 200);
}

TEST_F(HttpServerTest, Sends100ContinueOnRequest) {
  RawClient client(start());
  const std::string body = R"({"prompt":"ab","max_tokens":1})";
  client.send(
      cat("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: ",
          body.size(), "\r\n\r\n"));
  EXPECT_EQ(client.response().status, 100);
  client.send(body);
  EXPECT_EQ(client.response().status, 200);
}

TEST_F(HttpServerTest, RejectsALargeBodyWithoutReadingIt) {
  options.http.limits.max_body_bytes = 1000;
  RawClient client(start());
  client.send(
      "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: "
      "100000000\r\n\r\n");
  const RawResponse r = client.response();
  EXPECT_EQ(r.status, 413);
  EXPECT_EQ(r.json()["error"]["type"], "invalid_request_error");
  EXPECT_TRUE(client.at_end());
}

TEST_F(HttpServerTest, RespondsToALargeBodyWhileTheClientKeepsSending) {
  options.http.limits.max_body_bytes = 1000;
  RawClient client(start());
  client.send("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 20000000\r\n\r\n");
  const std::string block(1 << 20, 'x');
  for (int i = 0; i < 19; ++i) ASSERT_TRUE(client.send(block)) << i;
  EXPECT_EQ(client.response().status, 413);
}

TEST_F(HttpServerTest, RejectsAHugeHeader) {
  RawClient client(start());
  client.send("GET /health HTTP/1.1\r\nHost: localhost\r\nX-Long: " + std::string(100000, 'x') + "\r\n\r\n");
  EXPECT_EQ(client.response().status, 431);
  EXPECT_TRUE(client.at_end());
}

TEST_F(HttpServerTest, RespondsToInvalidBytesWithAnErrorAndServesTheNextClient) {
  const uint16_t port = start();
  for (const std::string& garbage : {std::string("\x16\x03\x01garbage\r\n\r\n"), std::string("GET\r\n\r\n"),
                                     std::string("GET / HTTP/9.9\r\n\r\n"), std::string(8, '\0')}) {
    RawClient client(port);
    client.send(garbage);
    const RawResponse r = client.response();
    EXPECT_GE(r.status, 400);
    EXPECT_TRUE(r.json().contains("error"));
    EXPECT_TRUE(client.at_end());
  }
  RawClient client(port);
  EXPECT_EQ(client.get("/health").status, 200);
}

TEST_F(HttpServerTest, TimesOutOnASlowHeader) {
  options.http.header_timeout_s = 0.3;
  RawClient client(start());
  client.send("GET /health HTTP/1.1\r\nHost: localhost\r\nX: ");
  // A server that starts its timer again at each byte accepts them all.
  EXPECT_TRUE(test::eventually([&] { return !client.send("y"); }));
  EXPECT_EQ(client.response().status, 408);
  EXPECT_TRUE(client.at_end());
}

TEST_F(HttpServerTest, TimesOutOnABodyThatStops) {
  options.http.body_timeout_s = 0.2;
  RawClient client(start());
  client.send("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{\"prompt\":");
  EXPECT_EQ(client.response().status, 408);
  EXPECT_TRUE(client.at_end());
}

TEST_F(HttpServerTest, ServesASlowBody) {
  const std::string body = R"({"prompt":"ab","max_tokens":2})";
  int status = 0;
  // A busy machine may send a byte too late. The longer timeouts are for that.
  for (const double timeout_s : {0.3, 3.0, 30.0}) {
    options.http.body_timeout_s = timeout_s;
    RawClient client(start());
    client.send(
        cat("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: ", body.size(), "\r\n\r\n"));
    // In total, longer than the timeout.
    for (const char c : body) {
      client.send(std::string_view(&c, 1));
      std::this_thread::sleep_for(std::chrono::duration<double>(timeout_s / 20));
    }
    status = client.response().status;
    if (status == 200) break;
  }
  EXPECT_EQ(status, 200);
}

TEST_F(HttpServerTest, ClosesAnIdleConnection) {
  options.http.idle_timeout_s = 0.2;
  const uint16_t port = start();
  EXPECT_TRUE(RawClient(port).at_end());
  // On a busy machine, the connection may end before the request arrives.
  EXPECT_TRUE(test::eventually([&] {
    RawClient client(port);
    return client.get("/health").status == 200 && client.at_end();
  }));
}

TEST_F(HttpServerTest, IgnoresAnIncompleteRequest) {
  const uint16_t port = start();
  {
    RawClient header(port);
    header.send("POST /v1/completions HT");
    RawClient body(port);
    body.send("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{\"prompt\":");
  }
  RawClient client(port);
  EXPECT_EQ(client.get("/health").status, 200);
}

TEST_F(HttpServerTest, LimitsTheTotalSizeOfBodies) {
  options.http.max_total_body_bytes = 1 << 20;
  const uint16_t port = start();
  RawClient large(port);
  large.send("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3000000\r\n\r\n");
  large.send(std::string(2000000, ' '));
  EXPECT_EQ(large.response().status, 503);
  RawClient client(port);
  EXPECT_EQ(client.post("/v1/completions", R"({"prompt":"ab","max_tokens":2})").status, 200);
}

TEST_F(HttpServerTest, ReturnsErrorObjectsForUnknownPathsAndMethods) {
  RawClient client(start());
  EXPECT_EQ(client.get("/v2/x").status, 404);
  const RawResponse wrong = client.get("/v1/completions");
  EXPECT_EQ(wrong.status, 405);
  EXPECT_EQ(wrong.headers.at("allow"), "POST, OPTIONS");
  EXPECT_EQ(wrong.json()["error"]["code"], "method_not_allowed");
}

TEST_F(HttpServerTest, SendsNoCorsHeadersByDefault) {
  RawClient client(start());
  const RawResponse health = client.get("/health");
  EXPECT_EQ(health.status, 200);
  EXPECT_FALSE(health.headers.contains("access-control-allow-origin"));
}

TEST_F(HttpServerTest, RejectsOtherOriginsAndHosts) {
  RawClient client(start());
  EXPECT_EQ(client.get("/health", "Origin: https://page.example\r\n").status, 403);
  EXPECT_EQ(client.get("/v1/models", "Origin: null\r\n").status, 403);
  client.send("GET /v1/models HTTP/1.1\r\nHost: page.example\r\nOrigin: http://page.example\r\n\r\n");
  EXPECT_EQ(client.response().status, 403);
}

TEST_F(HttpServerTest, AllowedOriginsGetCorsHeadersAndPreflightsNeedNoKey) {
  options.access.api_keys = {"secret"};
  options.access.allowed_origins = {"http://page"};
  RawClient client(start());
  client.send(
      "OPTIONS /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nOrigin: "
      "http://page\r\nAccess-Control-Request-Method: POST\r\n"
      "Access-Control-Request-Headers: authorization\r\n\r\n");
  const RawResponse preflight = client.response();
  EXPECT_EQ(preflight.status, 204);
  EXPECT_EQ(preflight.headers.at("access-control-allow-origin"), "http://page");
  EXPECT_EQ(preflight.headers.at("access-control-allow-headers"), "authorization");
  const RawResponse health = client.get("/health", "Origin: http://page\r\n");
  EXPECT_EQ(health.headers.at("access-control-allow-origin"), "http://page");
  EXPECT_EQ(client.get("/health", "Origin: http://other\r\n").status, 403);
}

TEST_F(HttpServerTest, RejectsBodiesThatAreNotJson) {
  RawClient client(start());
  const auto post = [&](std::string_view type) {
    RawClient one(server->port());
    one.send(cat("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n", type,
                 "Content-Length: 29\r\n\r\n{\"prompt\":\"a\",\"max_tokens\":1}"));
    return one.response().status;
  };
  EXPECT_EQ(post("Content-Type: text/plain\r\n"), 415);
  EXPECT_EQ(post("Content-Type: application/x-www-form-urlencoded\r\n"), 415);
  EXPECT_EQ(post("Content-Type: \r\n"), 415);
  EXPECT_EQ(post("Content-Type: Application/JSON ; charset=utf-8\r\n"), 200);
  EXPECT_EQ(post(""), 200);
  EXPECT_EQ(post("Content-Encoding: gzip\r\n"), 415);
}

TEST_F(HttpServerTest, RejectsEmptyApiKeys) {
  options.access.api_keys = {"secret", ""};
  EXPECT_THROW(Server(engine, options), Error);
}

TEST_F(HttpServerTest, ApiKeysHaveTheirOwnCacheSalts) {
  options.access.api_keys = {"first", "second"};
  RawClient client(start());
  const auto salt = [&](std::string_view key, std::string_view own) {
    const std::string body = cat(R"({"prompt":"a","max_tokens":1)", own, "}");
    EXPECT_EQ(client.post("/v1/completions", body, cat("X-Api-Key: ", key, "\r\n")).status, 200);
    return engine.last_request().cache_salt;
  };
  EXPECT_NE(salt("first", ""), "");
  EXPECT_EQ(salt("first", ""), salt("first", ""));
  EXPECT_NE(salt("first", ""), salt("second", ""));
  EXPECT_NE(salt("first", R"(,"cache_salt":"x")"), salt("second", R"(,"cache_salt":"x")"));
}

TEST_F(HttpServerTest, ApiKeysCanShareThePrefixCache) {
  options.access.api_keys = {"first"};
  options.share_prefix_cache = true;
  RawClient client(start());
  EXPECT_EQ(client.post("/v1/completions", R"({"prompt":"a","max_tokens":1})", "X-Api-Key: first\r\n").status,
            200);
  EXPECT_EQ(engine.last_request().cache_salt, "");
}

TEST_F(HttpServerTest, ServesOtherRequestsWhileTextIsTokenized) {
  engine.tokenizer_blocked = true;
  const uint16_t port = start();
  std::vector<std::unique_ptr<RawClient>> blocked;
  for (int i = 0; i < 8; ++i) {
    blocked.push_back(std::make_unique<RawClient>(port));
    blocked.back()->send(
        "POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: 14\r\n\r\n{\"prompt\":\"a\"}");
  }
  ASSERT_TRUE(test::eventually([&] { return engine.num_encoding.load() > 0; }));
  EXPECT_EQ(RawClient(port).get("/health").status, 200);
  EXPECT_EQ(RawClient(port).get("/metrics").status, 200);
}

TEST_F(HttpServerTest, CancelsTokenizationWhenTheClientDisconnects) {
  engine.tokenizer_blocked = true;
  {
    RawClient client(start());
    client.send("POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: 14\r\n\r\n{\"prompt\":\"a\"}");
    ASSERT_TRUE(test::eventually([&] { return engine.num_encoding.load() == 1; }));
  }
  EXPECT_TRUE(test::eventually([&] { return engine.num_encoding.load() == 0; }));
}

TEST_F(HttpServerTest, CancelsTokenizationWhenTheServerShutsDown) {
  engine.tokenizer_blocked = true;
  RawClient client(start());
  client.send(
      "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 14\r\n\r\n{\"prompt\":\"a\"}");
  ASSERT_TRUE(test::eventually([&] { return engine.num_encoding.load() == 1; }));
  server->shutdown();
  EXPECT_EQ(client.response().status, 503);
}

TEST_F(HttpServerTest, DestructionWaitsForTokenization) {
  engine.tokenizer_blocked = true;
  engine.cancel_time = std::chrono::milliseconds(100);
  RawClient client(start());
  client.send("POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: 14\r\n\r\n{\"prompt\":\"a\"}");
  ASSERT_TRUE(test::eventually([&] { return engine.num_encoding.load() == 1; }));
  server.reset();
  EXPECT_EQ(engine.num_encoding.load(), 0);
}

// A callable whose copy throws, as std::function does when memory runs out.
struct WorkWithoutMemory {
  WorkWithoutMemory() = default;
  WorkWithoutMemory(const WorkWithoutMemory&) { throw std::bad_alloc(); }
  void operator()() const {}
};

TEST(HttpServer, RespondsWith500ToWorkThatCannotBePosted) {
  HttpApp app;
  app.error = [](int status, const std::string&) {
    HttpResponse response;
    response.status = status;
    return response;
  };
  app.handle = [](HttpRequest& request, const std::shared_ptr<ResponseWriter>& writer) {
    if (request.path == "/failure") return writer->post_failure();
    writer->post(WorkWithoutMemory());
  };
  HttpServerOptions options;
  options.port = 0;
  HttpServer http(options, std::move(app));
  http.start();
  EXPECT_EQ(RawClient(http.port()).get("/failure").status, 500);
  EXPECT_EQ(RawClient(http.port()).get("/work").status, 500);
}

TEST_F(HttpServerTest, EchoesOrCreatesTheRequestId) {
  RawClient client(start());
  EXPECT_EQ(client.get("/health", "X-Request-Id: abc-1\r\n").headers.at("x-request-id"), "abc-1");
  const std::string made = client.get("/health").headers.at("x-request-id");
  EXPECT_EQ(made.size(), 32U);
  EXPECT_NE(client.get("/health", "X-Request-Id: bad id \"\r\n").headers.at("x-request-id"), "bad id \"");
}

TEST_F(HttpServerTest, RequiresAKeyExceptOnOpenPaths) {
  options.access.api_keys = {"first", "second"};
  RawClient client(start());
  for (const std::string_view path : {"/health", "/ping", "/version"})
    EXPECT_EQ(client.get(path).status, 200) << path;
  for (const std::string_view path : {"/v1/models", "/metrics", "/nothing"}) {
    const RawResponse r = client.get(path);
    EXPECT_EQ(r.status, 401) << path;
    EXPECT_EQ(r.json()["error"]["code"], "invalid_api_key");
  }
  EXPECT_EQ(client.get("/v1/models", "Authorization: Bearer second\r\n").status, 200);
  EXPECT_EQ(client.get("/v1/models", "X-Api-Key: first\r\n").status, 200);
  EXPECT_EQ(client.get("/v1/models", "Authorization: Bearer firs\r\n").status, 401);
  EXPECT_EQ(client.get("/v1/models", "Authorization: Bearer first2\r\n").status, 401);
  EXPECT_EQ(client.get("/v1/models", "Authorization: Basic first\r\n").status, 401);
  RawClient posting(server->port());
  EXPECT_EQ(posting.post("/v1/completions", R"({"prompt":"a"})").status, 401);
}

TEST_F(HttpServerTest, PassesTheKeyOnAsClient) {
  options.access.api_keys = {"first", "second"};
  RawClient client(start());
  const std::string_view body = R"({"prompt":"a","max_tokens":1,"user":"another user"})";
  EXPECT_EQ(client.post("/v1/completions", body, "X-Api-Key: second\r\n").status, 200);
  EXPECT_EQ(engine.last_request().client, "key 1");
  EXPECT_EQ(client.post("/v1/completions", body, "X-Api-Key: first\r\n").status, 200);
  EXPECT_EQ(engine.last_request().client, "key 0");
}

TEST_F(HttpServerTest, DistinguishesClientsByUserWithoutKeys) {
  RawClient client(start());
  client.post("/v1/completions", R"({"prompt":"a","max_tokens":1,"user":"ann"})");
  EXPECT_EQ(engine.last_request().client, "user ann");
  client.post("/v1/completions", R"({"prompt":"a","max_tokens":1,"user":null})");
  EXPECT_EQ(engine.last_request().client, "");
}

TEST_F(HttpServerTest, ResetsThePrefixCacheWithAKey) {
  options.access.api_keys = {"first"};
  RawClient client(start());
  EXPECT_EQ(client.post("/reset_prefix_cache", "").status, 401);
  EXPECT_EQ(engine.num_resets.load(), 0);
  RawClient with_key(server->port());
  const RawResponse r = with_key.post("/reset_prefix_cache", "", "X-Api-Key: first\r\n");
  EXPECT_EQ(r.status, 200);
  EXPECT_EQ(r.json(), Json({{"success", true}, {"in_use", false}}));
  EXPECT_EQ(engine.num_resets.load(), 1);
}

TEST_F(HttpServerTest, MetricsCanBeOpen) {
  options.access.api_keys = {"first"};
  options.metrics_need_key = false;
  RawClient client(start());
  const RawResponse r = client.get("/metrics");
  EXPECT_EQ(r.status, 200);
  EXPECT_NE(r.body.find("quire:fake{model_name="), std::string::npos);
  EXPECT_NE(r.body.find("quire:http_connections 1"), std::string::npos);
}

TEST_F(HttpServerTest, HoldsAThousandConnections) {
  const uint16_t port = start();
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int i = 0; i < 1000; ++i) clients.push_back(std::make_unique<RawClient>(port));
  for (const auto& c : clients) ASSERT_TRUE(c->send("GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"));
  for (const auto& c : clients) ASSERT_EQ(c->response().status, 200);
}

TEST(HttpServer, EachConnectionStaysOnOneThreadAndConnectionsAlternate) {
  HttpApp app;
  app.error = [](int, const std::string&) { return HttpResponse{}; };
  app.handle = [](HttpRequest&, const std::shared_ptr<ResponseWriter>& writer) {
    std::ostringstream id;
    id << std::this_thread::get_id();
    HttpResponse response;
    response.body = id.str();
    writer->send(std::move(response));
  };
  HttpServerOptions options;
  options.port = 0;
  options.num_threads = 2;
  HttpServer http(options, std::move(app));
  http.start();
  std::vector<std::string> threads;
  for (int i = 0; i < 4; ++i) {
    RawClient client(http.port());
    threads.push_back(client.get("/").body);
    EXPECT_EQ(client.get("/").body, threads.back());
  }
  EXPECT_NE(threads[0], threads[1]);
  EXPECT_EQ(threads[0], threads[2]);
  EXPECT_EQ(threads[1], threads[3]);
}

// Posted work may run before the connection waits for its first event, when its wake-up has no effect.
TEST(HttpServer, CallsOnSilenceSetByPostedWork) {
  HttpServerOptions options;
  options.port = 0;
  options.posted_work_check_s = 1e6;  // would notice the silence, too
  HttpApp app;
  app.handle = [](HttpRequest&, const std::shared_ptr<ResponseWriter>& writer) {
    writer->post([writer] {
      writer->begin_stream({});
      writer->on_silence(0.05, [writer] {
        writer->write("silent");
        writer->end();
      });
    });
  };
  app.error = [](int, const std::string&) { return HttpResponse{}; };
  HttpServer server(options, app);
  server.start();
  RawClient client(server.port());
  for (int i = 0; i < 8; ++i) ASSERT_EQ(client.get("/").body, "silent");
  server.stop(1);
}

TEST_F(HttpServerTest, ReportsAPortInUse) {
  options.http.port = start();
  Server second(engine, options);
  try {
    second.start();
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("--port"), std::string::npos) << e.what();
  }
}

TEST_F(HttpServerTest, NamesItsUrl) {
  const uint16_t port = start();
  EXPECT_EQ(server->url(), cat("http://127.0.0.1:", port));
}

}  // namespace
}  // namespace quire
