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
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/metrics.h"
#include "contract/engine_config.h"
#include "contract/ids.h"
#include "contract/pooling.h"
#include "contract/request_output.h"
#include "contract/sampling_params.h"
#include "contract/step_plan.h"
#include "text/chat/chat_template.h"
#include "text/detokenizer.h"
#include "text/tokenizer/tokenizer.h"

namespace quire {

// One request, already tokenized (text/ does that on the caller's thread).
struct GenerateRequest {
  std::vector<TokenId> prompt_token_ids;
  SharedSamplingParams sampling;
  std::optional<PoolingRequest> pooling;  // set = return an embedding or score instead of text
  int32_t priority = 0;                   // lower is scheduled first, with SchedulingPolicy::kPriority
  std::string client;                     // for example the name of an API key; for SchedulingPolicy::kFair
  std::string cache_salt;                 // cached prefixes are shared only between requests of equal salt
};

// Called on the engine thread with each new RequestOutput of the request, in order; the last has finished =
// true. Must return soon, must not throw and must not call any member of the engine except abort().
using OutputSink = std::function<void(RequestOutput&&)>;

// Reports that bytes_done of bytes_total of the weights are packed. Called on the loading thread.
using LoadProgressCallback = std::function<void(int64_t bytes_done, int64_t bytes_total)>;

// Start and end of a step, in seconds of monotonic_seconds(). A step starts when the previous one ends or,
// after a pause, when the request that ended the pause was submitted. It ends when its outputs were
// delivered.
struct StepTimes {
  double begin = 0.0;
  double end = 0.0;
  bool after_pause = false;
};
// Called on the engine thread after each step that computed something. Must not throw.
using StepObserver = std::function<void(const StepPlan& plan, const StepTimes& times)>;

class Executor;
struct EngineView;

// The phases of a step, in order.
enum class StepPhase : uint8_t { kMessages, kSchedule, kBegin, kFinish, kCommit, kDeliver };

// Replaces parts of an engine, for tests and simulations. Empty in production.
struct EngineHooks {
  // Called on the engine thread before each phase. An exception fails the engine as if the phase threw it.
  std::function<void(StepPhase)> before;
  // Returns the executor to use, which must outlive the engine; gets the one that the model was loaded for.
  std::function<Executor&(Executor&)> executor;
  std::function<double()> clock;  // replaces monotonic_seconds()
};

// Properties of a loaded model. Constant.
struct ModelInfo {
  std::string name;          // default name in the API: the directory's name, or "quire-tiny"
  std::string path;          // as given; empty for the embedded model
  std::string architecture;  // "LlamaForCausalLM"
  std::string isa;           // instruction set in use
  std::string weight_dtype;  // type of unquantized weights
  std::string quantization;  // empty = not quantized
  std::string kv_cache_dtype;
  int32_t vocab_size = 0;
  int32_t max_model_len = 0;  // tokens per sequence, prompt and output together
  int64_t num_parameters = 0;
  int64_t weight_bytes = 0;
  int32_t block_size = 0;
  int32_t num_blocks = 0;
  int64_t kv_bytes_per_token = 0;
  int64_t kv_bytes_per_sequence = 0;  // for max_model_len tokens, including recurrent states
  int64_t kv_pool_bytes = 0;
  int32_t max_num_seqs = 0;
  int32_t max_num_batched_tokens = 0;
  int32_t num_threads = 0;
  double load_seconds = 0.0;
  ModelTask task = ModelTask::kGenerate;
  int64_t embedding_size = 0;                  // kEmbed: dimensions of an embedding
  std::vector<std::string> labels;             // kScore: the labels that are scored
  bool pools_all_tokens = false;               // the hidden states of all tokens are pooled
  bool bidirectional = false;                  // attention is not causal: an encoder
  bool has_token_types = false;                // the second text of a pair has its own token type
  std::map<std::string, std::string> prompts;  // kEmbed: prompt templates by name
  std::string default_prompt;                  // name of the default prompt template; empty = none
  std::vector<TokenId> end_token_ids;  // end-of-text tokens (generation_config.json, config.json, tokenizer)
};

// A snapshot, for log lines, the statistics of a run, and tests.
struct EngineStats {
  int64_t num_running = 0;
  int64_t num_waiting = 0;
  int64_t num_finished = 0;
  int64_t num_preemptions = 0;
  int64_t num_steps = 0;
  int64_t prompt_tokens = 0;  // computed or found in the prefix cache
  int64_t generation_tokens = 0;
  int64_t prefix_cache_queries = 0;  // tokens looked up
  int64_t prefix_cache_hits = 0;     // tokens found
  double kv_cache_usage = 0.0;       // used blocks over all blocks, 0..1
  double kv_waste = 0.0;        // allocated but unused slots over allocated slots, averaged over steps, 0..1
  int64_t num_free_blocks = 0;  // blocks that no sequence uses, including cached ones
  int64_t num_blocks = 0;
  int64_t num_swapped_out_blocks = 0;  // blocks of preempted sequences copied to the host pool
  int64_t num_swapped_in_blocks = 0;   // and back
};

class Engine {
 public:
  // Loads the model and starts the engine thread. Throws Error if the model cannot be loaded or run.
  static std::unique_ptr<Engine> start(const EngineConfig& config, const LoadProgressCallback& progress = {},
                                       const EngineHooks& hooks = {});
  // Aborts the requests that are still running.
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  const ModelInfo& model() const;
  // Null for a model without tokenizer files: prompts are then token ids and output texts are empty.
  const Tokenizer* tokenizer() const;
  // Null if the model has no chat template.
  const ChatTemplate* chat_template() const;
  // Sampling defaults of this model (generation_config.json), to be overridden by the request's fields.
  const SamplingParams& default_sampling() const;

  // Validates the request (ranges, lengths against model and pool, queue) and passes it to the engine thread.
  // A rejection is returned here and the sink is never called; otherwise the sink is called at least once,
  // the last time with finished = true.
  Result<RequestId> submit(GenerateRequest request, OutputSink sink);
  // Ends a request within a step; its sink gets a last output with FinishReason::kAbort. Unknown and finished
  // ids are ignored.
  void abort(RequestId request);

  // Stops accepting requests (submit returns kOverloaded), waits at most `timeout` for the running ones to
  // finish, then aborts the rest. Returns true if nothing had to be aborted.
  bool drain(std::chrono::milliseconds timeout);
  bool draining() const;
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
