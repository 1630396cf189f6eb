#include "hub/model_name.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace quire::hub {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(ModelName, ParsesARepository) {
  const auto name = parse_model_name("Qwen/Qwen2.5-0.5B_Instruct");
  ASSERT_TRUE(name);
  EXPECT_EQ(name->repo, "Qwen/Qwen2.5-0.5B_Instruct");
  EXPECT_EQ(name->tag, "");
  EXPECT_EQ(name->file, "");
  EXPECT_EQ(name->text(), "Qwen/Qwen2.5-0.5B_Instruct");
}

TEST(ModelName, ParsesATagAndAFile) {
  const auto tagged = parse_model_name("org/name-GGUF:Q4_K_M");
  ASSERT_TRUE(tagged);
  EXPECT_EQ(tagged->repo, "org/name-GGUF");
  EXPECT_EQ(tagged->tag, "Q4_K_M");
  EXPECT_EQ(tagged->text(), "org/name-GGUF:Q4_K_M");
  const auto file = parse_model_name("org/name/Q8_0/model-00001-of-00002.gguf");
  ASSERT_TRUE(file);
  EXPECT_EQ(file->repo, "org/name");
  EXPECT_EQ(file->file, "Q8_0/model-00001-of-00002.gguf");
  EXPECT_EQ(file->text(), "org/name/Q8_0/model-00001-of-00002.gguf");
}

TEST(ModelName, RemovesTheHubsAddress) {
  EXPECT_EQ(parse_model_name("https://huggingface.co/org/name")->repo, "org/name");
  EXPECT_EQ(parse_model_name("hf.co/org/name:Q8_0")->text(), "org/name:Q8_0");
}

TEST(ModelName, RejectsPathsAndOtherTexts) {
  for (const char* text : {"",
                           "gpt2",
                           "/org/name",
                           "./name",
                           "../name",
                           "~/name",
                           "org/",
                           "/name",
                           "org/name/",
                           "org//name",
                           "org/name/config.json",
                           "org/name/../../x.gguf",
                           "org/name/.gguf/",
                           "org/name:",
                           "org/name:a/b",
                           "org/na me",
                           "org/-name",
                           "org/name.",
                           "org/name--x",
                           "org/a..b",
                           "org/name.git",
                           "http://host/org/name",
                           "org/name?x",
                           "org/n\name"}) {
    EXPECT_FALSE(parse_model_name(text)) << text;
  }
  EXPECT_FALSE(parse_model_name("org/" + std::string(100, 'x')));
}

TEST(SafePath, AcceptsFilesAndFolders) {
  EXPECT_TRUE(is_safe_path("config.json"));
  EXPECT_TRUE(is_safe_path("1_Pooling/config.json"));
  EXPECT_TRUE(is_safe_path(".gitattributes"));
  EXPECT_TRUE(is_safe_path("modèle..gguf"));
}

TEST(SafePath, RejectsWhatLeavesTheDirectory) {
  for (const std::string& name :
       {std::string(""), std::string("/etc/passwd"), std::string(".."), std::string("../x"),
        std::string("a/../b"), std::string("a/.."), std::string("./a"), std::string("a//b"),
        std::string("a/"), std::string("a\\b"), std::string("a\nb"), std::string("a\0b", 3),
        std::string("\x1b[31m"), std::string("a\x7f"), std::string("\xff\xfe"), std::string(300, 'a'),
        std::string(2000, 'a')}) {
    EXPECT_FALSE(is_safe_path(name)) << name;
  }
}

TEST(Revision, AcceptsBranchesTagsAndPullRequests) {
  EXPECT_TRUE(is_revision("main"));
  EXPECT_TRUE(is_revision("v1.0"));
  EXPECT_TRUE(is_revision("refs/pr/1"));
  for (const char* text : {"", "../main", "/main", "a b", "a?b", "a#b", "a%2e", "a\nb"})
    EXPECT_FALSE(is_revision(text)) << text;
}

TEST(Commit, IsAHash) {
  EXPECT_TRUE(is_commit(std::string(40, 'a')));
  EXPECT_FALSE(is_commit(std::string(39, 'a')));
  EXPECT_FALSE(is_commit(std::string(40, 'A')));
  EXPECT_FALSE(is_commit("main"));
}

TEST(SimilarNames, RanksByDistanceAndDropsOthers) {
  EXPECT_THAT(similar_names(
                  "Qwen/Qwen2.5-0.5B",
                  {"Qwen/Qwen2.5-1.5B", "other/thing", "Qwen/Qwen2.5-0.5B-Instruct", "Qwen/Qwen2.5-1.5B"}, 3),
              ElementsAre("Qwen/Qwen2.5-1.5B", "Qwen/Qwen2.5-0.5B-Instruct"));
  EXPECT_THAT(similar_names("a/b", {}, 3), IsEmpty());
}

}  // namespace
}  // namespace quire::hub
