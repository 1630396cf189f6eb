// Turns the scheduler's updates into RequestOutputs: text, stop strings, log-probabilities, times. Engine
// thread only.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "contract/request.h"
#include "contract/request_output.h"
#include "engine/adapter_requests.h"
#include "engine/engine_metrics.h"
#include "engine/engine_types.h"
#include "engine/engine_view.h"
#include "engine/stop_checker.h"
#include "sched/scheduler.h"
#include "text/detokenizer.h"

namespace quire {

// Sends the last output of a request that could not be computed, also if memory has run out.
void send_failure(const OutputSink& sink, RequestId id, const Failure& failure) noexcept;

class OutputProcessor {
 public:
  // tokenizer may be null: texts are then empty. end_token_ids: the model's. All outlive the processor.
  // num_unstarted: see EngineCore.
  OutputProcessor(const Tokenizer* tokenizer, const std::vector<TokenId>& end_token_ids,
                  EngineMetrics& metrics, std::atomic<int32_t>& num_unstarted);

  // Starts a request. If this throws, the sink stays the caller's.
  void add(const Request& request, OutputSink&& sink);
  // The request was computed for the first time in a step that began at `now`.
  void mark_started(RequestId request, int32_t num_cached_tokens, double now);
  // Applies the update of one sample. Returns true if its text reached a stop string; the scheduler must
  // then end the sample.
  bool apply(const SequenceUpdate& update, double now);
  // Sends one RequestOutput to each request with new output, and removes finished requests.
  void deliver();
  // Ends a request with this reason (kAbort), or with a failure (kError). Unknown ids are ignored.
  void end(RequestId request, FinishReason reason, std::optional<Failure> failure, double now);
  // Ends every request with the failure, also if memory runs out on the way.
  void end_all(const Failure& failure, double now) noexcept;

  // Appends each request that ends from now on to `ended`; null = no longer.
  void record_ends(std::vector<EndedRequest>* ended) { ended_ = ended; }
  // Times and counts of a request that has not ended; empty ones for an unknown id.
  RequestProgress progress(RequestId request) const;

  // Tokens of the updates since the last call, counted as vLLM counts those of an iteration: generated
  // tokens, and prompts with their first output.
  int64_t take_iteration_tokens() { return std::exchange(iteration_tokens_, 0); }

  AdapterRequests& adapters() { return adapters_; }
  size_t num_requests() const { return requests_.size(); }
  std::vector<RequestId> requests() const;

 private:
  struct Sample {
    std::optional<Detokenizer> detokenizer;
    StopChecker stop_checker;
    size_t decoded = 0;                    // bytes of text so far
    size_t delivered = 0;                  // those that are in deltas; the others may begin a stop string
    std::vector<TextMarker> waiting = {};  // markers in text that is not delivered; offsets in the whole text
    int32_t num_tokens = 0;
    double cumulative_logprob = 0.0;
    bool finished = false;
  };
  struct Record {
    SharedSamplingParams params;
    std::shared_ptr<const std::vector<TokenId>> markers;
    std::string adapter;  // its name; empty = the base model
    OutputSink sink;
    std::vector<Sample> samples;
    std::vector<PositionLogprobs> prompt_logprobs;  // collected over the prompt's chunks
    bool prompt_logprobs_sent = false;
    RequestTimes times;
    int32_t num_prompt_tokens = 0;
    int32_t num_cached_tokens = 0;
    int32_t num_finished = 0;
    RequestOutput pending;  // new output of this step
    bool has_output = false;
    bool started = false;
  };

  CompletionDelta& delta_of(Record& request, int32_t index);
  // Appends the tokens' text to the delta; true when a stop string ended it.
  bool is_text(const SequenceUpdate& update, const SampledToken& last) const;
  // Decodes the token, and notes its place if it is a marker. hidden: it does not belong to the text.
  std::string decode(const Record& request, Sample& sample, TokenId token, bool hidden) const;
  static void add_text(Sample& sample, CompletionDelta& delta, std::string_view text);
  bool append_tokens(Record& request, Sample& sample, CompletionDelta& delta, const SequenceUpdate& update);
  // Takes the hypotheses of a beam search, all at once.
  void take_beams(Record& request, const BeamResult& result, double now);
  void take_hypothesis(Record& request, int32_t index, const BeamHypothesis& hypothesis);
  void take_prompt_logprobs(Record& request, const PromptLogprobs& chunk);
  void finish_sample(Record& request, Sample& sample, CompletionDelta& delta, FinishReason reason);
  void observe_tokens(Record& request, size_t num_new_tokens, double now);
  void note_output(RequestId id, Record& request);
  static RequestProgress progress_of(const Record& request);
  void note_end(RequestId id, const Record& request, FinishReason reason);
  void send(RequestId id, Record& request);
  void remove(std::unordered_map<RequestId, Record>::iterator it);

  const Tokenizer* tokenizer_;
  const std::vector<TokenId>& end_token_ids_;
  EngineMetrics& metrics_;
  std::atomic<int32_t>& num_unstarted_;
  std::unordered_map<RequestId, Record> requests_;
  AdapterRequests adapters_;
  std::vector<RequestId> with_output_;  // in the order of the step
  std::vector<EndedRequest>* ended_ = nullptr;
  int64_t iteration_tokens_ = 0;
};

}  // namespace quire
