// Settings of the hub, from the environment variables of huggingface_hub.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "hub/url.h"

namespace quire::hub {

struct Settings {
  Url endpoint;                 // HF_ENDPOINT, by default https://huggingface.co
  std::string token;            // HF_TOKEN or the token file; empty = none
  std::filesystem::path cache;  // HF_HUB_CACHE, or "hub" in HF_HOME
  bool offline = false;         // HF_HUB_OFFLINE
  double timeout = 10.0;        // HF_HUB_DOWNLOAD_TIMEOUT: seconds without any data
  int connections = 8;          // connections per file
  ProxySettings proxies;        // HTTP_PROXY, HTTPS_PROXY, ALL_PROXY, NO_PROXY
  std::string certificates;     // SSL_CERT_FILE; empty = the system's certificates
  std::string certificate_dir;  // SSL_CERT_DIR
};

// Returns the value of an environment variable, or null.
using Environment = std::function<const char*(const char*)>;

// Throws Error if a value is invalid.
Settings read_settings(const Environment& environment);
Settings read_settings();  // from the environment of the process

}  // namespace quire::hub
