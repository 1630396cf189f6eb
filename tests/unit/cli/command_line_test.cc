#include "cli/command_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/commands.h"
#include "cli/suggestions.h"

namespace quire::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// The commands and flags of the program.
class CommandLineTest : public testing::Test {
 protected:
  CommandLineTest() { add_commands(app_, exit_code_); }

  CommandLine translated(std::vector<std::string> arguments) {
    return translate_command_line(app_, std::move(arguments));
  }
  std::vector<std::string> arguments(std::vector<std::string> typed) {
    const CommandLine once = translated(std::move(typed));
    EXPECT_EQ(translated(once.arguments).arguments, once.arguments)
        << "a translation is not translated again";
    return once.arguments;
  }
  std::string error(std::vector<std::string> typed) {
    try {
      translated(std::move(typed));
    } catch (const UsageError& usage) {
      return usage.what();
    }
    return "no error";
  }

  CLI::App app_{"", "quire"};
  int exit_code_ = 0;
};

TEST_F(CommandLineTest, PrintsHelpWithoutArguments) {
  EXPECT_THAT(arguments({}), ElementsAre("--help"));
  EXPECT_THAT(arguments({"help"}), ElementsAre("--help"));
  EXPECT_THAT(arguments({"help", "serve"}), ElementsAre("serve", "--help"));
  EXPECT_THAT(arguments({"help", "bench", "latency"}), ElementsAre("bench", "latency", "--help"));
  EXPECT_THAT(arguments({"bench"}), ElementsAre("bench", "--help"));
}

TEST_F(CommandLineTest, KeepsWhatIsKnown) {
  const std::vector<std::string> typed = {"generate",      "model.gguf", "--prompt", "-ngl", "--stop=--temp",
                                          "--temperature", "0",          "--",       "-m",   "--temp"};
  EXPECT_EQ(arguments(typed), typed);
}

TEST_F(CommandLineTest, SuggestsCommands) {
  EXPECT_EQ(error({"serv"}),
            "quire: there is no command 'serv'; did you mean serve? (quire --help lists the commands)");
  EXPECT_THAT(error({"lits"}), HasSubstr("did you mean list?"));
  EXPECT_THAT(error({"gen"}), HasSubstr("did you mean generate?"));
  EXPECT_THAT(error({"bench", "latncy"}),
              HasSubstr("quire bench: there is no command 'latncy'; did you mean latency?"));
  EXPECT_THAT(error({"help", "srve"}), HasSubstr("did you mean serve?"));
  EXPECT_THAT(error({"xyzzy"}), testing::Not(HasSubstr("did you mean")));
}

TEST_F(CommandLineTest, RunsCommandsOfOtherPrograms) {
  EXPECT_THAT(arguments({"ls"}), ElementsAre("list"));
  EXPECT_THAT(arguments({"show", "org/name"}), ElementsAre("inspect", "org/name"));
  EXPECT_THAT(error({"ps"}), HasSubstr("quire top"));
  EXPECT_THAT(error({"create", "-f", "Modelfile"}), HasSubstr("--config FILE"));
}

TEST_F(CommandLineTest, SaysWhereAModelOrATextBelongs) {
  EXPECT_THAT(error({"model.gguf"}), HasSubstr("quire run model.gguf"));
  EXPECT_THAT(error({"org/name"}), HasSubstr("quire serve org/name"));
  EXPECT_THAT(error({"Why is the sky blue?"}), HasSubstr("quire generate \"Why is the sky blue?\""));
  EXPECT_THAT(error({"-m", "model.gguf"}), HasSubstr("quire generate -m model.gguf"));
}

TEST_F(CommandLineTest, SuggestsFlags) {
  EXPECT_THAT(error({"serve", "--prot", "8080"}),
              HasSubstr("quire serve: there is no flag --prot; did you mean --port?"));
  EXPECT_THAT(error({"serve", "-port", "8080"}), HasSubstr("--port"));
  EXPECT_THAT(error({"serve", "--gpu-memory-utilisation=0.9"}),
              HasSubstr("did you mean --gpu-memory-utilization?"));
  EXPECT_THAT(error({"serve", "--zzzzzzzzzzzz"}), HasSubstr("quire serve --help-all lists the flags"));
  EXPECT_THAT(error({"list", "--port", "1"}), HasSubstr("it is a flag of quire serve"));
  EXPECT_THAT(error({"serve", "--temperature", "1"}), HasSubstr("requests have the field temperature"));
}

TEST_F(CommandLineTest, AcceptsUnderscores) {
  EXPECT_THAT(arguments({"serve", "--max_model_len", "4096", "--max_num_seqs=8"}),
              ElementsAre("serve", "--max-model-len", "4096", "--max-num-seqs=8"));
}

TEST_F(CommandLineTest, PutsTheModelOfAFlagFirst) {
  EXPECT_THAT(arguments({"serve", "--port", "1", "--model", "org/name"}),
              ElementsAre("serve", "org/name", "--port", "1"));
  EXPECT_THAT(arguments({"generate", "-p", "Once", "-m", "m.gguf"}),
              ElementsAre("generate", "m.gguf", "-p", "Once"));
  EXPECT_THAT(arguments({"bench", "latency", "-hf", "org/name:Q4_K_M"}),
              ElementsAre("bench", "latency", "org/name:Q4_K_M"));
  EXPECT_THAT(arguments({"chat", "-hf", "org/name", "-hff", "a.gguf"}),
              ElementsAre("chat", "org/name/a.gguf"));
  EXPECT_THAT(arguments({"pull", "--model", "org/name"}), ElementsAre("pull", "org/name"));
  EXPECT_THAT(error({"serve", "-m", "a", "--model", "b"}), HasSubstr("two models are given: a and b"));
  EXPECT_THAT(error({"list", "-m", "a"}), HasSubstr("this command has no model"));
}

