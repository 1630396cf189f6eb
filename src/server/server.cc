#include "server/server.h"

#include <algorithm>
#include <array>
#include <chrono>

#include "base/clock.h"
#include "base/log.h"
#include "base/strings.h"
#include "server/access.h"
#include "server/http/router.h"
#include "server/internal/page_api.h"
#include "server/internal/page_files.h"
#include "server/openai/api.h"
#include "server/openai/errors.h"

namespace quire {
namespace {

// Time for responses to be sent after the engine has finished.
constexpr double kFlushSeconds = 2.0;

std::vector<std::string> model_names(const ServingEngine& engine, const ServerOptions& options) {
  for (const AdapterDescription& adapter : engine.adapters()) {
    if (std::ranges::find(options.served_model_names, adapter.name) != options.served_model_names.end())
      throw Error(
          cat("--served-model-name ", adapter.name, ": this is the name of an adapter (--lora-modules)"));
  }
  if (!options.served_model_names.empty()) return options.served_model_names;
  std::vector<std::string> names = {engine.model().name};
  if (!engine.model().path.empty() && engine.model().path != engine.model().name)
    names.push_back(engine.model().path);
  return names;
}

Json template_variables(const std::string& text) {
  constexpr const char* kFlag = "--default-chat-template-kwargs";
  if (text.empty()) return Json::object();
  Json object = Json::parse(text, nullptr, false);
  if (!object.is_object()) throw Error(cat(kFlag, " must be a JSON object."));
  if (object.contains("messages")) throw Error(cat(kFlag, " must not set 'messages'."));
  return object;
}

// Tools can be called with any model that has a chat template: where the template shows no format, calls are
// JSON.
DetectedFormat output_formats(const ServingEngine& engine, const ParserNames& names) {
  check_parser_names(names);
  DetectedFormat formats;
  if (engine.has_chat_template()) formats = engine.detect_formats();
  if (formats.calls == nullptr) {
    formats.calls = find_call_format("json");
  } else if (formats.calls_method == FormatMethod::kGeneric && !names.calls) {
    log_warning(
        "The chat template shows no known format of tool calls; they are looked for as JSON "
        "(--tool-call-parser names a format)");
  }
  apply_parser_names(names, formats);
  return formats;
}

// A browser sends other types across sites without asking the server first. No type at all is accepted: many
// simple clients send none, and a browser's request is recognized by its Origin header.
bool is_json(const HttpRequest& request) {
  if (!request.headers.contains("Content-Type")) return true;
  std::string_view type = request.headers.get("Content-Type");
  type = type.substr(0, type.find(';'));
  while (type.ends_with(' ') || type.ends_with('\t')) type.remove_suffix(1);
  return equal_ignoring_case(type, "application/json");
}

// Bodies in another form would be reported as malformed JSON.
std::optional<HttpResponse> check_body_type(const HttpRequest& request) {
  const std::string_view encoding = request.headers.get("Content-Encoding");
  if (!encoding.empty() && !equal_ignoring_case(encoding, "identity")) {
    return error_response(415, cat("Content-Encoding '", encoding.substr(0, 40),
                                   "' is not supported; send the body without compression."));
  }
  if (request.method != "POST" || is_json(request)) return std::nullopt;
  return error_response(415, cat("Content-Type '", request.headers.get("Content-Type").substr(0, 80),
                                 "' is not supported; send JSON with 'Content-Type: application/json'."));
}

std::vector<Route> all_routes(const std::shared_ptr<ApiState>& state, bool with_page) {
  std::vector<Route> routes = api_routes(state);
  if (!with_page) return routes;
  for (Route& route : page_routes()) routes.push_back(std::move(route));
  for (Route& route : page_api_routes(state)) routes.push_back(std::move(route));
  return routes;
}

}  // namespace

struct Server::Impl {
  ServingEngine& engine;
  ServerOptions options;
  AccessPolicy access;
  std::shared_ptr<ApiState> state;
  std::unique_ptr<Router> router;
  std::unique_ptr<HttpServer> http;

  Impl(ServingEngine& e, ServerOptions o)
      : engine(e), options(std::move(o)), access(options.access, options.http.host) {}

