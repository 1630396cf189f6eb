// Requests to the hub: the files of a repository, metadata of a file, ranges of its content. Redirects to
// other hosts do not get the token.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "hub/http_client.h"
#include "hub/settings.h"

namespace quire::hub {

struct RepoInfo {
  std::string commit;
  std::vector<std::string> files;         // paths that are valid by is_safe_path(), sorted
  std::map<std::string, uint64_t> sizes;  // of files whose size the hub reports
};

struct RemoteFile {
  std::string repo;
  std::string commit;
  std::string name;  // path in the repository
  std::string etag;  // SHA-256 or Git hash in hexadecimal
  uint64_t size = 0;
  Url location;  // where the content is; may expire
};

// The server sent the whole file although a range was requested.
class RangeIgnored : public Error {
 public:
  using Error::Error;
};

// Used by one thread.
class HubClient {
 public:
  HubClient(const Settings& settings, std::shared_ptr<const HttpTransport> transport);

  // Throws Error with advice: not found (with similar names), gated, private, no such revision, no
  // connection.
  RepoInfo repo_info(const std::string& repo, const std::string& revision);
  RemoteFile file_info(const std::string& repo, const std::string& commit, const std::string& name);

  // The bytes [begin, end) of a file, in pieces. Failures are retried from where they occurred, until `stop`
  // is requested. Throws Error, or RangeIgnored.
  void read_range(RemoteFile& file, uint64_t begin, uint64_t end,
                  const std::function<void(std::string_view)>& sink, const std::stop_token& stop);
  // The whole file in pieces, from a server that does not support ranges. Not retried.
  void read_all(RemoteFile& file, const std::function<void(std::string_view)>& sink);

  // Ids of models that a search for this name finds; empty if the search fails.
  std::vector<std::string> search(const std::string& repo);

 private:
  Url url_of(const std::string& path) const;
  HttpHeaders headers_for(const Url& url) const;
  // Follows redirects within the endpoint's origin.
  HttpClient::Response get(Url url);
  HttpClient::Response get_with_retries(const Url& url, const std::string& what);
  [[noreturn]] void fail(const HttpHead& head, const std::string& repo, const std::string& what);
  std::string similar_text(const std::string& repo);
  // One GET of [begin, end); begin moves forward with the bytes received.
  void read_once(RemoteFile& file, uint64_t& begin, uint64_t end,
                 const std::function<void(std::string_view)>& sink, const std::stop_token& stop);

  const Settings& settings_;
  HttpClient http_;
};

// Seconds to wait before another attempt; attempt counts from 0.
double retry_delay(int attempt);

}  // namespace quire::hub
