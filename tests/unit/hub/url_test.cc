#include "hub/url.h"

#include <gtest/gtest.h>

namespace quire::hub {
namespace {

TEST(Url, ParsesItsParts) {
  const auto url = parse_url("HTTPS://user:pa%20ss@Hub.Example:8443/a/b?c=d#fragment");
  ASSERT_TRUE(url);
  EXPECT_EQ(url->scheme, "https");
  EXPECT_EQ(url->userinfo, "user:pa%20ss");
  EXPECT_EQ(url->host, "hub.example");
  EXPECT_EQ(url->port, "8443");
  EXPECT_EQ(url->target, "/a/b?c=d");
  EXPECT_EQ(url->text(), "https://hub.example:8443/a/b?c=d");
}

TEST(Url, HasDefaults) {
  EXPECT_EQ(parse_url("https://h")->port, "443");
  EXPECT_EQ(parse_url("http://h")->port, "80");
  EXPECT_EQ(parse_url("http://h")->target, "/");
  EXPECT_EQ(parse_url("http://h?x=1")->target, "/?x=1");
  EXPECT_EQ(parse_url("http://h:80/x")->authority(), "h");
  EXPECT_EQ(parse_url("https://h:80/x")->authority(), "h:80");
}

TEST(Url, ParsesIpv6Hosts) {
  const auto url = parse_url("http://[::1]:8080/x");
  ASSERT_TRUE(url);
  EXPECT_EQ(url->host, "::1");
  EXPECT_EQ(url->authority(), "[::1]:8080");
}

TEST(Url, RejectsMalformedTexts) {
  for (const char* text : {"", "h", "ftp://h/x", "file:///etc/passwd", "http://", "http:///x", "http://h:0/",
                           "http://h:99999/", "http://h:x/", "http://h h/", "http://h/\r\nX: y",
                           "http://h/\x01", "http://[::1/", "http://[zz]/", "http://h%41/"}) {
    EXPECT_FALSE(parse_url(text)) << text;
  }
}

TEST(Location, ResolvesRelativeAndAbsoluteTargets) {
  const Url base = *parse_url("https://hub.example/org/name/resolve/main/file?x=1");
  EXPECT_EQ(resolve_location(base, "https://cdn.example/y?s=1")->text(), "https://cdn.example/y?s=1");
  EXPECT_EQ(resolve_location(base, "//cdn.example/y")->text(), "https://cdn.example/y");
  EXPECT_EQ(resolve_location(base, "/z")->text(), "https://hub.example/z");
  EXPECT_EQ(resolve_location(base, "other")->text(), "https://hub.example/org/name/resolve/main/other");
  EXPECT_EQ(resolve_location(base, "/z?u=http://q/")->text(), "https://hub.example/z?u=http://q/");
  EXPECT_FALSE(resolve_location(base, ""));
  EXPECT_FALSE(resolve_location(base, "ftp://h/x"));
  EXPECT_FALSE(resolve_location(base, "/x\r\nSet-Cookie: y"));
}

TEST(Origin, DiffersByHostPortAndScheme) {
  const std::string origin = parse_url("https://hub.example/a")->origin();
  EXPECT_EQ(parse_url("https://HUB.example:443/b")->origin(), origin);
  EXPECT_NE(parse_url("http://hub.example/a")->origin(), origin);
  EXPECT_NE(parse_url("https://hub.example:444/a")->origin(), origin);
  EXPECT_NE(parse_url("https://hub.example.evil/a")->origin(), origin);
  EXPECT_NE(parse_url("https://hub.example@evil/a")->origin(), origin);
}

TEST(PercentEncoding, KeepsUnreservedCharacters) {
  EXPECT_EQ(percent_encode("refs/pr/1", false), "refs%2Fpr%2F1");
  EXPECT_EQ(percent_encode("a b/ü~", true), "a%20b/%C3%BC~");
  EXPECT_EQ(percent_decode("a%20b%2Fc%"), "a b/c%");
  EXPECT_EQ(percent_decode("%zz%4"), "%zz%4");
}

TEST(Proxy, IsChosenByScheme) {
  const ProxySettings settings{"http://p1:1", "http://p2:2", "", ""};
  EXPECT_EQ(proxy_of(*parse_url("http://h/"), settings), "http://p1:1");
  EXPECT_EQ(proxy_of(*parse_url("https://h/"), settings), "http://p2:2");
  EXPECT_EQ(proxy_of(*parse_url("https://h/"), {"", "", "http://p3:3", ""}), "http://p3:3");
  EXPECT_EQ(proxy_of(*parse_url("https://h/"), {"http://p1:1", "", "", ""}), "");
}

TEST(Proxy, HasExceptions) {
  const ProxySettings settings{"", "http://p", "", "localhost, .example.org,huggingface.co,10.0.0.1:8080"};
  for (const char* direct : {"https://localhost/", "https://a.example.org/", "https://huggingface.co/",
                             "https://cdn.huggingface.co/", "https://10.0.0.1:8080/"}) {
    EXPECT_EQ(proxy_of(*parse_url(direct), settings), "") << direct;
  }
  for (const char* proxied : {"https://other/", "https://myhuggingface.co/", "https://10.0.0.1/"})
    EXPECT_EQ(proxy_of(*parse_url(proxied), settings), "http://p") << proxied;
  EXPECT_EQ(proxy_of(*parse_url("https://h/"), {"", "http://p", "", "*"}), "");
}

}  // namespace
}  // namespace quire::hub
