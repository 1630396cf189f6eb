#include "cli/flags.h"

#include <gtest/gtest.h>
#include <unistd.h>

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

TEST_F(ConfigFile, GivesWhatTheCommandLineDoesNot) {
  EXPECT_EQ(with("max-num-seqs: 64\nport: 9000\n", {"serve", "--port", "8001"}),
            (std::vector<std::string>{"serve", "--port", "8001", "--max-num-seqs=64"}));
}

TEST_F(ConfigFile, KnowsSwitchesListsAndUnderscores) {
  EXPECT_EQ(with("enable_prefix_caching: false\nignore_eos: true\nstop: [a, b]\nstrict-params: false\n",
                 {"generate"}),
            (std::vector<std::string>{"generate", "--no-enable-prefix-caching", "--ignore-eos", "--stop=a",
                                      "--stop=b"}));
}

TEST_F(ConfigFile, NamesTheModelUnlessTheCommandLineDoes) {
  EXPECT_EQ(with("model: dir/a\n", {"serve"}), (std::vector<std::string>{"serve", "dir/a"}));
  EXPECT_EQ(with("model: dir/a\n", {"serve", "dir/b"}), (std::vector<std::string>{"serve", "dir/b"}));
  EXPECT_EQ(with("model: dir/a\n", {"bench", "latency"}),
            (std::vector<std::string>{"bench", "latency", "dir/a"}));
}

TEST_F(ConfigFile, BrokenFilesAreErrorsThatNameThem) {
  EXPECT_THROW(with("a: [1\n", {"serve"}), Error);
  EXPECT_THROW(with("just text", {"serve"}), Error);
  EXPECT_THROW(with_config_file({"serve", "--config", "/nowhere.yaml"}), Error);
}

TEST(EngineFlags, PolicyPreemptionTiersAndTargets) {
  CLI::App app;
  EngineConfig config;
  CLI::App* command = add_command(app, "run", "");
  add_engine_flags(*command, config);
  app.parse(
      "run --scheduling-policy mlfq --preemption-mode swap --swap-space 2GiB --kv-disk-cache d "
      "--kv-disk-cache-size 1GiB --ttft-slo 500ms --tpot-slo 0.05 --max-num-partial-prefills 2");
  EXPECT_EQ(config.scheduling_policy, SchedulingPolicy::kMlfq);
  EXPECT_EQ(config.preemption_mode, PreemptionMode::kSwap);
  EXPECT_EQ(config.swap_space, int64_t{2} << 30);
  EXPECT_EQ(config.kv_disk_cache, "d");
  EXPECT_EQ(config.kv_disk_cache_size, int64_t{1} << 30);
  EXPECT_DOUBLE_EQ(config.ttft_slo, 0.5);
  EXPECT_DOUBLE_EQ(config.tpot_slo, 0.05);
  EXPECT_EQ(config.max_num_partial_prefills, 2);
}

TEST(EngineFlags, WrongPolicyAndWrongTimeAreRefused) {
  for (const char* line : {"run --scheduling-policy lifo", "run --ttft-slo soon", "run --tpot-slo -1s"}) {
    CLI::App app;
    EngineConfig config;
    add_engine_flags(*add_command(app, "run", ""), config);
    EXPECT_THROW(app.parse(line), CLI::ParseError) << line;
  }
}

TEST(Prompts, LinesOfText) {
  std::istringstream in("one\r\n\ntwo words\n");
  const auto entries = read_text_prompts(in, {.max_tokens = 5});
  ASSERT_EQ(entries.size(), 2U);
  EXPECT_EQ(entries[0].text, "one");
  EXPECT_EQ(entries[1].text, "two words");
  EXPECT_EQ(entries[1].params.max_tokens, 5);
}

TEST(Prompts, JsonLinesWithSamplingFields) {
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
  EXPECT_EQ(entries[2].messages[0].content, "hi");
}

TEST(Prompts, BrokenLinesAreNamed) {
  const auto message = [](const std::string& text) -> std::string {
    std::istringstream in("{\"prompt\": \"fine\"}\n" + text);
    try {
      read_json_prompts(in, "p.jsonl", {});
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(message("{"), "p.jsonl:2: is not JSON");
  EXPECT_NE(message("[1]").find("p.jsonl:2: must be"), std::string::npos);
  EXPECT_NE(message("{\"temperature\": 1}").find("needs 'prompt'"), std::string::npos);
  EXPECT_NE(message("{\"prompt\": 5}").find("'prompt' has the wrong type"), std::string::npos);
  EXPECT_THROW(read_prompts_file("/nowhere.txt", {}), Error);
}

}  // namespace
}  // namespace quire::cli
