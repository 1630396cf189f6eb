// Beam search through an executor, compared with transformers.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "backends/cpu/cpu_device.h"
#include "base/error.h"
#include "base/rng.h"
#include "exec/kv_groups.h"
#include "exec/local_executor.h"
#include "unit/models/golden_models.h"

namespace quire {
namespace {

constexpr int32_t kBlockSize = 16;
constexpr int32_t kMaxSlots = 100;

struct Request {
  std::vector<TokenId> prompt;
  SamplingParams params;
  std::vector<TokenId> end_token_ids;
};

// A minimal scheduler: every step computes all active sequences from their first token, each in blocks of its
// own.
class Driver {
 public:
  explicit Driver(const std::string& name, int threads = 1, const ModelOptions& model_options = {})
      : device_(threads) {
    const auto dir = name == "quire-tiny" ? std::filesystem::path(QUIRE_SOURCE_DIR) / "models" / name
                                          : test::golden_model(name);
    loaded_ = test::load_model(dir, device_.ops(), model_options);
    LocalExecutorOptions options;
    options.layout = make_kv_layout(loaded_.model->spec(), DType::kF32, kBlockSize);
    options.max_model_len = static_cast<int32_t>(loaded_.model->max_model_len());
    blocks_per_seq_ = (std::min(options.max_model_len, 128) + kBlockSize - 1) / kBlockSize;
    num_groups_ = static_cast<int32_t>(options.layout.groups.size());
    options.layout.num_blocks = kMaxSlots * blocks_per_seq_ * num_groups_;
    options.max_num_batched_tokens = kMaxSlots * 64;
    executor_.emplace(*loaded_.model, device_, options);
  }

  int32_t max_model_len() const { return static_cast<int32_t>(loaded_.model->max_model_len()); }
  size_t num_known() const { return executor_->num_sequences(); }

  // Runs all requests in the same steps, with consecutive ids.
  std::vector<BeamResult> run(const std::vector<Request>& requests) {
    std::vector<BeamResult> results(requests.size());
    std::vector<SeqId> firsts;
    for (const Request& request : requests) {
      firsts.push_back(next_seq_);
      next_seq_ += request.params.num_sequences();
      SequenceInit& init = plan_.inits.emplace_back();
      init.seq = firsts.back();
      init.prompt_token_ids = request.prompt;
      init.sampling = request.params;
      init.end_token_ids = request.end_token_ids;
      texts_[init.seq] = request.prompt;
    }
    const SeqId begin = firsts.front();
    while (!texts_.empty()) {
      const StepResult& result = step(begin);
      for (const BeamResult& beam : result.beams) {
        const auto at = std::find(firsts.begin(), firsts.end(), beam.seq);
        if (at == firsts.end()) throw Error("a beam result names no request");
        const auto index = static_cast<size_t>(at - firsts.begin());
        results[index] = beam;
        for (int32_t i = 0; i < requests[index].params.num_sequences(); ++i) {
          texts_.erase(beam.seq + i);
          plan_.finished.push_back(beam.seq + i);
        }
      }
    }
    executor_->begin(plan_);
    executor_->finish();
    plan_ = StepPlan{.step = plan_.step + 1};
    return results;
  }

 private:
  const StepResult& step(SeqId begin) {
    ++plan_.step;
    for (const auto& [seq, tokens] : texts_) {
      for (int32_t g = 0; g < num_groups_; ++g) {
        plan_.block_table_updates.push_back(
            {seq, g, 0, static_cast<int32_t>(plan_.block_ids.size()), blocks_per_seq_});
        const int32_t first = (static_cast<int32_t>(seq - begin) * num_groups_ + g) * blocks_per_seq_;
        for (int32_t i = 0; i < blocks_per_seq_; ++i) plan_.block_ids.push_back(first + i);
      }
      plan_.scheduled.push_back({seq, 0, static_cast<int32_t>(tokens.size()), true});
    }
    executor_->begin(plan_);
    const StepResult& result = executor_->finish();
    EXPECT_TRUE(result.failures.empty()) << result.failures.front().message;
    plan_ = StepPlan{.step = plan_.step};
    for (const auto& [parent, child] : result.forks) texts_[child] = texts_.at(parent);
    for (const SeqId seq : result.dropped) {
      texts_.erase(seq);
      plan_.finished.push_back(seq);
    }
    for (const SampledToken& token : result.sampled) texts_.at(token.seq).push_back(token.token);
    return result;
  }

