// API keys, host names and origins.
#include "server/access.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"

namespace quire {
namespace {

HttpRequest request_with(std::initializer_list<std::pair<std::string, std::string>> fields) {
  HttpRequest request;
  for (const auto& [name, value] : fields) request.headers.add(name, value);
  return request;
}

TEST(AccessPolicy, RejectsKeysThatCannotBeUsed) {
  for (const char* key : {"", " ", "a b", "a\n", "schl\xC3\xBCssel"}) {
    EXPECT_THROW(AccessPolicy({.api_keys = {"real", key}, .allowed_origins = {}, .allowed_hosts = {}}, ""),
                 Error)
        << key;
  }
}

TEST(AccessPolicy, FindsTheKeyOfARequest) {
  const AccessPolicy policy({.api_keys = {"first", "second"}, .allowed_origins = {}, .allowed_hosts = {}},
                            "127.0.0.1");
  EXPECT_EQ(policy.find_key(request_with({{"Authorization", "bearer second"}})), 1U);
  EXPECT_EQ(policy.find_key(request_with({{"X-Api-Key", "first"}})), 0U);
  EXPECT_EQ(policy.find_key(request_with({{"X-Api-Key", ""}})), std::nullopt);
  EXPECT_EQ(policy.find_key(request_with({{"Authorization", "Bearer "}})), std::nullopt);
  EXPECT_EQ(policy.find_key(request_with({})), std::nullopt);
  EXPECT_NE(policy.cache_salt(0), policy.cache_salt(1));
}

TEST(AccessPolicy, AcceptsOnlyItsOwnNamesOnALoopbackAddress) {
  const AccessPolicy policy({.api_keys = {}, .allowed_origins = {}, .allowed_hosts = {"llm.example"}},
                            "my-machine");
  const auto accepts = [&](const char* host, bool loopback) {
    return !policy.check_site(request_with({{"Host", host}}), loopback);
  };
  for (const char* host : {"localhost", "LOCALHOST:80", "127.0.0.1:8000", "127.1.2.3", "[::1]:8000",
                           "x.localhost", "my-machine:8000", "llm.example"}) {
    EXPECT_TRUE(accepts(host, true)) << host;
  }
  for (const char* host : {"", "example.com", "localhost.example.com", "127.0.0.1.example.com", "10.0.0.1",
                           "notlocalhost", "[::2]", "[::1", "0.0.0.0"}) {
    EXPECT_FALSE(accepts(host, true)) << host;
  }
  EXPECT_FALSE(accepts("10.0.0.1", false));
  const AccessPolicy open({}, "0.0.0.0");
  EXPECT_FALSE(open.check_site(request_with({{"Host", "anything"}}), false));
}

TEST(AccessPolicy, AcceptsOnlyItsOwnAndAllowedOrigins) {
  const AccessPolicy policy({.api_keys = {}, .allowed_origins = {"https://app.example"}, .allowed_hosts = {}},
                            "127.0.0.1");
  const auto status = [&](const char* origin) {
    const auto refusal =
        policy.check_site(request_with({{"Host", "localhost:8000"}, {"Origin", origin}}), true);
    return refusal ? refusal->status : 200;
  };
  EXPECT_EQ(status("https://app.example"), 200);
  EXPECT_EQ(status("http://localhost:8000"), 200);
  EXPECT_EQ(status("http://localhost:8001"), 403);
  EXPECT_EQ(status("http://app.example"), 403);
  EXPECT_EQ(status("https://app.example.evil"), 403);
  EXPECT_EQ(status("null"), 403);
  EXPECT_EQ(status("localhost:8000"), 403);
}

TEST(AccessPolicy, SendsCredentialsForNamedOriginsOnly) {
  HttpHeaders named;
  AccessPolicy({.api_keys = {}, .allowed_origins = {"https://a"}, .allowed_hosts = {}}, "")
      .add_cors(request_with({{"Origin", "https://a"}}), named);
  EXPECT_EQ(named.get("Access-Control-Allow-Credentials"), "true");
  HttpHeaders all;
  AccessPolicy({.api_keys = {}, .allowed_origins = {"*"}, .allowed_hosts = {}}, "")
      .add_cors(request_with({{"Origin", "https://a"}}), all);
  EXPECT_EQ(all.get("Access-Control-Allow-Origin"), "https://a");
  EXPECT_FALSE(all.contains("Access-Control-Allow-Credentials"));
}

TEST(ReadApiKeys, SkipsCommentsAndSpace) {
  const auto path = std::filesystem::temp_directory_path() / "quire-access-test-keys";
  std::ofstream(path) << "# comment\n\n  one  \r\ntwo";
  EXPECT_EQ(read_api_keys(path), (std::vector<std::string>{"one", "two"}));
  std::ofstream(path) << "# only a comment\n";
  EXPECT_THROW(read_api_keys(path), Error);
  std::filesystem::remove(path);
  EXPECT_THROW(read_api_keys(path), Error);
}

}  // namespace
}  // namespace quire
