// Constrained outputs through the engine, with a constraint whose masks are easy to check: no token breaks
// it, and the output does not depend on other requests, chunks, threads or preemption.
#include "contract/output_constraint.h"

#include "unit/engine/engine_testing.h"

namespace quire {
namespace {

using test::Answer;
using test::Pending;

// The token at place i of the output is i modulo `stride`, so each mask is another one. The output may end
// from `shortest` tokens on and ends with `longest`.
struct OutputShape {
  int32_t stride = 7;
  size_t shortest = 0;
  size_t longest = 0;
  size_t fails_at = SIZE_MAX;  // length at which fill() fails
  std::vector<TokenId> end_tokens = {};
};

class ShapeState : public ConstraintState {
 public:
  explicit ShapeState(const OutputShape& shape) : shape_(shape) {}

  Status fill(std::span<uint32_t> mask) override {
    if (length_ == shape_.fails_at) return invalid_argument("The grammar is too ambiguous here.");
    std::fill(mask.begin(), mask.end(), 0U);
    for (size_t token = 0; token < mask.size() * 32; ++token) {
      if (allows(static_cast<TokenId>(token))) mask[token / 32] |= 1U << (token % 32);
    }
    return {};
  }
  bool accept(TokenId token) override {
    if (!allows(token)) return false;
    ended_ = is_end(token);
    ++length_;
    return true;
  }
  void rollback(size_t count) override {
    length_ -= count;
    ended_ = false;
  }
  std::unique_ptr<ConstraintState> clone() const override { return std::make_unique<ShapeState>(*this); }
  bool complete() const override { return ended_ || length_ >= shape_.shortest; }
  bool finished() const override { return ended_ || length_ >= shape_.longest; }
  std::string forced_bytes() const override { return {}; }

 private:
  bool is_end(TokenId token) const {
    return std::find(shape_.end_tokens.begin(), shape_.end_tokens.end(), token) != shape_.end_tokens.end();
  }
  bool allows(TokenId token) const {
    if (is_end(token)) return complete();
    return !finished() && token % shape_.stride == static_cast<TokenId>(length_) % shape_.stride;
  }

  OutputShape shape_;
  size_t length_ = 0;
  bool ended_ = false;
};

class ShapeConstraint : public OutputConstraint {
 public:
  explicit ShapeConstraint(OutputShape shape) : shape_(std::move(shape)) {}
  std::unique_ptr<ConstraintState> start() const override { return std::make_unique<ShapeState>(shape_); }
  size_t memory() const override { return sizeof(*this); }

 private:
  OutputShape shape_;
};

EngineConfig config_of(const std::string& model) {
  EngineConfig config;
  config.model = test::model_path(model);
  config.kv_cache_memory = int64_t{64} << 20;
  config.threads = 2;
  config.generation_config = "none";
  return config;
}

Request constrained(const ModelInfo& model, OutputShape shape, int number = 0) {
  Request request;
  request.prompt_token_ids =
      test::random_prompt(static_cast<uint64_t>(number) + 3, 5 + number % 20, model.vocab_size);
  SamplingParams& sampling = request.sampling.edit();
  sampling.max_tokens = 200;
  sampling.temperature = 1.5F;
  sampling.seed = number;
  shape.end_tokens = model.end_token_ids;
  request.constraint = std::make_shared<ShapeConstraint>(std::move(shape));
  return request;
}

// The tokens of an output follow the shape; the last one may be an end token.
void expect_shape(const Answer::Sample& sample, const OutputShape& shape, const ModelInfo& model) {
  for (size_t i = 0; i < sample.tokens.size(); ++i) {
    const std::vector<TokenId>& end = model.end_token_ids;
    if (i + 1 == sample.tokens.size() && std::find(end.begin(), end.end(), sample.tokens[i]) != end.end()) {
      EXPECT_GE(i, shape.shortest);
      continue;
    }
    EXPECT_EQ(sample.tokens[i] % shape.stride, static_cast<TokenId>(i) % shape.stride) << "place " << i;
  }
}

class ConstrainedOutputs : public testing::Test {
 protected:
  static void SetUpTestSuite() { engine_ = Engine::start(config_of("quire-tiny")); }
  static void TearDownTestSuite() { engine_.reset(); }
  static Engine& engine() { return *engine_; }

