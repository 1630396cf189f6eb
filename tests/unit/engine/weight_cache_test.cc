// Engines that start with the weights of an earlier one, on every instruction set: the same answers, bit by
// bit.
#include <gmock/gmock.h>

#include <cstdlib>
#include <string>

#include "exec/local_runtime.h"
#include "unit/engine/engine_testing.h"
#include "unit/io/io_test_util.h"

namespace quire::test {
namespace {

using testing::HasSubstr;
using testing::Not;

class ForcedIsa {
 public:
  explicit ForcedIsa(const std::string& name) { setenv("QUIRE_CPU_ISA", name.c_str(), 1); }
  ~ForcedIsa() { unsetenv("QUIRE_CPU_ISA"); }
};

struct Start {
  Answer answer;
  std::string log;
};

Start start(const EngineConfig& config) {
  testing::internal::CaptureStderr();
  Start out;
  {
    const auto engine = Engine::start(config);
    GenerateRequest request;
    for (int32_t i = 0; i < 40; ++i) request.prompt_token_ids.push_back(3 + i * 7 % 80);
    request.sampling.max_tokens = 12;
    request.sampling.temperature = 0.0F;
    request.sampling.ignore_eos = true;
    request.sampling.logprobs = 2;
    out.answer = ask(*engine, request);
  }
  out.log = testing::internal::GetCapturedStderr();
  return out;
}

class WeightCacheOnIsa : public testing::TestWithParam<std::string> {};

TEST_P(WeightCacheOnIsa, AnswersTheSame) {
  const ForcedIsa forced(GetParam());
  const TempDir dir;
  for (const char* model : {"models/llama-bfloat16", "models/mixtral-float16", "models/deepseek_v3",
                            "models/qwen3_5-bfloat16", "quantized/gptq-4bit-act-order"}) {
    for (const char* quantization : {"auto", "int8", "int4"}) {
      SCOPED_TRACE(std::string(model) + ", " + quantization);
      EngineConfig config;
      config.model = (std::filesystem::path(QUIRE_SOURCE_DIR) / "tests/golden" / model).string();
      config.quantization = quantization;
      config.kv_cache_memory = int64_t{4} << 20;
      config.threads = 2;
      const Answer expected = start(config).answer;
      config.weight_cache = dir.path();
      const Start first = start(config);
      EXPECT_THAT(first.log, HasSubstr("weight cache written"));
      expect_same(first.answer, expected);
      const Start second = start(config);
      EXPECT_THAT(second.log, HasSubstr("weights from cache"));
      EXPECT_THAT(second.log, Not(HasSubstr("written")));
      expect_same(second.answer, expected);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, WeightCacheOnIsa, testing::ValuesIn(usable_isas()),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace quire::test
