#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "cli/chat/attachments.h"
#include "cli/chat/conversation_file.h"
#include "cli/chat/history_file.h"
#include "quire/error.h"

namespace quire::cli {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::IsEmpty;

// A directory with some files, which is removed after the test.
class ChatFiles : public testing::Test {
 protected:
  ChatFiles() : dir_(fs::path(testing::TempDir()) / ("chat_files_" + std::to_string(getpid()))) {
    fs::create_directories(dir_ / "sub");
    write("a.txt", "first\n");
    write("two words.txt", "second");
    write(".hidden", "x");
  }
  ~ChatFiles() override { fs::remove_all(dir_); }

  std::string path(const std::string& name) const { return (dir_ / name).string(); }
  void write(const std::string& name, const std::string& content) const {
    std::ofstream(dir_ / name, std::ios::binary) << content;
  }
  std::vector<std::string> mentioned(const std::string& message) const {
    std::vector<std::string> names;
    for (const Attachment& file : read_mentions(message))
      names.push_back(fs::path(file.path).filename().string());
    return names;
  }

  fs::path dir_;
};

TEST_F(ChatFiles, ReadsMentionedFiles) {
  EXPECT_THAT(mentioned("Summarize @" + path("a.txt")), ElementsAre("a.txt"));
  EXPECT_THAT(mentioned("What is in @" + path("a.txt") + "?"), ElementsAre("a.txt"));
  EXPECT_THAT(mentioned("@\"" + path("two words.txt") + "\" and @" + path("a.txt")),
              ElementsAre("two words.txt", "a.txt"));
  EXPECT_THAT(mentioned("@" + path("a.txt") + " @" + path("a.txt")), ElementsAre("a.txt"));
}

TEST_F(ChatFiles, KeepsMentionsOfOtherThingsAsText) {
  EXPECT_THAT(mentioned("mail me@" + path("a.txt")), IsEmpty());
  EXPECT_THAT(mentioned("@someone, @ and @\"open"), IsEmpty());
  EXPECT_THAT(mentioned("@" + path("sub")), IsEmpty());
}

TEST_F(ChatFiles, RejectsFilesThatAreNotText) {
  write("binary", std::string("a\0b", 3));
  write("latin1", "\xe9t\xe9");
  write("large", std::string(kMaxAttachmentBytes + 1, 'x'));
  for (const char* name : {"binary", "latin1", "large", "missing", "sub"}) {
    try {
      read_attachment(path(name));
      FAIL() << name;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(path(name)), std::string::npos) << error.what();
    }
  }
}

TEST_F(ChatFiles, AppendsFilesInFencesLongerThanTheirs) {
  EXPECT_EQ(with_attachments("Q", {{"x.md", "```\ncode\n```\n"}, {"y", "z"}}),
            "Q\n\nFile x.md:\n````\n```\ncode\n```\n````\n\nFile y:\n```\nz\n```");
}

TEST_F(ChatFiles, CompletesPaths) {
  EXPECT_THAT(complete_path(path("a")), ElementsAre(path("a.txt")));
  EXPECT_THAT(complete_path(path("")), ElementsAre(path("a.txt"), path("sub/"), path("two words.txt")));
  EXPECT_THAT(complete_path(path(".h")), ElementsAre(path(".hidden")));
  EXPECT_THAT(complete_path(path("none/x")), IsEmpty());
}

TEST(Mentions, FindsTheMentionBeforeTheCursor) {
  EXPECT_EQ(mention_at_end("see @docs/a"), 5U);
  EXPECT_EQ(mention_at_end("see @\"my fi"), 6U);
  EXPECT_EQ(mention_at_end("@a b"), std::string_view::npos);
  EXPECT_EQ(mention_at_end("@\"a\" b"), std::string_view::npos);
  EXPECT_EQ(mention_at_end("x@y"), std::string_view::npos);
  EXPECT_EQ(mention_at_end("@x @y"), 4U);
}

TEST_F(ChatFiles, HistoryKeepsMessagesWithSeveralLines) {
  HistoryFile(path("state/history")).append("one\ntwo");
  HistoryFile(path("state/history")).append("ü");
  EXPECT_THAT(HistoryFile(path("state/history")).load(10), ElementsAre("one\ntwo", "ü"));
  EXPECT_THAT(HistoryFile(path("state/history")).load(1), ElementsAre("ü"));
}

TEST_F(ChatFiles, HistoryIsReadableByItsOwnerOnly) {
  HistoryFile(path("state/history")).append("secret");
  struct stat info {};
  ASSERT_EQ(stat(path("state/history").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777U, 0600U);
}

TEST_F(ChatFiles, HistoryIgnoresDamagedLines) {
  write("history", "\"a\"\n{broken\n42\n\"b\"\n");
  EXPECT_THAT(HistoryFile(path("history")).load(10), ElementsAre("a", "b"));
}

TEST_F(ChatFiles, HistoryIsShortenedWhenItIsTwiceTooLong) {
  HistoryFile file(path("history"));
  for (int i = 0; i < 7; ++i) file.append(std::to_string(i));
  EXPECT_THAT(file.load(3), ElementsAre("4", "5", "6"));
  EXPECT_THAT(file.load(100), ElementsAre("4", "5", "6"));
}

TEST(StateFile, FollowsTheXdgSpecification) {
  setenv("HOME", "/home-of-test", 1);
  setenv("XDG_STATE_HOME", "/state", 1);
  EXPECT_EQ(state_file("x"), "/state/quire/x");
  setenv("XDG_STATE_HOME", "relative", 1);
  EXPECT_EQ(state_file("x"), "/home-of-test/.local/state/quire/x");
  unsetenv("XDG_STATE_HOME");
  EXPECT_EQ(state_file("x"), "/home-of-test/.local/state/quire/x");
  unsetenv("HOME");
  EXPECT_EQ(state_file("x"), "");
}

TEST_F(ChatFiles, LoadsASavedConversation) {
  const SavedConversation saved{{{"system", "Be kind."}, {"user", "\"Hi\"\n\u00e9"}, {"assistant", ""}}, ""};
  save_conversation(path("talk.json"), saved);
  const SavedConversation loaded = load_conversation(path("talk.json"));
  ASSERT_EQ(loaded.messages.size(), 3U);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(loaded.messages[i].role, saved.messages[i].role);
    EXPECT_EQ(loaded.messages[i].content, saved.messages[i].content);
  }
  struct stat status {};
  ASSERT_EQ(stat(path("talk.json").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0600U);
  save_conversation(path("talk.json"), {{}, "Once upon"});
  EXPECT_EQ(load_conversation(path("talk.json")).text, "Once upon");
}

TEST_F(ChatFiles, KeepsFilesThatAreNotConversations) {
  EXPECT_THROW(save_conversation(path("a.txt"), {{}, "text"}), Error);
  EXPECT_EQ(read_attachment(path("a.txt")).content, "first\n");
  EXPECT_THROW(save_conversation(path("none/talk.json"), {{}, "text"}), Error);
}

TEST_F(ChatFiles, RejectsWhatIsNotAConversation) {
  for (const char* text :
       {"", "{", "5", "{}", R"(["x"])", R"([{"role":"user","content":null}])", R"([{"content":"x"}])",
        R"([{"role":"user","content":"x","tool_calls":[]}])", R"({"messages":{}})", R"({"prompt":[1]})"}) {
    write("wrong.json", text);
    try {
      (void)load_conversation(path("wrong.json"));
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr("wrong.json")) << text;
    }
  }
}

}  // namespace
}  // namespace quire::cli
