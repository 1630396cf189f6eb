#include "cli/bench/http_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/error.h"
#include "bench_test_server.h"

namespace quire::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// The body of a response that arrives in pieces of `step` bytes and may end with the connection.
std::string parse(const std::string& bytes, size_t step, ResponseParser& parser) {
  std::string body;
  for (size_t i = 0; i < bytes.size(); i += step) parser.feed(std::string_view(bytes).substr(i, step), body);
  return body;
}

TEST(BenchUrl, ParsesTheParts) {
  EXPECT_EQ(parse_url("http://127.0.0.1:8000").port, "8000");
  EXPECT_EQ(parse_url("http://example.org/").host, "example.org");
  EXPECT_EQ(parse_url("http://example.org/").port, "80");
  EXPECT_EQ(parse_url("http://example.org/").path, "");
  EXPECT_EQ(parse_url("http://h:1/api/v1/").path, "/api/v1");
  EXPECT_EQ(parse_url("http://[::1]:9").host, "::1");
  EXPECT_EQ(parse_url("http://[::1]:9").port, "9");
  EXPECT_EQ(parse_url("http://[::1]").port, "80");
}

TEST(BenchUrl, RejectsInvalidUrlsAndHttps) {
  for (const char* wrong : {"", "localhost:8000", "ftp://x", "http://", "http://:80", "http://h:0",
                            "http://h:99999", "http://h:x", "http://[::1", "http://a b/"}) {
    EXPECT_THROW(parse_url(wrong), Error) << wrong;
  }
  try {
    parse_url("https://api.example.org");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("https is not spoken"));
  }
}

TEST(BenchRequestText, ContainsHostLengthAndHeaders) {
  const std::string text = request_text(parse_url("http://[::1]:9/api"), "POST", "/v1/x", {{"A", "b"}}, "{}");
  EXPECT_THAT(text, testing::StartsWith("POST /api/v1/x HTTP/1.1\r\nHost: [::1]:9\r\n"));
  EXPECT_THAT(text, HasSubstr("A: b\r\n"));
  EXPECT_THAT(text, testing::EndsWith("Content-Length: 2\r\n\r\n{}"));
}

TEST(BenchResponse, ReadsBodiesInAnyPieces) {
  const std::string length = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
  const std::string chunked =
      "HTTP/1.1 200 OK\r\ntransfer-encoding: Chunked\r\n\r\n3;x=y\r\nhel\r\nA\r\nlo, world!\r\n0\r\nTrailer: "
      "t\r\n\r\n";
  const std::string open = "HTTP/1.0 404 Not Found\nServer: x\n\ngone";
  for (const size_t step : {size_t{1}, size_t{2}, size_t{7}, size_t{1000}}) {
    ResponseParser a, b, c;
    EXPECT_EQ(parse(length, step, a), "hello");
    EXPECT_TRUE(a.done() && a.keep_alive());
    EXPECT_EQ(parse(chunked, step, b), "hello, world!");
    EXPECT_TRUE(b.done() && b.keep_alive());
    EXPECT_EQ(parse(open, step, c), "gone");
    EXPECT_FALSE(c.done());
    c.finish();
    EXPECT_TRUE(c.done());
    EXPECT_FALSE(c.keep_alive());
    EXPECT_EQ(c.status(), 404);
  }
}

TEST(BenchResponse, SkipsInterimResponses) {
  ResponseParser parser;
  EXPECT_EQ(parse("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created\r\nConnection: close\r\nContent-Length: "
                  "1\r\n\r\nx",
                  3, parser),
            "x");
  EXPECT_EQ(parser.status(), 201);
  EXPECT_FALSE(parser.keep_alive());
}

TEST(BenchResponse, RejectsInvalidResponses) {
  for (const char* wrong : {"SSH-2.0-x\r\n", "HTTP/1.1 2xx OK\r\n", "HTTP/1.1 200 OK\r\nnonsense\r\n",
                            "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n",
                            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
                            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n",
                            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n"}) {
    ResponseParser parser;
    EXPECT_THROW(parse(wrong, 100, parser), Error) << wrong;
  }
  ResponseParser endless;
  EXPECT_THROW(parse(std::string(100'000, 'x'), 1000, endless), Error);
  ResponseParser cut;
  parse("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel", 100, cut);
  EXPECT_THROW(cut.finish(), Error);
}

TEST(BenchSse, ReadsEventsWithAnyLineEndsAndPieces) {
  const std::string bytes =
      ": comment\r\ndata: one\r\n\r\nevent: x\ndata:two\ndata: lines\nid: 7\n\n\n\rdata: three\r\rdata: "
      "never ended";
  for (size_t step = 1; step < bytes.size(); ++step) {
    SseParser parser;
    std::vector<std::string> events;
    for (size_t i = 0; i < bytes.size(); i += step) {
      parser.feed(std::string_view(bytes).substr(i, step),
                  [&](const std::string& data) { events.push_back(data); });
    }
    EXPECT_THAT(events, ElementsAre("one", "two\nlines", "three")) << step;
  }
}

TEST(BenchHttp, SendsARequest) {
  TestServer server([](const std::string& request, int) -> TestServer::Answer {
    EXPECT_THAT(request, testing::StartsWith("GET /v1/models HTTP/1.1\r\n"));
    return {{"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n", "bo", "dy"}, false};
  });
  const Url url = parse_url(server.base_url());
  const HttpResponse response =
      http_request(Address(url), request_text(url, "GET", "/v1/models", {}, ""), 10.0);
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.body, "body");
}

TEST(BenchHttp, ReportsConnectionErrorsTimeoutsAndTruncatedResponses) {
  std::string gone;
  {
    TestServer server([](const std::string&, int) -> TestServer::Answer { return {}; });
    gone = server.base_url();
  }
  const Url closed = parse_url(gone);
  try {
    http_request(Address(closed), request_text(closed, "GET", "/", {}, ""), 5.0);
    ADD_FAILURE() << "got a response from a closed port";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("refused"));
  }

  TestServer silent([](const std::string&, int) -> TestServer::Answer { return {{}, true}; });
  const Url url = parse_url(silent.base_url());
  EXPECT_THROW(http_request(Address(url), request_text(url, "GET", "/", {}, ""), 0.05), Error);

  TestServer cutting([](const std::string&, int) -> TestServer::Answer {
    return {{"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx"}, false};
  });
  const Url cut = parse_url(cutting.base_url());
  EXPECT_THROW(http_request(Address(cut), request_text(cut, "GET", "/", {}, ""), 5.0), Error);
  EXPECT_THROW(Address(parse_url("http://no-such-host.invalid:1")), Error);
}

}  // namespace
}  // namespace quire::cli
