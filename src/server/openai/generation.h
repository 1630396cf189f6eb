// One completions or chat request: submits its prompts to the engine, takes their outputs from the engine
// thread and writes the response; aborts everything if the client disconnects.
//
// Lives as long as the engine or the connection refers to it. Threads: start() runs on a thread of the
// WorkPool, receive() on the engine thread. Outputs are processed by one thread at a time: the connection's
// thread, or a thread of the WorkPool if there is much to write.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "server/http/http_types.h"
#include "server/http/work_pool.h"
#include "server/openai/answer_format.h"
#include "server/openai/chat_output.h"
#include "server/openai/generation_spec.h"
#include "server/serving_engine.h"

namespace quire {

struct GenerationSettings {
  double keep_alive_s = 15.0;      // between comments on a silent stream; 0 = no comments
  std::string fingerprint;         // system_fingerprint
  std::shared_ptr<WorkPool> pool;  // writes large responses; null = the connection's thread writes all
};

class GenerationResponse : public std::enable_shared_from_this<GenerationResponse> {
 public:
  // `stop` is requested when the client disconnects.
  GenerationResponse(ServingEngine& engine, GenerationSpec spec, std::shared_ptr<ResponseWriter> writer,
                     GenerationSettings settings, std::stop_source stop = {});

  // Submits all prompts. If one is refused, none runs and the response is the error. If it throws, none runs
  // and the caller has to respond.
  void start();

 private:
  // One choice of the response: sample `index % n` of prompt `index / n`.
  struct Choice {
    std::string text;
    std::unique_ptr<ChatOutput> output;  // reads it, in a chat with a reading
    std::vector<OutputEvent> events;     // all so far, if the response is not streamed
    std::vector<TokenId> token_ids;
    std::vector<CompletionToken> logprobs;  // not yet written
    int64_t text_offset = 0;
    int64_t num_tokens = 0;
    bool echo_done = false;
    bool begun = false;  // part of it was streamed
    FinishReason finish_reason = FinishReason::kNone;
    std::variant<std::monostate, std::string, TokenId> stop_reason;
  };
  struct Prompt {
    bool finished = false;
    int64_t num_tokens = 0;
    int64_t cached_tokens = 0;
    RequestTimes times;
    std::vector<PositionLogprobs> logprobs;
  };
  struct PromptOutput {
    size_t prompt;
    RequestOutput output;
  };
  // One chunk of a stream.
  struct Chunk {
    bool role = false;  // the first one of a chat's choice
    std::string_view text = {};
    const OutputEvent* event = nullptr;  // instead of the text
    std::span<const TokenId> token_ids = {};
    bool last = true;  // no other chunk follows for the present output
  };
  // The part of the response that a batch of outputs adds.
  struct Reply {
    std::string stream;
    std::optional<HttpResponse> response;
    bool end_stream = false;
    int status = 200;    // that of an error in a stream
    std::string remark;  // for the log, with end_stream
  };
  struct Abort {
    GenerationResponse* generation;
    void operator()() const { generation->abort_all(); }
  };

  Status submit_all();
  void begin_response(const std::optional<Failure>& failure);  // connection's thread
  void receive(size_t prompt, RequestOutput&& output) noexcept;
  void take_outputs();  // connection's thread
  void process_on_pool(std::vector<PromptOutput> outputs) noexcept;
  void process(std::vector<PromptOutput> outputs, Reply& reply);
  void deliver(Reply& reply);  // connection's thread
  void abort_all() noexcept;

  void take(size_t prompt, RequestOutput&& output, Reply& reply);
  void take_delta(size_t prompt, CompletionDelta&& delta, std::string& stream);
  void echo_prompt(size_t prompt, Choice& choice);
  void fail(const Failure& failure, Reply& reply);
  void finish(Reply& reply);
  void begin_stream();
  std::string remark() const;

  Usage usage() const;
  void write_timings(JsonOut& out) const;
  void write_head(JsonOut& out, std::string_view object) const;
  void read_chat(size_t index, Choice& choice, const CompletionDelta& delta, std::string& stream);
  void end_after_call(size_t index);
  std::string_view finish_name(const Choice& choice) const;
  void write_chunk(std::string& stream, size_t index, Choice& choice, const Chunk& chunk);
  void write_usage_chunk(std::string& stream) const;
  void write_chunk_logprobs(JsonOut& out, Choice& choice) const;
  std::string whole_response();
  void write_prompt_scores(JsonOut& out, const Prompt& prompt) const;
  void write_whole_choice(JsonOut& out, size_t index, Choice& choice);
  HttpResponse head() const;

  ServingEngine& engine_;
  GenerationSpec spec_;
  const std::shared_ptr<ResponseWriter> writer_;
  const GenerationSettings settings_;
  const std::stop_source stop_;
  std::vector<Prompt> prompts_;
  std::vector<Choice> choices_;
  size_t num_unfinished_ = 0;
  uint64_t salt_ = 0;       // makes the ids of calls different from those of other responses
  size_t num_entries_ = 0;  // tokens and log-probabilities received so far
  bool streaming_ = false;

  std::atomic<bool> closed_{false};       // the response is complete, or the client has disconnected
  std::atomic<bool> output_lost_{false};  // an output could not be queued for want of memory

  std::mutex mutex_;
  std::vector<PromptOutput> outputs_;
  bool processing_ = true;  // take_outputs() is queued or runs; at first by begin_response()

  const std::shared_ptr<RequestPort> port_ = unowned(engine_);
  RequestBatch requests_{port_};

  // Last, so that it is destroyed before anything that its callback uses.
  std::optional<std::stop_callback<Abort>> on_stop_;
};

}  // namespace quire
