#include <gtest/gtest.h>

#include "base/strings.h"
#include "server/http/request_parser.h"
#include "server/http/router.h"

namespace quire {
namespace {

// Passes `bytes` to the parser in pieces of `piece` bytes.
void feed(HttpRequestParser& parser, std::string bytes, size_t piece) {
  std::string pending;
  for (size_t i = 0; i < bytes.size() && !parser.error() && !parser.done(); i += piece) {
    pending += bytes.substr(i, piece);
    for (int half = 0; half < 2 && !parser.done() && !parser.error(); ++half)
      pending.erase(0, parser.consume(pending));
  }
}

TEST(HttpRequestParser, ReadsARequestInPiecesOfAnySize) {
  const std::string text =
      "POST /a%20b?x=1 HTTP/1.1\r\nHost: h\r\nX-Thing: one\r\nContent-Length: 5\r\n\r\nhello";
  for (size_t piece = 1; piece <= text.size(); ++piece) {
    HttpRequestParser parser{HttpLimits{}};
    feed(parser, text, piece);
    ASSERT_TRUE(parser.done()) << piece;
    EXPECT_EQ(parser.request().method, "POST");
    EXPECT_EQ(parser.request().path, "/a b");
    EXPECT_EQ(parser.request().query, "x=1");
    EXPECT_EQ(parser.request().headers.get("x-thing"), "one");
    EXPECT_EQ(parser.request().body, "hello");
    EXPECT_TRUE(parser.request().keep_alive);
  }
}

TEST(HttpRequestParser, ReadsAChunkedBody) {
  const std::string text =
      "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: "
      "chunked\r\n\r\n3\r\nabc\r\n4;x=y\r\ndefg\r\n0\r\n\r\n";
  for (size_t piece = 1; piece <= text.size(); ++piece) {
    HttpRequestParser parser{HttpLimits{}};
    feed(parser, text, piece);
    ASSERT_TRUE(parser.done()) << piece;
    EXPECT_EQ(parser.request().body, "abcdefg");
  }
}

TEST(HttpRequestParser, DoesNotConsumeTheNextRequest) {
  HttpRequestParser parser{HttpLimits{}};
  std::string text = "GET /1 HTTP/1.1\r\nHost: h\r\n\r\nGET /2 HTTP/1.1\r\n";
  text.erase(0, parser.consume(text));
  EXPECT_TRUE(parser.done());
  EXPECT_EQ(text, "GET /2 HTTP/1.1\r\n");
}

TEST(HttpRequestParser, ClosesAfterHttp10UnlessKeepAliveIsRequested) {
  HttpRequestParser old{HttpLimits{}};
  old.consume("GET / HTTP/1.0\r\n\r\n");
  EXPECT_FALSE(old.request().keep_alive);
  HttpRequestParser kept{HttpLimits{}};
  kept.consume("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  EXPECT_TRUE(kept.request().keep_alive);
}

TEST(HttpRequestParser, RejectsAHeaderAboveTheLimit) {
  HttpLimits limits;
  limits.max_header_bytes = 1000;
  for (const size_t piece : {size_t{7}, size_t{100000}}) {
    HttpRequestParser parser{limits};
    feed(parser, "GET / HTTP/1.1\r\nHost: h\r\nX: " + std::string(2000, 'x') + "\r\n\r\n", piece);
    ASSERT_TRUE(parser.error());
    EXPECT_EQ(parser.error()->status, 431);
  }
}

TEST(HttpRequestParser, CountsTheHeaderSizeIndependentlyOfPieces) {
  const std::string text = "GET / HTTP/1.1\r\nHost: h\r\nX: " + std::string(100, 'x') + "\r\n\r\n";
  for (const size_t piece : {size_t{1}, size_t{7}, text.size()}) {
    HttpLimits limits;
    limits.max_header_bytes = text.size();
    HttpRequestParser fits{limits};
    feed(fits, text, piece);
    EXPECT_TRUE(fits.done()) << piece;
    --limits.max_header_bytes;
    HttpRequestParser too_large{limits};
    feed(too_large, text, piece);
    ASSERT_TRUE(too_large.error()) << piece;
    EXPECT_EQ(too_large.error()->status, 431);
  }
}

TEST(HttpRequestParser, RejectsAContentLengthAboveTheLimit) {
  HttpLimits limits;
  limits.max_body_bytes = 10;
  HttpRequestParser parser{limits};
  parser.consume("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 11\r\n\r\n");
  ASSERT_TRUE(parser.header_done());
  EXPECT_TRUE(parser.body_too_large());
}

TEST(HttpRequestParser, RejectsAChunkedBodyAboveTheLimit) {
  HttpLimits limits;
  limits.max_body_bytes = 10;
  HttpRequestParser parser{limits};
  feed(parser,
       "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: "
       "chunked\r\n\r\n14\r\n01234567890123456789\r\n0\r\n\r\n",
       1000);
  ASSERT_TRUE(parser.error());
  EXPECT_EQ(parser.error()->status, 413);
}

TEST(HttpRequestParser, CountsAllChunksOfABody) {
  HttpLimits limits;
  limits.max_body_bytes = 10;
  for (const bool too_large : {false, true}) {
    HttpRequestParser parser{limits};
    feed(parser,
         cat("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n0123\r\n4\r\n0123\r\n",
             too_large ? "3\r\n012\r\n" : "2\r\n01\r\n", "0\r\n\r\n"),
         1000);
    ASSERT_EQ(parser.error().has_value(), too_large);
    EXPECT_EQ(parser.error() ? parser.error()->status : 413, 413);
  }
}

TEST(HttpRequestParser, RejectsInvalidHttp) {
  const std::string_view texts[] = {
      "hello world\r\n\r\n",
      "GET /\r\n\r\n",
      "GET / HTTP/1.1\r\nno colon\r\n\r\n",
      "GET /%00 HTTP/1.1\r\n\r\n",
      "GET /%zz HTTP/1.1\r\n\r\n",
      "POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
      "POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
      "POST / HTTP/1.1\r\nContent-Length: 99999999999999999999999999\r\n\r\n",
      "POST / HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
      "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
  };
  for (const std::string_view text : texts) {
    HttpRequestParser parser{HttpLimits{}};
    parser.consume(text);
    ASSERT_TRUE(parser.error()) << text;
    EXPECT_EQ(parser.error()->status, 400) << text;
  }
}

TEST(HttpRequestParser, RejectsInvalidChunkSizes) {
  HttpRequestParser parser{HttpLimits{}};
  feed(parser, "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n", 1000);
  ASSERT_TRUE(parser.error());
  EXPECT_EQ(parser.error()->status, 400);
}

TEST(HttpRequestParser, RejectsUnknownTransferCodings) {
  HttpRequestParser parser{HttpLimits{}};
  parser.consume("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip\r\n\r\nGET /hidden HTTP/1.1\r\n\r\n");
  ASSERT_TRUE(parser.error());
  EXPECT_EQ(parser.error()->status, 501);
}

TEST(HttpRequestParser, AcceptsAnAbsoluteTarget) {
  HttpRequestParser parser{HttpLimits{}};
  parser.consume("GET http://h:80/v1/models HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_EQ(parser.request().path, "/v1/models");
}

TEST(ResponseHead, CannotBeSplitByAValue) {
  HttpResponse response;
  response.headers.add("X-Name", "a\r\nX-Evil: 1");
  const std::string head = response_head(response, 0, 11, true);
  EXPECT_EQ(head.find("\r\nX-Evil"), std::string::npos);
}

TEST(Router, FindsRoutesAndAllowedMethods) {
  const HttpHandler none;
  const Router router(
      {{"GET", "/a", none}, {"POST", "/b", none}, {"GET", "/a/*", none}, {"POST", "/a", none}});
  EXPECT_EQ(router.match("GET", "/a").route->path, "/a");
  EXPECT_EQ(router.match("HEAD", "/a/").route->path, "/a");
  EXPECT_EQ(router.match("POST", "/a").route->method, "POST");
  EXPECT_EQ(router.match("GET", "/a/x/y").route->path, "/a/*");
  EXPECT_EQ(router.match("GET", "/b").route, nullptr);
  EXPECT_EQ(router.match("GET", "/b").allow, "POST, OPTIONS");
  EXPECT_EQ(router.match("DELETE", "/a").allow, "GET, HEAD, POST, OPTIONS");
  EXPECT_TRUE(router.match("GET", "/c").allow.empty());
}

// The status of a request's header; 200 if it is accepted. Fed whole and byte by byte.
int header_status(std::string_view text) {
  HttpRequestParser whole({});
  feed(whole, std::string(text), 1 << 20);
  HttpRequestParser bytes({});
  feed(bytes, std::string(text), 1);
  const int status = whole.error() ? whole.error()->status : 200;
  EXPECT_EQ(status, bytes.error() ? bytes.error()->status : 200) << text;
  return status;
}

TEST(HttpRequestParser, RejectsUnsupportedTransferEncodings) {
  const auto status = [](std::string_view fields) {
    return header_status(cat("POST / HTTP/1.1\r\nHost: h\r\n", fields, "\r\n"));
  };
  EXPECT_EQ(status("Transfer-Encoding: gzip, chunked\r\n"), 501);
  EXPECT_EQ(status("Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n"), 501);
  EXPECT_EQ(status("Transfer-Encoding: chunked, identity\r\n"), 501);
  EXPECT_EQ(status("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n"), 400);
  EXPECT_EQ(status("Content-Length: 5\r\nContent-Length: 6\r\n"), 400);
  EXPECT_EQ(status("Content-Length: +5\r\n"), 400);
}

TEST(HttpRequestParser, RejectsFoldedHeaders) {
  EXPECT_EQ(header_status("GET / HTTP/1.1\r\nHost: h\r\nX: a\r\n b\r\n\r\n"), 400);
  EXPECT_EQ(header_status("GET / HTTP/1.1\r\nHost: h\r\nX: a\r\n\tb\r\n\r\n"), 400);
  EXPECT_EQ(header_status("GET / HTTP/1.1\r\n Host: h\r\n\r\n"), 400);
}

TEST(HttpRequestParser, RequiresOneValidHost) {
  EXPECT_EQ(header_status("GET / HTTP/1.1\r\n\r\n"), 400);
  EXPECT_EQ(header_status("GET / HTTP/1.0\r\n\r\n"), 200);
  EXPECT_EQ(header_status("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"), 400);
  EXPECT_EQ(header_status("GET / HTTP/1.1\r\nHost: a b\r\n\r\n"), 400);
  EXPECT_EQ(header_status("GET / HTTP/1.1\r\nHost: a/b\r\n\r\n"), 400);
  EXPECT_EQ(header_status("GET / HTTP/1.1\r\nHost: [::1]:8000\r\n\r\n"), 200);
}

TEST(HttpRequestParser, RejectsUnknownExpectations) {
  EXPECT_EQ(header_status("POST / HTTP/1.1\r\nHost: h\r\nExpect: 200-ok\r\nContent-Length: 1\r\n\r\nx"), 417);
  EXPECT_EQ(header_status("POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-Continue\r\nContent-Length: 1\r\n\r\nx"),
            200);
}

TEST(HttpRequestParser, SkipsEmptyLinesBeforeARequestUpToTheHeaderLimit) {
  std::string lines;
  for (int i = 0; i < 1000; ++i) lines += "\r\n";
  EXPECT_EQ(header_status(lines + "GET / HTTP/1.1\r\nHost: h\r\n\r\n"), 200);
  HttpLimits limits;
  limits.max_header_bytes = 1000;
  HttpRequestParser parser(limits);
  feed(parser, lines, 1 << 20);
  ASSERT_TRUE(parser.error());
  EXPECT_EQ(parser.error()->status, 431);
}

}  // namespace
}  // namespace quire