TEST_F(CommandLineTest, ReplacesFlags) {
  EXPECT_THAT(arguments({"serve", "-c", "4096", "-np", "4", "-t", "2", "--alias", "a"}),
              ElementsAre("serve", "--max-model-len=4096", "--max-num-seqs=4", "--threads=2",
                          "--served-model-name=a"));
  EXPECT_THAT(arguments({"generate", "Once", "--temp", "0", "-n", "16"}),
              ElementsAre("generate", "Once", "--temperature=0", "--max-tokens=16"));
  EXPECT_THAT(arguments({"serve", "--embedding", "--no-webui"}),
              ElementsAre("serve", "--runner=pooling", "--no-ui"));
  EXPECT_THAT(arguments({"tokenize", "-p", "Hello"}), ElementsAre("tokenize", "--text=Hello"));
}

TEST_F(CommandLineTest, AddsUnits) {
  EXPECT_THAT(arguments({"serve", "--kv-offloading-size", "4"}), ElementsAre("serve", "--swap-space=4GiB"));
  EXPECT_THAT(arguments({"serve", "-cram", "512"}), ElementsAre("serve", "--swap-space=512MiB"));
}

TEST_F(CommandLineTest, ComparesFlagsWithOneCounterpart) {
  EXPECT_THAT(arguments({"serve", "-ctk", "q8_0", "-ctv", "q8_0"}),
              ElementsAre("serve", "--kv-cache-dtype=int8"));
  EXPECT_THAT(error({"serve", "-ctk", "q8_0", "-ctv", "f16"}), HasSubstr("which is already int8"));
}

TEST_F(CommandLineTest, SaysWhichFlagsHaveNoEffect) {
  const CommandLine line =
      translated({"serve", "org/name", "--gpu-memory-utilization", "0.9", "--enforce-eager",
                  "--cudagraph-capture-sizes", "1", "2", "-ngl", "99", "-fa", "on", "-fa"});
  EXPECT_THAT(line.arguments, ElementsAre("serve", "org/name"));
  EXPECT_THAT(line.notes, testing::SizeIs(6));
  EXPECT_EQ(line.notes[1], "quire serve: --enforce-eager has no effect: there are no CUDA graphs");
  EXPECT_THAT(translated({"serve", "--no-enforce-eager", "--no-headless"}).notes,
              ElementsAre(HasSubstr("CUDA graphs"), HasSubstr("it is the default")));
}

TEST_F(CommandLineTest, RefusesFlagsOfMissingFeatures) {
  EXPECT_THAT(error({"serve", "--tensor-parallel-size", "2"}),
              HasSubstr("--tensor-parallel-size is not available: "));
  EXPECT_THAT(arguments({"serve", "--tensor-parallel-size=1", "-tp", "1"}), ElementsAre("serve"));
  EXPECT_THAT(error({"serve", "--ssl-keyfile", "k"}), HasSubstr("reverse proxy"));
  EXPECT_THAT(error({"serve", "--model-impl"}), HasSubstr("needs a value"));
  EXPECT_THAT(error({"serve", "--no-enable-chunked-prefill"}), HasSubstr("--max-num-batched-tokens"));
}

TEST_F(CommandLineTest, ReplacesValues) {
  EXPECT_THAT(
      arguments({"serve", "--dtype", "half", "--kv-cache-dtype=fp8", "--max-model-len", "auto"}),
      ElementsAre("serve", "--dtype", "float16", "--kv-cache-dtype=fp8_e4m3", "--max-model-len", "0"));
  EXPECT_THAT(arguments({"serve", "--task", "embed"}), ElementsAre("serve", "--runner=pooling"));
}

TEST_F(CommandLineTest, LeavesTextsThatBeginWithADashToTheParser) {
  EXPECT_THAT(error({"generate", "- an item"}), HasSubstr("put -- before it"));
  EXPECT_THAT(arguments({"generate", "--", "- an item"}), ElementsAre("generate", "--", "- an item"));
  EXPECT_THAT(arguments({"detokenize", "-5"}), ElementsAre("detokenize", "-5"));
}

TEST(Suggestions, AreTheNamesThatDifferLeast) {
  const std::vector<std::string> names = {"serve", "simulate", "list", "rm"};
  EXPECT_THAT(closest_names("serv", names), ElementsAre("serve"));
  EXPECT_THAT(closest_names("s", names), ElementsAre("serve", "simulate"));
  EXPECT_THAT(closest_names("mr", names), IsEmpty()) << "no letter is right";
  EXPECT_THAT(closest_names("", names), IsEmpty());
  EXPECT_THAT(closest_names("--", names), IsEmpty());
  EXPECT_EQ(did_you_mean("lits", names), "; did you mean list?");
  EXPECT_EQ(did_you_mean("xyzzy", names), "");
  EXPECT_EQ(did_you_mean("lits", names, {"lots"}), "; did you mean lots?") << "one letter differs";
  EXPECT_EQ(did_you_mean("lits", names, {"lotus"}), "; did you mean list?") << "as close as lotus";
  EXPECT_THAT(closest_names("--torch-dtype", {"--port", "--dtype"}), ElementsAre("--dtype"));
  EXPECT_EQ(enumerate({"a", "b", "c"}, "or"), "a, b or c");
}

}  // namespace
}  // namespace quire::cli
