// An engine without a model: bytes are tokens, and the output is a function of the prompt. It runs on its own
// thread, as the real one does, and can be held between steps.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "server/serving_engine.h"

namespace quire {

// The constraint that the fake engine compiles; it never runs.
struct NoConstraint final : OutputConstraint {
  std::unique_ptr<ConstraintState> start() const override { return nullptr; }
  size_t memory() const override { return 0; }
};

class FakeEngine final : public ServingEngine {
 public:
  FakeEngine();
  ~FakeEngine() override;

  const ModelInfo& model() const override { return info; }
  const SamplingParams& default_sampling() const override { return defaults; }
  bool has_tokenizer() const override { return tokenizer; }
  bool has_chat_template() const override { return chat_template; }
  // BOS is 256. Throws Cancelled if `yield_point` is cancelled while the engine is held by hold_tokenizer().
  std::vector<TokenId> encode(std::string_view text, bool add_special_tokens,
                              const YieldPoint& yield_point = {}) const override;
  Result<PooledText> encode_pair(std::string_view query, std::string_view document,
                                 const PairOptions& options, const YieldPoint&) const override {
    PooledText pair{encode(query, true), 0};
    pair.second_text = static_cast<int32_t>(pair.ids.size());
    for (const TokenId id : encode(document, false)) pair.ids.push_back(id);
    const Status cut = truncate_pair(pair, static_cast<size_t>(pair.second_text), pair.ids.size(), options);
    if (!cut.ok()) return cut.failure();
    return pair;
  }
  std::vector<TokenId> encode_rendered(std::string_view text, const YieldPoint& yield_point) const override {
    return encode(text, false, yield_point);
  }
  std::string decode(std::span<const TokenId> ids, bool skip_special_tokens,
                     const YieldPoint& yield_point = {}) const override;
  std::string token_bytes(TokenId id) const override { return decode(std::span(&id, 1), false); }
  bool is_special(TokenId id) const override { return id >= kBos; }
  size_t max_token_bytes() const override { return 1; }
  std::string token_name(TokenId id) const override { return "<" + std::to_string(id) + ">"; }
  std::optional<TokenId> marker_token(std::string_view text) const override {
    const auto at = markers.find(std::string(text));
    return at == markers.end() ? std::nullopt : std::optional<TokenId>(at->second);
  }
  DetectedFormat detect_formats() const override { return formats; }
  Result<std::string> render_chat(ChatRequest request) const override;
  Result<SharedConstraint> compile(const StructuredOutputs& spec,
                                   const CompileOptions& options) const override {
    if (!compiles) return invalid_argument("the fake engine compiles nothing", spec.field);
    if (before_compile) before_compile(spec, options);
    const std::lock_guard lock(mutex_);
    compiled_.push_back(spec);
    return SharedConstraint(std::make_shared<const NoConstraint>());
  }
  Result<SharedConstraint> limit_reasoning(int32_t tokens, OutputParserOptions reading,
                                           SharedConstraint) const override {
    limits.emplace_back(tokens, std::move(reading));
    return SharedConstraint(std::make_shared<const NoConstraint>());
  }
  std::vector<AdapterDescription> adapters() const override { return loras; }
  std::optional<AdapterDescription> find_adapter(std::string_view name) const override {
    const auto found = std::ranges::find(loras, name, &AdapterDescription::name);
    return found == loras.end() ? std::nullopt : std::optional(*found);
  }
  Status require_adapter(std::string_view name) const override {
    if (find_adapter(name)) return {};
    return Failure{ErrorKind::kNotFound, "There is no such adapter.", "model"};
  }
  Status load_adapter(const LoraModule& module, bool replace) override {
    if (!replace && find_adapter(module.name))
      return invalid_argument("There is already such an adapter.", "lora_name");
    std::erase_if(loras, [&](const AdapterDescription& old) { return old.name == module.name; });
    loras.push_back({.name = module.name, .path = module.path});
    return {};
  }
  Status unload_adapter(const std::string& name) override {
    if (std::erase_if(loras, [&](const AdapterDescription& old) { return old.name == name; }) == 0)
      return Failure{ErrorKind::kNotFound, "There is no such adapter.", "lora_name"};
    return {};
  }
  Result<RequestId> submit(std::vector<Submission> requests) override;
  void abort(RequestId first, size_t count) override;
  bool drain(std::chrono::milliseconds timeout) override;
  bool busy() const override { return false; }
  std::optional<std::string> failure() const override { return failure_reason; }
  void on_failure(std::function<void()>) override {}
  bool reset_prefix_cache() override {
    ++num_resets;
    return true;
  }
  std::shared_ptr<const EngineView> view() override {
    ++num_views;
    return std::make_shared<const EngineView>(next_view);
  }
  std::string metrics_page(const std::string& model_name) override {
    return "# TYPE quire:fake gauge\nquire:fake{model_name=\"" + model_name + "\"} 1\n";
  }

