#include "cli/common/terminal_text.h"

#include <gtest/gtest.h>

namespace isocost::cli {
namespace {

TEST(TerminalText, OneLineIsCutBetweenCharacters) {
  EXPECT_EQ(one_line("two\n\n lines\tand a tab", 40), "two lines and a tab");
  EXPECT_EQ(one_line("abcdef", 6), "abcdef");
  EXPECT_EQ(one_line("abcdefg", 6), "abcde…");
  EXPECT_EQ(one_line("äöüäöü", 6), "äöüäöü");
  EXPECT_EQ(one_line("äöüäöüä", 6), "äöüäö…");
  EXPECT_EQ(one_line("\U0001f600\U0001f600\U0001f600", 2), "\U0001f600…");
  EXPECT_EQ(one_line("abc", 0), "");
  EXPECT_EQ(one_line("", 10), "");
}

TEST(TerminalText, WhatATerminalWouldActOnIsNotPrinted) {
  EXPECT_EQ(one_line("a\x1b[31m\xFFz", 40), "a?[31m?z");
  EXPECT_EQ(printable_lines("a\x1b[31m\n\tb\r\n\xFF"), "a?[31m\n\tb?\n?");
  EXPECT_EQ(printable_lines("no end"), "no end");
}

}  // namespace
}  // namespace isocost::cli
