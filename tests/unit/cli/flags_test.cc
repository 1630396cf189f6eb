#include "cli/flags.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "cli/prompts.h"

namespace quire::cli {
namespace {

class ConfigFile : public testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove(path_); }
  std::vector<std::string> with(const std::string& yaml, std::vector<std::string> arguments) {
    std::ofstream(path_) << yaml;
    arguments.push_back("--config");
    arguments.push_back(path_);
    auto all = with_config_file(arguments);
    all.erase(std::remove(all.begin(), all.end(), path_), all.end());
    all.erase(std::remove(all.begin(), all.end(), "--config"), all.end());
    return all;
  }
  std::string path_ =
      (std::filesystem::temp_directory_path() / ("quire_flags_" + std::to_string(::getpid()) + ".yaml"))
          .string();
};

TEST_F(ConfigFile, AddsFlagsThatTheCommandLineDoesNotHave) {
  EXPECT_EQ(with("max-num-seqs: 64\nport: 9000\n", {"serve", "--port", "8001"}),
            (std::vector<std::string>{"serve", "--port", "8001", "--max-num-seqs=64"}));
}

TEST_F(ConfigFile, SupportsSwitchesListsAndUnderscores) {
  EXPECT_EQ(with("enable_prefix_caching: false\nignore_eos: true\nstop: [a, b]\nstrict-params: false\n",
                 {"generate"}),
            (std::vector<std::string>{"generate", "--no-enable-prefix-caching", "--ignore-eos", "--stop=a",
                                      "--stop=b"}));
}

TEST_F(ConfigFile, SetsTheModelUnlessTheCommandLineDoes) {
  EXPECT_EQ(with("model: dir/a\n", {"serve"}), (std::vector<std::string>{"serve", "dir/a"}));
  EXPECT_EQ(with("model: dir/a\n", {"serve", "dir/b"}), (std::vector<std::string>{"serve", "dir/b"}));
  EXPECT_EQ(with("model: dir/a\n", {"bench", "latency"}),
            (std::vector<std::string>{"bench", "latency", "dir/a"}));
}

TEST_F(ConfigFile, RejectsInvalidFiles) {
  EXPECT_THROW(with("a: [1\n", {"serve"}), Error);
  EXPECT_THROW(with("just text", {"serve"}), Error);
  EXPECT_THROW(with_config_file({"serve", "--config", "/nowhere.yaml"}), Error);
}

TEST(EngineFlags, SetPolicyPreemptionTiersAndTargets) {
  CLI::App app;
  EngineConfig config;
  CLI::App* command = add_command(app, "run", "");
  add_engine_flags(*command, config);
  app.parse(
      "run --scheduling-policy mlfq --preemption-mode swap --swap-space 2GiB --kv-disk-cache d "
      "--weight-cache w --kv-disk-cache-size 1GiB --ttft-slo 500ms --tpot-slo 0.05 "
      "--max-num-partial-prefills 2");
  EXPECT_EQ(config.scheduling_policy, SchedulingPolicy::kMlfq);
  EXPECT_EQ(config.preemption_mode, PreemptionMode::kSwap);
  EXPECT_EQ(config.swap_space, int64_t{2} << 30);
  EXPECT_EQ(config.kv_disk_cache, "d");
  EXPECT_EQ(config.weight_cache, "w");
  EXPECT_EQ(config.kv_disk_cache_size, int64_t{1} << 30);
  EXPECT_DOUBLE_EQ(config.ttft_slo, 0.5);
  EXPECT_DOUBLE_EQ(config.tpot_slo, 0.05);
  EXPECT_EQ(config.max_num_partial_prefills, 2);
}

TEST(EngineFlags, ListTheirChoicesInTheHelp) {
  CLI::App app;
  EngineConfig config;
  CLI::App* command = add_command(app, "run", "");
  add_engine_flags(*command, config);
  const std::string help = command->help();
  for (const char* name : {"mlfq", "fair", "recompute", "swap"})
    EXPECT_NE(help.find(name), std::string::npos) << name;
  EXPECT_TRUE(std::all_of(help.begin(), help.end(), [](char c) { return c == '\n' || c >= ' '; }));
}

TEST(EngineFlags, RejectInvalidPoliciesAndDurations) {
  for (const char* line : {"run --scheduling-policy lifo", "run --ttft-slo soon", "run --tpot-slo -1s"}) {
    CLI::App app;
    EngineConfig config;
    add_engine_flags(*add_command(app, "run", ""), config);
    EXPECT_THROW(app.parse(line), CLI::ParseError) << line;
  }
}

