#include "hub/hub_client.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "base/strings.h"
#include "hub/cache.h"
#include "hub/digest.h"
#include "hub/model_name.h"

namespace quire::hub {
namespace {

using nlohmann::json;

constexpr size_t kMaxListing = 64 << 20;
constexpr size_t kMaxSearch = 4 << 20;
constexpr size_t kMaxFiles = 100'000;
constexpr int kMaxRedirects = 5;
constexpr int kMaxAttempts = 6;  // without any progress

bool is_redirect(int status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

bool is_temporary(int status) {
  return status == 408 || status == 429 || status >= 500;
}

// Text from the hub, for a message.
std::string quoted(const std::string& text) {
  return escape_log_text(text.substr(0, 300));
}

std::optional<uint64_t> number(std::string_view text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// Waits unless a stop is requested first.
void pause(double seconds, const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any wake;
  std::unique_lock lock(mutex);
  wake.wait_for(lock, stop, std::chrono::duration<double>(seconds), [] { return false; });
}

// The target of a redirect. It must not leave https.
Url redirect_target(const Url& from, const HttpHead& head) {
  const auto target = resolve_location(from, head.header("location"));
  if (!target)
    throw Error(cat(from.origin(), ": the server redirects to an invalid address '",
                    quoted(head.header("location")), "'"));
  if (from.secure() && !target->secure())
    throw Error(
        cat(from.origin(), ": the server redirects to an unencrypted address (", target->origin(), ")"));
  return *target;
}

// "bytes 0-99/1000".
struct ContentRange {
  uint64_t begin = 0;
  uint64_t end = 0;  // one past the last byte
  uint64_t total = 0;
};

std::optional<ContentRange> parse_content_range(std::string_view text) {
  if (!text.starts_with("bytes ")) return std::nullopt;
  text.remove_prefix(6);
  const size_t dash = text.find('-');
  const size_t slash = text.find('/');
  if (dash == std::string_view::npos || slash == std::string_view::npos || dash > slash) return std::nullopt;
  const auto begin = number(text.substr(0, dash));
  const auto last = number(text.substr(dash + 1, slash - dash - 1));
  const auto total = number(text.substr(slash + 1));
  if (!begin || !last || !total || *last < *begin || *last >= *total) return std::nullopt;
  return ContentRange{*begin, *last + 1, *total};
}

RepoInfo read_listing(const std::string& repo, const std::string& body) {
  const json listing = json::parse(body, nullptr, false);
  const auto text = [](const json& object, const char* key) {
    const auto it = object.find(key);
    return it != object.end() && it->is_string() ? it->get<std::string>() : std::string();
  };
  RepoInfo info;
  if (listing.is_object()) info.commit = text(listing, "sha");
  const auto siblings = listing.is_object() ? listing.find("siblings") : listing.end();
  if (!is_commit(info.commit) || siblings == listing.end() || !siblings->is_array())
    throw Error(cat(repo, ": the hub returned a malformed list of files; check HF_ENDPOINT"));
  if (siblings->size() > kMaxFiles) throw Error(cat(repo, ": has more than ", kMaxFiles, " files"));
  for (const json& sibling : *siblings) {
    if (!sibling.is_object()) continue;
    const std::string name = text(sibling, "rfilename");
    if (!is_safe_path(name)) {
      if (!name.empty()) log_warning(repo, ": ignoring a file with an unsafe name: ", quoted(name));
      continue;
    }
    info.files.push_back(name);
    const auto size = sibling.find("size");
    if (size != sibling.end() && size->is_number_unsigned()) info.sizes[name] = size->get<uint64_t>();
  }
  std::ranges::sort(info.files);
  return info;
}

}  // namespace

double retry_delay(int attempt) {
  return std::min(8.0, 0.25 * static_cast<double>(1 << std::min(attempt, 10)));
}

HubClient::HubClient(const Settings& settings, std::shared_ptr<const HttpTransport> transport)
    : settings_(settings), http_(std::move(transport)) {}

Url HubClient::url_of(const std::string& path) const {
  Url url = settings_.endpoint;
  url.target = (url.target == "/" ? "" : url.target) + path;
  return url;
}

HttpHeaders HubClient::headers_for(const Url& url) const {
  if (settings_.token.empty() || url.origin() != settings_.endpoint.origin()) return {};
  return {{"Authorization", "Bearer " + settings_.token}};
}

HttpClient::Response HubClient::get(Url url) {
  for (int hop = 0; hop <= kMaxRedirects; ++hop) {
    HttpClient::Response response = http_.get(url, headers_for(url), kMaxListing);
    if (!is_redirect(response.head.status)) return response;
    const Url target = redirect_target(url, response.head);
    if (target.origin() != url.origin()) return response;
    url = target;
  }
  throw Error(cat(url.origin(), ": too many redirects"));
}

HttpClient::Response HubClient::get_with_retries(const Url& url, const std::string& what) {
  for (int attempt = 0;; ++attempt) {
    const bool last = attempt + 3 >= kMaxAttempts;
    try {
      HttpClient::Response response = get(url);
      if (!is_temporary(response.head.status) || last) return response;
    } catch (const HttpError& error) {
      if (!error.can_retry || last)
        throw HttpError(cat(what, ": ", error.what(),
                            error.can_retry ? "; check the network connection and the proxy settings" : ""),
                        error.can_retry);
    }
    pause(retry_delay(attempt), {});
  }
}

void HubClient::fail(const HttpHead& head, const std::string& repo, const std::string& what) {
  const std::string code = head.header("x-error-code");
  const std::string message = quoted(head.header("x-error-message"));
  const std::string page = url_of("/" + repo).text();
  const std::string tokens = url_of("/settings/tokens").text();
  const bool has_token = !settings_.token.empty();
  if (code == "GatedRepo") {
    throw Error(has_token ? cat(repo,
                                ": is gated, and the account of the token in HF_TOKEN has no access; accept "
                                "the licence at ",
                                page)
                          : cat(repo, ": is gated; accept the licence at ", page,
                                " and set HF_TOKEN to a token from ", tokens));
  }
  if (code == "RevisionNotFound")
    throw Error(
        cat(repo, ": has no such branch, tag or commit; --revision names one of ", page, "/tree/main"));
  if (code == "EntryNotFound") throw Error(cat(repo, ": has no file ", what));
  if (head.status == 401 && has_token && code != "RepoNotFound")
    throw Error(cat(repo, ": the hub rejects the token in HF_TOKEN; create a new one at ", tokens));
  if (head.status == 401 || head.status == 404 || code == "RepoNotFound") {
    throw ModelNotFound(cat(
        repo, ": there is no such model at ", settings_.endpoint.origin(), ", or it is private and ",
        has_token ? "the token in HF_TOKEN has no access" : "needs a token in HF_TOKEN", similar_text(repo)));
  }
  if (head.status == 429)
    throw HttpError(cat(repo, ": the hub limits the rate of requests; try again later",
                        has_token ? "" : " or set HF_TOKEN"),
                    true);
  if (head.status >= 500)
    throw HttpError(cat(repo, ": the hub is not available (status ", head.status, "); try again later"),
                    true);
  throw Error(cat(repo, ": the hub refuses ", what, " with status ", head.status, message.empty() ? "" : ": ",
                  message));
}

std::string HubClient::similar_text(const std::string& repo) {
  std::vector<std::string> candidates = search(repo);
  for (const CachedRepo& cached : cached_repos(settings_.cache)) candidates.push_back(cached.repo);
  const auto similar = similar_names(repo, candidates, 3);
  return similar.empty() ? std::string() : "; similar names: " + join(similar, ", ");
}

std::vector<std::string> HubClient::search(const std::string& repo) {
  std::vector<std::string> names;
  try {
    const std::string name = repo.substr(repo.find('/') + 1);
    const Url url = url_of(cat("/api/models?limit=20&search=", percent_encode(name, false)));
    const HttpClient::Response response = http_.get(url, headers_for(url), kMaxSearch);
    const json list = json::parse(response.body, nullptr, false);
    if (response.head.status != 200 || !list.is_array()) return names;
    for (const json& model : list) {
      const auto id = model.is_object() ? model.find("id") : model.end();
      if (model.is_object() && id != model.end() && id->is_string() && is_repo_id(id->get<std::string>()))
        names.push_back(id->get<std::string>());
    }
  } catch (const Error&) {
    // The names are only a suggestion in an error message.
  }
  return names;
}

RepoInfo HubClient::repo_info(const std::string& repo, const std::string& revision) {
  const Url url =
      url_of(cat("/api/models/", repo, "/revision/", percent_encode(revision, false), "?blobs=true"));
  const HttpClient::Response response = get_with_retries(url, repo);
  if (response.head.status != 200) fail(response.head, repo, "the list of files");
  return read_listing(repo, response.body);
}

RemoteFile HubClient::file_info(const std::string& repo, const std::string& commit, const std::string& name) {
  RemoteFile file;
  file.repo = repo;
  file.commit = commit;
  file.name = name;
  file.location = url_of(cat("/", repo, "/resolve/", commit, "/", percent_encode(name, true)));
  int hops = 0;
  for (int attempt = 0;;) {
    HttpHead head;
    try {
      head = http_.head(file.location, headers_for(file.location));
    } catch (const HttpError& error) {
      if (!error.can_retry || ++attempt >= kMaxAttempts) throw;
      pause(retry_delay(attempt), {});
      continue;
    }
    if (is_temporary(head.status) && ++attempt < kMaxAttempts) {
      pause(retry_delay(attempt), {});
      continue;
    }
    if (!is_redirect(head.status) && head.status != 200) fail(head, repo, name);
    const std::string linked = head.header("x-linked-etag");
    file.etag = hash_of_etag(linked.empty() ? head.header("etag") : linked);
    if (const auto size = number(head.header("x-linked-size"))) {
      file.size = *size;
    } else if (head.status == 200 && head.content_length) {
      file.size = *head.content_length;
    } else if (!is_redirect(head.status)) {
      throw Error(cat(repo, ": the hub does not report the size of ", name));
    }
    if (!is_redirect(head.status)) break;
    const Url target = redirect_target(file.location, head);
    const bool leaves = target.origin() != file.location.origin();
    file.location = target;
    if (leaves || !linked.empty()) break;
    if (++hops > kMaxRedirects) throw Error(cat(repo, ": too many redirects for ", name));
  }
  if (file.etag.empty())
    throw Error(cat(repo, ": the hub does not report a SHA-256 or Git hash of ", name,
                    ", so the download cannot be verified; check HF_ENDPOINT"));
  return file;
}

void HubClient::read_once(RemoteFile& file, uint64_t& begin, uint64_t end,
                          const std::function<void(std::string_view)>& sink, const std::stop_token& stop) {
  HttpHeaders headers = headers_for(file.location);
  headers.emplace_back("Range", cat("bytes=", begin, "-", end - 1));
  Url url = file.location;
  for (int hop = 0; hop <= kMaxRedirects; ++hop) {
    const HttpHead head = http_.get(
        url, headers,
        [&](const HttpHead& h) {
          if (h.status == 200)
            throw RangeIgnored(cat(file.repo, ": ", url.origin(), " does not support ranges"));
          if (h.status != 206) return false;
          const auto range = parse_content_range(h.header("content-range"));
          if (!range || range->begin != begin || range->end > end)
            throw HttpError(cat(url.origin(), ": the server returned another range than requested"), true);
          if (range->total != file.size)
            throw Error(cat(file.repo, ": ", file.name, " has ", range->total, " bytes on the server, but ",
                            file.size, " in the repository; try again later"));
          return true;
        },
        [&](std::string_view piece) {
          if (stop.stop_requested()) throw HttpError("stopped", false);
          if (piece.size() > end - begin)
            throw HttpError(cat(url.origin(), ": the server sent more than requested"), true);
          begin += piece.size();
          sink(piece);
        });
    if (head.status == 206) {
      if (begin < end) throw HttpError(cat(url.origin(), ": the server sent less than requested"), true);
      return;
    }
    if (!is_redirect(head.status)) {
      if (is_temporary(head.status)) throw HttpError(cat(url.origin(), ": status ", head.status), true);
      if (head.status == 401 || head.status == 403 || head.status == 404 || head.status == 410) {
        // The address may have expired.
        file.location = file_info(file.repo, file.commit, file.name).location;
        throw HttpError(cat(url.origin(), ": status ", head.status), true);
      }
      fail(head, file.repo, file.name);
    }
    url = redirect_target(url, head);
    headers = headers_for(url);
    headers.emplace_back("Range", cat("bytes=", begin, "-", end - 1));
  }
  throw Error(cat(file.repo, ": too many redirects for ", file.name));
}

void HubClient::read_range(RemoteFile& file, uint64_t begin, uint64_t end,
                           const std::function<void(std::string_view)>& sink, const std::stop_token& stop) {
  for (int attempt = 0; begin < end;) {
    const uint64_t before = begin;
    try {
      read_once(file, begin, end, sink, stop);
    } catch (const HttpError& error) {
      if (stop.stop_requested() || !error.can_retry) throw;
      attempt = begin > before ? 0 : attempt + 1;
      if (attempt >= kMaxAttempts)
        throw HttpError(cat(file.repo, ": ", file.name, ": ", error.what(),
                            "; the download resumes from here when it is started again"),
                        true);
      pause(retry_delay(attempt), stop);
      if (stop.stop_requested()) throw;
    }
  }
}

void HubClient::read_all(RemoteFile& file, const std::function<void(std::string_view)>& sink) {
  Url url = file.location;
  for (int hop = 0; hop <= kMaxRedirects; ++hop) {
    const HttpHead head = http_.get(
        url, headers_for(url),
        [&](const HttpHead& h) {
          if (h.status == 200 && h.content_length && *h.content_length != file.size)
            throw Error(cat(file.repo, ": ", file.name, " has ", *h.content_length,
                            " bytes on the server, but ", file.size, " in the repository; try again later"));
          return h.status == 200;
        },
        sink);
    if (head.status == 200) return;
    if (!is_redirect(head.status)) {
      if (is_temporary(head.status)) throw HttpError(cat(url.origin(), ": status ", head.status), true);
      fail(head, file.repo, file.name);
    }
    url = redirect_target(url, head);
  }
  throw Error(cat(file.repo, ": too many redirects for ", file.name));
}

}  // namespace quire::hub
