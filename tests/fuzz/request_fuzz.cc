// The JSON body of a request, parsed for each endpoint: accepted requests can be passed to the engine.
#include "fuzz/fuzz.h"
#include "server/openai/api.h"
#include "server/openai/field_reader.h"
#include "server/openai/generation_spec.h"
#include "server/openai/pooling_spec.h"
#include "unit/server/fake_engine.h"

namespace quire {
namespace {

using Parse = Result<GenerationSpec> (*)(const Json&, const ServingEngine&, const ApiOptions&,
                                         const std::string&, const YieldPoint&);

void check_generation(const Json& body, FakeEngine& engine, const ApiOptions& options, Parse parse) {
  auto spec = parse(body, engine, options, "req-1", {});
  if (spec.ok()) {
    if (const Status constrained = constrain(*spec); !constrained.ok()) spec = constrained.failure();
  }
  if (!spec.ok()) {
    fuzz::require(!spec.failure().message.empty(), "a refusal says why");
    // Written into the response.
    fuzz::require(
        Json(spec.failure().message).dump(-1, ' ', false, Json::error_handler_t::replace).size() < (1U << 20),
        "a refusal is short");
    return;
  }
  fuzz::require(!spec->prompts.empty(), "there is a prompt");
  for (const PromptInput& prompt : spec->prompts) {
    for (const TokenId id : prompt.ids)
      fuzz::require(id >= 0 && id < engine.info.vocab_size, "an id is of the vocabulary");
    fuzz::require(prompt.max_tokens >= 0, "max_tokens is not negative");
    fuzz::require(prompt.ids.size() + static_cast<size_t>(prompt.max_tokens) <=
                      static_cast<size_t>(engine.info.max_model_len),
                  "the prompt and its answer fit the context");
  }
}

void check_pooling(const Json& body, FakeEngine& engine, const ApiOptions& options) {
  for (const ModelTask task : {ModelTask::kGenerate, ModelTask::kEmbed, ModelTask::kScore}) {
    engine.info.task = task;
    for (const ParsePooling parse :
         {parse_embeddings, parse_rerank, parse_score, parse_classify, parse_pooling}) {
      const auto spec = parse(body, engine, options, "req-1", {});
      if (!spec.ok()) {
        fuzz::require(!spec.failure().message.empty(), "a refusal says why");
        continue;
      }
      fuzz::require(task != ModelTask::kGenerate, "a model that generates gives no vectors");
      for (const PooledText& text : spec->texts)
        fuzz::require(text.ids.size() <= static_cast<size_t>(engine.info.max_model_len), "a text fits");
    }
  }
  engine.info.task = ModelTask::kGenerate;
}

}  // namespace
}  // namespace quire

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static quire::FakeEngine engine;
  static const quire::ApiOptions lenient{{"fake"}, false, true};
  static const quire::ApiOptions strict{{"fake"}, true, false};
  static const quire::ApiState state{.engine = engine, .options = lenient, .settings = {}, .version = "0"};

  const auto body = quire::parse_json_object(quire::fuzz::text_of(data, size));
  if (!body.ok()) return 0;
  for (const quire::ApiOptions* options : {&lenient, &strict}) {
    quire::check_generation(*body, engine, *options, quire::parse_completion);
    quire::check_generation(*body, engine, *options, quire::parse_chat_completion);
    quire::check_pooling(*body, engine, *options);
  }
  (void)quire::tokenize(*body, state).ok();
  (void)quire::detokenize(*body, state).ok();
  return 0;
}
