#include "hub/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "unit/hub/hub_testing.h"

namespace quire::hub {
namespace {

using test::error_of;
using testing::HasSubstr;

Settings settings_of(const std::map<std::string, std::string>& variables) {
  return read_settings([&](const char* name) {
    const auto it = variables.find(name);
    return it == variables.end() ? nullptr : it->second.c_str();
  });
}

TEST(Settings, HaveTheDefaultsOfHuggingFace) {
  const Settings settings = settings_of({{"HOME", "/users/me"}});
  EXPECT_EQ(settings.endpoint.text(), "https://huggingface.co/");
  EXPECT_EQ(settings.cache, "/users/me/.cache/huggingface/hub");
  EXPECT_EQ(settings.token, "");
  EXPECT_FALSE(settings.offline);
}

TEST(Settings, FindTheCache) {
  EXPECT_EQ(settings_of({{"HOME", "/u"}, {"XDG_CACHE_HOME", "/x"}}).cache, "/x/huggingface/hub");
  EXPECT_EQ(settings_of({{"HOME", "/u"}, {"HF_HOME", "~/hf"}}).cache, "/u/hf/hub");
  EXPECT_EQ(settings_of({{"HF_HOME", "/h"}, {"HF_HUB_CACHE", "/c"}}).cache, "/c");
}

TEST(Settings, ReadTheTokenFromTheEnvironmentOrAFile) {
  const test::TempDir dir;
  test::write_file(dir.path() / "token", "hf_file\n");
  const std::string home = dir.path().string();
  EXPECT_EQ(settings_of({{"HF_HOME", home}}).token, "hf_file");
  EXPECT_EQ(settings_of({{"HF_HOME", home}, {"HF_TOKEN", " hf_env\n"}}).token, "hf_env");
  EXPECT_EQ(settings_of({{"HF_HOME", home}, {"HF_HUB_DISABLE_IMPLICIT_TOKEN", "1"}}).token, "");
  test::write_file(dir.path() / "other", "hf_other");
  EXPECT_EQ(settings_of({{"HF_HOME", home}, {"HF_TOKEN_PATH", home + "/other"}}).token, "hf_other");
}

TEST(Settings, RejectATokenThatWouldAddHeaders) {
  EXPECT_THAT(error_of([] { settings_of({{"HF_TOKEN", "a\r\nX-Header: b"}}); }), HasSubstr("HF_TOKEN"));
}

TEST(Settings, AcceptTheValuesOfTrue) {
  for (const char* value : {"1", "true", "YES", "on"})
    EXPECT_TRUE(settings_of({{"HF_HUB_OFFLINE", value}}).offline);
  for (const char* value : {"0", "false", ""}) EXPECT_FALSE(settings_of({{"HF_HUB_OFFLINE", value}}).offline);
  EXPECT_TRUE(settings_of({{"TRANSFORMERS_OFFLINE", "1"}}).offline);
}

TEST(Settings, RejectAMalformedEndpoint) {
  EXPECT_EQ(settings_of({{"HF_ENDPOINT", "http://mirror:8080/hf/"}}).endpoint.target, "/hf");
  EXPECT_THAT(error_of([] { settings_of({{"HF_ENDPOINT", "mirror"}}); }), HasSubstr("HF_ENDPOINT: 'mirror'"));
}

TEST(Settings, PreferLowercaseProxyVariables) {
  const Settings settings =
      settings_of({{"https_proxy", "http://a"}, {"HTTPS_PROXY", "http://b"}, {"NO_PROXY", "x"}});
  EXPECT_EQ(settings.proxies.https, "http://a");
  EXPECT_EQ(settings.proxies.exceptions, "x");
}

}  // namespace
}  // namespace quire::hub
