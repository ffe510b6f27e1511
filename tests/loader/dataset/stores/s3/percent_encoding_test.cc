#include "loader/dataset/stores/s3/internal/percent_encoding.h"

#include <gtest/gtest.h>

#include <string>

namespace isocost {
namespace {

TEST(PercentEncoding, LeavesOnlyUnreservedCharacters) {
  EXPECT_EQ(percent_encoded("aZ09-._~"), "aZ09-._~");
  EXPECT_EQ(percent_encoded(" +/%=&\xC3\xA4"), "%20%2B%2F%25%3D%26%C3%A4");
  EXPECT_EQ(percent_encoded("a b/c", true), "a%20b/c");
  EXPECT_EQ(percent_encoded(std::string("\0\xFF", 2)), "%00%FF");
}

TEST(PercentEncoding, IsUndone) {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  EXPECT_EQ(percent_decoded(percent_encoded(all)).value(), all);
  EXPECT_EQ(percent_decoded("a+b%2bc%2B").value(), "a b+c+");
}

TEST(PercentEncoding, RefusesAPercentSignWithoutTwoDigits) {
  for (const char* text : {"%", "a%2", "%zz", "%2z", "%-1", "%+1", "% 1", "%%20"}) {
    const Result<std::string> bytes = percent_decoded(text);
    ASSERT_FALSE(bytes) << text;
    EXPECT_EQ(bytes.error().code(), ErrorCode::kCorrupt);
  }
}

}  // namespace
}  // namespace isocost
