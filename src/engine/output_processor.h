// From the scheduler's progress to what a request's owner sees: text, stop strings, log-probabilities, times.
// Engine thread only.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "contract/request_output.h"
#include "contract/sampling_params.h"
#include "engine/engine.h"
#include "engine/engine_metrics.h"
#include "engine/stop_checker.h"
#include "sched/scheduler.h"
#include "text/detokenizer.h"

namespace quire {

class OutputProcessor {
 public:
  // tokenizer may be null: texts are then empty. end_token_ids: the model's. All outlive the processor.
  // num_unstarted: see EngineCore.
  OutputProcessor(const Tokenizer* tokenizer, const std::vector<TokenId>& end_token_ids,
                  EngineMetrics& metrics, std::atomic<int32_t>& num_unstarted);

  // Begins a request. `prompt` is looked at during the call only.
  void add(RequestId request, const SamplingParams& params, std::span<const TokenId> prompt, OutputSink sink,
           double arrival);
  // The request was computed for the first time in a step that began at `now`.
  void mark_started(RequestId request, int32_t num_cached_tokens, double now);
  // Takes one sample's progress. Returns true when its text reached a stop string, so that the scheduler must
  // end the sample.
  bool apply(const SequenceProgress& progress, double now);
  // Sends each request that has news one RequestOutput, and forgets those that are over.
  void deliver();
  // Ends a request with this reason (kAbort), or with a failure (kError). Unknown ids are ignored.
  void end(RequestId request, FinishReason reason, std::optional<Failure> failure, double now);
  void end_all(const Failure& failure, double now);

  size_t num_requests() const { return requests_.size(); }
  std::vector<RequestId> requests() const;

 private:
  struct Sample {
    std::optional<Detokenizer> detokenizer;
    StopChecker stop_checker;
    int32_t num_tokens = 0;
    double cumulative_logprob = 0.0;
    bool finished = false;
  };
  struct Request {
    SamplingParams params;
    OutputSink sink;
    std::vector<Sample> samples;
    std::vector<PositionLogprobs> prompt_logprobs;  // collected over the prompt's chunks
    bool prompt_logprobs_sent = false;
    RequestTimes times;
    int32_t num_prompt_tokens = 0;
    int32_t num_cached_tokens = 0;
    int32_t num_finished = 0;
    RequestOutput pending;  // this step's news
    bool has_news = false;
    bool started = false;
  };

  CompletionDelta& delta_of(Request& request, int32_t index);
  // Appends the tokens' text to the delta; true when a stop string ended it.
  bool append_tokens(Request& request, Sample& sample, CompletionDelta& delta,
                     const SequenceProgress& progress);
  // A beam search's texts, all at once.
  void take_beams(Request& request, const BeamResult& result, double now);
  void take_hypothesis(Request& request, int32_t index, const BeamHypothesis& hypothesis);
  void take_prompt_logprobs(Request& request, const PromptLogprobs& chunk);
  void finish_sample(Request& request, Sample& sample, CompletionDelta& delta, FinishReason reason);
  void observe_tokens(Request& request, size_t num_new_tokens, double now);
  void note_news(RequestId id, Request& request);
  void send(RequestId id, Request& request);

  const Tokenizer* tokenizer_;
  const std::vector<TokenId>& end_token_ids_;
  EngineMetrics& metrics_;
  std::atomic<int32_t>& num_unstarted_;
  std::unordered_map<RequestId, Request> requests_;
  std::vector<RequestId> news_;  // in the order of the step
};

}  // namespace quire
