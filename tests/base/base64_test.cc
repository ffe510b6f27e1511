#include "base/base64.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

namespace isocost {
namespace {

using testing::HasSubstr;

// The values of RFC 4648, and one of each rare digit.
constexpr std::pair<std::string_view, std::string_view> kKnown[] = {{"", ""},
                                                                    {"f", "Zg=="},
                                                                    {"fo", "Zm8="},
                                                                    {"foo", "Zm9v"},
                                                                    {"foobar", "Zm9vYmFy"},
                                                                    {"\xFB\xFF\xBF", "+/+/"},
                                                                    {"\xFB\xEF", "++8="}};

TEST(Base64, HasTheKnownValues) {
  for (const auto& [bytes, text] : kKnown) {
    EXPECT_EQ(encode_base64(bytes), text);
    EXPECT_EQ(decode_base64(text).value(), bytes) << text;
  }
}

TEST(Base64, IsReadInTheAlphabetOfUrlsAndWithoutPadding) {
  for (const auto& [bytes, padded] : kKnown) {
    std::string text(padded);
    std::ranges::replace(text, '+', '-');
    std::ranges::replace(text, '/', '_');
    EXPECT_EQ(decode_base64(text).value(), bytes) << text;
    text.erase(std::min(text.find('='), text.size()));
    EXPECT_EQ(decode_base64(text).value(), bytes) << text;
  }
  EXPECT_EQ(decode_base64(" Zm\r\n9v\tYg = =\n").value(), "foob");
}

TEST(Base64, WhatItIsNotIsNamed) {
  for (const auto& [text, says] : {std::pair("Zm9v!", "'!' is character 5"),
                                   {"Zg=a", "'a' is character 4"},
                                   {"Z===", "'=' is character 2"},
                                   {"=", "'=' is character 1"},
                                   {"Zg===", "'=' is character 5"},
                                   {"Zm9vY", "its 5 digits are cut off"},
                                   {"Zg=", "its 2 digits are cut off"},
                                   {"b'Zg'", "''' is character 2"}}) {
    EXPECT_THAT(decode_base64(text).error().message(), HasSubstr(says)) << text;
  }
}

}  // namespace
}  // namespace isocost
