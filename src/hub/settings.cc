#include "hub/settings.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "base/error.h"
#include "base/strings.h"

namespace quire::hub {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDefaultEndpoint = "https://huggingface.co";
constexpr size_t kMaxToken = 1024;

class Reader {
 public:
  explicit Reader(const Environment& environment) : environment_(environment) {}

  // The first of these variables that is set and not empty.
  std::string text(std::initializer_list<const char*> names) const {
    for (const char* name : names) {
      const char* value = environment_(name);
      if (value != nullptr && *value != '\0') return value;
    }
    return {};
  }
  bool is_true(std::initializer_list<const char*> names) const {
    std::string value = text(names);
    std::ranges::transform(value, value.begin(), [](unsigned char c) { return std::toupper(c); });
    return value == "1" || value == "ON" || value == "YES" || value == "TRUE";
  }
  fs::path home() const {
    const std::string home = text({"HOME"});
    return home.empty() ? fs::temp_directory_path() : fs::path(home);
  }
  // A path that may start with "~".
  fs::path path(const std::string& value) const {
    if (value == "~") return home();
    return value.starts_with("~/") ? home() / value.substr(2) : fs::path(value);
  }

 private:
  const Environment& environment_;
};

std::string trimmed(const std::string& text) {
  const size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r\n") - begin + 1);
}

std::string checked_token(const std::string& text, const std::string& place) {
  std::string token = trimmed(text);
  if (token.size() > kMaxToken || std::ranges::any_of(token, [](char c) { return c <= 0x20 || c == 0x7F; }))
    throw Error(cat(place, ": the value is not a valid token; it must be one word, for example hf_..."));
  return token;
}

std::string read_token(const Reader& reader, const fs::path& home) {
  if (reader.is_true({"HF_HUB_DISABLE_IMPLICIT_TOKEN"})) return {};
  const std::string value = reader.text({"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"});
  if (!value.empty()) return checked_token(value, "HF_TOKEN");
  const std::string file = reader.text({"HF_TOKEN_PATH"});
  const fs::path path = file.empty() ? home / "token" : reader.path(file);
  std::ifstream in(path);
  std::string line;
  if (!in || !std::getline(in, line)) return {};
  return checked_token(line, path.string());
}

double read_timeout(const std::string& text) {
  if (text.empty()) return Settings{}.timeout;
  const double seconds = parse_seconds(text);
  if (seconds <= 0.0)
    throw Error(cat("HF_HUB_DOWNLOAD_TIMEOUT: '", text, "' is not a valid number of seconds"));
  return seconds;
}

}  // namespace

Settings read_settings(const Environment& environment) {
  const Reader reader(environment);
  Settings settings;
  std::string endpoint = reader.text({"HF_ENDPOINT"});
  if (endpoint.empty()) endpoint = kDefaultEndpoint;
  while (endpoint.ends_with('/')) endpoint.pop_back();
  const auto url = parse_url(endpoint);
  if (!url || url->target.find('?') != std::string::npos)
    throw Error(cat("HF_ENDPOINT: '", endpoint, "' is not a valid URL; use for example ", kDefaultEndpoint));
  settings.endpoint = *url;

  fs::path home = reader.path(reader.text({"HF_HOME"}));
  if (home.empty()) {
    const std::string cache = reader.text({"XDG_CACHE_HOME"});
    home = (cache.empty() ? reader.home() / ".cache" : reader.path(cache)) / "huggingface";
  }
  settings.cache = reader.path(reader.text({"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"}));
  if (settings.cache.empty()) settings.cache = home / "hub";
  settings.cache = fs::absolute(settings.cache);
  settings.token = read_token(reader, home);
  settings.offline = reader.is_true({"HF_HUB_OFFLINE"}) || reader.is_true({"TRANSFORMERS_OFFLINE"});
  settings.timeout = read_timeout(reader.text({"HF_HUB_DOWNLOAD_TIMEOUT"}));
  settings.proxies = {reader.text({"http_proxy", "HTTP_PROXY"}), reader.text({"https_proxy", "HTTPS_PROXY"}),
                      reader.text({"all_proxy", "ALL_PROXY"}), reader.text({"no_proxy", "NO_PROXY"})};
  settings.certificates = reader.text({"SSL_CERT_FILE"});
  settings.certificate_dir = reader.text({"SSL_CERT_DIR"});
  return settings;
}

Settings read_settings() {
  return read_settings([](const char* name) { return std::getenv(name); });
}

}  // namespace quire::hub
