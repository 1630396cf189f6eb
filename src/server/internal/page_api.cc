#include "server/internal/page_api.h"

#include <algorithm>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string_view>
#include <utility>

#include "base/clock.h"
#include "base/strings.h"
#include "server/internal/engine_view_json.h"
#include "server/openai/errors.h"
#include "server/openai/json_out.h"

namespace quire {
namespace {

std::string_view task_name(ModelTask task) {
  switch (task) {
    case ModelTask::kEmbed:
      return "embed";
    case ModelTask::kScore:
      return "score";
    default:
      return "generate";
  }
}

void write_sampling(JsonOut& out, const SamplingParams& sampling) {
  out.begin_object().key("temperature").number(sampling.temperature).key("top_p").number(sampling.top_p);
  out.key("top_k").integer(sampling.top_k).key("min_p").number(sampling.min_p);
  out.key("repetition_penalty").number(sampling.repetition_penalty);
  out.key("presence_penalty").number(sampling.presence_penalty);
  out.key("frequency_penalty").number(sampling.frequency_penalty).end_object();
}

// The last snapshot, for all clients that ask soon after.
class SharedView {
 public:
  std::optional<std::string> current() const {
    const std::lock_guard lock(mutex_);
    return monotonic_seconds() < valid_until_ ? std::optional(body_) : std::nullopt;
  }
  void store(std::string body, double cpu_seconds) {
    const std::lock_guard lock(mutex_);
    body_ = std::move(body);
    valid_until_ = monotonic_seconds() + std::clamp(cpu_seconds * kCostFactor, kMinAge, kMaxAge);
  }

 private:
  static constexpr double kCostFactor = 200.0;  // a snapshot is valid for this many times its own CPU time
  static constexpr double kMinAge = 0.2;        // seconds
  static constexpr double kMaxAge = 4.0;        // less than the recorder's watch

  mutable std::mutex mutex_;
  std::string body_;
  double valid_until_ = 0.0;
};

HttpResponse uncached_json(std::string body) {
  HttpResponse response;
  response.body = std::move(body);
  response.headers.add("Cache-Control", "no-store");
  return response;
}

HttpResponse make_view(const ApiState& state, SharedView& shared) {
  if (auto body = shared.current()) return uncached_json(std::move(*body));
  const auto view = state.engine.view();
  if (view == nullptr) return error_response(503, "The engine is not running, or memory is short.");
  const double begin = thread_cpu_seconds();
  std::string body = engine_view_json(*view);
  const double json_seconds = thread_cpu_seconds() - begin;
  shared.store(body, view->make_seconds + json_seconds);
  HttpResponse response = uncached_json(std::move(body));
  // CPU time, for the tests of the cost and for the network panel of a browser.
  response.headers.add("Server-Timing", cat("engine;dur=", fixed(1e3 * view->make_seconds, 3),
                                            ", json;dur=", fixed(1e3 * json_seconds, 3)));
  return response;
}

// Waits for the engine's current step on a thread of the pool.
HttpHandler engine_view_handler(const std::shared_ptr<ApiState>& state) {
  const auto shared = std::make_shared<SharedView>();
  return [state, shared](HttpRequest&, const std::shared_ptr<ResponseWriter>& writer) {
    if (auto body = shared->current()) return writer->send(uncached_json(std::move(*body)));
    WorkPool::Task task = [state, shared, writer](const YieldPoint&) {
      try {
        const auto response = std::make_shared<HttpResponse>(make_view(*state, *shared));
        writer->post([writer, response] { writer->send(std::move(*response)); });
      } catch (...) {
        writer->post_failure();
      }
    };
    if (!state->pool->submit(WorkPool::Special::kWaiting, std::stop_source(), std::move(task)))
      writer->send(error_response(503, "Too many requests wait for the engine; try again later."));
  };
}

}  // namespace

std::string model_info_json(const ApiState& state) {
  const ModelInfo& info = state.engine.model();
  std::string body;
  JsonOut out(body);
  out.begin_object().key("id").string(state.options.model_names.front());
  out.key("version").string(state.version).key("task").string(task_name(info.task));
  out.key("has_tokenizer").boolean(state.engine.has_tokenizer());
  out.key("has_chat_template").boolean(state.engine.has_chat_template());
  out.key("architecture").string(info.architecture).key("dtype").string(info.weight_dtype);
  out.key("quantization").string_or_null(info.quantization);
  out.key("kv_cache_dtype").string(info.kv_cache_dtype).key("isa").string(info.isa);
  out.key("num_threads").integer(info.num_threads).key("num_parameters").integer(info.num_parameters);
  out.key("weight_bytes").integer(info.weight_bytes).key("max_model_len").integer(info.max_model_len);
  out.key("max_num_seqs").integer(info.max_num_seqs);
  out.key("max_num_batched_tokens").integer(info.max_num_batched_tokens);
  out.key("block_size").integer(info.block_size).key("num_blocks").integer(info.num_blocks);
  out.key("kv_pool_bytes").integer(info.kv_pool_bytes);
  out.key("kv_bytes_per_token").integer(info.kv_bytes_per_token);
  out.key("kv_bytes_per_sequence").integer(info.kv_bytes_per_sequence);
  out.key("default_sampling");
  write_sampling(out, state.engine.default_sampling());
  out.end_object();
  return body;
}

std::vector<Route> page_api_routes(const std::shared_ptr<ApiState>& state) {
  std::vector<Route> routes;
  routes.push_back(
      {"GET", "/internal/model", [state](HttpRequest&, const std::shared_ptr<ResponseWriter>& writer) {
         writer->send(uncached_json(model_info_json(*state)));
       }});
  routes.push_back({"GET", "/internal/engine", engine_view_handler(state)});
  return routes;
}

}  // namespace quire
