// Engines that map the packed weights of an earlier one, on every instruction set: bitwise the same outputs.
#include <gmock/gmock.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "exec/local_runtime.h"
#include "support/eventually.h"
#include "unit/engine/engine_testing.h"
#include "unit/io/io_test_util.h"

namespace quire::test {
namespace {

using testing::AllOf;
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
    Request request;
    for (int32_t i = 0; i < 40; ++i) request.prompt_token_ids.push_back(3 + i * 7 % 80);
    request.sampling.edit().max_tokens = 12;
    request.sampling.edit().temperature = 0.0F;
    request.sampling.edit().ignore_eos = true;
    request.sampling.edit().logprobs = 2;
    out.answer = ask(*engine, request);
  }
  out.log = testing::internal::GetCapturedStderr();
  return out;
}

class WeightCacheOnIsa : public testing::TestWithParam<std::string> {};

TEST_P(WeightCacheOnIsa, KeepsOutputs) {
  const ForcedIsa forced(GetParam());
  const TempDir dir;
  for (const char* model : {"models/llama-bfloat16", "models/mixtral-float16", "models/deepseek_v3",
                            "models/qwen3_5-bfloat16", "quantized/gptq-4bit-act-order"}) {
    for (const char* quantization : {"auto", "int8", "int4"}) {
      SCOPED_TRACE(std::string(model) + ", " + quantization);
      EngineConfig config;
      config.model = golden_checkpoint(model).string();
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

// An engine with a mapped cache file that the test damages.
class DamagedWeightCache : public testing::Test {
 protected:
  DamagedWeightCache() {
    config_.model = (std::filesystem::path(QUIRE_SOURCE_DIR) / "models/quire-tiny").string();
    config_.kv_cache_memory = int64_t{16} << 20;
    config_.threads = 2;
    config_.weight_cache = dir_.path();
    start(config_);  // writes the file
    for (const auto& entry : std::filesystem::directory_iterator(dir_.path())) {
      if (entry.path().extension() == ".weights") file_ = entry.path();
    }
  }
  Request request() const {
    Request request;
    request.prompt_token_ids = {5, 6, 7};
    request.sampling.edit().max_tokens = 100;
    request.sampling.edit().temperature = 0.0F;
    request.sampling.edit().ignore_eos = true;
    return request;
  }
  // Waits until the engine has failed.
  static std::string failure_of(Engine& engine) {
    static_cast<void>(eventually([&] { return engine.failure().has_value(); }));
    return engine.failure().value_or("it did not fail");
  }

  const TempDir dir_;
  EngineConfig config_;
  std::filesystem::path file_;
};

TEST_F(DamagedWeightCache, EndsTheEngineOnAFlippedBitAndIsRewritten) {
  const Answer expected = start(config_).answer;
  {
    std::fstream file(file_, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(0, std::ios::end);
    const auto middle = static_cast<std::streamoff>(file.tellg()) / 2;
    file.seekg(middle);
    const auto byte = static_cast<char>(file.get() ^ 1);
    file.seekp(middle);
    file.put(byte);
  }
  testing::internal::CaptureStderr();
  {
    const auto engine = Engine::start(config_);
    EXPECT_THAT(failure_of(*engine), AllOf(HasSubstr(file_.string()), HasSubstr("is damaged")));
    Pending pending;
    EXPECT_FALSE(engine->submit(request(), pending.sink()).ok());
  }
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("is damaged"));
  EXPECT_FALSE(std::filesystem::exists(file_));
  const Start repaired = start(config_);
  EXPECT_THAT(repaired.log, HasSubstr("weight cache written"));
  expect_same(repaired.answer, expected);
}

TEST_F(DamagedWeightCache, VerifiesAnIntactFile) {
  testing::internal::CaptureStderr();
  {
    const auto engine = Engine::start(config_);
    ask(*engine, request());
    // The captured text is in a file.
    EXPECT_TRUE(eventually([] {
      std::ifstream log("/proc/self/fd/2");
      const std::string text{std::istreambuf_iterator<char>(log), {}};
      return text.find("weight cache verified") != std::string::npos;
    }));
    EXPECT_EQ(engine->failure(), std::nullopt);
  }
  testing::internal::GetCapturedStderr();
}

TEST_F(DamagedWeightCache, FailsRequestsIfTheFileIsTruncatedWhileMapped) {
  const auto engine = Engine::start(config_);
  ask(*engine, request());
  std::filesystem::resize_file(file_, 8192);
  Pending pending;
  if (engine->submit(request(), pending.sink()).ok()) {
    const Answer answer = pending.wait();
    ASSERT_TRUE(answer.failure.has_value());
    EXPECT_EQ(answer.failure->kind, ErrorKind::kInternal);
  }
  EXPECT_THAT(failure_of(*engine), HasSubstr(file_.string()));
}

INSTANTIATE_TEST_SUITE_P(All, WeightCacheOnIsa, testing::ValuesIn(usable_isas()),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace quire::test
