#include "base/utf8.h"

#include <gtest/gtest.h>

#include <string>

namespace isocost {
namespace {

TEST(Utf8, CharactersOfEveryLengthAreAccepted) {
  for (const char* text : {"", "plain", "\u00e4", "\u20ac", "\U0001F600", "\u0000x"}) {
    EXPECT_TRUE(is_utf8(text)) << text;
    EXPECT_EQ(printable_utf8(text), text);
  }
  EXPECT_TRUE(is_utf8("12345678\u20ac"));  // beyond the first eight bytes
}

TEST(Utf8, LowerCaseChangesLettersOfAsciiAlone) {
  EXPECT_EQ(lower_ascii("AZaz09.TAR[`{@\xC3\x84"), "azaz09.tar[`{@\xC3\x84");
  EXPECT_EQ(lower_ascii(""), "");
}

TEST(Utf8, OverlongFormsSurrogatesAndStrayBytesAreRefused) {
  for (const char* text : {"\xC0\x80", "\xE0\x80\x80", "\xED\xA0\x80", "\xF0\x80\x80\x80",
                           "\xF4\x90\x80\x80", "\xFF", "\x80", "\xE2\x82"}) {
    EXPECT_FALSE(is_utf8(text));
    EXPECT_EQ(printable_utf8(text), std::string(std::string(text).size(), '?'));
  }
}

TEST(Utf8, ControlCharactersAreNotPrintable) {
  EXPECT_EQ(printable_utf8("a\tb\x7F\u00e4"), "a?b?\u00e4");
  EXPECT_EQ(printable_utf8("\xC2\x80\xC2\x9B"
                           "31m\xC2\x9F\u00a0"),
            "??31m?\u00a0");  // C1
}

TEST(Utf8, ThePrefixEndsAtTheFirstInvalidByte) {
  const std::string text = "\u20ac" + std::string(9, 'x') + "\xFFrest";
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(text.data());
  EXPECT_EQ(valid_utf8_prefix({bytes, text.size()}), 12U);
}

}  // namespace
}  // namespace isocost
