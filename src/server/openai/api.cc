#include "server/openai/api.h"

#include <algorithm>

#include "base/strings.h"
#include "server/openai/errors.h"
#include "server/openai/field_reader.h"
#include "server/openai/pooling.h"

namespace quire {
namespace {

using Writer = std::shared_ptr<ResponseWriter>;
using State = std::shared_ptr<ApiState>;
using Parse = Result<GenerationSpec> (*)(const Json&, const ServingEngine&, const ApiOptions&,
                                         const std::string&);

HttpResponse json_response(std::string body) {
  HttpResponse response;
  response.body = std::move(body);
  return response;
}

// Bodies compressed or in another form would otherwise be reported as broken JSON.
Result<Json> read_body(HttpRequest& request) {
  const std::string_view encoding = request.headers.get("Content-Encoding");
  if (!encoding.empty() && !equal_ignoring_case(encoding, "identity")) {
    return invalid_argument(
        cat("Content-Encoding '", encoding.substr(0, 40), "' is not supported; send the body as it is"));
  }
  auto body = parse_json_object(request.body);
  // The text is not needed beside its tree.
  request.body = std::string();
  return body;
}

void generate(const State& state, HttpRequest& request, const Writer& writer, Parse parse) {
  const auto body = read_body(request);
  if (!body.ok()) return writer->send(error_response(body.failure()));
  auto spec = parse(*body, state->engine, state->options, request.id);
  if (!spec.ok()) return writer->send(error_response(spec.failure()));
  if (!request.client.empty()) spec->client = request.client;
  std::make_shared<Generation>(state->engine, std::move(spec).value(), writer, state->settings)->start();
}

void write_model_card(JsonOut& out, const ApiState& state, const std::string& name) {
  out.begin_object().key("id").string(name).key("object").string("model");
  out.key("created").integer(state.started).key("owned_by").string("quire");
  out.key("root").string(state.engine.model().path.empty() ? state.engine.model().name
                                                           : state.engine.model().path);
  out.key("parent").null().key("max_model_len").integer(state.engine.model().max_model_len);
  out.key("permission").begin_array().end_array().end_object();
}

std::string model_list(const ApiState& state) {
  std::string body;
  JsonOut out(body);
  out.begin_object().key("object").string("list").key("data").begin_array();
  for (const std::string& name : state.options.model_names) write_model_card(out, state, name);
  out.end_array().end_object();
  return body;
}

void one_model(const ApiState& state, std::string_view name, const Writer& writer) {
  const auto& names = state.options.model_names;
  if (std::find(names.begin(), names.end(), name) == names.end()) {
    return writer->send(error_response(
        404, cat("the model '", name.substr(0, 200), "' does not exist here; available: ", join(names, ", ")),
        "model", "model_not_found"));
  }
  std::string body;
  JsonOut out(body);
  write_model_card(out, state, std::string(name));
  writer->send(json_response(std::move(body)));
}

void health(const ApiState& state, const Writer& writer) {
  if (state.draining.load()) return writer->send(error_response(503, "the server is shutting down"));
  HttpResponse response;
  response.content_type.clear();
  writer->send(std::move(response));
}

void metrics(const ApiState& state, const Writer& writer) {
  HttpResponse response;
  response.content_type = "text/plain; version=0.0.4; charset=utf-8";
  response.body = state.engine.metrics_page();
  if (state.http_metrics) response.body += state.http_metrics();
  writer->send(std::move(response));
}

// What runs keeps its blocks; they are forgotten too when it ends.
void reset_prefix_cache(const ApiState& state, const Writer& writer) {
  const bool at_once = state.engine.reset_prefix_cache();
  std::string body;
  JsonOut(body).begin_object().key("success").boolean(true).key("in_use").boolean(!at_once).end_object();
  writer->send(json_response(std::move(body)));
}

using Answer = Result<std::string> (*)(const Json&, const ApiState&);

HttpHandler at_once(const State& state, Answer answer) {
  return [state, answer](HttpRequest& request, const Writer& writer) {
    const auto body = read_body(request);
    if (!body.ok()) return writer->send(error_response(body.failure()));
    auto text = answer(*body, *state);
    writer->send(text.ok() ? json_response(std::move(text).value()) : error_response(text.failure()));
  };
}

HttpHandler generating(const State& state, Parse parse) {
  return
      [state, parse](HttpRequest& request, const Writer& writer) { generate(state, request, writer, parse); };
}

HttpHandler pooling(const State& state, ParsePooling parse) {
  return [state, parse](HttpRequest& request, const Writer& writer) {
    const auto body = read_body(request);
    if (!body.ok()) return writer->send(error_response(body.failure()));
    auto spec = parse(*body, state->engine, state->options, request.id);
    if (!spec.ok()) return writer->send(error_response(spec.failure()));
    if (!request.client.empty()) spec->client = request.client;
    std::make_shared<Pooling>(state->engine, std::move(spec).value(), writer, state->settings.log_requests)
        ->start();
  };
}

}  // namespace

std::vector<Route> api_routes(const State& state) {
  const HttpHandler chat = generating(state, parse_chat_completion);
  const HttpHandler completion = generating(state, parse_completion);
  const HttpHandler embeddings = pooling(state, parse_embeddings);
  const HttpHandler rerank = pooling(state, parse_rerank);
  const HttpHandler score = pooling(state, parse_score);
  const HttpHandler models = [state](HttpRequest&, const Writer& w) {
    w->send(json_response(model_list(*state)));
  };
  const HttpHandler is_healthy = [state](HttpRequest&, const Writer& w) { health(*state, w); };
  const HttpHandler tokenize = at_once(state, answer_tokenize);
  const HttpHandler detokenize = at_once(state, answer_detokenize);

  std::vector<Route> routes = {
      {"POST", "/v1/chat/completions", chat, true, true},
      {"POST", "/chat/completions", chat, true, true},
      {"POST", "/v1/completions", completion, true, true},
      {"POST", "/completions", completion, true, true},
      {"POST", "/v1/embeddings", embeddings, true, true},
      {"POST", "/embeddings", embeddings, true, true},
      {"POST", "/v1/rerank", rerank, true, true},
      {"POST", "/v2/rerank", rerank, true, true},
      {"POST", "/rerank", rerank, true, true},
      {"POST", "/v1/score", score, true, true},
      {"POST", "/score", score, true, true},
      {"POST", "/classify", pooling(state, parse_classify), true, true},
      {"POST", "/pooling", pooling(state, parse_pooling), true, true},
      {"GET", "/v1/models", models},
      {"GET", "/models", models},
      {"POST", "/tokenize", tokenize},
      {"POST", "/v1/tokenize", tokenize},
      {"POST", "/detokenize", detokenize},
      {"POST", "/v1/detokenize", detokenize},
      {"POST", "/reset_prefix_cache",
       [state](HttpRequest&, const Writer& w) { reset_prefix_cache(*state, w); }},
      {"GET", "/health", is_healthy, false},
      {"GET", "/v1/health", is_healthy, false},
      {"GET", "/ping", is_healthy, false},
      {"POST", "/ping", is_healthy, false},
  };
  routes.push_back({"GET", "/version",
                    [state](HttpRequest&, const Writer& w) {
                      std::string body;
                      JsonOut(body).begin_object().key("version").string(state->version).end_object();
                      w->send(json_response(std::move(body)));
                    },
                    false});
  routes.push_back({"GET", "/metrics", [state](HttpRequest&, const Writer& w) { metrics(*state, w); },
                    state->metrics_need_key});
  routes.push_back({"GET", "/v1/models/*", [state](HttpRequest& r, const Writer& w) {
                      one_model(*state,
                                std::string_view(r.path).substr(std::string_view("/v1/models/").size()), w);
                    }});
  return routes;
}

}  // namespace quire
