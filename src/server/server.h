// The OpenAI-compatible HTTP server. `quire serve` calls run_server(); tests and programs that embed the
// server use Server.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "server/access.h"
#include "server/http/http_server.h"
#include "server/request_log.h"
#include "server/serving_engine.h"
#include "text/output/choose_format.h"

namespace quire {

struct ServerOptions {
  HttpServerOptions http;                       // address, threads, limits and timeouts
  AccessOptions access;                         // API keys, origins, host names
  bool metrics_need_key = true;                 // whether /metrics needs a key, if there are keys
  bool share_prefix_cache = false;              // API keys share cached prefixes; timing then reveals them
  std::vector<std::string> served_model_names;  // empty = the model's name and its path as given
  bool strict_params = false;                   // unknown fields of requests are errors
  bool trust_request_chat_template = false;     // a request may contain its own chat template
  bool force_include_usage = false;             // every stream ends with its usage
  bool tokens_as_ids = false;                   // default of return_tokens_as_token_ids
  std::string default_chat_template_kwargs;     // a JSON object of template variables; empty = none
  ParserNames parsers;                          // parsers of outputs, instead of those for the template
  bool lora_updating = false;                   // clients may load and unload LoRA adapters
  std::vector<std::string> lora_allowed_dirs;   // directories that they may load them from
  bool serve_page = true;  // the web page at "/" and the endpoints below /internal that it uses
  RequestLog log_requests = RequestLog::kErrors;
  double keep_alive_s = 15.0;        // between comments on a silent stream; 0 = no comments
  double shutdown_timeout_s = 30.0;  // how long running requests may continue after SIGTERM
  std::string version = "0.1.0";
};

class Server {
 public:
  // `engine` must outlive the server. Throws Error if the options are not valid.
  Server(ServingEngine& engine, ServerOptions options);
  // Stops at once.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Opens the port. Throws Error if the address cannot be used.
  void start();
  uint16_t port() const;
  std::string url() const;  // "http://127.0.0.1:8000"

  // Refuses new requests with 503, lets running requests continue for at most shutdown_timeout_s, then ends.
  // Blocks. Returns true if no request was aborted. stop() may be called meanwhile on another thread, and
  // makes it return soon.
  bool shutdown();
  // Closes all connections at once.
  void stop();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Serves until SIGINT or SIGTERM, then shuts down; a second signal stops the server at once. If the engine
// fails, the server keeps answering with errors for a moment and ends. Returns the exit code: 0, or 1 after a
// failure. Throws Error if the port cannot be opened. Logs "Listening on URL" once it is open.
int run_server(ServingEngine& engine, const ServerOptions& options);
int run_server(Engine& engine, const ServerOptions& options);

}  // namespace quire
