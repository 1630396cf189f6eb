// The engine as the server uses it: the real Engine through make_serving_engine(), or a fake in tests. All
// members may be called from any thread, several at once.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/yield_point.h"
#include "contract/ids.h"
#include "contract/sampling_params.h"
#include "engine/engine.h"
#include "engine/engine_view.h"
#include "engine/text_pairs.h"
#include "text/chat/messages.h"
#include "text/output/detect_format.h"
#include "text/output/output_parser.h"

namespace quire {

class ServingEngine : public RequestPort {
 public:
  virtual const ModelInfo& model() const = 0;
  virtual const SamplingParams& default_sampling() const = 0;
  virtual bool has_tokenizer() const = 0;
  virtual bool has_chat_template() const = 0;

  // The following need a tokenizer. Those that take a yield point throw Cancelled soon after it is
  // cancelled.
  virtual std::vector<TokenId> encode(std::string_view text, bool add_special_tokens,
                                      const YieldPoint& yield_point = {}) const = 0;
  // A query and a document (engine/text_pairs.h).
  virtual Result<PooledText> encode_pair(std::string_view query, std::string_view document,
                                         const PairOptions& options,
                                         const YieldPoint& yield_point = {}) const = 0;
  // The result of a chat template: no special tokens are added, those in the text are recognized.
  virtual std::vector<TokenId> encode_rendered(std::string_view text,
                                               const YieldPoint& yield_point = {}) const = 0;
  virtual std::string decode(std::span<const TokenId> ids, bool skip_special_tokens,
                             const YieldPoint& yield_point = {}) const = 0;
  // The bytes that a token adds to a text; may be part of a character.
  virtual std::string token_bytes(TokenId id) const = 0;
  // Whether decode() leaves the token out if skip_special_tokens is set.
  virtual bool is_special(TokenId id) const = 0;
  // The largest number of bytes of a token. Slow the first time.
  virtual size_t max_token_bytes() const = 0;
  // The token as spelled in the vocabulary, e.g. "Ġthe".
  virtual std::string token_name(TokenId id) const = 0;

  // The token that the text of a marker is always encoded as, if it has one.
  virtual std::optional<TokenId> marker_token(std::string_view text) const = 0;
  // The formats of reasoning and tool calls that the chat template shows. Takes some milliseconds.
  virtual DetectedFormat detect_formats() const = 0;

  // Needs a chat template. Fails with the message of the template if it rejects the conversation.
  virtual Result<std::string> render_chat(ChatRequest request) const = 0;

  // Same as the functions of Engine.
  virtual std::vector<AdapterDescription> adapters() const = 0;
  virtual std::optional<AdapterDescription> find_adapter(std::string_view name) const = 0;
  virtual Status require_adapter(std::string_view name) const = 0;
  virtual Status load_adapter(const LoraModule& module, bool replace) = 0;
  virtual Status unload_adapter(const std::string& name) = 0;
  virtual Result<SharedConstraint> compile(const StructuredOutputs& spec,
                                           const CompileOptions& options = {}) const = 0;
  virtual Result<SharedConstraint> limit_reasoning(int32_t tokens, OutputParserOptions reading,
                                                   SharedConstraint within) const = 0;
  virtual bool drain(std::chrono::milliseconds timeout) = 0;
  virtual bool busy() const = 0;
  virtual std::optional<std::string> failure() const = 0;
  virtual void on_failure(std::function<void()> callback) = 0;
  virtual std::shared_ptr<const EngineView> view() = 0;
  // model_name: the label of all metrics.
  virtual std::string metrics_page(const std::string& model_name) = 0;
  virtual bool reset_prefix_cache() = 0;
};

// `engine` must outlive the result.
std::unique_ptr<ServingEngine> make_serving_engine(Engine& engine);

}  // namespace quire
