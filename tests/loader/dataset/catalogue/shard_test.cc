#include "loader/dataset/catalogue/shard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/scratch_directory.h"
#include "tests/loader/dataset/made_shards.h"

namespace isocost {
namespace {

using testing::EndsWith;

TEST(Shard, ListsWhatIndexingFoundBad) {
  IndexContents contents = contents_of({"good"});
  contents.bad = {{"key", "png", "no picture"}, {"other", "", "no part"}};
  const Shard shard(made_place("a.tar"), index_in_memory(contents), nullptr);
  EXPECT_EQ(shard.name(), "a.tar");
  EXPECT_EQ(shard.samples(), 1U);
  const std::vector<BadSample> bad = shard.bad();
  ASSERT_EQ(bad.size(), 2U);
  EXPECT_EQ(bad[0].shard, "a.tar");
  EXPECT_EQ(bad[0].key, "key");
  EXPECT_EQ(bad[0].part, "png");
  EXPECT_EQ(bad[0].reason, "no picture");
  EXPECT_FALSE(bad[0].over_limit);
  EXPECT_EQ(bad[1].key, "other");
  EXPECT_EQ(bad[1].reason, "no part");
}

TEST(Shard, HasThePartsOfASample) {
  const Shard shard = made_shard("a.tar", {"key"});
  ASSERT_EQ(shard.parts(0, nullptr).shape().parts.size(), 1U);
  EXPECT_EQ(shard.parts(0, nullptr).name(0), "txt");
}

TEST(Shard, TellsWhichMappedFileWasCut) {
  const ScratchDirectory scratch = ScratchDirectory::create("isocost-test").value();
  const std::filesystem::path file = scratch / "a.idx";
  const std::vector<std::byte> bytes = encode_index(contents_of({"key"}));
  write_file(file, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  const Shard shard(made_place("a.tar"), ShardIndex::map(file).value(),
                    made_tokens(scratch, std::vector<TokenizedSample>(1)));
  EXPECT_TRUE(shard.check_mapped_files().has_value());
  std::filesystem::resize_file(file, 40);
  const Status index = shard.check_mapped_files();
  ASSERT_FALSE(index.has_value());
  EXPECT_EQ(index.error().code(), ErrorCode::kCorrupt);
  EXPECT_THAT(index.error().message(), EndsWith("a.idx: it was cut while it was in use; start "
                                                "again, and the shard is indexed anew"));
  std::filesystem::resize_file(scratch / "made.tokens", 40);
  EXPECT_THAT(shard.check_mapped_files().error().message(),
              EndsWith("made.tokens: it was cut while it was in use; run isocost tokenize again"));
}

}  // namespace
}  // namespace isocost