  // The output of sample `index` for a prompt: the bytes of the prompt in reverse order, starting with the
  // index-th from the end, repeated.
  static std::string continuation(std::string_view prompt, int index, int max_tokens);

  // Settings, before the first request.
  std::optional<std::string> failure_reason;
  ModelInfo info;
  std::vector<AdapterDescription> loras;
  SamplingParams defaults;
  bool tokenizer = true;
  bool chat_template = true;
  DetectedFormat formats;
  // The output of every sample, instead of the continuation. It ends with kStop if max_tokens allows it.
  std::optional<std::string> answer;
  std::map<std::string, TokenId> markers;  // texts of an answer that are tokens of their own
  bool spells_markers = false;             // they come in the tokens of their characters
  bool compiles = false;                   // constraints are accepted
  std::function<void(const StructuredOutputs&, const CompileOptions&)> before_compile;  // may throw
  mutable std::vector<std::pair<int32_t, OutputParserOptions>> limits;  // arguments of limit_reasoning()
  std::string prompt_end;                                               // of rendered chats
  int max_queued = 1 << 20;
  std::chrono::microseconds step_time{0};
  std::string extra_byte_pieces;  // appended to every continuation
  std::optional<int> fail_after;  // tokens, then a failure
  int max_texts = 1 << 20;        // limits the number of samples, as if a beam search found no more
  std::atomic<int> num_resets{0};
  EngineView next_view;
  std::atomic<int> num_views{0};
  std::optional<int> throw_at_submit;          // the number of the submit() that throws
  std::atomic<bool> tokenizer_blocked{false};  // encode() returns only when it is cancelled
  mutable std::atomic<int> num_encoding{0};    // calls of encode() that are blocked
  std::chrono::milliseconds cancel_time{0};    // time that a blocked encode() takes to notice the stop
  static constexpr TokenId kBos = 256;

  void hold();
  void release();
  int num_active() const;
  int64_t num_aborted() const { return num_aborted_.load(); }
  Request last_request() const;
  std::vector<SharedSamplingParams> active_sampling() const;
  ChatRequest last_chat() const;
  // The arguments of compile().
  std::vector<StructuredOutputs> compiled() const {
    const std::lock_guard lock(mutex_);
    return compiled_;
  }

 private:
  struct Active {
    Request request;
    OutputSink sink;
    std::vector<std::string> texts;
    int done = 0;
    int num_tokens = 0;  // tokens of an answer so far
    bool aborted = false;
    bool first = true;
  };
  Status check(const Request& request) const;
  void work();
  bool step(RequestId id, Active& active);
  bool answer_step(RequestId id, Active& active) const;
  // {number of tokens, last token, start of the second text}
  static std::vector<float> pooled_vector(const Request& request);
  static PositionLogprobs fake_logprobs(TokenId token, int top);

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<RequestId, Active> active_;
  Request last_request_;
  mutable ChatRequest last_chat_;
  mutable std::vector<StructuredOutputs> compiled_;
  RequestId next_ = 1;
  int num_submits_ = 0;
  bool held_ = false;
  bool stopping_ = false;
  bool draining_ = false;
  std::atomic<int64_t> num_aborted_{0};
  std::thread thread_;
};

}  // namespace quire
