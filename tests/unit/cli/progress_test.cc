#include "cli/progress.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/eventually.h"

namespace quire::cli {
namespace {

// A terminal with a clock that the test sets.
struct Screen {
  double now = 100.0;
  int columns = 80;
  std::vector<std::string> shown;  // "" = the line was cleared

  ProgressOutput output() {
    return {.clock = [this] { return now; },
            .columns = [this] { return columns; },
            .show = [this](std::string_view text) { shown.emplace_back(text); }};
  }
};

const ProgressUnits kPrompts = {.items = "prompts", .rate = "tokens"};

TEST(ProgressText, HasCountsRateAndTimeLeft) {
  const Progress progress = {.fraction = 0.25, .num_done = 8, .num_items = 32, .counted = 1000.0};
  EXPECT_EQ(progress_text("Generating", kPrompts, progress, 123.4, 10.0, 120),
            "Generating [##########..............................]  25 %, 8 of 32 prompts, 123 tokens/s, 30 "
            "s left");
  EXPECT_EQ(progress_text("Loading", {}, {.fraction = 0.5}, 0.0, 10.0, 72),
            "Loading [####################....................]  50 %, 10 s left");
}

TEST(ProgressText, FitsIntoTheTerminal) {
  const Progress progress = {.fraction = 0.5, .num_done = 8, .num_items = 16};
  EXPECT_EQ(progress_text("Generating", kPrompts, progress, 5.0, 60.0, 75),
            "Generating [######......]  50 %, 8 of 16 prompts, 5.0 tokens/s, 1 min left");
  EXPECT_EQ(progress_text("Generating", kPrompts, progress, 5.0, 60.0, 65),
            "Generating  50 %, 8 of 16 prompts, 5.0 tokens/s, 1 min left");
  EXPECT_EQ(progress_text("Generating", kPrompts, progress, 5.0, 60.0, 50),
            "Generating  50 %, 5.0 tokens/s, 1 min left");
  EXPECT_EQ(progress_text("Generating", kPrompts, progress, 5.0, 60.0, 30), "Generating  50 %, 1 min left");
  EXPECT_EQ(progress_text("Generating", kPrompts, progress, 5.0, 60.0, 8), "Generat");
  for (int columns = 0; columns < 130; ++columns) {
    const std::string text = progress_text("Generating", kPrompts, progress, 5.0, 60.0, columns);
    EXPECT_LE(static_cast<int>(text.size()), std::max(0, columns - 1)) << text;
  }
}

TEST(ProgressText, LeavesOutWhatIsNotKnown) {
  EXPECT_EQ(progress_text("Reading", kPrompts, {}, 0.0, 0.0, 40), "Reading [.......................]   0 %");
  EXPECT_EQ(progress_text("Reading", kPrompts, {.fraction = 1.0}, 0.0, 0.0, 30), "Reading 100 %, 0 s left");
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(progress_text("Reading", kPrompts, {.fraction = nan}, infinity, 5.0, 20), "Reading   0 %");
  EXPECT_EQ(progress_text("Reading", {}, {.fraction = 1e-320}, 0.0, 5.0, 20), "Reading   0 %");
  EXPECT_EQ(progress_text("Reading", {}, {.fraction = 7.0}, 0.0, 5.0, 30), "Reading 100 %, 0 s left");
  EXPECT_EQ(progress_text("Reading", {}, {.fraction = -1.0}, 0.0, 5.0, 20), "Reading   0 %");
}

TEST(ProgressText, WritesBytesWithUnits) {
  EXPECT_EQ(progress_text("Loading", {.rate = "bytes"}, {.fraction = 0.001}, 3.5 * 1024 * 1024, 10.0, 46),
            "Loading   0 %, 3.5 MiB/s, 2.8 h left");
}

TEST(RateMeter, SmoothsOverThreeSeconds) {
  RateMeter rate;
  rate.add(0.0, 500.0);
  EXPECT_EQ(rate.per_second(), 0.0);
  rate.add(1.0, 600.0);
  EXPECT_DOUBLE_EQ(rate.per_second(), 100.0);
  rate.add(1.0, 700.0);  // no time has passed
  EXPECT_DOUBLE_EQ(rate.per_second(), 100.0);
  rate.add(2.5, 900.0);  // 200 per second for half of the three seconds
  EXPECT_DOUBLE_EQ(rate.per_second(), 150.0);
  rate.add(3.0, 10.0);  // another file
  EXPECT_DOUBLE_EQ(rate.per_second(), 150.0);
  rate.add(7.0, 50.0);
  EXPECT_DOUBLE_EQ(rate.per_second(), 10.0);
}

TEST(GenerationProgress, IsThatOfRequestsOrOfTokens) {
  EXPECT_DOUBLE_EQ(generation_progress(0, 4, 100, 400).fraction, 0.25);
  EXPECT_DOUBLE_EQ(generation_progress(3, 4, 100, 400).fraction, 0.75);
  EXPECT_DOUBLE_EQ(generation_progress(1, 2, 0, 0).fraction, 0.5);
  EXPECT_DOUBLE_EQ(generation_progress(0, 0, 0, 0).fraction, 0.0);
  EXPECT_DOUBLE_EQ(generation_progress(5, 4, 900, 400).fraction, 1.0);
}

TEST(ProgressBar, AppearsAfterASecondAndIsClearedAtTheEnd) {
  Screen screen;
  {
    ProgressBar bar("Generating", kPrompts, screen.output());
    screen.now += 0.9;
    bar.update(0.1);
    EXPECT_TRUE(screen.shown.empty());
    screen.now += 0.1;
    bar.update({.fraction = 0.1, .num_done = 1, .num_items = 10, .counted = 50.0});
    screen.now += 0.05;
    bar.update(0.2);  // too early
    screen.now += 0.06;
    bar.update({.fraction = 0.2, .num_done = 2, .num_items = 10, .counted = 61.0});
  }
  ASSERT_EQ(screen.shown.size(), 3U);
  EXPECT_NE(screen.shown[0].find(" 10 %, 1 of 10 prompts, 50 tokens/s, 9 s left"), std::string::npos)
      << screen.shown[0];
  EXPECT_NE(screen.shown[1].find(" 20 %, 2 of 10 prompts, 52 tokens/s, 4 s left"), std::string::npos)
      << screen.shown[1];
  EXPECT_EQ(screen.shown[2], "");
}

TEST(ProgressBar, WritesNothingWithoutATerminal) {
  Screen screen;
  screen.columns = 0;
  {
    ProgressBar bar("Generating", {}, screen.output());
    DownloadProgress download("org/tiny", screen.output());
    screen.now += 10.0;
    bar.update(0.5);
    download.update(1, 2, "model.safetensors", false);
  }
  EXPECT_TRUE(screen.shown.empty());
}

TEST(ProgressBar, FollowsTheWidthOfTheTerminal) {
  Screen screen;
  ProgressBar bar("Loading", {}, screen.output());
  for (const int columns : {80, 25}) {
    screen.columns = columns;
    screen.now += 2.0;
    bar.update(0.5);
  }
  EXPECT_EQ(screen.shown[0], "Loading [####################....................]  50 %, 2 s left");
  EXPECT_EQ(screen.shown[1], "Loading  50 %, 4 s left");
}

TEST(DownloadProgress, ShowsBytesRateAndTimeLeft) {
  Screen screen;
  constexpr uint64_t kMiB = 1 << 20;
  {
    DownloadProgress line("org/tiny", screen.output());
    screen.now += 0.5;
    line.update(0, 0, "config.json", false);
    screen.now += 1.0;
    line.update(100 * kMiB, 1000 * kMiB, "model.safetensors", false);
    screen.now += 1.0;
    line.update(110 * kMiB, 1000 * kMiB, "model.safetensors", false);
    screen.now += 1.0;
    line.update(110 * kMiB, 1000 * kMiB, "model.safetensors", true);
    screen.columns = 20;
    screen.now += 1.0;
    line.update(110 * kMiB, 1000 * kMiB, "model.safetensors", true);
  }
  EXPECT_EQ(screen.shown, (std::vector<std::string>{
                              "Pulling org/tiny: reading config.json",
                              "Pulling org/tiny: 100.0 MiB of 1000.0 MiB, 100.0 MiB/s, 9 s left",
                              "Pulling org/tiny: 110.0 MiB of 1000.0 MiB, 70.0 MiB/s, 13 s left",
                              "Pulling org/tiny: 110.0 MiB of 1000.0 MiB, waiting for another process",
                              "Pulling org/tiny: 1", ""}));
}

TEST(DownloadProgress, HandlesTimesAndTotalsOfZero) {
  EXPECT_EQ(download_text("m", "f", 5, 10, 0.0, false), "Pulling m: 5 B of 10 B");
  EXPECT_EQ(download_text("m", "f", 20, 10, 5.0, false), "Pulling m: 20 B of 10 B, 5 B/s, 0 s left");
  EXPECT_EQ(download_text("m", "a\nb", 0, 0, 5.0, false), "Pulling m: reading a\\nb");
}

TEST(RunWithReports, ReportsUntilTheWorkEnds) {
  std::atomic<int> reports = 0;
  const int result = run_with_reports(
      [&] {
        EXPECT_TRUE(test::eventually([&] { return reports >= 2; }));
        return 7;
      },
      [&] { ++reports; });
  EXPECT_EQ(result, 7);
  EXPECT_THROW(run_with_reports([]() -> int { throw std::runtime_error("failed"); }, [] {}),
               std::runtime_error);
}

}  // namespace
}  // namespace quire::cli