TEST(EngineFlags, ListTheKnownDevicesIfOneIsUnknown) {
  CLI::App app;
  EngineConfig config;
  add_engine_flags(*add_command(app, "run", ""), config);
  app.parse("run --device cpu");
  EXPECT_EQ(config.device, "cpu");
  try {
    app.parse("run --device cuda");
    FAIL() << "no error";
  } catch (const CLI::ParseError& error) {
    EXPECT_NE(error.get_exit_code(), 0);
    EXPECT_NE(std::string(error.what()).find("auto"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("cpu"), std::string::npos) << error.what();
  }
}

TEST(EngineFlags, AcceptUnitsOfTokens) {
  const auto length = [](const std::string& text) {
    CLI::App app;
    EngineConfig config;
    add_engine_flags(*add_command(app, "run", ""), config);
    app.parse("run --max-model-len " + text);
    return config.max_model_len;
  };
  EXPECT_EQ(length("4096"), 4096);
  EXPECT_EQ(length("32k"), 32000);
  EXPECT_EQ(length("32K"), 32768);
  EXPECT_EQ(length("1.5k"), 1500);
  EXPECT_EQ(length("1M"), 1 << 20);
  for (const char* text : {"k", "xk", "-1k", "1kk", "99999999k", "nank", "1e300k"})
    EXPECT_THROW(length(text), CLI::ParseError) << text;
}

TEST(EngineFlags, AcceptTheFormatsOfCheckpoints) {
  CLI::App app;
  EngineConfig config;
  add_engine_flags(*add_command(app, "run", ""), config);
  app.parse("run --quantization awq");
  EXPECT_EQ(config.quantization, "awq");
  EXPECT_THROW(app.parse("run --quantization awqq"), CLI::ParseError);
}

SamplingParams sampling_of(const std::string& line, SamplingParams params = {}) {
  CLI::App app;
  SamplingFlags flags;
  add_sampling_flags(*add_command(app, "run", ""), flags);
  app.parse("run " + line);
  flags.apply(params);
  return params;
}

TEST(SamplingFlags, SetBeamSearch) {
  SamplingParams model;
  model.temperature = 0.6F;
  model.top_p = 0.9F;
  const SamplingParams p =
      sampling_of("--use-beam-search --n 2 --best-of 4 --length-penalty 0.5 --early-stopping never", model);
  EXPECT_TRUE(p.use_beam_search);
  EXPECT_EQ(p.n, 2);
  EXPECT_EQ(p.beam_width, 4);
  EXPECT_FLOAT_EQ(p.length_penalty, 0.5F);
  EXPECT_EQ(p.early_stopping, EarlyStopping::kNever);
  EXPECT_FLOAT_EQ(p.top_p, 1.0F) << "the model's default is for sampling";
  EXPECT_FLOAT_EQ(sampling_of("--use-beam-search --top-p 0.5", model).top_p, 0.5F)
      << "asked for, to be refused";
  EXPECT_FLOAT_EQ(sampling_of("", model).top_p, 0.9F);
  EXPECT_EQ(sampling_of("--use-beam-search --early-stopping").early_stopping, EarlyStopping::kYes);
  EXPECT_EQ(sampling_of("--early-stopping=false").early_stopping, EarlyStopping::kNo);
  EXPECT_EQ(sampling_of("--early-stopping --use-beam-search").early_stopping, EarlyStopping::kYes);
  EXPECT_THROW(sampling_of("--early-stopping=soon"), CLI::ParseError);
}

TEST(SamplingFlags, SetTheSamplersOfLlamaCpp) {
  const SamplingParams p = sampling_of(
      "--typical-p 0.9 --top-n-sigma 1.5 --min-keep 2 --dynatemp-range 0.5 --xtc-probability 0.3 "
      "--dry-multiplier 0.8 "
      "--dry-allowed-length 3 --mirostat-mode 2 --samplers top_k;temperature --bad-words cat --bad-words dog "
      "--logprob-token-ids 5 --repetition-detection={\"max_pattern_size\":9,\"min_count\":3}");
  EXPECT_FLOAT_EQ(p.typical_p, 0.9F);
  EXPECT_FLOAT_EQ(p.top_n_sigma, 1.5F);
  EXPECT_EQ(p.min_keep, 2);
  EXPECT_FLOAT_EQ(p.dynatemp_range, 0.5F);
  EXPECT_FLOAT_EQ(p.xtc_probability, 0.3F);
  EXPECT_FLOAT_EQ(p.dry_multiplier, 0.8F);
  EXPECT_EQ(p.dry_allowed_length, 3);
  EXPECT_EQ(p.mirostat_mode, 2);
  EXPECT_EQ(p.samplers, (std::vector<std::string>{"top_k", "temperature"}));
  EXPECT_EQ(p.bad_words, (std::vector<std::string>{"cat", "dog"}));
  EXPECT_EQ(p.logprob_token_ids, (std::vector<TokenId>{5}));
  EXPECT_EQ(p.repetition_detection, (RepetitionDetection{9, 0, 3}));
  SamplingParams model;
  model.typical_p = 0.5F;
  EXPECT_FLOAT_EQ(sampling_of("--min-keep 1", model).typical_p, 0.5F) << "the model's default";
  EXPECT_THROW(sampling_of("--repetition-detection=5"), Error);
}

TEST(Prompts, ReadsSamplersFromJsonLines) {
  std::istringstream in(
      R"({"prompt": "a", "xtc_probability": 0.5, "samplers": ["xtc"], "bad_words": "cat"})");
  const auto entries = read_json_prompts(in, "f", {});
  ASSERT_EQ(entries.size(), 1U);
  EXPECT_FLOAT_EQ(entries[0].params.xtc_probability, 0.5F);
  EXPECT_EQ(entries[0].params.samplers, (std::vector<std::string>{"xtc"}));
  EXPECT_EQ(entries[0].params.bad_words, (std::vector<std::string>{"cat"}));
  std::istringstream wrong(R"({"prompt": "a", "min_keep": "many"})");
  EXPECT_THROW(read_json_prompts(wrong, "f", {}), Error);
}

TEST(Prompts, ReadsBeamSearchFromJsonLines) {
  std::istringstream in(
      R"({"prompt": "a", "use_beam_search": true, "best_of": 4, "n": 2, "early_stopping": true})"
      "\n"
      R"({"prompt": "a", "use_beam_search": true, "early_stopping": "never", "length_penalty": 2})"
      "\n"
      R"({"prompt": "a"})"
      "\n");
  const auto entries = read_json_prompts(in, "f", {.top_p = 0.9F});
  ASSERT_EQ(entries.size(), 3U);
  EXPECT_TRUE(entries[0].params.use_beam_search);
  EXPECT_EQ(entries[0].params.beam_width, 4);
  EXPECT_EQ(entries[0].params.early_stopping, EarlyStopping::kYes);
  EXPECT_FLOAT_EQ(entries[0].params.top_p, 1.0F);
  EXPECT_EQ(entries[1].params.early_stopping, EarlyStopping::kNever);
  EXPECT_FLOAT_EQ(entries[1].params.length_penalty, 2.0F);
  EXPECT_FALSE(entries[2].params.use_beam_search);
  EXPECT_FLOAT_EQ(entries[2].params.top_p, 0.9F);
  std::istringstream wrong(R"({"prompt": "a", "early_stopping": "soon"})");
  EXPECT_THROW(read_json_prompts(wrong, "f", {}), Error);
}

TEST(Prompts, ReadsLinesOfText) {
  std::istringstream in("one\r\n\ntwo words\n");
  const auto entries = read_text_prompts(in, {.max_tokens = 5});
  ASSERT_EQ(entries.size(), 2U);
  EXPECT_EQ(entries[0].text, "one");
  EXPECT_EQ(entries[1].text, "two words");
  EXPECT_EQ(entries[1].params.max_tokens, 5);
}

TEST(Prompts, ReadsSamplingFieldsFromJsonLines) {
  std::istringstream in(R"({"prompt": "a", "temperature": 0, "stop": "x", "logit_bias": {"7": -3}})"
                        "\n\n"
                        R"({"prompt_token_ids": [1, 2], "n": 3, "seed": 9, "stop": ["y", "z"]})"
                        "\n"
                        R"({"messages": [{"role": "user", "content": "hi"}]})"
                        "\n");
  const auto entries = read_json_prompts(in, "f", {});
  ASSERT_EQ(entries.size(), 3U);
  EXPECT_EQ(entries[0].params.temperature, 0.0F);
  EXPECT_EQ(entries[0].params.stop, (std::vector<std::string>{"x"}));
  EXPECT_EQ(entries[0].params.logit_bias[0].first, 7);
  EXPECT_EQ(entries[1].token_ids, (std::vector<TokenId>{1, 2}));
  EXPECT_EQ(entries[1].params.n, 3);
  EXPECT_EQ(entries[1].params.seed, 9);
  EXPECT_EQ(entries[2].chat, R"({"messages": [{"role": "user", "content": "hi"}]})");
}

TEST(Prompts, ReportsInvalidLines) {
  const auto message = [](const std::string& text) -> std::string {
    std::istringstream in("{\"prompt\": \"fine\"}\n" + text);
    try {
      read_json_prompts(in, "p.jsonl", {});
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(message("{"), "p.jsonl:2: not valid JSON");
  EXPECT_NE(message("[1]").find("p.jsonl:2: The line must be"), std::string::npos);
  EXPECT_NE(message("{\"temperature\": 1}").find("prompt, prompt_token_ids or messages is missing"),
            std::string::npos);
  EXPECT_NE(message("{\"prompt\": 5}").find("prompt is 5, which has the wrong type"), std::string::npos);
  EXPECT_THROW(read_prompts_file("/nowhere.txt", {}), Error);
}

}  // namespace
}  // namespace quire::cli
