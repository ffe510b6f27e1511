#include "loader/dataset/shard_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace isocost {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

ShardFindings broken(std::size_t count, std::size_t shards) {
  ShardFindings findings;
  findings.shards = shards;
  for (std::size_t i = 0; i < count; ++i) {
    findings.broken.push_back({.name = std::to_string(i) + ".tar",
                               .lost = i == 0,
                               .reason = "cut off",
                               .samples = i,
                               .samples_when_whole = i == 0 ? 100U : 0U});
  }
  return findings;
}

std::vector<std::string> logged(const ShardFindings& findings, const ShardOptions& options) {
  std::vector<std::string> lines;
  log_findings(findings, options,
               [&](LogLevel, std::string_view text) { lines.emplace_back(text); });
  return lines;
}

// Checks the findings of an only source.
Status checked(ShardFindings findings, const ShardOptions& options) {
  std::vector<DatasetSource> sources(1);
  sources[0].findings = std::move(findings);
  return check_findings(sources, options);
}

TEST(ShardOptions, AllowNoBrokenShardUnlessTold) {
  EXPECT_TRUE(checked(broken(0, 10), {}));
  const Status refused = checked(broken(2, 10), {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), ErrorCode::kCorrupt);
  EXPECT_EQ(refused.error().message(),
            "2 of 10 shards are damaged or lost, allow_broken_shards allows 0: 0.tar: lost: cut "
            "off; 0 of the 100 samples that it had when it was whole are left; 1.tar: damaged: cut "
            "off; 1 sample before the damage");
}

TEST(ShardOptions, AllowACountOrAShareOfAllShards) {
  EXPECT_TRUE(checked(broken(2, 10), {.allow_broken = "2"}));
  EXPECT_FALSE(checked(broken(3, 10), {.allow_broken = "2"}));
  EXPECT_TRUE(checked(broken(2, 10), {.allow_broken = "20%"}));
  EXPECT_FALSE(checked(broken(3, 10), {.allow_broken = "20%"}));
  EXPECT_FALSE(checked(broken(1, 10), {.allow_broken = "0%"}));
  EXPECT_TRUE(checked(broken(10, 10), {.allow_broken = "100%"}));
}

TEST(ShardOptions, RefuseWhatIsNoLimit) {
  const Status refused = ShardOptions{.allow_broken = "few"}.validate();
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message(),
              HasSubstr("allow_broken_shards: 'few' is neither a count"));
}

TEST(ShardOptions, HoldForEachSource) {
  std::vector<DatasetSource> sources(2);
  sources[0].name = "captions";
  sources[0].findings = broken(1, 10);
  sources[1].name = "documents";
  sources[1].findings = broken(2, 100);
  EXPECT_TRUE(check_findings(sources, {.allow_broken = "2"}));
  EXPECT_THAT(check_findings(sources, {.allow_broken = "5%"}).error().message(),
              HasSubstr("source captions: 1 of 10 shards is damaged or lost"));
  EXPECT_THAT(check_findings(sources, {.allow_broken = "1"}).error().message(),
              HasSubstr("source documents: 2 of 100 shards"));
}

TEST(ShardOptions, NameAFewDozenShards) {
  EXPECT_THAT(checked(broken(1000, 1000), {}).error().message(),
              AllOf(HasSubstr("19.tar"), HasSubstr("; and 980 more"), Not(HasSubstr("20.tar"))));
}

TEST(ShardOptions, WarnOfWhatIsAllowed) {
  ShardFindings findings = broken(1, 10);
  findings.unread = {"b.zip: an archive"};
  findings.without_end_mark = {"c.tar"};
  EXPECT_THAT(logged(findings, {}),
              ElementsAre(HasSubstr("1 of 10 shards is damaged or lost: 0.tar: lost"),
                          HasSubstr("1 shard without the mark"),
                          HasSubstr("1 archive is not read (accept_unread_archives = on accepts "
                                    "that): b.zip: an archive")));
  EXPECT_EQ(logged(findings, {.accept_unread = true}).size(), 2U);
  EXPECT_THAT(logged({}, {}), IsEmpty());
}

}  // namespace
}  // namespace isocost
