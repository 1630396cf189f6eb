// Which handler answers which path: a table, filled before the server starts and only read afterwards.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "server/http/http_types.h"

namespace quire {

struct Route {
  std::string_view method;
  std::string_view path;  // a last "*" takes the rest of the path, which must not be empty
  HttpHandler handler;
  bool needs_key = true;
  bool is_work = false;  // refused while the server shuts down
};

class Router {
 public:
  explicit Router(std::vector<Route> routes) : routes_(std::move(routes)) {}

  struct Match {
    const Route* route = nullptr;  // null: none for this method
    std::string allow;             // the methods that the path has, for "Allow"; empty: no such path
  };
  // HEAD finds the route of GET. A slash at the end of the path is not looked at.
  Match match(std::string_view method, std::string_view path) const;

 private:
  std::vector<Route> routes_;
};

// What stood in the place of the route's "*".
std::string_view wildcard_part(const Route& route, std::string_view path);

}  // namespace quire
