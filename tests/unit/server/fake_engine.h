// An engine without a model: bytes are tokens, and what it generates is a function of the prompt. It works on
// a thread of its own, as the real one does, and can be held still between steps.
#pragma once

#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "server/serving_engine.h"

namespace quire {

class FakeEngine final : public ServingEngine {
 public:
  FakeEngine();
  ~FakeEngine() override;

  const ModelInfo& model() const override { return info; }
  const SamplingParams& default_sampling() const override { return defaults; }
  bool has_tokenizer() const override { return tokenizer; }
  bool has_chat_template() const override { return chat_template; }
  std::vector<TokenId> encode(std::string_view text, bool add_special_tokens) const override;  // BOS is 256
  Result<PooledText> encode_pair(std::string_view query, std::string_view document,
                                 std::string_view) const override {
    PooledText pair{encode(query, true), 0};
    pair.second_text = static_cast<int32_t>(pair.ids.size());
    for (const TokenId id : encode(document, false)) pair.ids.push_back(id);
    return pair;
  }
  std::vector<TokenId> encode_rendered(std::string_view text) const override { return encode(text, false); }
  std::string decode(std::span<const TokenId> ids, bool skip_special_tokens) const override;
  std::string token_bytes(TokenId id) const override { return decode(std::span(&id, 1), false); }
  size_t max_token_bytes() const override { return 1; }
  std::string token_name(TokenId id) const override { return "<" + std::to_string(id) + ">"; }
  Result<std::string> render_chat(const ChatPrompt& prompt) const override;
  Result<RequestId> submit(GenerateRequest request, OutputSink sink) override;
  void abort(RequestId request) override;
  bool drain(std::chrono::milliseconds timeout) override;
  bool reset_prefix_cache() override {
    ++num_resets;
    return true;
  }
  std::string metrics_page() override { return "# TYPE quire:fake gauge\nquire:fake 1\n"; }

  // What sample `index` of a prompt becomes: the prompt's bytes backwards, from the index-th on, around and
  // around.
  static std::string continuation(std::string_view prompt, int index, int max_tokens);

  // Settings, before the first request.
  ModelInfo info;
  SamplingParams defaults;
  bool tokenizer = true;
  bool chat_template = true;
  int max_queued = 1 << 20;
  std::chrono::microseconds step_time{0};
  std::string extra_byte_pieces;  // appended to every continuation
  std::optional<int> fail_after;  // tokens, then a failure
  int max_texts = 1 << 20;        // more samples than that are not found, as with a beam search
  std::atomic<int> num_resets{0};

  void hold();
  void release();
  int num_active() const;
  int64_t num_aborted() const { return num_aborted_.load(); }
  GenerateRequest last_request() const;
  ChatPrompt last_chat() const;

 private:
  struct Active {
    GenerateRequest request;
    OutputSink sink;
    std::vector<std::string> texts;
    int done = 0;
    bool aborted = false;
    bool first = true;
  };
  void work();
  bool step(RequestId id, Active& active);
  // How many tokens, the last one, where the second text begins.
  static std::vector<float> pooled_vector(const GenerateRequest& request);
  static PositionLogprobs made_up_logprobs(TokenId token, int top);

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<RequestId, Active> active_;
  GenerateRequest last_request_;
  mutable ChatPrompt last_chat_;
  RequestId next_ = 1;
  bool held_ = false;
  bool stopping_ = false;
  bool draining_ = false;
  std::atomic<int64_t> num_aborted_{0};
  std::thread thread_;
};

}  // namespace quire
