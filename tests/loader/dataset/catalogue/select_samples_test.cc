#include "loader/dataset/catalogue/select_samples.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "base/scratch_directory.h"
#include "tests/loader/dataset/made_shards.h"

namespace isocost {
namespace {

using testing::ElementsAre;

std::vector<std::string> keys_of(const Shard& shard, const ShardSelection& selection) {
  std::vector<std::string> keys;
  for (std::uint64_t i = 0; i < selection.size(); ++i) {
    keys.emplace_back(shard.view().key(selection.sample(i)));
  }
  return keys;
}

std::vector<std::string> keys_of(const std::vector<BadSample>& bad) {
  std::vector<std::string> keys;
  for (const BadSample& each : bad) keys.push_back(each.key);
  return keys;
}

// Two samples with tokens of three and five ids; the second has a turn that ends after two.
std::vector<TokenizedSample> two_tokenized() {
  return {{{.ids = {1, 2, 3}, .labelled = {false, true, true}}, ""},
          {{.ids = {1, 2, 3, 4, 5},
            .labelled = {false, true, false, false, true},
            .turns = {{2, 0, {}}}},
           ""}};
}

std::string longer_than_three(const SampleShape& shape) {
  return shape.parts.front().text_tokens > 3 ? "is too long" : "";
}

TEST(SelectSamples, DropsThoseThatCannotBeUsedInTheOrderOfReasons) {
  const ScratchDirectory scratch = ScratchDirectory::create("isocost-test").value();
  std::vector<TokenizedSample> tokenized = two_tokenized();
  tokenized.insert(tokenized.begin(), TokenizedSample{{}, "no tokens"});
  IndexContents contents = contents_of({"a", "b", "c"});
  contents.bad = {{"broken", "png", "no picture"}};
  std::vector<Shard> shards;
  shards.push_back(made_shard("0.tar", {"x", "a"}));
  shards.emplace_back(made_place("1.tar"), index_in_memory(contents), nullptr);
  shards.push_back(made_shard("2.tar", {"k", "l", "m"}, made_tokens(scratch, tokenized)));
  const Selection selection = select_samples(shards, {longer_than_three, false});
  EXPECT_THAT(keys_of(selection.bad), ElementsAre("broken", "k", "m"));
  EXPECT_EQ(selection.bad[1].shard, "2.tar");
  EXPECT_EQ(selection.bad[1].reason, "no tokens");
  EXPECT_FALSE(selection.bad[1].over_limit);
  EXPECT_EQ(selection.bad[2].reason, "is too long");
  EXPECT_TRUE(selection.bad[2].over_limit);
  ASSERT_EQ(selection.shards.size(), 3U);
  EXPECT_THAT(keys_of(shards[0], selection.shards[0]), ElementsAre("x", "a"));
  EXPECT_THAT(keys_of(shards[1], selection.shards[1]), ElementsAre("a", "b", "c"))
      << "a key is unique within its shard only";
  EXPECT_THAT(keys_of(shards[2], selection.shards[2]), ElementsAre("l"));
}

TEST(SelectSamples, AsksOnceForEachSampleWithoutAnotherFault) {
  std::vector<Shard> shards;
  shards.push_back(made_shard("0.tar", {"x", "y"}));
  shards.push_back(made_shard("1.tar", {"y", "z"}));
  int calls = 0;
  const auto count = [&calls](const SampleShape& /*shape*/) {
    ++calls;
    return std::string();
  };
  EXPECT_TRUE(select_samples(shards, {count, false}).bad.empty());
  EXPECT_EQ(calls, 4);
}

TEST(SelectSamples, CutsSamplesWithTokens) {
  const ScratchDirectory scratch = ScratchDirectory::create("isocost-test").value();
  std::vector<Shard> shards;
  shards.push_back(made_shard("0.tar", {"k", "l"}, made_tokens(scratch, two_tokenized())));
  const Selection selection = select_samples(shards, {longer_than_three, true});
  EXPECT_TRUE(selection.bad.empty());
  EXPECT_EQ(cut_samples(selection.shards), 1U);
  EXPECT_EQ(selection.shards[0].size(), 2U);
  EXPECT_EQ(selection.shards[0].cut_of(0), nullptr);
  ASSERT_NE(selection.shards[0].cut_of(1), nullptr);
  EXPECT_EQ(selection.shards[0].cut_of(1)->at.ids, 2U);
}

}  // namespace
}  // namespace isocost
