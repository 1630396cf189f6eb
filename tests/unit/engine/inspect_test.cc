// What `quire inspect` and a started engine say about the memory of a KV format is the same, and right.
#include "engine/inspect.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "unit/engine/engine_testing.h"

namespace quire {
namespace {

EngineConfig config_for(const std::string& kv_cache_dtype) {
  EngineConfig config;
  config.model = test::model_path("quire-tiny");
  config.kv_cache_dtype = kv_cache_dtype;
  config.kv_cache_memory = int64_t{32} << 20;
  return config;
}

TEST(KvMemory, IsThatOfTheFormat) {
  struct Row {
    const char* name;
    int64_t bytes_per_head_extra;  // of a token's key or value
    int64_t bytes_per_element;
  };
  for (const Row& row : {Row{"float32", 0, 4}, Row{"bfloat16", 0, 2}, Row{"float16", 0, 2},
                         Row{"fp8_e4m3", 0, 1}, Row{"fp8_e5m2", 0, 1}, Row{"int8", 4, 1}}) {
    SCOPED_TRACE(row.name);
    const EngineConfig config = config_for(row.name);
    const ModelReport report = inspect_model(config);
    EXPECT_EQ(report.kv_cache_dtype, row.name);
    const int64_t per_token = int64_t{2} * report.num_layers * report.num_kv_heads *
                              (report.head_dim * row.bytes_per_element + row.bytes_per_head_extra);
    EXPECT_EQ(report.kv_bytes_per_token, per_token);
    EXPECT_EQ(report.kv_tokens, config.kv_cache_memory / (per_token * config.block_size) * config.block_size);

    const auto engine = Engine::start(config);
    const ModelInfo& info = engine->model();
    EXPECT_EQ(info.kv_cache_dtype, row.name);
    EXPECT_EQ(info.kv_bytes_per_token, per_token);
    EXPECT_EQ(int64_t{info.num_blocks} * info.block_size, report.kv_tokens);
    EXPECT_EQ(info.kv_pool_bytes, report.kv_tokens * per_token);
  }
}

TEST(KvMemory, UnknownFormatsAreRefusedWithThoseThereAre) {
  for (const char* name : {"int4", "uint8", "float64", "FP8"}) {
    SCOPED_TRACE(name);
    try {
      Engine::start(config_for(name));
      FAIL() << "was taken";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("fp8_e4m3, fp8_e5m2 or int8"), std::string::npos)
          << error.what();
    }
  }
}

}  // namespace
}  // namespace quire
