// Plain records that the engine, its parts and its callers share: callbacks, properties of a model,
// statistics, hooks for tests.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "contract/adapter.h"
#include "contract/engine_config.h"
#include "contract/ids.h"
#include "contract/pooling.h"
#include "contract/request_output.h"
#include "contract/step_plan.h"

namespace quire {

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

class Device;
class Executor;

// The phases of a step, in order.
enum class StepPhase : uint8_t { kMessages, kSchedule, kBegin, kFinish, kCommit, kDeliver };

// Replaces parts of an engine, for tests and simulations. Empty in production.
struct EngineHooks {
  // Called on the engine thread before each phase. An exception fails the engine as if the phase threw it.
  std::function<void(StepPhase)> before;
  // Returns the executor to use, which must outlive the engine; gets the one that the model was loaded for.
  std::function<Executor&(Executor&)> executor;
  std::function<double()> clock;  // replaces monotonic_seconds()
  std::function<std::unique_ptr<Device>(std::string_view name, int threads)> open_device;
  // Called on the thread that loads LoRA adapters with the name of the next one, before its weights are read.
  std::function<void(const std::string& name)> before_adapter;
};

// Where the weights of a LoRA adapter are.
enum class AdapterState : uint8_t {
  kRegistered,  // on disk; the configuration and the header have been checked
  kLoading,     // being read, or to be read next
  kResident,    // in memory
};

// A LoRA adapter that requests can name.
struct AdapterDescription {
  std::string name;
  std::string path;   // as given
  int64_t rank = 0;   // the largest of its modules
  int64_t bytes = 0;  // in memory, when it is loaded
  AdapterState state = AdapterState::kRegistered;
};

// Properties of a loaded model. Constant.
struct ModelInfo {
  std::string name;          // default name in the API: the directory's name, or "quire-tiny"
  std::string path;          // as given; empty for the embedded model
  std::string architecture;  // "LlamaForCausalLM"
  std::string device;        // "cpu avx512"
  std::string isa;           // instruction set in use
  std::string weight_dtype;  // type of unquantized weights
  std::string quantization;  // empty = not quantized
  std::string kv_cache_dtype;
  int32_t vocab_size = 0;
  int32_t max_model_len = 0;  // tokens per sequence, prompt and output together
  // generation_config.json: the default length of answers in a chat; 0 = none.
  int32_t max_new_tokens = 0;
  int64_t num_parameters = 0;
  int64_t weight_bytes = 0;
  int32_t block_size = 0;
  int32_t num_blocks = 0;
  int64_t kv_bytes_per_token = 0;
  int64_t kv_bytes_per_sequence = 0;  // for max_model_len tokens, including recurrent states
  int64_t kv_pool_bytes = 0;
  int32_t max_num_seqs = 0;
  int32_t max_num_batched_tokens = 0;
  SchedulingPolicy scheduling_policy = SchedulingPolicy::kFcfs;
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

}  // namespace quire
