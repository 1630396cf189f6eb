// Text that a constraint leaves no choice for is appended at once: fewer steps, the same outputs.
#include "unit/engine/engine_testing.h"

namespace quire {
namespace {

using test::Answer;
using test::Pending;

constexpr const char* kSchema = R"({
  "type": "object",
  "properties": {
    "identification_number": {"type": "integer", "minimum": 0, "maximum": 99},
    "preferred_temperature": {"enum": ["exceptionally cold", "moderately warm"]},
    "further_observations": {"type": "string", "maxLength": 6}
  },
  "required": ["identification_number", "preferred_temperature", "further_observations"],
  "additionalProperties": false
})";

EngineConfig config_of(bool jump_ahead) {
  EngineConfig config;
  config.model = test::model_path("quire-tiny");
  config.kv_cache_memory = int64_t{64} << 20;
  config.threads = 2;
  config.generation_config = "none";
  config.jump_ahead = jump_ahead;
  return config;
}

Request constrained(Engine& engine, int number = 0) {
  Request request;
  request.prompt_token_ids =
      test::random_prompt(static_cast<uint64_t>(number) + 1, 5 + number % 20, engine.model().vocab_size);
  SamplingParams& sampling = request.sampling.edit();
  sampling.max_tokens = 200;
  sampling.temperature = 1.3F;
  sampling.seed = number;
  const StructuredOutputs spec{.kind = StructuredOutputs::Kind::kJsonSchema,
                               .text = kSchema,
                               .disable_any_whitespace = number % 2 == 1};
  request.constraint = engine.compile(spec).value();
  return request;
}

// Requests that differ in what happens to forced tokens on their way.
Request varied(Engine& engine, int number) {
  Request request = constrained(engine, number);
  SamplingParams& sampling = request.sampling.edit();
  sampling.n = 1 + number % 3;
  switch (number % 12) {
    case 1:
      sampling.max_tokens = 3 + number;
      break;
    case 2:
      sampling.stop = {"temp"};
      break;
    case 3:
      sampling.logprobs = 2;
      break;
    case 4:
      sampling.repetition_penalty = 1.3F;
      break;
    case 5:
      sampling.mirostat_mode = 2;
      break;
    case 6:
      sampling.dry_multiplier = 0.8F;
      break;
    case 7:
      sampling.min_tokens = 20;
      break;
    case 8:
      sampling.temperature = 0.0F;
      sampling.n = 1;
      break;
    case 9:
      sampling.frequency_penalty = 0.7F;
      break;
    case 10:
      request.constraint = nullptr;
      break;
    case 11:
      sampling.stop_token_ids = engine.tokenizer()->encode("preferred", false);
      break;
    default:
      break;
  }
  return request;
}

std::vector<Answer> ask_all(Engine& engine, int count) {
  std::vector<Pending> pending(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) {
    const auto id = engine.submit(varied(engine, i), pending[static_cast<size_t>(i)].sink());
    if (!id.ok()) throw std::runtime_error(id.failure().message);
  }
  std::vector<Answer> answers;
  for (Pending& one : pending) answers.push_back(one.wait());
  return answers;
}

TEST(JumpAhead, TakesFewerStepsForTheSameOutput) {
  std::vector<int64_t> steps;
  std::vector<Answer> answers;
  for (const bool jump_ahead : {false, true}) {
    const auto engine = Engine::start(config_of(jump_ahead));
    answers.push_back(test::ask(*engine, constrained(*engine)));
    steps.push_back(engine->stats().num_steps);
  }
  ASSERT_EQ(answers[1].samples.size(), 1U);
  EXPECT_EQ(answers[1].samples[0].reason, FinishReason::kStop);
  test::expect_same(answers[0], answers[1]);
  EXPECT_EQ(steps[0], static_cast<int64_t>(answers[0].samples[0].tokens.size()));
  EXPECT_LT(steps[1] * 3, steps[0] * 2);
}

// The sequence breakers of DRY rule no token out, bad words do.
TEST(JumpAhead, IsTurnedOffByBadWordsOnly) {
  const auto engine = Engine::start(config_of(true));
  const auto steps_of = [&](const auto& edit) {
    Request request = constrained(*engine);
    edit(request.sampling.edit());
    const int64_t before = engine->stats().num_steps;
    const Answer answer = test::ask(*engine, std::move(request));
    const auto steps = engine->stats().num_steps - before;
    return std::pair(steps, static_cast<int64_t>(answer.samples.at(0).tokens.size()));
  };
  const auto [with_breakers, size] = steps_of([](SamplingParams& sampling) {
    sampling.dry_multiplier = 0.8F;
    sampling.dry_sequence_breakers = {"\n", ":"};
  });
  EXPECT_LT(with_breakers * 3, size * 2);
  const auto [with_bad_words, all] =
      steps_of([](SamplingParams& sampling) { sampling.bad_words = {"zebra"}; });
  EXPECT_EQ(with_bad_words, all);
}

TEST(JumpAhead, ChangesNoOutputInAnyBatch) {
  constexpr int kCount = 36;
  const auto reference = Engine::start(config_of(false));
  const std::vector<Answer> expected = ask_all(*reference, kCount);
  const int64_t kv_bytes_per_token = reference->model().kv_bytes_per_token;
  for (const bool preempts : {false, true}) {
    EngineConfig config = config_of(true);
    if (preempts) {
      config.kv_cache_memory = 900 * kv_bytes_per_token;
      config.long_prefill_token_threshold = 3;
      config.max_num_batched_tokens = 40;
      config.max_num_seqs = 40;
      config.tpot_slo = 0.001;
    }
    const auto engine = Engine::start(config);
    const std::vector<Answer> answers = ask_all(*engine, kCount);
    for (int i = 0; i < kCount; ++i) {
      SCOPED_TRACE("request " + std::to_string(i));
      test::expect_same(expected[static_cast<size_t>(i)], answers[static_cast<size_t>(i)]);
    }
    EXPECT_EQ(engine->stats().num_preemptions > 0, preempts);
    engine->check_integrity();
  }
}

// Text is written with other tokens if the request rules out those that the constraint forces.
TEST(JumpAhead, RespectsTokensThatTheRequestRulesOut) {
  const auto engine = Engine::start(config_of(true));
  const Answer free = test::ask(*engine, constrained(*engine));
  ASSERT_EQ(free.samples.size(), 1U);
  const auto uses = [](const Answer& answer, TokenId token) {
    const auto& tokens = answer.samples.at(0).tokens;
    return std::ranges::find(tokens, token) != tokens.end();
  };
  // It has several bytes, so that the text can be written without it.
  const std::vector<TokenId> written = engine->tokenizer()->encode("temperature", false);
  const auto found = std::ranges::find_if(written, [&](TokenId token) {
    return engine->tokenizer()->token_bytes(token).size() > 1 && uses(free, token);
  });
  ASSERT_NE(found, written.end());
  const TokenId refused = *found;
  Request request = constrained(*engine);
  request.sampling.edit().logit_bias = {{refused, -100.0F}};
  const Answer answer = test::ask(*engine, std::move(request));
  ASSERT_EQ(answer.samples.size(), 1U);
  EXPECT_FALSE(uses(answer, refused));
  EXPECT_NE(answer.samples[0].text.find("temperature"), std::string::npos);
}

}  // namespace
}  // namespace quire
