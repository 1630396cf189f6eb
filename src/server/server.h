// The OpenAI-compatible HTTP server: `quire serve` is run_server(); tests and programs that embed it use
// Server.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "server/http/http_server.h"
#include "server/serving_engine.h"

namespace quire {

struct ServerOptions {
  HttpServerOptions http;                       // address, threads, limits and timeouts
  std::vector<std::string> api_keys;            // none: everybody may use the server
  bool metrics_need_key = true;                 // /metrics asks for a key too (where there are keys)
  std::vector<std::string> served_model_names;  // none: the model's name and its path as given
  bool strict_params = false;                   // unknown fields of requests are errors
  bool trust_request_chat_template = false;     // a request may bring its own chat template
  bool log_requests = true;
  double keep_alive_s = 15.0;        // a comment on a silent stream every so often
  double shutdown_timeout_s = 30.0;  // for what runs when the server is told to stop
  std::string version = "0.1.0";
};

class Server {
 public:
  // `engine` must outlive the server.
  Server(ServingEngine& engine, ServerOptions options);
  // Stops at once.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Opens the port. Throws Error when the address cannot be used.
  void start();
  uint16_t port() const;
  std::string url() const;  // "http://127.0.0.1:8000"

  // Refuses new work with 503 and keeps answering what runs, for shutdown_timeout_s at most; then ends.
  // Blocks. Returns true when nothing had to be cut short. stop() may be called meanwhile, from another
  // thread, and makes it return soon.
  bool shutdown();
  // Ends what runs.
  void stop();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Serves until SIGINT or SIGTERM, then shuts down; a second signal ends at once. Returns the exit code.
// Throws Error when the port cannot be opened. Says "Listening on URL" on stderr when it does.
int run_server(ServingEngine& engine, const ServerOptions& options);
int run_server(Engine& engine, const ServerOptions& options);

}  // namespace quire
