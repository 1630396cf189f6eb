// The table of paths and handlers, constant once the server has started.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "server/http/http_types.h"

namespace quire {

struct Route {
  std::string_view method;
  std::string_view path;  // "*" at the end stands for the rest of the path, which must not be empty
  HttpHandler handler;
  bool needs_key = true;
  bool is_work = false;  // refused while the server shuts down
};

class Router {
 public:
  explicit Router(std::vector<Route> routes) : routes_(std::move(routes)) {}

  struct Match {
    const Route* route = nullptr;  // null = the path does not support the method
    std::string allow;             // methods of the path, for "Allow"; empty = no such path
  };
  // HEAD matches the route of GET. A slash at the end of the path is ignored.
  Match match(std::string_view method, std::string_view path) const;

 private:
  std::vector<Route> routes_;
};

// The part of the path that the "*" at the end of `pattern` stands for.
std::string_view wildcard_part(std::string_view pattern, std::string_view path);

}  // namespace quire
