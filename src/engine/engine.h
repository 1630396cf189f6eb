// The engine: a loaded model, its scheduler and its executor on a thread of their own, and the mailbox
// through which requests enter. It is the only entry point for the HTTP server, the command line and the
// library.
//
// Threads: every public member may be called from any thread. The scheduler, the KV bookkeeping and the
// executor belong to the engine thread; a request enters through the mailbox and its outputs leave through
// its sink (src/engine/README.md).
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/metrics.h"
#include "contract/engine_config.h"
#include "contract/output_constraint.h"
#include "contract/request.h"
#include "contract/sampling_params.h"
#include "engine/compile_options.h"
#include "engine/engine_types.h"
#include "engine/request_batch.h"
#include "text/chat/chat_templates.h"
#include "text/tokenizer/tokenizer.h"

namespace quire {

struct EngineView;
struct OutputParserOptions;

class Engine final : public RequestPort {
 public:
  // Loads the model and starts the engine thread. Throws Error if the model cannot be loaded or run.
  static std::unique_ptr<Engine> start(const EngineConfig& config, const LoadProgressCallback& progress = {},
                                       const EngineHooks& hooks = {});
  // Aborts the requests that are still running.
  ~Engine() override;
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  const ModelInfo& model() const;
  // Null for a model without tokenizer files: prompts are then token ids and output texts are empty.
  const Tokenizer* tokenizer() const;
  const ChatTemplates& chat_templates() const;
  // Sampling defaults of this model (generation_config.json), to be overridden by the request's fields.
  const SamplingParams& default_sampling() const;

  // The constraint of a specification, for Request::constraint. May take as long as grammar/limits.h allows,
  // unless the options ask for less (engine/compile_options.h).
  Result<SharedConstraint> compile(const StructuredOutputs& spec, const CompileOptions& options = {});
  // `within` with at most `tokens` tokens of reasoning, in an output that is read like this.
  Result<SharedConstraint> limit_reasoning(int32_t tokens, OutputParserOptions reading,
                                           SharedConstraint within);

  // The LoRA adapters that requests can name, and changes of them (engine/adapter_registry.h). Loading checks
  // an adapter on the calling thread; its weights are read when a request needs them. Running requests keep
  // the adapters that they use.
  std::vector<AdapterDescription> adapters() const;
  std::optional<AdapterDescription> find_adapter(std::string_view name) const;
  // Adds an adapter of EngineConfig::lora_dir, unless requests can name it. kNotFound: there is none.
  Status require_adapter(std::string_view name);
  Status load_adapter(const LoraModule& module, bool replace = false);
  Status unload_adapter(const std::string& name);

  // Checks the requests (ranges, lengths against model and pool, room in the queue) and passes them to the
  // engine thread. Whatever can be refused is refused here.
  Result<RequestId> submit(std::vector<Submission> requests) override;
  Result<RequestId> submit(Request request, OutputSink sink);
  void abort(RequestId first, size_t count) override;
  void abort(RequestId request) { abort(request, 1); }

  // Stops accepting requests (submit returns kOverloaded), waits at most `timeout` for the running ones to
  // finish, then aborts the rest. Returns true if nothing had to be aborted.
  bool drain(std::chrono::milliseconds timeout);
  // Whether requests wait or run. Any thread.
  bool busy() const;

  // Why the engine failed; nullopt while it works. A failed engine has ended all requests with an error and
  // rejects new ones (kInternal). It does not recover: the process should exit with an error.
  std::optional<std::string> failure() const;
  // Calls `callback` once, on the engine thread, when the engine has failed and every request has got its
  // error; at once if that has happened already. An empty callback removes the previous one, and after that
  // call the previous one is not running.
  void on_failure(std::function<void()> callback);

  EngineStats stats() const;
  // A snapshot for displays (engine/engine_view.h), made between two steps. While it is called every few
  // seconds, the engine records the history of requests. Null if the engine has failed or is shut down, or
  // memory is short.
  std::shared_ptr<const EngineView> view();
  MetricsRegistry& metrics();
  // Replaces the observer, from the next step on; an empty one removes it. Returns when the previous observer
  // will not be called again.
  void observe_steps(StepObserver observer);
  // Removes all cached prefixes; false while sequences use some of them.
  bool reset_prefix_cache();
  // Waits until the engine is idle, then verifies that no block leaked. Throws Error if one did. For tests
  // and debug builds.
  void check_integrity();

 private:
  struct Impl;
  explicit Engine(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace quire