  std::optional<HttpResponse> precheck(const HttpRequest& request) const;
  void handle(HttpRequest& request, const std::shared_ptr<ResponseWriter>& writer) const;
  std::string http_metrics() const;
};

std::optional<HttpResponse> Server::Impl::precheck(const HttpRequest& request) const {
  if (auto refusal = access.check_site(request, http->is_loopback())) return refusal;
  const Router::Match match = router->match(request.method, request.path);
  if (request.method == "OPTIONS")
    return access.preflight(request, match.allow.empty() ? "GET, HEAD, POST, OPTIONS" : match.allow);
  // Without a key, a client does not learn which paths exist.
  const bool open = match.route != nullptr && !match.route->needs_key;
  if (!open && access.has_keys() && !access.find_key(request)) {
    return error_response(401, AccessPolicy::offers_key(request)
                                   ? "The API key is not valid."
                                   : "An API key is required: send it as 'Authorization: Bearer KEY'.");
  }
  if (match.route == nullptr && match.allow.empty()) {
    return error_response(
        404, cat("There is no ", request.method.substr(0, 20), " ", request.path.substr(0, 200), "."));
  }
  if (match.route == nullptr) {
    HttpResponse response = error_response(405, cat(request.path.substr(0, 200), " supports ", match.allow,
                                                    ", not ", request.method.substr(0, 20), "."));
    response.headers.add("Allow", match.allow);
    return response;
  }
  if (auto refusal = check_body_type(request)) return refusal;
  if (match.route->is_work && state->draining.load())
    return error_response(503, "The server is shutting down.");
  return std::nullopt;
}

void Server::Impl::handle(HttpRequest& request, const std::shared_ptr<ResponseWriter>& writer) const {
  if (const auto key = access.find_key(request)) {
    request.client = cat("key ", *key);
    if (!options.share_prefix_cache) request.cache_salt = access.cache_salt(*key);
  }
  router->match(request.method, request.path).route->handler(request, writer);
}

std::string Server::Impl::http_metrics() const {
  struct Line {
    std::string_view name;
    std::string_view help;
    int64_t value;
  };
  const std::array<Line, 2> lines = {{
      {"quire:http_connections", "Open connections.", http->num_connections()},
      {"quire:http_requests_in_flight", "HTTP requests without a complete response.", http->num_exchanges()},
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
      {model_names(engine, o), o.strict_params, o.trust_request_chat_template, o.force_include_usage,
       o.tokens_as_ids, template_variables(o.default_chat_template_kwargs), output_formats(engine, o.parsers),
       o.lora_updating, o.lora_allowed_dirs},
      {o.keep_alive_s, "quire-" + o.version, nullptr},
      o.version,
      o.metrics_need_key,
      unix_seconds(),
      [impl = impl_.get()] { return impl->http_metrics(); },
  });
  impl_->state->settings.pool = impl_->state->pool;
  impl_->router = std::make_unique<Router>(all_routes(impl_->state, o.serve_page));
  HttpApp app;
  app.precheck = [impl = impl_.get()](const HttpRequest& request) { return impl->precheck(request); };
  app.handle = [impl = impl_.get()](HttpRequest& request, const std::shared_ptr<ResponseWriter>& writer) {
    impl->handle(request, writer);
  };
  app.busy = [&engine] { return engine.busy(); };
  app.error = [](int status, const std::string& message) { return error_response(status, message); };
  app.decorate = [impl = impl_.get()](const HttpRequest& request, HttpHeaders& headers) {
    if (!request.id.empty()) headers.add("X-Request-Id", request.id);
    impl->access.add_cors(request, headers);
  };
  app.record = [which = o.log_requests](const RequestRecord& record) {
    const auto line = request_log_line(record, which);
    if (!line) return;
    log_parts(record.status >= 500 ? LogLevel::kWarning : LogLevel::kInfo, *line);
  };
  impl_->http = std::make_unique<HttpServer>(o.http, std::move(app));
}

Server::~Server() {
  stop();
  // Tasks use the engine, which may be destroyed next. They also own the state and with it the pool: without
  // this line, the last one would join its own thread.
  impl_->state->pool->close();
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
  // The engine takes no more requests: those that are still parsed or tokenized cannot run.
  impl_->state->pool->cancel_all();
  const auto timeout =
      std::chrono::milliseconds(static_cast<int64_t>(impl_->options.shutdown_timeout_s * 1000.0));
  const bool clean = impl_->engine.drain(timeout);
  impl_->http->stop(kFlushSeconds);
  return clean;
}

void Server::stop() {
  impl_->state->draining.store(true);
  impl_->state->pool->cancel_all();
  impl_->http->cut();
  impl_->http->stop(0.0);
}

}  // namespace quire
