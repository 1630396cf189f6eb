// ServingEngine for the real engine.
#include <algorithm>
#include <mutex>
#include <utility>

#include "base/metrics.h"
#include "engine/chat_context.h"
#include "server/serving_engine.h"
#include "text/output/choose_format.h"

namespace quire {
namespace {

class EngineAdapter final : public ServingEngine {
 public:
  explicit EngineAdapter(Engine& engine) : engine_(engine) {}

  const ModelInfo& model() const override { return engine_.model(); }
  const SamplingParams& default_sampling() const override { return engine_.default_sampling(); }
  bool has_tokenizer() const override { return engine_.tokenizer() != nullptr; }
  bool has_chat_template() const override { return !engine_.chat_templates().empty(); }

  std::vector<TokenId> encode(std::string_view text, bool add_special_tokens,
                              const YieldPoint& yield_point) const override {
    return engine_.tokenizer()->encode(text, add_special_tokens, yield_point);
  }
  Result<PooledText> encode_pair(std::string_view query, std::string_view document,
                                 const PairOptions& options, const YieldPoint& yield_point) const override {
    return quire::encode_pair(engine_, query, document, options, yield_point);
  }
  std::vector<TokenId> encode_rendered(std::string_view text, const YieldPoint& yield_point) const override {
    return engine_.tokenizer()->encode_rendered(text, yield_point);
  }
  std::string decode(std::span<const TokenId> ids, bool skip_special_tokens,
                     const YieldPoint& yield_point) const override {
    return engine_.tokenizer()->decode(ids, skip_special_tokens, yield_point);
  }
  std::string token_bytes(TokenId id) const override { return engine_.tokenizer()->token_bytes(id); }
  bool is_special(TokenId id) const override { return engine_.tokenizer()->is_special(id); }
  size_t max_token_bytes() const override {
    std::call_once(measured_, [this] {
      const auto size = static_cast<TokenId>(engine_.tokenizer()->vocab_size());
      for (TokenId id = 0; id < size; ++id) {
        max_token_bytes_ = std::max(max_token_bytes_, engine_.tokenizer()->token_bytes(id).size());
      }
    });
    return max_token_bytes_;
  }
  std::string token_name(TokenId id) const override {
    return std::string(engine_.tokenizer()->id_to_token(id));
  }

  std::optional<TokenId> marker_token(std::string_view text) const override {
    return engine_.tokenizer()->added_token(text);
  }
  DetectedFormat detect_formats() const override {
    return quire::detect_formats(engine_.chat_templates(), engine_.tokenizer());
  }

  Result<std::string> render_chat(ChatRequest request) const override {
    return quire::render_chat(engine_.chat_templates(), engine_.tokenizer(), std::move(request));
  }

  Result<RequestId> submit(std::vector<Submission> requests) override {
    return engine_.submit(std::move(requests));
  }
  void abort(RequestId first, size_t count) override { engine_.abort(first, count); }
  Result<SharedConstraint> compile(const StructuredOutputs& spec,
                                   const CompileOptions& options) const override {
    return engine_.compile(spec, options);
  }
  Result<SharedConstraint> limit_reasoning(int32_t tokens, OutputParserOptions reading,
                                           SharedConstraint within) const override {
    return engine_.limit_reasoning(tokens, std::move(reading), std::move(within));
  }
  std::vector<AdapterDescription> adapters() const override { return engine_.adapters(); }
  std::optional<AdapterDescription> find_adapter(std::string_view name) const override {
    return engine_.find_adapter(name);
  }
  Status require_adapter(std::string_view name) const override { return engine_.require_adapter(name); }
  Status load_adapter(const LoraModule& module, bool replace) override {
    return engine_.load_adapter(module, replace);
  }
  Status unload_adapter(const std::string& name) override { return engine_.unload_adapter(name); }
  bool drain(std::chrono::milliseconds timeout) override { return engine_.drain(timeout); }
  bool busy() const override { return engine_.busy(); }
  std::optional<std::string> failure() const override { return engine_.failure(); }
  void on_failure(std::function<void()> callback) override { engine_.on_failure(std::move(callback)); }
  std::shared_ptr<const EngineView> view() override { return engine_.view(); }
  std::string metrics_page(const std::string& model_name) override {
    return engine_.metrics().render({{"model_name", model_name}});
  }
  bool reset_prefix_cache() override { return engine_.reset_prefix_cache(); }

 private:
  Engine& engine_;
  mutable std::once_flag measured_;
  mutable size_t max_token_bytes_ = 1;
};

}  // namespace

std::unique_ptr<ServingEngine> make_serving_engine(Engine& engine) {
  return std::make_unique<EngineAdapter>(engine);
}

}  // namespace quire