  CpuDevice device_;
  test::LoadedModel loaded_;
  std::optional<LocalExecutor> executor_;
  int32_t num_groups_ = 1;
  int32_t blocks_per_seq_ = 0;
  SeqId next_seq_ = 1000;
  StepPlan plan_;
  std::map<SeqId, std::vector<TokenId>> texts_;  // open sequences
};

EarlyStopping early_stopping(const nlohmann::json& value) {
  if (value.is_string()) return EarlyStopping::kNever;
  return value.get<bool>() ? EarlyStopping::kYes : EarlyStopping::kNo;
}

Request request_of(const nlohmann::json& item) {
  Request request;
  request.prompt = item["prompt"].get<std::vector<TokenId>>();
  request.end_token_ids = item["end_token_ids"].get<std::vector<TokenId>>();
  SamplingParams& p = request.params;
  p.use_beam_search = true;
  p.beam_width = item["width"];
  p.n = item["n"];
  p.max_tokens = item["max_tokens"];
  p.length_penalty = item["length_penalty"];
  p.early_stopping = early_stopping(item["early_stopping"]);
  p.min_tokens = item.value("min_tokens", 0);
  p.allowed_token_ids = item.value("allowed_token_ids", std::vector<TokenId>{});
  p.logit_bias = item.value("logit_bias", std::vector<std::pair<TokenId, float>>{});
  return request;
}

std::map<std::string, std::vector<nlohmann::json>> golden_cases() {
  std::map<std::string, std::vector<nlohmann::json>> cases;
  const auto path = std::filesystem::path(QUIRE_SOURCE_DIR) / "tests/golden/beam.json";
  const nlohmann::json golden = read_json_file(path);
  for (const auto& item : golden["cases"]) cases[item["model"]].push_back(item);
  return cases;
}

std::vector<std::string> golden_models() {
  std::vector<std::string> names;
  const auto cases = golden_cases();
  for (const auto& [name, items] : cases) names.push_back(name);
  return names;
}

void expect_same(const BeamResult& a, const BeamResult& b) {
  ASSERT_EQ(a.hypotheses.size(), b.hypotheses.size());
  for (size_t i = 0; i < a.hypotheses.size(); ++i) {
    EXPECT_EQ(a.hypotheses[i].token_ids, b.hypotheses[i].token_ids);
    EXPECT_EQ(a.hypotheses[i].logprobs, b.hypotheses[i].logprobs);
    EXPECT_EQ(a.hypotheses[i].score, b.hypotheses[i].score);
  }
}

class BeamGolden : public testing::TestWithParam<std::string> {};

// The goldens were computed with float32 activations, which bfloat16 weights do not use on every instruction
// set.
TEST_P(BeamGolden, MatchesTextsAndScoresOfTransformers) {
  ModelOptions options;
  options.dtype = DType::kF32;
  Driver driver(GetParam(), 1, options);
  const auto cases = golden_cases()[GetParam()];
  ASSERT_GE(cases.size(), 15U);
  for (size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE("case " + std::to_string(i) + " " + cases[i].dump());
    const BeamResult result = driver.run({request_of(cases[i])}).front();
    const auto& outputs = cases[i]["outputs"];
    ASSERT_EQ(result.hypotheses.size(), outputs.size());
    for (size_t k = 0; k < outputs.size(); ++k) {
      EXPECT_EQ(result.hypotheses[k].token_ids, outputs[k]["token_ids"].get<std::vector<TokenId>>());
      EXPECT_NEAR(result.hypotheses[k].score, outputs[k]["score"].get<double>(), 1e-4);
      EXPECT_EQ(result.hypotheses[k].stopped, outputs[k]["stopped"].get<bool>());
    }
  }
  EXPECT_EQ(driver.num_known(), 0U);
}

// Logits are computed for 64 rows at a time, so the rows of one search are in several batches.
TEST_P(BeamGolden, GivesTheSameBitsInOneBatch) {
  Driver driver(GetParam(), 2);
  std::vector<Request> requests;
  const auto cases = golden_cases()[GetParam()];
  for (const auto& item : cases) requests.push_back(request_of(item));
  const std::vector<BeamResult> together = driver.run(requests);
  for (size_t i = 0; i < requests.size(); ++i) {
    SCOPED_TRACE("case " + std::to_string(i));
    expect_same(driver.run({requests[i]}).front(), together[i]);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, BeamGolden, testing::ValuesIn(golden_models()),
                         [](const auto& test) { return test::test_name(test.param); });

TEST(BeamExecutor, SupportsASearchWiderThanABatchOfLogits) {
  Driver driver("llama");
  Request request;
  request.prompt = {5, 6, 7};
  request.params.use_beam_search = true;
  request.params.n = 90;  // the vocabulary has 96 tokens
  request.params.max_tokens = 3;
  const BeamResult result = driver.run({request}).front();
  ASSERT_EQ(result.hypotheses.size(), 90U);
  for (size_t i = 1; i < result.hypotheses.size(); ++i) {
    EXPECT_GE(result.hypotheses[i - 1].score, result.hypotheses[i].score);
    EXPECT_NE(result.hypotheses[i - 1].token_ids, result.hypotheses[i].token_ids);
  }
}

TEST(BeamExecutor, IsGreedyWithAWidthOfOne) {
  const auto golden = read_json_file(test::golden_model("llama") / "golden.json");
  Driver driver("llama");
  for (const auto& item : golden["cases"]) {
    Request request;
    request.prompt = item["prompt"].get<std::vector<TokenId>>();
    request.params.use_beam_search = true;
    request.params.max_tokens = 24;
    EXPECT_EQ(driver.run({request}).front().hypotheses[0].token_ids,
              item["greedy"].get<std::vector<TokenId>>());
  }
}

TEST(BeamExecutor, EndsAtMaxModelLen) {
  Driver driver("gpt2");
  Request request;
  for (int32_t i = 0; i < driver.max_model_len() - 5; ++i)
    request.prompt.push_back(static_cast<TokenId>(mix64(static_cast<uint64_t>(i)) % 96));
  request.params.use_beam_search = true;
  request.params.n = 2;
  request.params.max_tokens = 50;
  const BeamResult result = driver.run({request}).front();
  ASSERT_EQ(result.hypotheses.size(), 2U);
  for (const auto& text : result.hypotheses) {
    EXPECT_EQ(text.token_ids.size(), 5U);
    EXPECT_FALSE(text.stopped);
  }
}

TEST(BeamExecutor, ReportsLogprobsOfTheRawLogits) {
  Driver driver("llama");
  Request request;
  request.prompt = {5, 6, 7};
  request.params.use_beam_search = true;
  request.params.n = 3;
  request.params.max_tokens = 6;
  request.params.logprobs = 2;
  request.params.logit_bias = {{9, 4.0F}};
  const BeamResult result = driver.run({request}).front();
  for (const BeamHypothesis& text : result.hypotheses) {
    ASSERT_EQ(text.positions.size(), 6U);
    for (size_t i = 0; i < 6; ++i) {
      const PositionLogprobs& position = text.positions[i];
      EXPECT_EQ(position.chosen.token, text.token_ids[i]);
      EXPECT_EQ(position.chosen.logprob, text.logprobs[i]);
      ASSERT_EQ(position.top.size(), 2U);
      EXPECT_GE(position.top[0].logprob, position.top[1].logprob);
      if (position.rank <= 2) {
        EXPECT_EQ(position.top[static_cast<size_t>(position.rank - 1)].token, position.chosen.token);
      } else {
        EXPECT_LE(position.chosen.logprob, position.top[1].logprob);
      }
    }
  }
}

}  // namespace
}  // namespace quire
