#include "server/http/router.h"

#include <algorithm>

namespace quire {
namespace {

std::string_view without_slash(std::string_view path) {
  if (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
  return path;
}

bool fits(const Route& route, std::string_view path) {
  if (!route.path.ends_with('*')) return route.path == path;
  const std::string_view prefix = route.path.substr(0, route.path.size() - 1);
  return path.starts_with(prefix) && path.size() > prefix.size();
}

}  // namespace

Router::Match Router::match(std::string_view method, std::string_view path) const {
  path = without_slash(path);
  Match found;
  for (const Route& route : routes_) {
    if (!fits(route, path)) continue;
    if (route.method == method || (method == "HEAD" && route.method == "GET")) {
      if (found.route == nullptr) found.route = &route;
    }
    if (!found.allow.empty()) found.allow += ", ";
    found.allow += route.method;
    if (route.method == "GET") found.allow += ", HEAD";
  }
  if (!found.allow.empty()) found.allow += ", OPTIONS";
  return found;
}

std::string_view wildcard_part(std::string_view pattern, std::string_view path) {
  path = without_slash(path);
  return pattern.ends_with('*') ? path.substr(std::min(path.size(), pattern.size() - 1)) : std::string_view();
}

}  // namespace quire
