#include "loader/dataset/stores/s3/internal/time_text.h"

#include <gtest/gtest.h>

namespace isocost {
namespace {

constexpr std::chrono::sys_seconds kTime{std::chrono::seconds(1'796'000'523)};

TEST(TimeText, WritesTheTimeOfASignature) {
  EXPECT_EQ(basic_iso8601(kTime), "20261130T010203Z");
  EXPECT_EQ(basic_iso8601(std::chrono::sys_seconds()), "19700101T000000Z");
}

TEST(TimeText, ReadsTimesOfListingsAndCredentials) {
  EXPECT_EQ(parse_iso8601("2026-11-30T01:02:03Z"), kTime);
  EXPECT_EQ(parse_iso8601("2026-11-30T01:02:03.000Z"), kTime);
  EXPECT_EQ(parse_iso8601("2026-11-30T01:02:03.987654+00:00"), kTime);
  EXPECT_EQ(parse_iso8601("2026-11-30T03:32:03+0230"), kTime);
  EXPECT_EQ(parse_iso8601("2026-11-29T20:02:03-05:00"), kTime);
}

TEST(TimeText, RefusesOtherTexts) {
  for (const char* text :
       {"", "2026-11-30", "2026-11-30 01:02:03Z", "2026-11-30T01:02:03", "2026-13-30T01:02:03Z",
        "2026-02-30T01:02:03Z", "2026-11-30T24:02:03Z", "2026-11-30T01:02:03Zx",
        "-026-11-30T01:02:03Z", "2026-11-30T01:02:03+1"}) {
    EXPECT_FALSE(parse_iso8601(text)) << text;
  }
}

}  // namespace
}  // namespace isocost
