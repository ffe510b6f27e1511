#include "cli/common/progress_bar.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <thread>
#include <vector>

namespace isocost::cli {
namespace {

using testing::EndsWith;
using testing::StartsWith;

TEST(ProgressBar, WritesALinePerTenthWhereThereIsNoTerminal) {
  std::vector<std::string> lines;
  ProgressBar bar(/*terminal=*/false, [&](std::string_view text) { lines.emplace_back(text); });
  for (std::uint64_t done = 1; done <= 1000; ++done) bar.show(done, 1000, "reading");
  bar.finish();
  ASSERT_EQ(lines.size(), 11U);  // the first state, then a line per tenth
  EXPECT_EQ(lines[0], "reading [..............................] 1/1000\n");
  EXPECT_EQ(lines[5], "reading [###############...............] 500/1000\n");
  EXPECT_EQ(lines[10], "reading [##############################] 1000/1000\n");
}

TEST(ProgressBar, RedrawsInPlaceOnATerminalAndEndsItsLineOnce) {
  std::vector<std::string> texts;
  ProgressBar bar(/*terminal=*/true, [&](std::string_view text) { texts.emplace_back(text); });
  bar.finish();
  EXPECT_TRUE(texts.empty());
  bar.show(1, 2, "reading");
  bar.show(1, 2, "reading");  // looks the same
  ASSERT_EQ(texts.size(), 1U);
  EXPECT_THAT(texts[0], StartsWith("\r\033[Kreading ["));
  EXPECT_THAT(texts[0], EndsWith("] 1/2"));
  bar.finish();
  bar.finish();
  EXPECT_EQ(texts, (std::vector<std::string>{texts[0], "\n"}));
}

TEST(ProgressBar, AnEmptyTotalIsDone) {
  std::string text;
  ProgressBar bar(/*terminal=*/false, [&](std::string_view written) { text += written; });
  bar.show(0, 0, "reading");
  EXPECT_EQ(text, "reading [##############################] 0/0\n");
}

TEST(ProgressBar, NamesHaveNoControlCharacters) {
  std::string text;
  ProgressBar bar(/*terminal=*/false, [&](std::string_view written) { text += written; });
  bar.show(1, 1, "a\x1B[2J\nb.tar");
  EXPECT_EQ(text, "a?[2J?b.tar [##############################] 1/1\n");
}

// A call from within the write would block for ever if the write held the lock.
TEST(ProgressBar, WritesWithoutTheLockInTheOrderOfTheCalls) {
  std::string text;
  ProgressBar* self = nullptr;
  ProgressBar bar(/*terminal=*/true, [&](std::string_view written) {
    if (text.empty()) {
      self->show(2, 2, "reading");
      self->finish();
    }
    text += written;
  });
  self = &bar;
  bar.show(1, 2, "reading");
  EXPECT_EQ(text,
            "\r\033[Kreading [###############...............] 1/2"
            "\r\033[Kreading [##############################] 2/2\n");
}

TEST(ProgressBar, WritesOneTextAtATimeWhateverTheThreads) {
  std::string text;  // not synchronised: the bar calls one thread after the other
  ProgressBar bar(/*terminal=*/false, [&](std::string_view written) { text += written; });
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&bar, t] {
        for (std::uint64_t i = 0; i < 100; ++i) bar.show(i, 99, "shard " + std::to_string(t));
      });
    }
  }
  std::size_t at = 0;
  std::size_t lines = 0;
  for (; at < text.size(); ++lines) {
    EXPECT_EQ(text.compare(at, 6, "shard "), 0) << at;
    at = text.find('\n', at) + 1;
  }
  EXPECT_GE(lines, 44U);  // at least a line per tenth and thread
}

}  // namespace
}  // namespace isocost::cli
