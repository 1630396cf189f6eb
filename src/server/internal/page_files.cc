#include "server/internal/page_files.h"

#include <algorithm>
#include <array>
#include <memory>
#include <string>

#include "base/fingerprint.h"
#include "base/strings.h"
#include "server/linked_files.h"

namespace quire {
namespace {

constexpr std::string_view kFolder = "page/";
constexpr std::string_view kIndex = "index.html";

// Scripts and styles come from files of this server only, and scripts cannot turn text into markup
// (require-trusted-types-for).
constexpr std::string_view kPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; "
    "trusted-types 'none'";

// One file and its headers, made once.
struct Prepared {
  PageFile file;
  std::string etag;
};

// If-None-Match: "a", W/"b" or *.
bool names_etag(std::string_view header, std::string_view etag) {
  return header == "*" || header.find(etag) != std::string_view::npos;
}

HttpResponse page_response(const Prepared& page, const HttpRequest& request) {
  HttpResponse response;
  response.headers.add("ETag", page.etag);
  // Checked on each visit, so that a newer server never runs an older script.
  response.headers.add("Cache-Control", "no-cache");
  response.headers.add("Content-Security-Policy", std::string(kPolicy));
  response.headers.add("X-Content-Type-Options", "nosniff");
  response.headers.add("Referrer-Policy", "no-referrer");
  response.headers.add("Cross-Origin-Opener-Policy", "same-origin");
  response.headers.add("Cross-Origin-Resource-Policy", "same-origin");
  if (names_etag(request.headers.get("If-None-Match"), page.etag)) {
    response.status = 304;
    return response;
  }
  response.content_type = std::string(page_content_type(page.file.name));
  response.body = std::string(page.file.bytes);
  return response;
}

// Paths of routes are views: these live as long as the program.
const std::vector<std::string>& page_paths() {
  static const std::vector<std::string> kPaths = [] {
    std::vector<std::string> paths;
    for (const PageFile& file : page_files())
      paths.push_back(file.name == kIndex ? "/" : cat("/ui/", file.name));
    return paths;
  }();
  return kPaths;
}

}  // namespace

std::span<const PageFile> page_files() {
  static const std::vector<PageFile> kFiles = [] {
    std::vector<PageFile> files;
    for (const LinkedFile& file : linked_files()) {
      if (file.name.starts_with(kFolder)) files.push_back({file.name.substr(kFolder.size()), file.bytes});
    }
    return files;
  }();
  return kFiles;
}

std::string_view page_content_type(std::string_view name) {
  struct Type {
    std::string_view ending;
    std::string_view type;
  };
  constexpr std::array<Type, 4> kTypes = {{
      {".html", "text/html; charset=utf-8"},
      {".css", "text/css; charset=utf-8"},
      {".js", "text/javascript; charset=utf-8"},
      {".svg", "image/svg+xml"},
  }};
  const auto* const found =
      std::find_if(kTypes.begin(), kTypes.end(), [&](const Type& t) { return name.ends_with(t.ending); });
  return found == kTypes.end() ? "application/octet-stream" : found->type;
}

std::vector<Route> page_routes() {
  std::vector<Route> routes;
  const auto files = page_files();
  for (size_t i = 0; i < files.size(); ++i) {
    Fingerprint fingerprint;
    fingerprint.add(files[i].bytes);
    const Prepared page{files[i], cat('"', fingerprint.text(), '"')};
    routes.push_back({"GET", page_paths()[i],
                      [page](HttpRequest& request, const std::shared_ptr<ResponseWriter>& writer) {
                        writer->send(page_response(page, request));
                      },
                      false});
  }
  return routes;
}

}  // namespace quire
