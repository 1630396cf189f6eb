// quire serve: the OpenAI-compatible server.
#include <cstdlib>

#include "base/log.h"
#include "base/strings.h"
#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/progress.h"
#include "engine/build_info.h"
#include "server/server.h"

namespace quire::cli {
namespace {

struct ServeFlags {
  EngineConfig config;
  ServerOptions server;
  bool metrics_open = false;
  bool quiet = false;
  int64_t max_body_bytes = 0;
};

int run_serve(ServeFlags& f) {
  if (const char* key = std::getenv("QUIRE_API_KEY"); key != nullptr && f.server.api_keys.empty()) {
    f.server.api_keys.emplace_back(key);
  }
  f.server.metrics_need_key = !f.metrics_open;
  f.server.log_requests = !f.quiet;
  f.server.version = build_info().version;
  f.server.http.limits.max_body_bytes = static_cast<size_t>(f.max_body_bytes);
  std::unique_ptr<Engine> engine;
  {
    ProgressBar bar("Loading");
    engine = Engine::start(f.config, [&](int64_t done, int64_t total) {
      bar.update(total > 0 ? static_cast<double>(done) / static_cast<double>(total) : 1.0);
    });
  }
  const ModelInfo& m = engine->model();
  log_info(m.name, ": ", m.architecture, ", ", fixed(static_cast<double>(m.num_parameters) / 1e6, 1),
           " M parameters in ", m.quantization.empty() ? m.weight_dtype : m.quantization, " (",
           format_bytes(m.weight_bytes), "), loaded in ", fixed(m.load_seconds, 2), " s; ", m.isa, " on ",
           m.num_threads, m.num_threads == 1 ? " thread" : " threads");
  log_info("KV cache: ", format_bytes(m.kv_pool_bytes), " in ", m.num_blocks, " blocks of ", m.block_size,
           " tokens (", m.kv_cache_dtype, "); sequences of up to ", m.max_model_len, " tokens, ",
           m.max_num_seqs, " at once");
  return run_server(*engine, f.server);
}

}  // namespace

void add_serve(CLI::App& app, int& exit_code) {
  CLI::App* command = add_command(app, "serve", "Serve a model over HTTP with OpenAI's API");
  auto f = std::make_shared<ServeFlags>();
  add_engine_flags(*command, f->config);
  const std::string group = "Server";
  HttpServerOptions& http = f->server.http;
  f->max_body_bytes = static_cast<int64_t>(http.limits.max_body_bytes);
  command->add_option("--host", http.host, "Address to listen on")->group(group);
  command->add_option("--port", http.port, "Port; 0: any free one")->group(group);
  command
      ->add_option("--api-key", f->server.api_keys,
                   "Key that clients must send; may be given several times (or QUIRE_API_KEY)")
      ->group(group);
  command->add_flag("--metrics-without-key", f->metrics_open, "Leave /metrics open where there are keys")
      ->group(group);
  command
      ->add_option("--served-model-name", f->server.served_model_names,
                   "Names of the model in the API; the first one is answered with")
      ->group(group);
  command
      ->add_option("--http-threads", http.num_threads,
                   "Threads for connections, JSON, templates and tokenizing")
      ->group(group);
  command->add_option("--max-body-size", f->max_body_bytes, "Largest request body")
      ->transform(byte_size())
      ->group(group);
  command->add_flag("--strict-params", f->server.strict_params, "Refuse requests with unknown fields")
      ->group(group);
  command
      ->add_flag("--trust-request-chat-template", f->server.trust_request_chat_template,
                 "Let requests bring a chat template of their own")
      ->group(group);
  command
      ->add_option("--shutdown-timeout", f->server.shutdown_timeout_s,
                   "What running requests have after SIGTERM")
      ->transform(duration())
      ->group(group);
  const auto timeout = [&](const std::string& name, double& seconds, const std::string& help) {
    command->add_option(name, seconds, help)->transform(duration())->group(group);
  };
  timeout("--http-header-timeout", http.header_timeout_s, "For a request's header, from its first byte");
  timeout("--http-body-timeout", http.body_timeout_s, "Without a byte of a request's body");
  timeout("--http-idle-timeout", http.idle_timeout_s, "For a kept connection without a request");
  timeout("--http-write-timeout", http.write_timeout_s, "Without a byte of the answer taken by the client");
  timeout("--stream-keep-alive", f->server.keep_alive_s,
          "Until a silent stream gets a comment as a sign of life");
  command->add_flag("--disable-log-requests", f->quiet, "Do not log each request")->group(group);
  command->callback([f, &exit_code] { exit_code = run_serve(*f); });
}

}  // namespace quire::cli
