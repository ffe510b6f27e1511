#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/scratch_directory.h"
#include "loader/dataset/dataset.h"
#include "loader/dataset/index/index_format.h"
#include "loader/dataset/index/index_location.h"
#include "loader/dataset/index/internal/index_layout.h"
#include "tests/support/tar_files.h"

namespace isocost {
namespace {

namespace fs = std::filesystem;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

IndexContents some_contents() {
  IndexContents contents;
  contents.identity.stamp = {123456, 789};
  contents.identity.limits.max_pixels = 1000;
  contents.tar_bytes = 100000;
  PartShape image;
  image.modality = Modality::kImage;
  image.format = MediaFormat::kJpeg;
  image.orientation = 6;
  image.width = 640;
  image.height = 480;
  image.encoded_bytes = 5000;
  PartShape audio;
  audio.modality = Modality::kAudio;
  audio.format = MediaFormat::kOpus;
  audio.sample_rate = 48000;
  audio.channels = 2;
  audio.frames = std::int64_t{1} << 40;
  audio.encoded_bytes = 99;
  PartShape video;
  video.modality = Modality::kVideo;
  video.format = MediaFormat::kMp4;
  video.duration_us = 12'345'678;
  video.frames = 370;
  video.sample_rate = 30'000;
  video.channels = 1001;
  PartShape text;
  text.text_bytes = 77;
  contents.samples = {
      {"dir/a", 1.0F, {{"jpg", 512, image}, {"txt", 6144, text}}},
      {"gr\xC3\xBC\xC3\x9F", 0.25F, {{"0.opus", 7168, audio}, {"jpg", 8192, image}}, 15360, 40},
      {"c", 3.0F, {{"mp4", 20480, video}}}};
  contents.bad = {{"x", "png", "cut off"}, {"y", "", "no part"}};
  contents.archive = {.condition = ShardCondition::kDamaged,
                      .problem = "ends early",
                      .unread = "a second archive",
                      .has_end_mark = false,
                      .samples_when_whole = 12};
  contents.identity.reading = 17;
  contents.remarks = {{RemarkKind::kFormat, "jpg", "GIF", 12}, {RemarkKind::kJsonKey, "id", "", 3}};
  return contents;
}

// A shard of records: a file, a range of the shard's own file, and a part that is made.
IndexContents records_contents() {
  IndexContents contents = some_contents();
  contents.kind = ShardKind::kRecords;
  contents.form = 3;
  contents.identity.origin = 99;
  contents.content_hash = 5;
  contents.file_hash = 6;
  contents.files = {{"photos/a.jpg", {5000, 11}}, {"/data/m.mp4", {0, 12}}};
  IndexedSample& first = contents.samples[0];
  first.parts[0].offset = 0;
  first.parts[0].source = 1;
  first.parts[1].offset = 1;
  first.parts[1].source = kMade;
  first.record = {100, 200};
  first.json_offset = 101;
  first.json_bytes = 98;
  IndexedSample& second = contents.samples[1];
  second.json_source = kMade;
  second.json_offset = 2;
  IndexedSample& third = contents.samples[2];
  third.parts[0].source = 2;
  third.parts[0].offset = 0;
  return contents;
}

TEST(IndexFormat, GivesBackWhereThePartsOfRecordsLie) {
  const IndexContents contents = records_contents();
  const auto bytes = encode_index(contents);
  const auto view = IndexView::parse(bytes);
  ASSERT_TRUE(view.has_value()) << view.error().to_string();
  EXPECT_TRUE(same_identity(view->identity(), contents.identity));
  EXPECT_EQ(view->kind(), ShardKind::kRecords);
  EXPECT_EQ(view->form(), 3);
  EXPECT_EQ(view->content_hash(), 5U);
  EXPECT_EQ(view->file_identity().content_hash, 6U);
  EXPECT_EQ(view->file_identity().stamp, contents.identity.stamp);
  ASSERT_EQ(view->files(), 2U);
  EXPECT_EQ(view->file_path(1), "/data/m.mp4");
  EXPECT_EQ(view->file_stamp(0), contents.files[0].stamp);
  EXPECT_EQ(view->part_place(0).source, 1U);
  EXPECT_EQ(view->part_place(0).bytes, 5000);
  EXPECT_EQ(view->part_place(1).source, kMade);
  EXPECT_EQ(view->part_place(1).offset, 1);
  EXPECT_EQ(view->part_place(2).source, kInShard);
  EXPECT_EQ(view->record(0).begin, 100);
  EXPECT_EQ(view->record(0).end, 200);
  EXPECT_EQ(view->json_place(0).source, kInShard);
  EXPECT_EQ(view->json_place(0).offset, 101);
  EXPECT_EQ(view->json_place(1).source, kMade);
  EXPECT_EQ(view->problem(), "ends early");
  EXPECT_EQ(view->remark(1).name, "id");
}

TEST(IndexFormat, RefusesPartsOfFilesThatItDoesNotHave) {
  const auto refuses = [](auto change) {
    IndexContents contents = records_contents();
    change(contents);
    return !IndexView::parse(encode_index(contents)).has_value();
  };
  EXPECT_FALSE(refuses([](IndexContents&) {}));
  EXPECT_TRUE(refuses([](IndexContents& c) { c.samples[0].parts[0].source = 3; }));
  EXPECT_TRUE(refuses([](IndexContents& c) { c.samples[0].parts[0].offset = 1; }));
  EXPECT_TRUE(refuses([](IndexContents& c) { c.samples[0].parts[1].offset = -1; }));
  EXPECT_TRUE(refuses([](IndexContents& c) { c.files[0].stamp.bytes = 4999; }));
  EXPECT_TRUE(refuses([](IndexContents& c) { c.files[0].path.clear(); }));
  EXPECT_TRUE(refuses([](IndexContents& c) { c.files[0].path = std::string("a\0b", 3); }));
  EXPECT_TRUE(refuses([](IndexContents& c) { c.samples[1].json_source = 9; }));
  EXPECT_TRUE(refuses([](IndexContents& c) { c.samples[0].record.end = 100'001; }));
  EXPECT_TRUE(refuses([](IndexContents& c) { c.samples[0].record.end = 99; }));
  EXPECT_TRUE(refuses([](IndexContents& c) { c.form = 5; }));
  EXPECT_TRUE(refuses([](IndexContents& c) { c.kind = static_cast<ShardKind>(5); }));
  EXPECT_TRUE(refuses([](IndexContents& c) { c.kind = ShardKind::kTar; }));
}

TEST(IndexFormat, GivesBackWhatWasWritten) {
  const IndexContents contents = some_contents();
  const auto bytes = encode_index(contents);
  const auto view = IndexView::parse(bytes);
  ASSERT_TRUE(view.has_value()) << view.error().to_string();
  EXPECT_TRUE(same_identity(view->identity(), contents.identity));
  EXPECT_EQ(view->tar_bytes(), contents.tar_bytes);
  ASSERT_EQ(view->samples(), contents.samples.size());
  std::uint64_t part = 0;
  for (std::uint64_t i = 0; i < view->samples(); ++i) {
    const IndexedSample& sample = contents.samples[i];
    EXPECT_EQ(view->key(i), sample.key);
    EXPECT_EQ(view->weight(i), sample.weight);
    EXPECT_EQ(view->first_part(i), part);
    EXPECT_EQ(view->json_offset(i), sample.json_offset);
    EXPECT_EQ(view->json_bytes(i), sample.json_bytes);
    for (const IndexedPart& expected : sample.parts) {
      EXPECT_EQ(view->part_name(part), expected.name);
      EXPECT_EQ(view->part_offset(part), expected.offset);
      EXPECT_EQ(view->part_shape(part), expected.shape);
      ++part;
    }
  }
  EXPECT_EQ(view->parts(), part);
  ASSERT_EQ(view->bad(), 2U);
  EXPECT_EQ(view->bad_key(0), "x");
  EXPECT_EQ(view->bad_part(0), "png");
  EXPECT_EQ(view->bad_reason(0), "cut off");
  EXPECT_EQ(view->bad_key(1), "y");
  EXPECT_EQ(view->bad_reason(1), "no part");
  EXPECT_EQ(view->condition(), ShardCondition::kDamaged);
  EXPECT_EQ(view->problem(), "ends early");
  EXPECT_EQ(view->unread(), "a second archive");
  EXPECT_FALSE(view->has_end_mark());
  EXPECT_EQ(view->samples_when_whole(), 12U);
  ASSERT_EQ(view->remarks(), 2U);
  EXPECT_EQ(view->remark(0).kind, RemarkKind::kFormat);
  EXPECT_EQ(view->remark(0).name, "jpg");
  EXPECT_EQ(view->remark(0).detail, "GIF");
  EXPECT_EQ(view->remark(0).count, 12U);
  EXPECT_EQ(view->remark(1).kind, RemarkKind::kJsonKey);
  EXPECT_EQ(view->remark(1).count, 3U);
}

TEST(IndexFormat, OneContentGivesOneFile) {
  EXPECT_EQ(encode_index(some_contents()), encode_index(some_contents()));
}

TEST(IndexFormat, AnEmptyIndexIsWhole) {
  const auto bytes = encode_index(IndexContents{});
  EXPECT_EQ(IndexView::parse(bytes).value().samples(), 0U);
}

TEST(IndexFormat, EveryCutAndEveryFlippedByteIsNoticed) {
  const auto bytes = encode_index(records_contents());
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    EXPECT_FALSE(IndexView::parse(std::span(bytes).first(i)).has_value()) << i;
    auto flipped = bytes;
    flipped[i] ^= std::byte{0x10};
    EXPECT_FALSE(IndexView::parse(flipped).has_value()) << i;
  }
}

// The checksum finds accidents; what a hostile file says is checked one by one.
void expect_within(const PartPlace& place, const IndexView& view) {
  if (place.source == kMade) {
    EXPECT_LE(place.bytes, IndexView::kMaxMadeBytes);
  } else if (place.source == kInShard) {
    EXPECT_LE(place.offset + place.bytes, view.tar_bytes());
  } else {
    ASSERT_LE(place.source, view.files());
    EXPECT_EQ(place.bytes, view.file_stamp(place.source - 1).bytes);
  }
}

class HostileIndex : public testing::TestWithParam<IndexContents (*)()> {};
INSTANTIATE_TEST_SUITE_P(Kinds, HostileIndex, testing::Values(some_contents, records_contents));

TEST_P(HostileIndex, WithAGoodChecksumCannotLeadAstray) {
  const auto bytes = encode_index(GetParam()());
  std::size_t accepted = 0;
  for (std::size_t i = 16; i + 8 <= bytes.size(); i += 4) {
    for (const std::uint64_t value :
         {~std::uint64_t{0}, std::uint64_t{1} << 62, std::uint64_t{200}}) {
      auto changed = bytes;
      std::memcpy(changed.data() + i, &value, sizeof(value));
      const std::uint32_t crc = index_crc(changed);
      std::memcpy(changed.data() + offsetof(IndexHeader, crc), &crc, sizeof(crc));
      const auto view = IndexView::parse(changed);
      if (!view) continue;
      ++accepted;
      for (std::uint64_t s = 0; s < view->samples(); ++s) {
        EXPECT_LE(view->key(s).size(), bytes.size());
        expect_within(view->json_place(s), *view);
        EXPECT_LE(view->record(s).end, view->tar_bytes());
        for (std::uint64_t p = view->first_part(s); p < view->first_part(s + 1); ++p) {
          expect_within(view->part_place(p), *view);
          EXPECT_LE(view->part_name(p).size(), bytes.size());
        }
      }
    }
  }
  EXPECT_GT(accepted, 0U) << "a shape's numbers are free";
}

TEST(IndexDirectories, KeepShardsOfOneNameApart) {
  EXPECT_EQ(shard_root("train", "")->index_directories.front(), fs::path("train") / ".isocost");
  const auto train = shard_root("train", "indexes")->index_directories;
  const auto valid = shard_root("valid", "indexes")->index_directories;
  ASSERT_EQ(train.size(), 1U);
  EXPECT_NE(train, valid);
  EXPECT_EQ(train.front().parent_path(), "indexes");
}

class IndexReuse : public testing::Test {
 protected:
  IndexReuse() {
    options_.log = [this](LogLevel, std::string_view text) {
      const MutexLock lock(mutex_);
      log_.emplace_back(text);
    };
    write_shard({{"a.txt", "x"}, {"b.png", tiny_png(28, 28)}, {"bad.png", "no picture"}});
  }
  void write_shard(const std::vector<TarFile>& files) {
    write_file(shards() / "s.tar", make_tar(files));
  }
  fs::path shards() const { return scratch_ / "shards"; }
  fs::path index() const { return shards() / ".isocost" / "s.tar.idx"; }
  std::unique_ptr<Dataset> open() {
    log_.clear();
    return Dataset::open(shards(), options_).value();
  }

  ScratchDirectory scratch_ = ScratchDirectory::create("isocost-test").value();
  DatasetOptions options_;
  Mutex mutex_;
  std::vector<std::string> log_;
};

TEST_F(IndexReuse, AnIndexIsBuiltOnceAndUsedAgain) {
  const auto first = open();
  ASSERT_TRUE(fs::exists(index()));
  // A shard of the same size and time, but other bytes: whoever reads it would notice.
  const auto time = fs::last_write_time(shards() / "s.tar");
  const auto size = fs::file_size(shards() / "s.tar");
  write_file(shards() / "s.tar", std::string(size, 'z'));
  fs::last_write_time(shards() / "s.tar", time);
  const auto second = open();
  EXPECT_EQ(second->size(), 2U);
  EXPECT_EQ(second->fingerprint(), first->fingerprint());
  ASSERT_EQ(second->bad().size(), 1U);
  EXPECT_EQ(second->bad()[0].key, "bad");
  EXPECT_EQ(second->bad()[0].reason, first->bad()[0].reason);
  EXPECT_THAT(log_, IsEmpty());
}

TEST_F(IndexReuse, AChangedShardIsIndexedAgainAndThatIsSaid) {
  (void)open();
  write_shard({{"a.txt", "x"}, {"b.txt", "y"}, {"c.txt", "z"}});
  EXPECT_EQ(open()->size(), 3U);
  EXPECT_THAT(log_, Contains(HasSubstr("indexing again")));
  EXPECT_EQ(open()->size(), 3U);
  EXPECT_THAT(log_, IsEmpty());
}

TEST_F(IndexReuse, ATouchedShardIsIndexedAgain) {
  (void)open();
  fs::last_write_time(shards() / "s.tar",
                      fs::last_write_time(shards() / "s.tar") + std::chrono::seconds(1));
  EXPECT_EQ(open()->size(), 2U);
  EXPECT_THAT(log_, Contains(HasSubstr("indexing again")));
}

TEST_F(IndexReuse, OtherLimitsNeedAnotherIndex) {
  EXPECT_EQ(open()->size(), 2U);
  options_.limits.max_pixels = 100;
  EXPECT_EQ(open()->size(), 1U);
  EXPECT_THAT(log_, Contains(HasSubstr("indexing again")));
}

TEST_F(IndexReuse, ABrokenIndexIsBuiltAgain) {
  (void)open();
  const std::string good = read_file(index());
  std::string flipped = good;
  flipped[good.size() / 2] = static_cast<char>(flipped[good.size() / 2] ^ 1);
  for (const std::string& broken :
       {std::string(), std::string("junk"), good.substr(0, good.size() - 3), flipped}) {
    write_file(index(), broken);
    EXPECT_EQ(open()->size(), 2U);
    EXPECT_THAT(log_, Contains(HasSubstr("indexing again")));
    EXPECT_EQ(read_file(index()), good);
  }
}

// It remembers, through other limits and a second cut, how many samples the shard had.
TEST_F(IndexReuse, AnIndexRemembersHowManySamplesAShardHadUntilItIsWholeAgain) {
  const std::string whole =
      make_tar({{"a.txt", "x"}, {"b.png", tiny_png(28, 28)}, {"bad.png", "no picture"}}, "ustar");
  write_file(shards() / "s.tar", whole);
  EXPECT_TRUE(open()->findings().broken.empty());
  const auto broken = [&](const std::string& bytes) {
    write_file(shards() / "s.tar", bytes);
    const auto dataset = open();
    EXPECT_EQ(dataset->findings().broken.size(), 1U);
    return dataset->findings().broken.empty() ? BrokenShard{} : dataset->findings().broken[0];
  };
  for (int again = 0; again < 2; ++again) {
    const BrokenShard cut = broken(whole.substr(0, 1550));
    EXPECT_FALSE(cut.lost);
    EXPECT_EQ(cut.samples, 1U);
    EXPECT_EQ(cut.samples_when_whole, 3U);
    options_.limits.max_pixels = 100'000;
  }
  const BrokenShard lost = broken("");
  EXPECT_TRUE(lost.lost);
  EXPECT_EQ(lost.samples_when_whole, 3U);
  EXPECT_THAT(describe(lost), HasSubstr("; 0 of the 3 samples that it had when it was whole"));
  // A cut between two samples is a missing end mark only if no sample is missing.
  EXPECT_EQ(broken(whole.substr(0, 1024)).samples, 1U);
  write_shard({{"a.txt", "x"}});
  EXPECT_TRUE(open()->findings().broken.empty());
  EXPECT_EQ(broken("").samples_when_whole, 1U);
}

TEST_F(IndexReuse, AnIndexDirectoryIsUsedInstead) {
  options_.index_dir = scratch_ / "indexes";
  EXPECT_EQ(open()->size(), 2U);
  EXPECT_FALSE(fs::exists(index()));
  EXPECT_FALSE(fs::is_empty(scratch_ / "indexes"));
  EXPECT_EQ(open()->size(), 2U);
  EXPECT_THAT(log_, IsEmpty());
}

// A file in the directory's place refuses writing even to root, as a read-only disk would.
TEST_F(IndexReuse, WhereTheShardsCannotBeWrittenBesideTheUsersCacheServes) {
  write_file(shards() / ".isocost", "in the way");
  const std::string cache = (scratch_ / "cache").string();
  ASSERT_EQ(setenv("XDG_CACHE_HOME", cache.c_str(), 1), 0);
  EXPECT_EQ(open()->size(), 2U);
  EXPECT_TRUE(fs::exists(scratch_ / "cache" / "isocost"));
  EXPECT_EQ(open()->size(), 2U);
  EXPECT_THAT(log_, Not(Contains(HasSubstr("memory"))));
  unsetenv("XDG_CACHE_HOME");
}

TEST_F(IndexReuse, WhereNothingCanBeWrittenTheIndexIsKeptInMemory) {
  write_file(scratch_ / "file", "in the way");
  options_.index_dir = scratch_ / "file";
  EXPECT_EQ(open()->size(), 2U);
  EXPECT_THAT(log_, Contains(HasSubstr("index_dir")));
}

// docs/compatibility.md: the indexes that 0.1 wrote. An index is aligned.
std::vector<std::uint64_t> kept_index(const char* name) {
  const std::string bytes =
      read_file(fs::path(ISOCOST_SOURCE_DIR) / "tests/compatibility/0.1" / name);
  EXPECT_EQ(bytes.size() % 8, 0U);
  std::vector<std::uint64_t> aligned(bytes.size() / 8);
  std::memcpy(aligned.data(), bytes.data(), bytes.size());
  return aligned;
}

TEST(IndexFormat, OfRecordsIsReadAs0_1WroteIt) {
  const auto bytes = kept_index("records.idx");
  const auto index = IndexView::parse(std::as_bytes(std::span(bytes)));
  ASSERT_TRUE(index) << index.error().to_string();
  EXPECT_EQ(index->kind(), ShardKind::kRecords);
  EXPECT_EQ(index->form(), 4);
  ASSERT_EQ(index->samples(), 3U);
  ASSERT_EQ(index->files(), 3U);
  EXPECT_EQ(index->file_path(1), "images/a.jpg");
  const PartPlace picture = index->part_place(index->first_part(1));
  EXPECT_EQ(picture.source, 2U);
  EXPECT_EQ(picture.bytes, index->file_stamp(1).bytes);
  const PartPlace caption = index->part_place(index->first_part(0) + 1);
  EXPECT_EQ(caption.source, kMade);
  EXPECT_EQ(caption.offset, 1);
  EXPECT_EQ(index->json_place(0).source, kMade);
  EXPECT_EQ(index->json_bytes(1), 0);
  ASSERT_EQ(index->bad(), 1U);
  EXPECT_THAT(std::string(index->bad_reason(0)), HasSubstr("metadata.jsonl:4: "));
}

TEST(IndexFormat, IsReadAs0_1WroteIt) {
  const auto bytes = kept_index("shard.idx");
  const auto index = IndexView::parse(std::as_bytes(std::span(bytes)));
  ASSERT_TRUE(index) << index.error().to_string();
  ASSERT_EQ(index->samples(), 7U);
  EXPECT_EQ(index->key(3), "3");
  EXPECT_EQ(index->part_name(index->first_part(3)), "png");
  const PartShape picture = index->part_shape(index->first_part(3));
  EXPECT_EQ(picture.modality, Modality::kImage);
  EXPECT_EQ(picture.width, 64);
  EXPECT_EQ(picture.height, 48);
  ASSERT_EQ(index->bad(), 1U);
  EXPECT_EQ(index->bad_key(0), "7");
}

}  // namespace
}  // namespace isocost