 private:
  static inline std::unique_ptr<Engine> engine_;
};

TEST_F(ConstrainedOutputs, EndWithTheTokenAfterWhichNothingCanFollow) {
  Request request = constrained(engine().model(), {.shortest = 20, .longest = 20});
  request.sampling.edit().n = 3;
  const Answer answer = test::ask(engine(), std::move(request));
  ASSERT_EQ(answer.samples.size(), 3U);
  for (const auto& sample : answer.samples) {
    EXPECT_EQ(sample.tokens.size(), 20U);
    EXPECT_EQ(sample.reason, FinishReason::kStop);
    expect_shape(sample, {}, engine().model());
    EXPECT_EQ(sample.text, engine().tokenizer()->decode(sample.tokens, true)) << "the last token is text";
  }
  EXPECT_NE(answer.samples[0].tokens, answer.samples[1].tokens) << "samples have states of their own";
}

TEST_F(ConstrainedOutputs, MayEndWithAnEndTokenOnceTheyAreComplete) {
  Request request = constrained(engine().model(), {.shortest = 3, .longest = 100});
  for (const TokenId token : engine().model().end_token_ids)
    request.sampling.edit().logit_bias.emplace_back(token, 100.0F);
  const Answer answer = test::ask(engine(), std::move(request));
  ASSERT_EQ(answer.samples.size(), 1U);
  EXPECT_EQ(answer.samples[0].tokens.size(), 4U) << "three tokens and the end token";
  EXPECT_EQ(answer.samples[0].reason, FinishReason::kStop);
}

TEST_F(ConstrainedOutputs, GoOnWhereTheyMayEndIfEndTokensAreIgnored) {
  const OutputShape shape{.shortest = 3, .longest = 30};
  Request request = constrained(engine().model(), shape);
  for (const TokenId token : engine().model().end_token_ids)
    request.sampling.edit().logit_bias.emplace_back(token, 100.0F);
  request.sampling.edit().ignore_eos = true;
  const Answer answer = test::ask(engine(), std::move(request));
  ASSERT_EQ(answer.samples.size(), 1U);
  EXPECT_EQ(answer.samples[0].tokens.size(), 30U);
  EXPECT_EQ(answer.samples[0].reason, FinishReason::kStop);
  expect_shape(answer.samples[0], shape, engine().model());
}

TEST_F(ConstrainedOutputs, EndBeforeMinTokensIfNothingCanFollow) {
  Request request = constrained(engine().model(), {.shortest = 5, .longest = 5});
  request.sampling.edit().min_tokens = 50;
  const Answer answer = test::ask(engine(), std::move(request));
  ASSERT_EQ(answer.samples.size(), 1U);
  EXPECT_EQ(answer.samples[0].tokens.size(), 5U);
  EXPECT_EQ(answer.samples[0].reason, FinishReason::kStop);
}

TEST_F(ConstrainedOutputs, AreCutByMaxTokens) {
  Request request = constrained(engine().model(), {.shortest = 50, .longest = 50});
  request.sampling.edit().max_tokens = 8;
  const Answer answer = test::ask(engine(), std::move(request));
  ASSERT_EQ(answer.samples.size(), 1U);
  EXPECT_EQ(answer.samples[0].tokens.size(), 8U);
  EXPECT_EQ(answer.samples[0].reason, FinishReason::kLength);
}

TEST_F(ConstrainedOutputs, ConstrainEveryBeam) {
  const OutputShape shape{.shortest = 12, .longest = 12};
  Request request = constrained(engine().model(), shape);
  SamplingParams& sampling = request.sampling.edit();
  sampling.temperature = 1.0F;
  sampling.use_beam_search = true;
  sampling.n = 3;
  const Answer answer = test::ask(engine(), std::move(request));
  ASSERT_EQ(answer.samples.size(), 3U);
  for (const auto& sample : answer.samples) {
    EXPECT_EQ(sample.tokens.size(), 13U) << "twelve tokens and the end token";
    EXPECT_EQ(sample.reason, FinishReason::kStop);
    expect_shape(sample, shape, engine().model());
  }
}

TEST_F(ConstrainedOutputs, FailAloneIfTheConstraintFails) {
  Pending free;
  Request other = constrained(engine().model(), {.shortest = 40, .longest = 40}, 1);
  ASSERT_TRUE(engine().submit(std::move(other), free.sink()).ok());
  const Answer answer =
      test::ask(engine(), constrained(engine().model(), {.shortest = 20, .longest = 20, .fails_at = 6}));
  ASSERT_TRUE(answer.failure.has_value());
  EXPECT_EQ(answer.failure->message, "The grammar is too ambiguous here.");
  EXPECT_EQ(free.wait().samples.at(0).tokens.size(), 40U);
}

TEST_F(ConstrainedOutputs, FailAndNameTheFieldsIfNoTokenIsLeft) {
  Request request = constrained(engine().model(), {.shortest = 9, .longest = 9});
  request.sampling.edit().allowed_token_ids = {7, 14, 21};  // only good for place 0
  const Answer answer = test::ask(engine(), std::move(request));
  ASSERT_TRUE(answer.failure.has_value());
  EXPECT_NE(answer.failure->message.find("allowed_token_ids"), std::string::npos) << answer.failure->message;
}

// Free and constrained requests, in turn.
Request mixed(int number, const ModelInfo& model) {
  const auto length = static_cast<size_t>(10 + number % 30);
  Request request = constrained(model, {.stride = 3, .shortest = length / 2, .longest = length}, number);
  SamplingParams& sampling = request.sampling.edit();
  sampling.logprobs = 1;
  sampling.max_tokens = 60;
  sampling.n = 1 + number % 3;
  if (number % 4 == 3) request.constraint = nullptr;
  return request;
}

TEST(ConstrainedInvariance, OutputsAreThoseThatTheRequestGetsAlone) {
  constexpr int kNumRequests = 24;
  std::vector<Answer> alone;
  EngineConfig config = config_of("llama");
  int64_t bytes_per_token = 0;
  {
    const auto engine = Engine::start(config);
    bytes_per_token = engine->model().kv_bytes_per_token;
    for (int i = 0; i < kNumRequests; ++i) alone.push_back(test::ask(*engine, mixed(i, engine->model())));
  }
  for (const PreemptionMode mode : {PreemptionMode::kRecompute, PreemptionMode::kSwap}) {
    config.kv_cache_memory = 400 * bytes_per_token;
    config.preemption_mode = mode;
    config.swap_space = mode == PreemptionMode::kSwap ? 2 * config.kv_cache_memory : 0;
    config.long_prefill_token_threshold = 7;
    const auto engine = Engine::start(config);
    std::vector<Pending> pending(kNumRequests);
    for (int i = 0; i < kNumRequests; ++i) {
      const auto id = engine->submit(mixed(i, engine->model()), pending[static_cast<size_t>(i)].sink());
      ASSERT_TRUE(id.ok()) << id.failure().message;
    }
    for (int i = 0; i < kNumRequests; ++i) {
      SCOPED_TRACE("request " + std::to_string(i));
      test::expect_same(alone[static_cast<size_t>(i)], pending[static_cast<size_t>(i)].wait());
    }
    EXPECT_GT(engine->stats().num_preemptions, 0) << "nothing was preempted, so the test shows nothing";
    engine->check_integrity();
  }
}

}  // namespace
}  // namespace quire
