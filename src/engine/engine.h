// The engine: a loaded model, its scheduler and its executor on a thread of their own, and the mailbox
// through which requests enter. Everything that serves (HTTP server, command line, libraries) goes through
// this face and nothing beneath it.
//
// Threads: every public member may be called from any thread. Scheduler, KV bookkeeping and executor belong
// to the engine thread alone; a request enters through the mailbox and its outputs leave through its sink
// (src/engine/README.md).
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
  SamplingParams sampling;
  std::optional<PoolingRequest> pooling;  // a vector of the prompt in place of a text
  int32_t priority = 0;                   // lower is served first, with SchedulingPolicy::kPriority
  std::string client;                     // who asks (an API key's name, say), for SchedulingPolicy::kFair
  std::string cache_salt;                 // prompts share cached prefixes only with requests of the same salt
};

// Called on the engine thread with each new RequestOutput of the request, in order; the last has finished =
// true. Must return soon, must not throw and must not call back into the engine but for abort().
using OutputSink = std::function<void(RequestOutput&&)>;

// bytes_done of bytes_total of the weights are packed; called on the loading thread.
using LoadProgressCallback = std::function<void(int64_t bytes_done, int64_t bytes_total)>;

// When a step was, in seconds of monotonic_seconds(). A step begins where the one before ends; after a pause,
// when the request that ended the pause was submitted. It ends when its outputs were handed over.
struct StepTimes {
  double begin = 0.0;
  double end = 0.0;
  bool after_pause = false;
};
// Called on the engine thread behind each step that computed something. Must not throw.
using StepObserver = std::function<void(const StepPlan& plan, const StepTimes& times)>;

// What a loaded model is; does not change.
struct ModelInfo {
  std::string name;          // what the server calls it by default: the directory's name, or "quire-tiny"
  std::string path;          // as given; empty for the embedded model
  std::string architecture;  // "LlamaForCausalLM"
  std::string isa;           // the instruction set chosen
  std::string weight_dtype;  // of floats; where they are quantized, what they would be without
  std::string quantization;  // empty: none
  std::string kv_cache_dtype;
  int32_t vocab_size = 0;
  int32_t max_model_len = 0;  // tokens a sequence may have, prompt and output together
  int64_t num_parameters = 0;
  int64_t weight_bytes = 0;
  int32_t block_size = 0;
  int32_t num_blocks = 0;
  int64_t kv_bytes_per_token = 0;
  int64_t kv_bytes_per_sequence = 0;  // of one of max_model_len tokens, its states included
  int64_t kv_pool_bytes = 0;
  int32_t max_num_seqs = 0;
  int32_t max_num_batched_tokens = 0;
  int32_t num_threads = 0;
  double load_seconds = 0.0;
  ModelTask task = ModelTask::kGenerate;
  int64_t embedding_size = 0;                  // kEmbed: numbers in a vector
  std::vector<std::string> labels;             // kScore: what it gives a score to
  bool pools_all_tokens = false;               // a vector is made of all tokens' hidden states
  bool bidirectional = false;                  // tokens see those behind them: an encoder
  bool has_token_types = false;                // the second text of a pair has a type of its own
  std::map<std::string, std::string> prompts;  // kEmbed: put before texts, by name
  std::string default_prompt;          // the name of the one that is put where none is asked for; or none
  std::vector<TokenId> end_token_ids;  // what ends a text (generation_config.json, config.json, tokenizer)
};

// A snapshot, for log lines, the statistics of a run, and tests.
struct EngineStats {
  int64_t num_running = 0;
  int64_t num_waiting = 0;
  int64_t num_finished = 0;
  int64_t num_preemptions = 0;
  int64_t num_steps = 0;
  int64_t prompt_tokens = 0;  // computed or taken from the cache
  int64_t generation_tokens = 0;
  int64_t prefix_cache_queries = 0;  // tokens looked up
  int64_t prefix_cache_hits = 0;     // tokens found
  double kv_cache_usage = 0.0;       // used blocks over all blocks, 0..1
  double kv_waste = 0.0;        // allocated but unused slots over allocated slots, averaged over steps, 0..1
  int64_t num_free_blocks = 0;  // neither held by a sequence; cached ones count as free
  int64_t num_blocks = 0;
  int64_t num_swapped_out_blocks = 0;  // of preempted sequences, to the host pool and back
  int64_t num_swapped_in_blocks = 0;
};

class Engine {
 public:
  // Loads the model and starts the thread. Throws Error with what to do.
  static std::unique_ptr<Engine> start(const EngineConfig& config, const LoadProgressCallback& progress = {});
  // Aborts what still runs.
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  const ModelInfo& model() const;
  // Null for a model without tokenizer files: prompts are then token ids and texts are empty.
  const Tokenizer* tokenizer() const;
  // Null where the model has none.
  const ChatTemplate* chat_template() const;
  // Sampling defaults of this model (generation_config.json), to be overridden by the request's fields.
  const SamplingParams& default_sampling() const;

  // Checks the request (ranges, lengths against model and pool, queue) and hands it to the engine thread. A
  // refusal is returned here and the sink is never called; otherwise the sink is called at least once, the
  // last time with finished = true.
  Result<RequestId> submit(GenerateRequest request, OutputSink sink);
  // Ends a request within a step; its sink gets a last output with FinishReason::kAbort. Unknown or ended ids
  // are ignored.
  void abort(RequestId request);

  // Stops taking requests (submit refuses with kOverloaded), waits until what runs has finished, at most
  // `timeout`, then aborts the rest. Returns true when nothing had to be aborted.
  bool drain(std::chrono::milliseconds timeout);
  bool draining() const;

  EngineStats stats() const;
  MetricsRegistry& metrics();
  // Calls the observer from the next step on, in place of the one before; an empty one is none. Returns when
  // the one before will not be called again.
  void observe_steps(StepObserver observer);
  // Drops all cached prefixes; false while sequences hold some of them.
  bool reset_prefix_cache();
  // Waits until the engine is idle, then verifies that no block leaked. Throws Error when one did. For tests
  // and debug builds.
  void check_integrity();

 private:
  struct Impl;
  explicit Engine(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace quire
