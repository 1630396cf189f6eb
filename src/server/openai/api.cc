#include "server/openai/api.h"

#include <algorithm>
#include <optional>
#include <type_traits>
#include <utility>

#include "base/log.h"
#include "base/strings.h"
#include "base/yield_point.h"
#include "server/linked_files.h"
#include "server/openai/common_fields.h"
#include "server/openai/errors.h"
#include "server/openai/field_reader.h"
#include "server/openai/lora.h"
#include "server/openai/pooling.h"

namespace quire {
namespace {

using Writer = std::shared_ptr<ResponseWriter>;
using State = std::shared_ptr<ApiState>;
using Parse = Result<GenerationSpec> (*)(const Json&, const ServingEngine&, const ApiOptions&,
                                         const std::string&, const YieldPoint&);

// A request on its way through the pool.
struct Job {
  State state;
  HttpRequest request;
  Writer writer;
  std::stop_source client = {};  // requested when the client disconnects
  std::stop_source stop = {};    // requested also when the server stops
};

HttpResponse json_response(std::string body) {
  HttpResponse response;
  response.body = std::move(body);
  return response;
}

void reply(const Writer& writer, HttpResponse response) {
  const auto shared = std::make_shared<HttpResponse>(std::move(response));
  writer->post([writer, shared] { writer->send(std::move(*shared)); });
}

// Runs `work` and turns exceptions into responses.
template <typename F>
void run_job(const std::shared_ptr<Job>& shared, const YieldPoint& yield_point, const F& work) {
  Job& job = *shared;
  try {
    try {
      yield_point.check();
      if constexpr (std::is_invocable_v<F, const std::shared_ptr<Job>&, const YieldPoint&>) {
        work(shared, yield_point);
      } else {
        work(job, yield_point);
      }
    } catch (const Cancelled&) {
      // The client has disconnected and ignores this, or the server stops.
      reply(job.writer, error_response(503, "The server is shutting down."));
    } catch (const Error& e) {
      reply(job.writer, error_response(400, e.what()));
    } catch (const std::exception& e) {
      log_error("request ", job.request.id, ": ", e.what());
      reply(job.writer, error_response(500, "An internal error occurred; the server's log has the details."));
    }
  } catch (...) {
    job.writer->post_failure();
  }
}

// Hands the request over to a thread of the pool. `work` is void(Job&, const YieldPoint&), or takes the
// shared job if it hands it on; the yield point is cancelled when the client disconnects or the server stops.
// `waiting`: the work waits for the engine.
template <typename F>
HttpHandler on_pool(const State& state, F work, bool waiting = false) {
  return [state, work, waiting](HttpRequest& request, const Writer& writer) {
    auto job = std::make_shared<Job>(Job{state, {}, writer});
    const std::stop_source stop = job->stop;
    writer->on_disconnect([stop, client = job->client]() mutable {
      client.request_stop();
      stop.request_stop();
    });
    job->request = std::move(request);
    const size_t size = job->request.body.size();
    WorkPool::Task task = [job = std::move(job), work](const YieldPoint& yield_point) {
      run_job(job, yield_point, work);
    };
    WorkPool& pool = *state->pool;
    const bool queued = waiting ? pool.submit(WorkPool::Special::kWaiting, stop, std::move(task))
                                : pool.submit(size, stop, std::move(task));
    if (!queued) writer->send(error_response(503, "Too many requests wait to be parsed; try again later."));
  };
}

// Frees the text of the body, which may be large: its parsed form replaces it.
Result<Json> read_body(HttpRequest& request, const YieldPoint& yield_point) {
  auto body = parse_json_object(request.body, yield_point);
  request.body = std::string();
  return body;
}

// adapter: null = the base model.
void write_model_card(JsonOut& out, const ApiState& state, const std::string& name,
                      const AdapterDescription* adapter) {
  const ModelInfo& model = state.engine.model();
  out.begin_object().key("id").string(name).key("object").string("model");
  out.key("created").integer(state.started).key("owned_by").string("quire");
  if (adapter != nullptr) {
    out.key("root").string(adapter->path).key("parent").string(state.options.model_names.front());
  } else {
    out.key("root").string(model.path.empty() ? model.name : model.path).key("parent").null();
  }
  out.key("max_model_len").integer(model.max_model_len);
  out.key("permission").begin_array().end_array().end_object();
}

std::string model_list(const ApiState& state) {
  std::string body;
  JsonOut out(body);
  out.begin_object().key("object").string("list").key("data").begin_array();
  for (const std::string& name : state.options.model_names) write_model_card(out, state, name, nullptr);
  for (const AdapterDescription& adapter : state.engine.adapters())
    write_model_card(out, state, adapter.name, &adapter);
  out.end_array().end_object();
  return body;
}

void one_model(const ApiState& state, std::string_view name, const Writer& writer) {
  const std::vector<std::string>& names = state.options.model_names;
  const bool is_base = std::ranges::find(names, name) != names.end();
  const auto adapter = is_base ? std::nullopt : state.engine.find_adapter(name);
  if (!is_base && !adapter) {
    return writer->send(
        error_response(404, no_such_model(name, state.options, state.engine), "model", "model_not_found"));
  }
  std::string body;
  JsonOut out(body);
  write_model_card(out, state, std::string(name), adapter ? &*adapter : nullptr);
  writer->send(json_response(std::move(body)));
}

void health(const ApiState& state, const Writer& writer) {
  if (const auto reason = state.engine.failure())
    return writer->send(error_response(503, cat("The engine failed: ", *reason)));
  if (state.draining.load()) return writer->send(error_response(503, "The server is shutting down."));
  HttpResponse response;
  response.content_type.clear();
  writer->send(std::move(response));
}

void metrics(const ApiState& state, const Writer& writer) {
  HttpResponse response;
  response.content_type = "text/plain; version=0.0.4; charset=utf-8";
  response.body = state.engine.metrics_page(state.options.model_names.front());
  if (state.http_metrics) response.body += state.http_metrics();
  writer->send(std::move(response));
}

// Running requests keep their blocks, which are dropped from the cache when they end. Waits for the engine's
// current step.
void reset_prefix_cache(Job& job, const YieldPoint&) {
  const bool at_once = job.state->engine.reset_prefix_cache();
  std::string body;
  JsonOut(body).begin_object().key("success").boolean(true).key("in_use").boolean(!at_once).end_object();
  reply(job.writer, json_response(std::move(body)));
}

// src/server/openapi.json, which tools/make_openapi.py writes, with the version of this program.
std::string openapi_description(const std::string& version) {
  constexpr std::string_view kVersion = "@VERSION@";
  std::string text(linked_file("openapi.json"));
  if (const size_t at = text.find(kVersion); at != std::string::npos)
    text.replace(at, kVersion.size(), version);
  return text;
}

using Convert = Result<std::string> (*)(const Json&, const ApiState&, const YieldPoint&);

HttpHandler converting(const State& state, Convert convert) {
  return on_pool(state, [convert](Job& job, const YieldPoint& yield_point) {
    const auto body = read_body(job.request, yield_point);
    if (!body.ok()) return reply(job.writer, error_response(body.failure()));
    auto text = convert(*body, *job.state, yield_point);
    reply(job.writer, text.ok() ? json_response(std::move(text).value()) : error_response(text.failure()));
  });
}

// The client's own salt counts within the entries of its API key.
std::string combined_salt(const HttpRequest& request, const std::string& salt) {
  return request.cache_salt.empty() ? salt : cat(request.cache_salt, "/", salt);
}

// An action that answers in plain text.
HttpHandler acting(const State& state, HttpResponse (*act)(const Json&, const ApiState&)) {
  return on_pool(state, [act](Job& job, const YieldPoint& yield_point) {
    const auto body = read_body(job.request, yield_point);
    reply(job.writer, body.ok() ? act(*body, *job.state) : error_response(body.failure()));
  });
}

// A request for generation whose constraints are still to be compiled.
struct ParsedJob {
  std::shared_ptr<Job> job;
  Json body;
  std::optional<GenerationSpec> spec;
};

void start_generation(Job& job, GenerationSpec spec) {
  if (!job.request.client.empty()) spec.client = job.request.client;
  spec.cache_salt = combined_salt(job.request, spec.cache_salt);
  job.request.body_charge.reset();
  const ApiState& s = *job.state;
  std::make_shared<GenerationResponse>(s.engine, std::move(spec), job.writer, s.settings, job.client)
      ->start();
}

// Starts a request whose constraints have been compiled before. Others move to the lanes for compiling, so
// that they delay nothing else, and those that take long to the lane for these.
void constrain_and_start(const std::shared_ptr<ParsedJob>& parsed, CompileEffort effort,
                         const YieldPoint& yield_point) {
  Job& job = *parsed->job;
  try {
    const Status constrained = constrain(*parsed->spec, {effort, yield_point});
    if (!constrained.ok()) return reply(job.writer, error_response(constrained.failure()));
  } catch (const NeedsMoreEffort&) {
    const bool is_long = effort != CompileEffort::kCached;
    const CompileEffort next = is_long ? CompileEffort::kFull : CompileEffort::kQuick;
    const bool queued = job.state->pool->submit(
        is_long ? WorkPool::Special::kLongCompiling : WorkPool::Special::kCompiling, job.stop,
        [parsed, next](const YieldPoint& point) {
          run_job(parsed->job, point,
                  [&](Job&, const YieldPoint&) { constrain_and_start(parsed, next, point); });
        });
    if (queued) return;
    return reply(job.writer,
                 error_response(503, "Too many constraints wait to be compiled; try again later."));
  }
  start_generation(job, std::move(*parsed->spec));
}

HttpHandler generating(const State& state, Parse parse) {
  return on_pool(state, [parse](const std::shared_ptr<Job>& job, const YieldPoint& yield_point) {
    auto body = read_body(job->request, yield_point);
    if (!body.ok()) return reply(job->writer, error_response(body.failure()));
    const auto parsed = std::make_shared<ParsedJob>(ParsedJob{job, std::move(*body), std::nullopt});
    const ApiState& s = *job->state;
    auto spec = parse(parsed->body, s.engine, s.options, job->request.id, yield_point);
    if (!spec.ok()) return reply(job->writer, error_response(spec.failure()));
    parsed->spec = std::move(spec).value();
    constrain_and_start(parsed, CompileEffort::kCached, yield_point);
  });
}

HttpHandler pooling(const State& state, ParsePooling parse) {
  return on_pool(state, [parse](Job& job, const YieldPoint& yield_point) {
    const auto body = read_body(job.request, yield_point);
    if (!body.ok()) return reply(job.writer, error_response(body.failure()));
    const ApiState& s = *job.state;
    auto spec = parse(*body, s.engine, s.options, job.request.id, yield_point);
    if (!spec.ok()) return reply(job.writer, error_response(spec.failure()));
    if (!job.request.client.empty()) spec->client = job.request.client;
    spec->cache_salt = combined_salt(job.request, spec->cache_salt);
    job.request.body_charge.reset();
    std::make_shared<Pooling>(s.engine, std::move(spec).value(), job.writer, s.pool, job.client)->start();
  });
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
  const HttpHandler tokenizing = converting(state, tokenize);
  const HttpHandler detokenizing = converting(state, detokenize);

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
      {"POST", "/tokenize", tokenizing},
      {"POST", "/v1/tokenize", tokenizing},
      {"POST", "/detokenize", detokenizing},
      {"POST", "/v1/detokenize", detokenizing},
      {"POST", "/reset_prefix_cache", on_pool(state, reset_prefix_cache, true)},
      {"GET", "/health", is_healthy, false},
      {"GET", "/v1/health", is_healthy, false},
      {"GET", "/ping", is_healthy, false},
      {"POST", "/ping", is_healthy, false},
  };
  if (state->options.lora_updating) {
    routes.push_back({"POST", "/v1/load_lora_adapter", acting(state, load_lora_adapter)});
    routes.push_back({"POST", "/v1/unload_lora_adapter", acting(state, unload_lora_adapter)});
  }
  routes.push_back({"GET", "/version",
                    [state](HttpRequest&, const Writer& w) {
                      std::string body;
                      JsonOut(body).begin_object().key("version").string(state->version).end_object();
                      w->send(json_response(std::move(body)));
                    },
                    false});
  routes.push_back({"GET", "/openapi.json",
                    [description = openapi_description(state->version)](HttpRequest&, const Writer& w) {
                      w->send(json_response(description));
                    },
                    false});
  routes.push_back({"GET", "/metrics", [state](HttpRequest&, const Writer& w) { metrics(*state, w); },
                    state->metrics_need_key});
  routes.push_back({"GET", "/v1/models/*", [state](HttpRequest& r, const Writer& w) {
                      one_model(*state, wildcard_part("/v1/models/*", r.path), w);
                    }});
  return routes;
}

}  // namespace quire
