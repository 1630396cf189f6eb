// What the server needs of an engine, as an interface: the real Engine behind make_serving_engine(), or a
// fake in tests. All members may be called from any thread, several at once.
#pragma once

#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "contract/ids.h"
#include "contract/sampling_params.h"
#include "engine/engine.h"
#include "engine/text_pairs.h"

namespace quire {

// Objects keep the order of their fields: a chat template prints a tool's schema as the client wrote it.
using Json = nlohmann::ordered_json;

// The input of a chat template.
struct ChatPrompt {
  Json messages = Json::array();
  Json tools;                    // null: none
  Json documents;                // null: none
  Json kwargs = Json::object();  // further variables of the template
  std::string chat_template;     // replaces the model's; empty: the model's
  bool add_generation_prompt = true;
  bool continue_final_message = false;
};

class ServingEngine {
 public:
  virtual ~ServingEngine() = default;

  virtual const ModelInfo& model() const = 0;
  virtual const SamplingParams& default_sampling() const = 0;
  virtual bool has_tokenizer() const = 0;
  virtual bool has_chat_template() const = 0;

  // The following need a tokenizer.
  virtual std::vector<TokenId> encode(std::string_view text, bool add_special_tokens) const = 0;
  // A query and a document (engine/text_pairs.h).
  virtual Result<PooledText> encode_pair(std::string_view query, std::string_view document,
                                         std::string_view instruction) const = 0;
  // Of a chat template's result: nothing is added, control symbols are recognised.
  virtual std::vector<TokenId> encode_rendered(std::string_view text) const = 0;
  virtual std::string decode(std::span<const TokenId> ids, bool skip_special_tokens) const = 0;
  // The bytes that a token adds to a text; they need not be whole characters.
  virtual std::string token_bytes(TokenId id) const = 0;
  // The most bytes that a token stands for. May take a while the first time.
  virtual size_t max_token_bytes() const = 0;
  // The token as the vocabulary writes it, e.g. "Ġthe".
  virtual std::string token_name(TokenId id) const = 0;

  // Needs a chat template. Fails with the template's own message where it refuses the messages.
  virtual Result<std::string> render_chat(const ChatPrompt& prompt) const = 0;

  // As Engine's.
  virtual Result<RequestId> submit(GenerateRequest request, OutputSink sink) = 0;
  virtual void abort(RequestId request) = 0;
  virtual bool drain(std::chrono::milliseconds timeout) = 0;
  virtual std::string metrics_page() = 0;
  virtual bool reset_prefix_cache() = 0;
};

// `engine` must outlive the result.
std::unique_ptr<ServingEngine> make_serving_engine(Engine& engine);

}  // namespace quire
