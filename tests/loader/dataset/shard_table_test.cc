#include "loader/dataset/internal/shard_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

namespace isocost {
namespace {

// Two shards with an index file, the first of which has tokens, and one without.
SelectedShards made_shards() {
  SelectedShards shards;
  shards.resize(3);
  ShardRow& row = shards.rows[0];
  row.identity.stamp = {1 << 20, 7};
  row.identity.reading = 3;
  row.directory = 1;
  row.index = {500, 8};
  row.tokens = {600, 9};
  row.content_hash = 11;
  row.condition = ShardCondition::kDamaged;
  row.has_end_mark = false;
  row.samples = 1000;
  row.bad = 1;
  row.samples_when_whole = 2000;
  row.problem = "cut off";
  row.unread = "behind the mark";
  row.remarks = {{RemarkKind::kFormat, "jpg", "PNG", 5}};
  row.tokenizer =
      std::make_shared<const TokenizerIdentity>(TokenizerIdentity{1, 2, 3, 4, 5, "--labels all"});
  row.keys_hash = 21;
  row.cuts = 1;
  row.cuts_hash = 22;
  row.text_tokens = 23;
  row.weighted = {2, 900, 0.5F};
  shards.selections[0] =
      ShardSelection(1000, {3, 999}, {{500, TurnCut{{9, 1, {1, 0, 0}}, {9, 2, 1}, 4}}});
  row.usable = shards.selections[0].size();
  shards.bad[0] = {{"", "key", "png", "no picture", false},
                   {"", "three", "", "no tokens", false},
                   {"", "last", "", "is too long", true}};
  shards.rows[1].index = {500, 8};
  shards.rows[1].samples = shards.rows[1].usable = 10;
  shards.selections[1] = ShardSelection(10, {}, {});
  shards.rows[2].samples = shards.rows[2].usable = 4;
  shards.selections[2] = ShardSelection(4, {}, {});
  return shards;
}

std::vector<std::byte> encoded() {
  return encode_table({7, 8}, std::vector<std::uint64_t>{31, 32, 33}, made_shards());
}

TEST(ShardTable, HasWhatWasFoundOfShardsWithAnIndexFile) {
  ProbeLimits limits;
  limits.max_pixels = 99;
  const auto table = decode_table(encoded(), limits);
  ASSERT_TRUE(table) << table.error().to_string();
  EXPECT_EQ(table->identity, (TableIdentity{7, 8}));
  EXPECT_THAT(table->keys, testing::ElementsAre(31, 32));
  const SelectedShards made = made_shards();
  const ShardRow& row = table->shards.rows[0];
  const ShardRow& wanted = made.rows[0];
  EXPECT_EQ(row.identity.stamp, wanted.identity.stamp);
  EXPECT_EQ(row.identity.reading, 3U);
  EXPECT_EQ(row.identity.limits.max_pixels, 99);
  EXPECT_EQ(row.directory, 1);
  EXPECT_EQ(row.index, wanted.index);
  EXPECT_EQ(row.tokens, wanted.tokens);
  EXPECT_EQ(row.content_hash, 11U);
  EXPECT_EQ(row.condition, ShardCondition::kDamaged);
  EXPECT_FALSE(row.has_end_mark);
  EXPECT_EQ(row.samples, 1000U);
  EXPECT_EQ(row.bad, 1U);
  EXPECT_EQ(row.samples_when_whole, 2000U);
  EXPECT_EQ(row.problem, "cut off");
  EXPECT_EQ(row.unread, "behind the mark");
  ASSERT_EQ(row.remarks.size(), 1U);
  EXPECT_EQ(row.remarks[0].detail, "PNG");
  EXPECT_EQ(row.remarks[0].count, 5U);
  EXPECT_EQ(*row.tokenizer, *wanted.tokenizer);
  EXPECT_EQ(row.usable, 998U);
  EXPECT_EQ(row.keys_hash, 21U);
  EXPECT_EQ(row.cuts, 1U);
  EXPECT_EQ(row.cuts_hash, 22U);
  EXPECT_EQ(row.text_tokens, 23U);
  EXPECT_EQ(row.weighted.first, 900U);
  EXPECT_EQ(row.weighted.weight, 0.5F);
  const ShardSelection& selection = table->shards.selections[0];
  EXPECT_EQ(selection.sample(3), 4U);
  EXPECT_EQ(selection.sample(997), 998U);
  ASSERT_NE(selection.cut_of(500), nullptr);
  EXPECT_EQ(selection.cut_of(500)->at.turns, 2U);
  EXPECT_EQ(selection.cut_of(500)->label_tokens, 4);
  ASSERT_EQ(table->shards.bad[0].size(), 3U);
  EXPECT_EQ(table->shards.bad[0][0].part, "png");
  EXPECT_TRUE(table->shards.bad[0][2].over_limit);
  EXPECT_EQ(table->shards.rows[1].tokenizer, nullptr);
  EXPECT_EQ(table->shards.selections[1].size(), 10U);
}

// The checksum finds accidents; what a hostile file says is checked one by one.
TEST(ShardTable, AnyByteThatIsWrongIsFoundOrHarmless) {
  const std::vector<std::byte> good = encoded();
  EXPECT_EQ(decode_table(std::span(good).first(40), {}).error().code(), ErrorCode::kCorrupt);
  for (std::size_t at = 0; at < good.size(); ++at) {
    std::vector<std::byte> bytes = good;
    bytes[at] ^= std::byte{0x81};
    EXPECT_FALSE(decode_table(bytes, {})) << at;
    const auto crc = static_cast<std::uint32_t>(
        crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()) + 16, bytes.size() - 16));
    std::memcpy(bytes.data() + 12, &crc, sizeof(crc));
    const auto table = decode_table(bytes, {});
    if (!table) continue;
    for (const ShardSelection& selection : table->shards.selections) {
      for (std::uint64_t i = 0; i < selection.size(); ++i) {
        ASSERT_LT(selection.sample(i), selection.samples()) << at;
      }
    }
  }
}

TEST(ShardTable, OfAnotherVersionIsSaid) {
  std::vector<std::byte> bytes = encoded();
  bytes[8] = std::byte{2};
  EXPECT_EQ(decode_table(bytes, {}).error().code(), ErrorCode::kUnsupported);
}

}  // namespace
}  // namespace isocost
