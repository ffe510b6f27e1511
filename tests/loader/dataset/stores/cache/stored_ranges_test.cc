#include "loader/dataset/stores/cache/internal/stored_ranges.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "loader/dataset/stores/cache/internal/entry_format.h"

namespace isocost {
namespace {

using testing::ElementsAre;
using testing::FieldsAre;
using testing::IsEmpty;
using testing::SizeIs;

StoredRanges with(std::initializer_list<ByteRange> ranges) {
  StoredRanges stored;
  for (const ByteRange& range : ranges) stored.add({.range = range, .record = range.begin});
  return stored;
}

TEST(StoredRanges, CoverARangeByOneOrByNeighbours) {
  const StoredRanges stored = with({{0, 100}, {100, 150}, {200, 300}});
  EXPECT_THAT(stored.cover({20, 30}), SizeIs(1));
  EXPECT_THAT(stored.cover({20, 150}), SizeIs(2));
  EXPECT_THAT(stored.cover({20, 151}), IsEmpty());
  EXPECT_THAT(stored.cover({150, 200}), IsEmpty());
  EXPECT_THAT(stored.cover({200, 300}), SizeIs(1));
}

TEST(StoredRanges, AShortRangeWithinALongOneHidesNothing) {
  const StoredRanges stored = with({{0, 1000}, {100, 200}, {150, 160}});
  EXPECT_THAT(stored.cover({155, 900}), SizeIs(1));
  EXPECT_EQ(stored.bytes(), 1000);
}

TEST(StoredRanges, NameWhatIsMissing) {
  const StoredRanges stored = with({{10, 20}, {30, 40}});
  EXPECT_THAT(stored.missing({0, 50}),
              ElementsAre(FieldsAre(0, 10), FieldsAre(20, 30), FieldsAre(40, 50)));
  EXPECT_THAT(stored.missing({12, 18}), IsEmpty());
}

TEST(StoredRanges, ARemovedRangeIsMissingAndALaterOneOfItsPlaceStays) {
  StoredRanges stored = with({{0, 100}});
  stored.remove({.range = {0, 100}, .record = 7});  // another record of the range
  EXPECT_THAT(stored.cover({0, 100}), SizeIs(1));
  stored.remove({.range = {0, 100}, .record = 0});
  EXPECT_THAT(stored.cover({0, 100}), IsEmpty());
}

TEST(EntryFormat, AHeaderComesBackAndADamagedOneIsNone) {
  const CachedObject object{"s3://bucket/a.tar", {123'456, "\"tag\"", 17}};
  const std::string written = write_header(object).value();
  const auto header = read_header(written).value();
  EXPECT_EQ(header.object, object);
  EXPECT_EQ(header.bytes % 4096, 0);
  EXPECT_GE(header.records_begin(), header.bytes + 123'456);
  for (std::size_t i = 0; i < written.size(); i += 37) {
    std::string damaged = written;
    damaged[i] = static_cast<char>(damaged[i] ^ 1);
    EXPECT_FALSE(read_header(damaged)) << i;
  }
  EXPECT_FALSE(read_header(written.substr(0, 100)));
  EXPECT_FALSE(write_header({std::string(70'000, 'x'), {}}));
}

TEST(EntryFormat, ARecordComesBackAndADamagedOneIsNone) {
  const std::string written = write_record({{5, 10}, 42});
  ASSERT_EQ(written.size(), kRecordBytes);
  EXPECT_EQ(read_record(written, 10)->range.end, 10);
  EXPECT_FALSE(read_record(written, 9));  // beyond the object
  for (std::size_t i = 0; i < written.size(); ++i) {
    std::string damaged = written;
    damaged[i] = static_cast<char>(damaged[i] ^ 1);
    EXPECT_FALSE(read_record(damaged, 10)) << i;
  }
}

TEST(EntryFormat, AnotherNameSizeTagOrTimeIsAnotherEntry) {
  const CachedObject object{"s3://bucket/a.tar", {10, "\"tag\"", 17}};
  for (const CachedObject& other : {CachedObject{"s3://bucket/b.tar", {10, "\"tag\"", 17}},
                                    CachedObject{"s3://bucket/a.tar", {11, "\"tag\"", 17}},
                                    CachedObject{"s3://bucket/a.tar", {10, "\"gat\"", 17}},
                                    CachedObject{"s3://bucket/a.tar", {10, "\"tag\"", 18}}}) {
    EXPECT_NE(entry_name(object), entry_name(other));
  }
  EXPECT_TRUE(is_entry_name(entry_name(object)));
  EXPECT_TRUE(is_unfinished_name(entry_name(object) + "-new-1-2"));
  EXPECT_FALSE(is_entry_name(entry_name(object) + "-new-1-2"));
  EXPECT_FALSE(is_entry_name("isocost-cache"));
  EXPECT_FALSE(is_unfinished_name("isocost-cache"));
}

}  // namespace
}  // namespace isocost
