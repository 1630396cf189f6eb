#include "base/log.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <string>
#include <thread>

#include "base/log_hold.h"
#include "base/strings.h"
#include "support/switches.h"

namespace quire {
namespace {

// Replaces stderr by a pipe while it lives.
class PipeAsStderr {
 public:
  PipeAsStderr() {
    int ends[2] = {-1, -1};
    if (::pipe(ends) != 0) std::abort();
    read_end_ = ends[0];
    saved_ = ::dup(STDERR_FILENO);
    ::dup2(ends[1], STDERR_FILENO);
    ::close(ends[1]);
    ::fcntl(read_end_, F_SETFL, O_NONBLOCK);
  }
  ~PipeAsStderr() {
    ::dup2(saved_, STDERR_FILENO);
    ::close(saved_);
    ::close(read_end_);
  }
  // Everything in the pipe.
  std::string read() const {
    std::string text;
    char buffer[4096];
    for (ssize_t n; (n = ::read(read_end_, buffer, sizeof buffer)) > 0;)
      text.append(buffer, static_cast<size_t>(n));
    return text;
  }

 private:
  int saved_ = -1;
  int read_end_ = -1;
};

size_t count(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++n;
  return n;
}

TEST(Log, WritesLevelAndMessage) {
  PipeAsStderr pipe;
  log_info("number ", 7);
  const std::string text = pipe.read();
  EXPECT_EQ(text.rfind("INFO ", 0), 0U) << text;
  EXPECT_NE(text.find(" number 7\n"), std::string::npos) << text;
}

TEST(Log, RemovesTheTransientLineBeforeALogLine) {
  PipeAsStderr pipe;
  show_transient_line("10 %");
  show_transient_line("20 %");
  EXPECT_EQ(pipe.read(), "\r10 %\x1b[K\r20 %\x1b[K");
  log_info("first");
  log_info("second");
  const std::string text = pipe.read();
  EXPECT_EQ(text.rfind("\r\x1b[KINFO ", 0), 0U) << text;
  EXPECT_EQ(count(text, "\x1b[K"), 1U) << text;
  show_transient_line("");
  EXPECT_EQ(pipe.read(), "");
  show_transient_line("30 %");
  show_transient_line("");
  EXPECT_EQ(pipe.read(), "\r30 %\x1b[K\r\x1b[K");
}

TEST(Log, LinesWaitDuringAHold) {
  PipeAsStderr pipe;
  {
    LogHold hold;
    std::thread([] { log_warning("first"); }).join();
    EXPECT_EQ(pipe.read(), "");
    hold.release();
    EXPECT_EQ(count(pipe.read(), " first\n"), 1U);
    log_warning("second");
    log_warning("third");
    EXPECT_EQ(pipe.read(), "");
  }
  const std::string text = pipe.read();
  EXPECT_LT(text.find("second"), text.find("third")) << text;
  log_warning("fourth");
  EXPECT_EQ(count(pipe.read(), " fourth\n"), 1U);
}

TEST(Log, CountsLinesThatAHoldHasNoRoomFor) {
  PipeAsStderr pipe;
  const int64_t before = num_dropped_log_lines();
  {
    const LogHold hold;
    for (size_t i = 0; i < kMaxHeldLogLines + 3; ++i) log_warning("line ", i);
  }
  EXPECT_EQ(num_dropped_log_lines(), before + 3);
  EXPECT_EQ(count(pipe.read(), "\n"), kMaxHeldLogLines);
  log_warning("last");
  EXPECT_EQ(count(pipe.read(), " 3 log lines were dropped"), 1U);
}

TEST(Log, EscapesLineBreaksAndControlCharacters) {
  EXPECT_EQ(escape_log_text("a\nERROR forged\r\tb"), "a\\nERROR forged\\r\\tb");
  EXPECT_EQ(escape_log_text("\x1b[2J\x7f"), "\\x1b[2J\\x7f");
  EXPECT_EQ(escape_log_text(std::string_view("\0x", 2)), "\\x00x");
  EXPECT_EQ(escape_log_text("\xc2\x85\xe2\x80\xa8\xe2\x80\xa9"), "\\u0085\\u2028\\u2029");
  EXPECT_EQ(escape_log_text("gr\xc3\xbc\xc3\x9f \xf0\x9f\x90\x88 back\\slash"),
            "gr\xc3\xbc\xc3\x9f \xf0\x9f\x90\x88 back\\slash");
  EXPECT_EQ(escape_log_text("\xff\xc3(\xed\xa0\x80"), "\\xff\\xc3(\\xed\\xa0\\x80");
}

TEST(Log, WritesAMessageWithALineBreakAsOneLine) {
  PipeAsStderr pipe;
  log_info("id-1\nERROR 01-01 00:00:00 forged");
  EXPECT_EQ(count(pipe.read(), "\n"), 1U);
}

TEST(Log, WritesEachLineOfATable) {
  PipeAsStderr pipe;
  log_lines(LogLevel::kInfo, "head\n  row\n");
  const std::string text = pipe.read();
  EXPECT_EQ(count(text, "INFO "), 2U) << text;
  EXPECT_NE(text.find("  row\n"), std::string::npos);
}

TEST(Log, DropsAndCountsLinesWhileTheReaderIsStalled) {
  PipeAsStderr pipe;
  const int64_t before = num_dropped_log_lines();
  const std::string filler(1000, 'x');
  const int64_t waits = test::num_waits();
  for (int i = 0; i < 2000; ++i) log_info(filler);
  EXPECT_LT(test::num_waits() - waits, 200) << "waits for the reader";
  const int64_t dropped = num_dropped_log_lines() - before;
  EXPECT_GT(dropped, 1000);

  const std::string first = pipe.read();
  EXPECT_EQ(static_cast<int64_t>(count(first, "xx\n")), 2000 - dropped);
  log_info("the reader is back");
  const std::string text = pipe.read();
  EXPECT_NE(text.find(cat(dropped, " log lines were dropped")), std::string::npos) << text;
  EXPECT_NE(text.find("the reader is back\n"), std::string::npos) << text;
  log_info("again");
  EXPECT_EQ(pipe.read().find("dropped"), std::string::npos) << "reported twice";
}

TEST(Log, DoesNotCutALineInsideACharacter) {
  PipeAsStderr pipe;
  std::string text;
  for (int i = 0; i < 100'000; ++i) text += "\xe2\x82\xac";
  // The pipe takes only a part of the line. Other lengths of the text before it move the cut.
  for (const char* before : {"", "a", "aa"}) {
    log_info(before, text);
    const std::string part = pipe.read();
    EXPECT_LT(part.size(), text.size());
    EXPECT_TRUE(is_valid_utf8(part));
  }
  log_info("completes the line and reports the dropped ones");
  EXPECT_EQ(pipe.read().front(), '\n') << "the line that was cut does not end";
}

TEST(Log, WritesLinesLongerThanThePipeTakesAtOnce) {
  PipeAsStderr pipe;
  std::string text;
  std::thread writer([] { log_info(std::string(20000, 'y')); });
  writer.join();
  text = pipe.read();
  EXPECT_EQ(count(text, "\n"), 1U);
  EXPECT_GT(text.size(), 20000U);
}

TEST(Log, KeepsLinesOfThreadsApart) {
  PipeAsStderr pipe;
  const auto write = [](char c) {
    for (int i = 0; i < 50; ++i) log_info(std::string(100, c));
  };
  std::thread a(write, 'a');
  std::thread b(write, 'b');
  a.join();
  b.join();
  const std::string text = pipe.read();
  EXPECT_EQ(count(text, std::string(100, 'a') + "\n"), 50U);
  EXPECT_EQ(count(text, std::string(100, 'b') + "\n"), 50U);
}

}  // namespace
}  // namespace quire
