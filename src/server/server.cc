#include "server/server.h"

#include <algorithm>
#include <array>
#include <chrono>

#include "base/clock.h"
#include "base/strings.h"
#include "server/http/router.h"
#include "server/openai/api.h"
#include "server/openai/errors.h"

namespace quire {
namespace {

// For answers on their way when everything else has ended.
constexpr double kFlushSeconds = 2.0;

std::vector<std::string> model_names(const ServingEngine& engine, const ServerOptions& options) {
  if (!options.served_model_names.empty()) return options.served_model_names;
  std::vector<std::string> names = {engine.model().name};
  if (!engine.model().path.empty() && engine.model().path != engine.model().name)
    names.push_back(engine.model().path);
  return names;
}

std::string_view offered_key(const HttpRequest& request) {
  const std::string_view authorization = request.headers.get("Authorization");
  constexpr std::string_view kBearer = "Bearer ";
  if (authorization.size() > kBearer.size() &&
      equal_ignoring_case(authorization.substr(0, kBearer.size()), kBearer)) {
    return authorization.substr(kBearer.size());
  }
  return request.headers.get("X-Api-Key");
}

HttpResponse preflight(const HttpRequest& request, const std::string& allow) {
  HttpResponse response;
  response.status = 204;
  response.headers.add("Allow", allow);
  if (!request.headers.contains("Origin")) return response;
  response.headers.add("Access-Control-Allow-Methods", allow);
  const std::string_view wanted = request.headers.get("Access-Control-Request-Headers");
  response.headers.add("Access-Control-Allow-Headers",
                       wanted.empty() ? "Authorization, Content-Type" : std::string(wanted));
  response.headers.add("Access-Control-Max-Age", "600");
  return response;
}

void decorate(const HttpRequest& request, HttpHeaders& headers) {
  if (!request.id.empty()) headers.add("X-Request-Id", request.id);
  const std::string_view origin = request.headers.get("Origin");
  if (origin.empty()) return;
  headers.add("Access-Control-Allow-Origin", std::string(origin));
  headers.add("Access-Control-Allow-Credentials", "true");
  headers.add("Access-Control-Expose-Headers", "X-Request-Id, X-Ignored-Params, Retry-After");
  headers.add("Vary", "Origin");
}

}  // namespace

struct Server::Impl {
  ServingEngine& engine;
  ServerOptions options;
  std::shared_ptr<ApiState> state;
  std::unique_ptr<Router> router;
  std::unique_ptr<HttpServer> http;

  Impl(ServingEngine& e, ServerOptions o) : engine(e), options(std::move(o)) {}

  // Which of the API keys the request brought; none where it brought none of them.
  std::optional<size_t> key_of(const HttpRequest& request) const;
  std::optional<HttpResponse> precheck(const HttpRequest& request) const;
  std::string http_metrics() const;
};

std::optional<size_t> Server::Impl::key_of(const HttpRequest& request) const {
  const std::string_view offered = offered_key(request);
  // All keys are compared, so that the time does not tell which one came close.
  std::optional<size_t> found;
  for (size_t i = 0; i < options.api_keys.size(); ++i) {
    const bool equal = equal_constant_time(offered, options.api_keys[i]);
    if (equal && !found) found = i;
  }
  return found;
}

std::optional<HttpResponse> Server::Impl::precheck(const HttpRequest& request) const {
  const Router::Match match = router->match(request.method, request.path);
  if (request.method == "OPTIONS")
    return preflight(request, match.allow.empty() ? "GET, HEAD, POST, OPTIONS" : match.allow);
  // Without a key nobody learns which paths there are.
  const bool open = match.route != nullptr && !match.route->needs_key;
  if (!open && !options.api_keys.empty() && !key_of(request)) {
    const bool missing = offered_key(request).empty();
    return error_response(401, missing ? "an API key is needed: send it as 'Authorization: Bearer KEY'"
                                       : "the API key is not valid");
  }
  if (match.route == nullptr && match.allow.empty()) {
    return error_response(
        404, cat("there is nothing at ", request.method.substr(0, 20), " ", request.path.substr(0, 200)));
  }
  if (match.route == nullptr) {
    HttpResponse response = error_response(405, cat(request.path.substr(0, 200), " takes ", match.allow,
                                                    ", not ", request.method.substr(0, 20)));
    response.headers.add("Allow", match.allow);
    return response;
  }
  if (match.route->is_work && state->draining.load())
    return error_response(503, "the server is shutting down");
  return std::nullopt;
}

std::string Server::Impl::http_metrics() const {
  struct Line {
    std::string_view name;
    std::string_view help;
    int64_t value;
  };
  const std::array<Line, 2> lines = {{
      {"quire:http_connections", "Open connections.", http->num_connections()},
      {"quire:http_requests_in_flight", "HTTP requests being answered.", http->num_exchanges()},
  }};
  std::string text;
  for (const Line& l : lines)
    text += cat("# HELP ", l.name, " ", l.help, "\n# TYPE ", l.name, " gauge\n", l.name, " ", l.value, "\n");
  return text;
}

Server::Server(ServingEngine& engine, ServerOptions options)
    : impl_(std::make_unique<Impl>(engine, std::move(options))) {
  const ServerOptions& o = impl_->options;
  impl_->state = std::shared_ptr<ApiState>(new ApiState{
      engine,
      {model_names(engine, o), o.strict_params, o.trust_request_chat_template},
      {o.keep_alive_s, "quire-" + o.version, o.log_requests},
      o.version,
      o.metrics_need_key,
      unix_seconds(),
      [impl = impl_.get()] { return impl->http_metrics(); },
  });
  impl_->router = std::make_unique<Router>(api_routes(impl_->state));
  HttpApp app;
  app.precheck = [impl = impl_.get()](const HttpRequest& request) { return impl->precheck(request); };
  app.handle = [impl = impl_.get()](HttpRequest& request, const std::shared_ptr<ResponseWriter>& writer) {
    if (const auto key = impl->key_of(request)) request.client = cat("key ", *key);
    impl->router->match(request.method, request.path).route->handler(request, writer);
  };
  app.error = [](int status, const std::string& message) { return error_response(status, message); };
  app.decorate = decorate;
  impl_->http = std::make_unique<HttpServer>(o.http, std::move(app));
}

Server::~Server() {
  stop();
}

void Server::start() {
  impl_->http->start();
}

uint16_t Server::port() const {
  return impl_->http->port();
}

std::string Server::url() const {
  const std::string& host = impl_->options.http.host;
  const bool v6 = host.find(':') != std::string::npos;
  return cat("http://", v6 ? "[" : "", host, v6 ? "]" : "", ":", port());
}

bool Server::shutdown() {
  impl_->state->draining.store(true);
  const auto timeout =
      std::chrono::milliseconds(static_cast<int64_t>(impl_->options.shutdown_timeout_s * 1000.0));
  const bool clean = impl_->engine.drain(timeout);
  impl_->http->stop(kFlushSeconds);
  return clean;
}

void Server::stop() {
  impl_->state->draining.store(true);
  impl_->http->cut();
  impl_->http->stop(0.0);
}

}  // namespace quire
