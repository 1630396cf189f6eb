// quire serve: the OpenAI-compatible server.
#include <cstdlib>

#include "base/counted.h"
#include "base/log.h"
#include "base/strings.h"
#include "cli/commands.h"
#include "cli/flags.h"
#include "engine/build_info.h"
#include "engine/engine.h"
#include "server/server.h"

namespace quire::cli {
namespace {

struct ServeFlags {
  EngineConfig config;
  ServerOptions server;
  bool metrics_open = false;
  bool quiet = false;
  bool log_all = false;
  bool no_page = false;
  std::string api_key_file;
  int64_t max_body_bytes = 0;
};

CLI::Validator port_number() {
  return CLI::Validator(
      [](std::string& text) -> std::string {
        const bool digits =
            !text.empty() && text.size() <= 5 && text.find_first_not_of("0123456789") == std::string::npos;
        if (digits && std::stoi(text) <= 65535) return {};
        return cat("'", text, "' is not a port; ports are 1 to 65535, and 0 selects a free one");
      },
      "");
}

int run_serve(ServeFlags& f) {
  std::vector<std::string>& keys = f.server.access.api_keys;
  if (!f.api_key_file.empty()) {
    for (std::string& key : read_api_keys(f.api_key_file)) keys.push_back(std::move(key));
  }
  if (const char* key = std::getenv("QUIRE_API_KEY"); key != nullptr && keys.empty()) keys.emplace_back(key);
  // Before the model is loaded, which may take long.
  (void)AccessPolicy(f.server.access, f.server.http.host);
  check_parser_names(f.server.parsers);
  if (f.server.lora_updating) f.config.enable_lora = true;
  if (!f.config.lora_dir.empty()) f.server.lora_allowed_dirs.push_back(f.config.lora_dir);
  f.server.metrics_need_key = !f.metrics_open;
  f.server.log_requests = f.quiet ? RequestLog::kNone : f.log_all ? RequestLog::kAll : RequestLog::kErrors;
  f.server.serve_page = !f.no_page;
  f.server.version = build_info().version;
  f.server.http.limits.max_body_bytes = static_cast<size_t>(f.max_body_bytes);
  check_config(f.config);
  f.server.http.socket = std::make_shared<BoundSocket>(f.server.http.host, f.server.http.port);
  const std::unique_ptr<Engine> engine = start_engine(f.config);
  const ModelInfo& m = engine->model();
  log_info(m.name, ": ", m.architecture, ", ", fixed(static_cast<double>(m.num_parameters) / 1e6, 1),
           " M parameters in ", m.quantization.empty() ? m.weight_dtype : m.quantization, " (",
           format_bytes(m.weight_bytes), "), loaded in ", fixed(m.load_seconds, 2), " s; ", m.device, " on ",
           counted(m.num_threads, "thread"));
  log_info("KV cache: ", format_bytes(m.kv_pool_bytes), " in ", counted(m.num_blocks, "block"), " of ",
           m.block_size, " tokens (", m.kv_cache_dtype, "); sequences of up to ", m.max_model_len,
           " tokens, ", m.max_num_seqs, " at once");
  const int exit_code = run_server(*engine, f.server);
  // The state of a failed engine is unknown: its destructors might wait or throw. The process ends without
  // them, so that a supervisor can start another one at once.
  if (engine->failure()) std::_Exit(exit_code);
  return exit_code;
}

// Flags that change how requests are read and answered.
void add_request_flags(CLI::App& command, ServerOptions& server, const std::string& group) {
  command.add_flag("--strict-params", server.strict_params, "Refuse requests with unknown fields")
      ->group(group);
  command
      .add_flag("--trust-request-chat-template", server.trust_request_chat_template,
                "Let requests contain their own chat template")
      ->group(group);
  command
      .add_flag("--enable-force-include-usage", server.force_include_usage,
                "End every stream with its usage, as with stream_options.include_usage")
      ->group(group);
  command
      .add_flag("--return-tokens-as-token-ids", server.tokens_as_ids,
                "Write tokens of log-probabilities as \"token_id:ID\" unless a request says otherwise")
      ->group(group);
  command
      .add_option("--default-chat-template-kwargs", server.default_chat_template_kwargs,
                  "Variables of the chat template that requests do not set, as a JSON object: "
                  "{\"enable_thinking\": false}")
      ->type_name("JSON")
      ->group(group);
}

void add_lora_flags(CLI::App& command, ServerOptions& server, const std::string& group) {
  command
      .add_flag("--allow-runtime-lora-updating", server.lora_updating,
                "Serve /v1/load_lora_adapter and /v1/unload_lora_adapter; the environment variable "
                "VLLM_ALLOW_RUNTIME_LORA_UPDATING=1 does the same")
      ->envname("VLLM_ALLOW_RUNTIME_LORA_UPDATING")
      ->group(group);
  command
      .add_option(
          "--lora-allowed-dir", server.lora_allowed_dirs,
          "Directory that clients may load adapters from, besides --lora-dir; can be given several times "
          "(default: none)")
      ->allow_extra_args(false)
      ->type_name("DIR")
      ->group(group);
}

void add_parser_flags(CLI::App& command, ParserNames& names, const std::string& group) {
  command
      .add_option("--tool-call-parser", names.calls,
                  "Format of tool calls in outputs, or none (default: found with the chat template)")
      ->type_name("NAME")
      ->group(group);
  command
      .add_option("--reasoning-parser", names.reasoning,
                  "Format of reasoning in outputs, or none (default: found with the chat template)")
      ->type_name("NAME")
      ->group(group);
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
  command->add_option("--port", http.port, "Port; 0 = any free port")->check(port_number())->group(group);
  command
      ->add_option("--api-key", f->server.access.api_keys,
                   "Key that clients must send; may be given several times. Other users of the machine can "
                   "read it in the process list: prefer --api-key-file or QUIRE_API_KEY")
      ->allow_extra_args(false)
      ->group(group);
  command
      ->add_option("--api-key-file", f->api_key_file, "File with API keys, one per line; # begins a comment")
      ->type_name("FILE")
      ->group(group);
  command->add_flag("--metrics-without-key", f->metrics_open, "Serve /metrics without an API key")
      ->group(group);
  command
      ->add_flag("--share-prefix-cache", f->server.share_prefix_cache,
                 "Let API keys share cached prefixes. A client can then find out by timing which prompts "
                 "others have sent")
      ->group(group);
  command
      ->add_option("--allowed-origins", f->server.access.allowed_origins,
                   "Origins whose web pages may use the server, for example https://example.com; * for all")
      ->allow_extra_args(false)
      ->group(group);
  command
      ->add_option("--allowed-hosts", f->server.access.allowed_hosts,
                   "Further names of the server that a Host header may have; on a loopback address, others "
                   "than its own are refused")
      ->allow_extra_args(false)
      ->group(group);
  command
      ->add_option("--served-model-name", f->server.served_model_names,
                   "Names of the model in the API; responses contain the first one")
      ->group(group);
  command->add_option("--http-threads", http.num_threads, "Threads for connections")
      ->check(CLI::Range(1, 256))
      ->group(group);
  command->add_option("--max-body-size", f->max_body_bytes, "Largest request body")
      ->transform(byte_size())
      ->group(group);
  add_request_flags(*command, f->server, group);
  add_parser_flags(*command, f->server.parsers, group);
  add_lora_flags(*command, f->server, group);
  command
      ->add_option("--shutdown-timeout", f->server.shutdown_timeout_s,
                   "Time that running requests have after SIGTERM")
      ->transform(duration())
      ->group(group);
  const auto timeout = [&](const std::string& name, double& seconds, const std::string& help) {
    command->add_option(name, seconds, help)->transform(duration())->group(group);
  };
  timeout("--http-header-timeout", http.header_timeout_s, "Time for a request's header, from its first byte");
  timeout("--http-body-timeout", http.body_timeout_s, "Longest pause within a request's body");
  timeout("--http-idle-timeout", http.idle_timeout_s, "Longest pause between two requests of a connection");
  timeout("--http-write-timeout", http.write_timeout_s,
          "Longest time until the client reads more of the response");
  timeout("--stream-keep-alive", f->server.keep_alive_s,
          "Interval of comments on a stream that is silent; 0: none");
  command->add_flag("--no-ui", f->no_page, "Do not serve the web page at /")->group(group);
  command
      ->add_flag("--log-requests", f->log_all,
                 "Log each request with its status and time, not only those that end with an error")
      ->group(group);
  command->add_flag("--disable-log-requests", f->quiet, "Log no requests, not even errors")->group(group);
  command->callback([f, &exit_code] { exit_code = run_serve(*f); });
}

}  // namespace quire::cli
