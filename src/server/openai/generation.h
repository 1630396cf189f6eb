// One completions or chat request while it runs: hands its prompts to the engine, takes their outputs from
// the engine thread and writes the answer on the connection's strand; ends everything when the client goes.
//
// Lives as long as the engine or the connection refers to it. The engine thread only touches the mailbox; all
// else belongs to the strand on which start() was called.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/clock.h"
#include "server/http/http_types.h"
#include "server/openai/answer_format.h"
#include "server/openai/generation_spec.h"
#include "server/serving_engine.h"

namespace quire {

struct GenerationSettings {
  double keep_alive_s = 15.0;  // a comment line after so much silence on a stream
  std::string fingerprint;     // system_fingerprint
  bool log_requests = false;   // a line for each answer
};

class Generation : public std::enable_shared_from_this<Generation> {
 public:
  Generation(ServingEngine& engine, GenerationSpec spec, std::shared_ptr<ResponseWriter> writer,
             GenerationSettings settings);

  // Submits all prompts, or answers with the reason why not.
  void start();

 private:
  // One choice of the answer: sample `index % n` of prompt `index / n`.
  struct Choice {
    std::string text;
    std::vector<TokenId> token_ids;
    std::vector<CompletionToken> logprobs;  // not yet written
    int64_t text_offset = 0;
    int64_t num_tokens = 0;
    bool echo_done = false;
    bool begun = false;  // something of it was streamed
    FinishReason finish_reason = FinishReason::kNone;
    std::variant<std::monostate, std::string, TokenId> stop_reason;
  };
  struct Prompt {
    RequestId request = -1;
    bool finished = false;
    int64_t cached_tokens = 0;
    std::vector<PositionLogprobs> logprobs;
  };
  struct Letter {
    size_t prompt;
    RequestOutput output;
  };

  void receive(size_t prompt, RequestOutput&& output);  // engine thread
  void open_mailbox();
  void take(size_t prompt, RequestOutput&& output, std::string& stream);
  void take_delta(size_t prompt, CompletionDelta&& delta, std::string& stream);
  void echo_prompt(size_t prompt, Choice& choice);
  void fail(const Failure& failure, std::string& stream);
  void finish(std::string& stream);
  void abort_all();
  void begin_stream();
  void log_end(std::string_view how) const;

  Usage usage() const;
  void write_head(JsonOut& out, std::string_view object) const;
  void write_chunk(std::string& stream, size_t index, Choice& choice, bool role, std::string_view text,
                   std::span<const TokenId> token_ids);
  void write_usage_chunk(std::string& stream) const;
  void write_chunk_logprobs(JsonOut& out, Choice& choice) const;
  std::string whole_answer();
  void write_whole_choice(JsonOut& out, size_t index, Choice& choice);
  HttpResponse head() const;

  ServingEngine& engine_;
  const GenerationSpec spec_;
  const std::shared_ptr<ResponseWriter> writer_;
  const GenerationSettings settings_;
  std::vector<Prompt> prompts_;
  std::vector<Choice> choices_;
  size_t num_unfinished_ = 0;
  const double begin_ = monotonic_seconds();
  bool closed_ = false;  // the answer is complete, or nobody is there to take it

  std::mutex mutex_;
  std::vector<Letter> mailbox_;
  bool awaited_ = false;           // open_mailbox() is on its way
  std::atomic<bool> deaf_{false};  // closed_, for the engine thread
};

}  // namespace quire
