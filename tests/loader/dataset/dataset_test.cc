#include "loader/dataset/dataset.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/scratch_directory.h"
#include "loader/dataset/bad_samples.h"
#include "tests/support/tar_files.h"

namespace {

isocost::Mutex advice_mutex;
std::vector<std::pair<off_t, off_t>> advice ISOCOST_GUARDED_BY(advice_mutex);

}  // namespace

// Instead of the C library's, in this program.
extern "C" int posix_fadvise(int /*file*/, off_t offset, off_t length, int /*what*/) noexcept {
  const isocost::MutexLock lock(advice_mutex);
  advice.emplace_back(offset, length);
  return 0;
}

namespace isocost {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

class DatasetTest : public testing::Test {
 protected:
  std::unique_ptr<Dataset> open() {
    auto dataset = Dataset::open(shards(), options_);
    EXPECT_TRUE(dataset.has_value()) << (dataset ? "" : dataset.error().to_string());
    return dataset ? *std::move(dataset) : nullptr;
  }
  std::filesystem::path shards() const { return scratch_ / "shards"; }
  void write(const std::string& name, const std::vector<TarFile>& files) {
    write_file(shards() / name, make_tar(files));
  }
  // The one bad sample of a data set; fails if there is another number of them.
  BadSample only_bad() {
    const auto dataset = open();
    EXPECT_EQ(dataset->bad().size(), 1U);
    return dataset->bad().empty() ? BadSample{} : dataset->bad().front();
  }

  BrokenShard only_broken() {
    const auto dataset = open();
    EXPECT_EQ(dataset->findings().broken.size(), 1U);
    return dataset->findings().broken.empty() ? BrokenShard{} : dataset->findings().broken.front();
  }

  ScratchDirectory scratch_ = ScratchDirectory::create("isocost-test").value();
  DatasetOptions options_;
};

std::vector<std::string> keys_of(const Dataset& dataset) {
  std::vector<std::string> keys;
  for (SampleId id = 0; id < dataset.size(); ++id) keys.emplace_back(dataset.key(id));
  return keys;
}

std::string bytes_of(const Result<std::unique_ptr<ByteSource>>& source) {
  EXPECT_TRUE(source.has_value()) << (source ? "" : source.error().to_string());
  if (!source) return "";
  std::string bytes(static_cast<std::size_t>((*source)->size()), '\0');
  const auto read = (*source)->read_at(0, std::as_writable_bytes(std::span(bytes)));
  EXPECT_EQ(read.value(), bytes.size());
  return bytes;
}

std::string bytes_of(const Dataset& dataset, SampleId id, std::size_t part) {
  return bytes_of(dataset.open_part(id, part));
}

TEST_F(DatasetTest, GroupsMembersByTheWebDatasetConvention) {
  write("a.tar", {{"dir/one.jpg.txt", "x"},
                  {"dir/two.0.png", tiny_png(30, 20)},
                  {"dir/two.caption.txt", "hello"},
                  {"dir/two.1.wav", tiny_wav(1600)},
                  {"three.txt", "last"}});
  const auto dataset = open();
  EXPECT_THAT(keys_of(*dataset), ElementsAre("dir/one", "dir/two", "three"));
  const SampleShape shape = dataset->shape(1);
  ASSERT_EQ(shape.parts.size(), 3U);
  EXPECT_EQ(dataset->part_name(1, 0), "0.png");
  EXPECT_EQ(dataset->part_name(1, 1), "caption.txt");
  EXPECT_EQ(shape.parts[0].modality, Modality::kImage);
  EXPECT_EQ(shape.parts[0].width, 30);
  EXPECT_EQ(shape.parts[0].height, 20);
  EXPECT_EQ(shape.parts[1].text_bytes, 5);
  EXPECT_EQ(shape.parts[2].frames, 1600);
  EXPECT_EQ(bytes_of(*dataset, 1, 0), tiny_png(30, 20));
  EXPECT_EQ(bytes_of(*dataset, 1, 1), "hello");
  EXPECT_EQ(bytes_of(*dataset, 2, 0), "last");
  EXPECT_EQ(dataset->shard(2), "a.tar");
  EXPECT_TRUE(dataset->bad().empty());
}

TEST_F(DatasetTest, NumbersSamplesInTheOrderOfShardNamesForAnyNumberOfWorkers) {
  for (int s = 7; s >= 0; --s) {
    const std::string shard = std::to_string(s);
    write(shard + (s % 2 == 0 ? ".tar" : ".x.tar"),
          {{shard + "a.txt", "a" + shard}, {shard + "b.txt", "b" + shard}});
  }
  write_file(shards() / "8.tgz", gzip(make_tar({{"8a.txt", "a8"}})));
  write_file(shards() / "9.tar.zst", zstd(make_tar({{"9a.txt", "a9"}})));
  write_file(shards() / "notes.txt", "no shard");
  write_file(shards() / ".hidden.tar", "no shard");
  options_.workers = 1;
  const auto one = open();
  std::filesystem::remove_all(shards() / ".isocost");
  options_.workers = 8;
  const auto eight = open();
  ASSERT_EQ(one->size(), 18U);
  EXPECT_EQ(one->shards(), 10U);
  EXPECT_EQ(keys_of(*one), keys_of(*eight));
  EXPECT_EQ(one->fingerprint(), eight->fingerprint());
  for (SampleId id = 0; id < one->size(); ++id) {
    const std::string key(one->key(id));
    EXPECT_EQ(bytes_of(*one, id, 0), key.substr(1) + key.substr(0, 1));
    one->read_ahead(id, {});
  }
  write("0.tar", {{"0a.txt", "a0"}, {"0c.txt", "c0"}});
  EXPECT_NE(open()->fingerprint(), one->fingerprint());
}

// Returns the pieces that were asked of the operating system since the last call: the offset and
// length of each.
std::vector<std::pair<off_t, off_t>> taken_advice() {
  const MutexLock lock(advice_mutex);
  return std::exchange(advice, {});
}

TEST_F(DatasetTest, AWholeSampleIsReadAheadInPieces) {
  constexpr std::int64_t kBytes = 300'000;
  write("a.tar", {{"a.txt", std::string(kBytes, 'a')},
                  {"b.txt", std::string(kBytes, 'b')},
                  {"b.json", R"({"label": 1})"}});
  const auto dataset = open();
  EXPECT_EQ(bytes_of(*dataset, 1, 0).size(), kBytes);  // the shard is open now
  taken_advice();
  dataset->read_ahead(1, {});
  std::int64_t bytes = 0;
  off_t next = 0;
  for (const auto& [offset, length] : taken_advice()) {
    EXPECT_LE(length, 128 << 10);
    if (next != 0) {
      EXPECT_EQ(offset, next);  // the JSON follows the text
    }
    next = offset + length;
    bytes += length;
  }
  EXPECT_EQ(bytes, dataset->read_ahead_bytes(1));
  EXPECT_GT(bytes, kBytes);
  EXPECT_LT(bytes, kBytes + 4096);
}

TEST_F(DatasetTest, OfALargePartTheBeginningIsReadAhead) {
  write("a.tar", {{"a.wav", tiny_wav(17 << 20)}});
  EXPECT_EQ(open()->read_ahead_bytes(0), std::int64_t{32} << 20);
}

// Whatever its name.
TEST_F(DatasetTest, OfACompressedShardNothingIsReadAhead) {
  write_file(shards() / "a.tgz", gzip(make_tar({{"a.txt", "text"}})));
  write_file(shards() / "b.tar", gzip(make_tar({{"b.txt", "text"}})));
  write_file(shards() / "c.tar.zst", zstd(make_tar({{"c.txt", "text"}})));
  const auto dataset = open();
  for (SampleId id = 0; id < 3; ++id) EXPECT_EQ(dataset->read_ahead_bytes(id), 0);
}

TEST_F(DatasetTest, JsonWeighsTheSampleAndIsAPartOnlyWithText) {
  write("a.tar", {{"plain.png", tiny_png(28, 28)},
                  {"plain.json", R"({"weight": 2.5, "label": 7})"},
                  {"told.json", R"({"text": "seen"})"}});
  const auto dataset = open();
  ASSERT_EQ(dataset->size(), 2U);
  EXPECT_EQ(dataset->shape(0).weight, 2.5F);
  EXPECT_EQ(dataset->shape(0).parts.size(), 1U);
  const SampleShape told = dataset->shape(1);
  ASSERT_EQ(told.parts.size(), 1U);
  // The index describes a JSON part as a probe does.
  const std::string json = R"({"text": "seen"})";
  const MemoryByteSource source(std::as_bytes(std::span(json)));
  EXPECT_EQ(probe(source, "json", ProbeLimits{}).value(), told.parts[0]);
}

// Whether or not a model sees it.
TEST_F(DatasetTest, TheJsonPartIsKept) {
  write("a.tar", {{"plain.png", tiny_png(28, 28)},
                  {"plain.json", R"({"label": 7})"},
                  {"told.json", R"({"text": "seen"})"},
                  {"without.txt", "no JSON"}});
  const auto dataset = open();
  ASSERT_EQ(dataset->size(), 3U);
  EXPECT_EQ(bytes_of(dataset->open_json(0)), R"({"label": 7})");
  EXPECT_EQ(bytes_of(dataset->open_json(1)), R"({"text": "seen"})");
  EXPECT_EQ(dataset->open_json(2).value(), nullptr);
  dataset->read_ahead(0, {});
}

TEST_F(DatasetTest, OfJsonOnlyThePartWithThatNameIsRead) {
  write("a.tar", {{"a.0.json", "{broken"},
                  {"a.json", R"({"text": "seen", "weight": 2})"},
                  {"a.meta.json", R"({"text": "other", "weight": 3})"},
                  {"b.txt", "x"},
                  {"b.JSON", R"({"weight": 0.5})"},
                  {"b.json", "{broken"},
                  {"c.txt", "x"},
                  {"c.meta.json", ""}});
  const auto dataset = open();
  EXPECT_TRUE(dataset->bad().empty());
  ASSERT_THAT(keys_of(*dataset), ElementsAre("a", "b", "c"));
  EXPECT_EQ(dataset->shape(0).parts.size(), 1U);
  EXPECT_EQ(dataset->shape(0).weight, 2.0F);
  EXPECT_EQ(bytes_of(dataset->open_json(0)), R"({"text": "seen", "weight": 2})");
  EXPECT_EQ(dataset->shape(1).weight, 0.5F);
  EXPECT_EQ(
      describe_unread(dataset->remarks()),
      "no model sees 1 part '0.json', 1 part 'json', 2 parts 'meta.json'; docs/formats.md says "
      "what is read");
}

// Captions are often in a text part and in the JSON: img2dataset writes both.
TEST_F(DatasetTest, ATextPartGoesBeforeTheTextOfTheJson) {
  write("a.tar", {{"a.json", R"({"text": "from json", "weight": 2})"},
                  {"a.txt", "from txt"},
                  {"b.txt", "from txt"},
                  {"b.json", R"({"text": null})"},
                  {"c.txt", "from txt"},
                  {"c.json", R"({"text": ""})"}});
  const auto dataset = open();
  ASSERT_EQ(dataset->size(), 3U);
  for (SampleId id = 0; id < 3; ++id) {
    ASSERT_EQ(dataset->shape(id).parts.size(), 1U) << id;
    EXPECT_EQ(bytes_of(*dataset, id, 0), "from txt");
  }
  EXPECT_EQ(dataset->shape(0).weight, 2.0F);
  EXPECT_EQ(describe_unread(dataset->remarks()),
            "no model sees 'text' beside a text part in the JSON of 1 sample; docs/formats.md says "
            "what is read");
}

TEST_F(DatasetTest, RemarksBeyondAThousandAreCountedAsOthers) {
  for (int shard = 0; shard < 3; ++shard) {
    const std::string name = std::to_string(shard);
    std::vector<TarFile> files = {{name + "-png.png", tiny_png(28, 28)}};
    for (int sample = 0; sample < 6; ++sample) {
      const std::string key = name + "-" + std::to_string(sample);
      std::string json = R"({"text": "x")";
      for (int i = 0; i < 100; ++i) json += ", \"" + key + "-" + std::to_string(i) + "\": 1";
      files.push_back({key + ".json", json + "}"});
    }
    write(name + ".tar", files);
  }
  write("3.tar", {{"3.tiff", tiny_png(28, 28)}, {"4.wav", tiny_wav(1600)}});
  const auto dataset = open();
  std::uint64_t keys = 0;
  std::uint64_t others = 0;
  for (const Remark& remark : dataset->remarks()) {
    if (remark.kind == "format") {
      EXPECT_EQ(remark.name, "others");  // the .tiff; the .wav is no finding
      EXPECT_EQ(remark.detail, "PNG");
      EXPECT_EQ(remark.count, 1U);
      continue;
    }
    ++keys;
    if (remark.name == "others") others = remark.count;
  }
  EXPECT_EQ(keys, 1000U);  // one place is taken by the format of .png; others count, too
  EXPECT_EQ(others, 801U);
}

TEST_F(DatasetTest, AByteOrderMarkIsNoPartOfAText) {
  write("a.tar",
        {{"a.txt", "\xEF\xBB\xBFhello\r\nworld\r\n"}, {"b.json", "\xEF\xBB\xBF{\"text\": \"b\"}"}});
  const auto dataset = open();
  ASSERT_EQ(dataset->size(), 2U);
  EXPECT_EQ(dataset->shape(0).parts[0].text_bytes, 14);
  EXPECT_EQ(dataset->shape(1).parts[0].text_bytes, 1);
}

TEST_F(DatasetTest, TextOfAnotherEncodingIsNamed) {
  using std::string_literals::operator""s;
  write("a.tar", {{"a.txt", "\xFF\xFEh\0e\0l\0l\0o\0"s},
                  {"b.txt", "h\0e\0l\0l\0o\0"s},
                  {"c.json", "\0{\0}"s},
                  {"d.txt", "\xFF\xFE\0\0h\0\0\0"s},
                  {"e.txt", "nul\0inside"s}});
  const auto dataset = open();
  EXPECT_THAT(keys_of(*dataset), ElementsAre("e"));
  ASSERT_EQ(dataset->bad().size(), 4U);
  for (const std::size_t i : {0U, 1U}) {
    EXPECT_EQ(dataset->bad()[i].reason, "is UTF-16 text, not UTF-8 text as its name says");
  }
  EXPECT_EQ(dataset->bad()[2].reason, "is UTF-16 text, not JSON as its name says");
  EXPECT_EQ(dataset->bad()[3].reason, "is UTF-32 text, not UTF-8 text as its name says");
}

TEST_F(DatasetTest, AJsonThatIsBrokenMakesItsSampleBad) {
  write("a.tar", {{"a.png", tiny_png(28, 28)}, {"a.json", R"({"weight": -1})"}});
  const BadSample bad = only_bad();
  EXPECT_EQ(bad.shard, "a.tar");
  EXPECT_EQ(bad.key, "a");
  EXPECT_EQ(bad.part, "json");
  EXPECT_THAT(bad.reason, HasSubstr("weight"));
}

TEST_F(DatasetTest, JsonBeyondItsLimitIsRefusedUnread) {
  options_.limits.max_json_bytes = 10;
  write("a.tar", {{"a.json", R"({"text": "longer than that"})"}});
  EXPECT_THAT(only_bad().reason, HasSubstr("limit of 10"));
}

TEST_F(DatasetTest, SamplesWithoutAPartForAModelAreBad) {
  write("a.tar", {{"a.json", "{}"}, {"b.xyz", "?"}, {"c.txt", "good"}});
  const auto dataset = open();
  EXPECT_THAT(keys_of(*dataset), ElementsAre("c"));
  ASSERT_EQ(dataset->bad().size(), 2U);
  EXPECT_THAT(dataset->bad()[0].reason, HasSubstr("only JSON"));
  EXPECT_THAT(dataset->bad()[1].reason, HasSubstr("no part that Isocost reads"));
}

TEST_F(DatasetTest, AMediumOfAFormatThatIsNotReadMakesItsSampleBad) {
  std::vector<TarFile> files;
  const std::vector<std::string> extensions = {"jxl", "heic", "tiff", "tif", "avif", "jp2", "ts",
                                               "flv", "wmv",  "mpg",  "ogv", "3gp",  "m4a", "aac",
                                               "wma", "aiff", "caf",  "mka", "JXL"};
  for (const std::string& extension : extensions) {
    files.push_back({extension + "." + extension, "no medium at all"});
    files.push_back({extension + ".txt", "a caption"});
  }
  files.push_back({"z.jxl", "\xFF\x0A" + std::string(20, ' ')});
  files.push_back({"z.txt", "a caption"});
  write("a.tar", files);
  const auto dataset = open();
  EXPECT_EQ(dataset->size(), 0U);
  ASSERT_EQ(dataset->bad().size(), extensions.size() + 1);
  EXPECT_EQ(dataset->bad()[0].reason,
            "begins as no format that is read: convert it, or leave such parts out with "
            "--ignore-parts jxl");
  EXPECT_EQ(
      dataset->bad().back().reason,
      "is JPEG XL, which is not read: convert it, or leave such parts out with --ignore-parts "
      "jxl");
}

TEST_F(DatasetTest, TheContentOfAMediumCountsAndNotItsName) {
  write("a.tar", {{"a.tiff", tiny_png(28, 28)},
                  {"b.jpg", tiny_png(28, 28)},
                  {"c.jpg", tiny_png(28, 28)},
                  {"d.png", tiny_png(28, 28)},
                  {"e.mp3", tiny_wav(1600)}});
  write("b.tar", {{"f.0.JPG", tiny_png(28, 28)}});
  const auto dataset = open();
  EXPECT_EQ(dataset->size(), 6U);
  EXPECT_EQ(describe_unread(dataset->remarks()), "");
  std::vector<std::string> lines;
  log_remarks(dataset->remarks(), "data", [&](LogLevel level, std::string_view text) {
    EXPECT_EQ(level, LogLevel::kInfo);
    lines.emplace_back(text);
  });
  EXPECT_THAT(lines, ElementsAre("data: 3 of 3 .jpg are PNG, 1 of 1 .mp3 are WAV, 1 of 1 .tiff are "
                                 "PNG; media are read by their content"));
}

TEST_F(DatasetTest, IgnoredPartsAreLeftOut) {
  write("a.tar", {{"a.avif", "not read"}, {"a.txt", "x"}, {"a.seg.png", tiny_png(28, 28)}});
  EXPECT_EQ(only_bad().part, "avif");
  options_.reading.ignore_parts = "AVIF,.seg.png";
  const auto dataset = open();
  EXPECT_TRUE(dataset->bad().empty());
  ASSERT_EQ(dataset->size(), 1U);
  ASSERT_EQ(dataset->shape(0).parts.size(), 1U);
  EXPECT_EQ(bytes_of(*dataset, 0, 0), "x");
  const std::uint64_t fingerprint = dataset->fingerprint();
  options_.reading.ignore_parts = "seg.png,avif,avif";
  EXPECT_EQ(open()->fingerprint(), fingerprint);
  options_.reading.ignore_parts = "avif";
  const auto with_picture = open();
  ASSERT_EQ(with_picture->size(), 1U);
  EXPECT_EQ(with_picture->shape(0).parts.size(), 2U);
  EXPECT_NE(with_picture->fingerprint(), fingerprint);
  for (const char* wrong : {",", "a,,b", "a b", "a/b"}) {
    options_.reading.ignore_parts = wrong;
    EXPECT_EQ(Dataset::open(shards(), options_).error().code(), ErrorCode::kInvalidArgument);
  }
}

TEST_F(DatasetTest, AnotherKeyOfTheJsonMayHoldTheWeight) {
  write("a.tar", {{"a.json", R"({"text": "x", "weight": "12.5 kg", "scale": 2})"},
                  {"b.json", R"({"text": "x", "weight": 0.5, "scale": 0})"},
                  {"c.json", R"({"text": "x", "weight": 1})"}});
  EXPECT_EQ(only_bad().reason, "its JSON has a 'weight' that is no number");
  options_.reading.weight_key = "scale";
  auto dataset = open();
  ASSERT_EQ(dataset->size(), 3U);
  EXPECT_EQ(dataset->shape(0).weight, 2.0F);
  EXPECT_EQ(dataset->shape(1).weight, 0.0F);
  EXPECT_EQ(dataset->shape(2).weight, 1.0F);
  EXPECT_EQ(dataset->weighted().count, 1U);
  EXPECT_EQ(dataset->weighted().first, 0U);
  EXPECT_EQ(dataset->weighted().weight, 2.0F);
  ASSERT_EQ(dataset->remarks().size(), 1U);
  EXPECT_EQ(dataset->remarks()[0].name, "weight");
  const std::uint64_t fingerprint = dataset->fingerprint();

  options_.reading.weight_key = "";
  dataset = open();
  EXPECT_EQ(dataset->shape(0).weight, 1.0F);
  EXPECT_EQ(dataset->weighted().count, 0U);
  EXPECT_NE(dataset->fingerprint(), fingerprint);

  for (const char* wrong : {"text", "messages", "id", "a\nb"}) {
    options_.reading.weight_key = wrong;
    EXPECT_EQ(Dataset::open(shards(), options_).error().code(), ErrorCode::kInvalidArgument);
  }
}

TEST_F(DatasetTest, WhatNoModelSeesIsNamedOnceAtEachStart) {
  std::vector<std::string> lines;
  Mutex mutex;
  options_.log = [&](LogLevel level, std::string_view text) {
    const MutexLock lock(mutex);
    if (level == LogLevel::kWarning) lines.emplace_back(text);
  };
  write("a.tar", {{"a.txt", "x"},
                  {"a.cls", "1"},
                  {"b.txt", "x"},
                  {"b.cls", "2"},
                  {"b.json", R"({"score": 1, "url": null, "weight": 1})"},
                  {"README", "?"},
                  {"__meta__", "?"},
                  {"__meta__/c.txt", "?"}});
  write("b.tar", {{"c.txt", "x"},
                  {"c.cls", "1"},
                  {"c.json", R"({"score": NaN})"},
                  {"d.json", R"({"messages": [], "tools": [], "id": "4", "image": "d"})"},
                  {"d.caption", "x"},
                  {"e.json", R"({"image": "e.png"})"},
                  {"e.png", tiny_png(28, 28)}});
  for (int start = 0; start < 2; ++start) {  // the second one reads the indexes
    lines.clear();
    EXPECT_EQ(open()->size(), 5U);
    EXPECT_THAT(
        lines,
        ElementsAre(shards().string() +
                    ": no model sees 2 parts '__meta__' (metadata of WebDataset), 1 part 'caption' "
                    "beside a conversation, 3 parts 'cls', 1 "
                    "part 'without an extension', 'image' in the JSON of 1 sample, 'score' in "
                    "the JSON of 2 samples; docs/formats.md says what is read"));
  }
  options_.log_remarks = false;
  lines.clear();
  open();
  EXPECT_TRUE(lines.empty());
}

TEST_F(DatasetTest, AKeyThatRepeatsInItsShardIsBadWhereItComesLater) {
  write("a.tar", {{"k.txt", "first"}, {"other.txt", "x"}, {"k.png", tiny_png(28, 28)}});
  write("b.tar", {{"k.txt", "third"}, {"other.txt", "y"}});
  const auto dataset = open();
  EXPECT_THAT(keys_of(*dataset), ElementsAre("k", "other", "k", "other"));
  EXPECT_EQ(bytes_of(*dataset, 0, 0), "first");
  EXPECT_EQ(bytes_of(*dataset, 2, 0), "third") << "another shard may have the key, too";
  ASSERT_EQ(dataset->bad().size(), 1U);
  EXPECT_THAT(describe(dataset->bad()[0]), testing::StartsWith("a.tar/k: the key 'k' occurs"));
}

TEST_F(DatasetTest, APartNameThatRepeatsMakesTheSampleBad) {
  write("a.tar", {{"a.txt", "x"}, {"a.txt", "y"}, {"b.txt", "good"}});
  const auto dataset = open();
  EXPECT_THAT(keys_of(*dataset), ElementsAre("b"));
  EXPECT_EQ(only_bad().part, "txt");
  EXPECT_THAT(only_bad().reason, HasSubstr("twice"));
}

// The keys are those of webdataset, whose strings have surrogates for bytes that are not UTF-8.
TEST_F(DatasetTest, KeysAreReadAsWebdatasetReadsThem) {
  write("a.tar", {{"../a.txt", "x"},
                  {"/b.txt", "x"},
                  {"c/../d.txt", "x"},
                  {"..", "x"},
                  {"tab\tkey.0.txt", "x"},
                  {"caf\xE9.txt", "x"},
                  {"/data/e.txt", "x"}});
  const auto dataset = open();
  EXPECT_THAT(keys_of(*dataset),
              ElementsAre("../a", "/b", "c/../d", "tab\tkey", "caf\xE9", "/data/e"));
  EXPECT_TRUE(dataset->bad().empty());
  EXPECT_EQ(describe({"a.tar", "tab\tkey", "\x1B.txt", "bad", false}), "a.tar/tab?key.?.txt: bad");
}

TEST_F(DatasetTest, BrokenMediaIsBadWithPartAndReason) {
  std::string wrong = tiny_png(28, 28);
  write("a.tar",
        {{"zero.png", ""},
         {"cut.png", wrong.substr(0, 20)},
         {"named.jpg", wrong},
         {"silent.wav", tiny_wav(0)},
         {"text.txt", "\xFF\xFE"},
         {"huge.png", tiny_png(28, 28).replace(16, 8, "\x00\x00\xEA\x60\x00\x00\xEA\x60", 8)},
         {"good.png", wrong}});
  const auto dataset = open();
  std::map<std::string, std::string> reasons;
  for (const BadSample& bad : dataset->bad()) {
    reasons[bad.key] = bad.reason;
    EXPECT_FALSE(bad.reason.empty()) << bad.key;
    EXPECT_FALSE(bad.part.empty()) << bad.key;
  }
  for (const char* key : {"zero", "cut", "silent", "text", "huge"}) {
    EXPECT_TRUE(reasons.contains(key)) << key;
  }
  // A PNG that is named .jpg is a PNG.
  EXPECT_THAT(keys_of(*dataset), ElementsAre("named", "good"));
  EXPECT_EQ(dataset->shape(0).parts[0].format, MediaFormat::kPng);
}

TEST_F(DatasetTest, ATruncatedShardKeepsTheSamplesBeforeTheCut) {
  const std::string tar = make_tar({{"a.txt", "one"},
                                    {"b.txt", "two"},
                                    {"c.png", tiny_png(28, 28)},
                                    {"c.txt", std::string(3000, 'x')}},
                                   "ustar");
  write_file(shards() / "a.tar", tar.substr(0, 4 * 1024));
  const auto dataset = open();
  EXPECT_THAT(keys_of(*dataset), ElementsAre("a", "b"));
  EXPECT_TRUE(dataset->bad().empty()) << "the cut sample is counted with its shard";
  const BrokenShard broken = only_broken();
  EXPECT_FALSE(broken.lost);
  EXPECT_EQ(broken.samples, 2U);
  EXPECT_THAT(broken.reason, HasSubstr("of its 3000 bytes"));
  EXPECT_THAT(broken.reason, HasSubstr("copy the shard again"));
}

TEST_F(DatasetTest, ABadPartBeforeTheCutDoesNotHideTheCut) {
  const std::string tar = make_tar(
      {{"a.txt", "one"}, {"b.png", "no picture"}, {"b.txt", std::string(3000, 'x')}}, "ustar");
  write_file(shards() / "a.tar", tar.substr(0, 4 * 1024));
  const auto dataset = open();
  EXPECT_TRUE(dataset->bad().empty()) << "the sample is cut, too";
  EXPECT_EQ(only_broken().samples, 1U);
  EXPECT_THAT(only_broken().reason, HasSubstr("copy the shard again"));
}

// They are whole, and so is the shard, though no sample of it can be used.
TEST_F(DatasetTest, SamplesThatCannotBeReadMakeNoShardBroken) {
  write("a.tar", {{"a.png", "no picture"}, {"b.png", "neither"}});
  const auto dataset = open();
  EXPECT_EQ(dataset->bad().size(), 2U);
  EXPECT_TRUE(dataset->findings().broken.empty());
}

TEST_F(DatasetTest, ABrokenShardWithoutAWholeSampleIsLost) {
  const std::string tar = make_tar({{"a.txt", std::string(3000, 'x')}}, "ustar");
  write_file(shards() / "a.tar", tar.substr(0, 2000));
  EXPECT_TRUE(only_broken().lost);
}

TEST_F(DatasetTest, AHeaderThatIsWrongDamagesTheShard) {
  std::string tar = make_tar({{"a.txt", "one"}, {"b.txt", "two"}, {"c.txt", "three"}}, "ustar");
  tar[2048 + 20] = 'X';
  write_file(shards() / "a.tar", tar);
  EXPECT_THAT(keys_of(*open()), ElementsAre("a")) << "b may have had further parts";
  EXPECT_FALSE(only_broken().lost);
  EXPECT_THAT(only_broken().reason, HasSubstr("after 'b.txt'"));
}

TEST_F(DatasetTest, AMissingEndMarkAloneIsAWarning) {
  const std::string tar = make_tar({{"a.txt", "one"}, {"b.txt", "two"}}, "ustar");
  write_file(shards() / "a.tar", tar.substr(0, 2048));
  const auto dataset = open();
  EXPECT_THAT(keys_of(*dataset), ElementsAre("a", "b"));
  EXPECT_TRUE(dataset->bad().empty());
  EXPECT_TRUE(dataset->findings().broken.empty());
  EXPECT_THAT(dataset->findings().without_end_mark, ElementsAre("a.tar"));
}

TEST_F(DatasetTest, TwoMissingEndMarksAmongFewShardsAreDamage) {
  const std::string tar = make_tar({{"a.txt", "one"}, {"b.txt", "two"}}, "ustar");
  for (int i = 0; i < 5; ++i) {
    write_file(shards() / (std::to_string(i) + ".tar"), i < 2 ? tar.substr(0, 2048) : tar);
  }
  const auto dataset = open();
  EXPECT_EQ(dataset->size(), 10U) << "what is there can be used, if it is allowed";
  EXPECT_TRUE(dataset->findings().without_end_mark.empty());
  ASSERT_EQ(dataset->findings().broken.size(), 2U);
  const BrokenShard& first = dataset->findings().broken.front();
  EXPECT_EQ(first.name, "0.tar");
  EXPECT_FALSE(first.lost);
  EXPECT_EQ(describe(first),
            "0.tar: damaged: without the mark that ends a tar file, like 2 of the 5 shards, so cut "
            "off between two members; copy it again, or append 1024 zero bytes if its writer "
            "leaves out the mark; 2 samples before the damage");
  write_file(shards() / "0.tar", tar.substr(0, 2048) + std::string(1024, '\0'));
  EXPECT_THAT(open()->findings().without_end_mark, ElementsAre("1.tar"));
  EXPECT_TRUE(open()->findings().broken.empty());
}

TEST_F(DatasetTest, TheRemedyForACompressedShardWithoutAnEndMarkIsToPackItAgain) {
  const std::string tar = make_tar({{"a.txt", "one"}, {"b.txt", "two"}}, "ustar");
  for (int i = 0; i < 2; ++i) {
    write_file(shards() / (std::to_string(i) + ".tar.gz"), gzip(tar.substr(0, 2048)));
  }
  const auto dataset = open();
  ASSERT_EQ(dataset->findings().broken.size(), 2U);
  EXPECT_THAT(describe(dataset->findings().broken.front()),
              HasSubstr("copy it again, or pack it again if its writer leaves out the mark"));
}

// A shard that is cut off within a member lacks the mark, too; one that is lost is no tar.
TEST_F(DatasetTest, ADamagedShardIsOneWithoutAnEndMarkAndALostOneIsNot) {
  const std::string tar = make_tar({{"a.txt", "one"}, {"b.txt", "two"}}, "ustar");
  write_file(shards() / "0.tar", tar);
  write_file(shards() / "1.tar", tar.substr(0, 2048));
  write_file(shards() / "2.tar", "");
  EXPECT_EQ(open()->findings().broken.size(), 1U);
  EXPECT_THAT(open()->findings().without_end_mark, ElementsAre("1.tar"));
  write_file(shards() / "2.tar", tar.substr(0, 1550));
  EXPECT_EQ(open()->findings().broken.size(), 2U);
  EXPECT_TRUE(open()->findings().without_end_mark.empty());
}

TEST_F(DatasetTest, ASecondArchiveBehindTheFirstIsNamed) {
  write_file(shards() / "a.tar", make_tar({{"a.txt", "x"}}) + make_tar({{"b.txt", "y"}}));
  const auto dataset = open();
  EXPECT_THAT(keys_of(*dataset), ElementsAre("a"));
  EXPECT_TRUE(dataset->findings().broken.empty());
  ASSERT_EQ(dataset->findings().unread.size(), 1U);
  EXPECT_THAT(dataset->findings().unread[0], HasSubstr("a.tar: "));
  EXPECT_THAT(dataset->findings().unread[0], HasSubstr("behind the mark"));
}

TEST_F(DatasetTest, AShardThatWasRemovedIsLostUntilItsIndexIsDeleted) {
  write("a.tar", {{"a.txt", "x"}});
  write("b.tar", {{"b.txt", "x"}, {"c.txt", "x"}});
  EXPECT_EQ(open()->findings().shards, 2U);
  std::filesystem::remove(shards() / "b.tar");
  const auto dataset = open();
  EXPECT_EQ(dataset->size(), 1U);
  EXPECT_EQ(dataset->findings().shards, 2U);
  EXPECT_THAT(describe(only_broken()), HasSubstr("/.isocost/b.tar.idx if it was meant to go; 0 of "
                                                 "the 2 samples"));
  std::filesystem::remove(shards() / ".isocost/b.tar.idx");
  EXPECT_TRUE(open()->findings().broken.empty());
}

TEST_F(DatasetTest, WhatIsOnlyNamedLikeAShardIsLost) {
  write("a.tar", {{"a.txt", "x"}});
  std::filesystem::create_directory(shards() / "b.tar");
  std::filesystem::create_symlink("nowhere", shards() / "c.tar");
  const auto dataset = open();
  EXPECT_EQ(dataset->size(), 1U);
  const std::vector<BrokenShard>& broken = dataset->findings().broken;
  ASSERT_EQ(broken.size(), 2U);
  EXPECT_EQ(broken[0].name, "b.tar");
  EXPECT_THAT(broken[1].reason, HasSubstr("broken link"));
}

TEST_F(DatasetTest, ACutInAHeaderCostsTheSampleBeforeItWhichMayLackParts) {
  const std::string tar = make_tar({{"a.txt", "one"}, {"b.txt", "two"}, {"b.png", "?"}}, "ustar");
  write_file(shards() / "a.tar", tar.substr(0, 2 * 1024 + 100));
  const auto dataset = open();
  EXPECT_THAT(keys_of(*dataset), ElementsAre("a"));
  EXPECT_THAT(only_broken().reason, HasSubstr("after 'b.txt'"));
}

TEST_F(DatasetTest, ATruncatedGzipShardKeepsTheSamplesBeforeTheCut) {
  std::vector<TarFile> files;
  for (int i = 0; i < 200; ++i) {
    std::string text;
    for (int k = 0; k < 300; ++k) text += std::to_string(i * k * k % 9973);
    files.push_back({std::to_string(1000 + i) + ".txt", text});
  }
  const std::string packed = gzip(make_tar(files));
  write_file(shards() / "a.tar.gz", packed.substr(0, packed.size() / 2));
  const auto dataset = open();
  EXPECT_GT(dataset->size(), 20U);
  EXPECT_LT(dataset->size(), 180U);
  EXPECT_EQ(bytes_of(*dataset, 17, 0), files[17].bytes);
  EXPECT_EQ(only_broken().samples, dataset->size());
  EXPECT_THAT(only_broken().reason, HasSubstr("copy the shard again"));
}

// All samples are there, and one of them may have other bytes.
TEST_F(DatasetTest, AWrongChecksumOfTheCompressionDamagesTheShard) {
  std::string packed = gzip(make_tar({{"a.txt", "x"}, {"b.txt", "y"}}));
  packed[packed.size() - 6] ^= 1;
  write_file(shards() / "a.tgz", packed);
  EXPECT_THAT(keys_of(*open()), ElementsAre("a", "b"));
  EXPECT_FALSE(only_broken().lost);
  EXPECT_THAT(only_broken().reason, HasSubstr("gzip stream is damaged"));
}

TEST_F(DatasetTest, ShardsWithoutSamplesAreLost) {
  write_file(shards() / "empty.tar", "");
  write_file(shards() / "junk.tar", "this is no tar");
  write("none.tar", {{"README", "no dot"}});
  write("good.tar", {{"a.txt", "x"}});
  const auto dataset = open();
  EXPECT_EQ(dataset->size(), 1U);
  EXPECT_TRUE(dataset->bad().empty());
  const std::vector<BrokenShard>& broken = dataset->findings().broken;
  ASSERT_EQ(broken.size(), 3U);
  EXPECT_EQ(broken[0].name, "empty.tar");
  EXPECT_THAT(broken[0].reason, HasSubstr("empty"));
  EXPECT_THAT(broken[1].reason, HasSubstr("not a tar file"));
  EXPECT_THAT(broken[2].reason, HasSubstr("no samples"));
  for (const BrokenShard& each : broken) EXPECT_TRUE(each.lost);
}

TEST_F(DatasetTest, SamplesThatALimitRefusesAreBadAndHaveNoNumber) {
  write("a.tar", {{"x.txt", "short"}, {"y.txt", "much longer"}, {"z.txt", "short too"}});
  write("b.tar", {{"u.txt", "another long one"}, {"x.txt", "a repeated key, and long"}});
  options_.check_shape = [](const SampleShape& shape) {
    return shape.parts.front().text_bytes > 10 ? std::string("is too long") : std::string();
  };
  const auto dataset = open();
  ASSERT_EQ(dataset->size(), 2U);
  EXPECT_EQ(dataset->key(0), "x");
  EXPECT_EQ(dataset->key(1), "z");
  ASSERT_EQ(dataset->bad().size(), 3U);
  EXPECT_EQ(describe(dataset->bad()[0]), "a.tar/y: is too long");
  EXPECT_TRUE(dataset->bad()[0].over_limit);
  EXPECT_EQ(describe(dataset->bad()[1]), "b.tar/u: is too long");
  EXPECT_EQ(describe(dataset->bad()[2]), "b.tar/x: is too long");
}

TEST_F(DatasetTest, ADirectoryWithoutShardsIsNotFound) {
  EXPECT_EQ(Dataset::open(scratch_ / "nowhere", options_).error().code(), ErrorCode::kNotFound);
  std::filesystem::create_directories(shards());
  const auto dataset = Dataset::open(shards(), options_);
  ASSERT_FALSE(dataset.has_value());
  EXPECT_EQ(dataset.error().code(), ErrorCode::kNotFound);
  EXPECT_THAT(dataset.error().message(), HasSubstr("make-shards"));
}

TEST_F(DatasetTest, SourcesAreOneDataSetWithTheirNames) {
  write("a/0.tar", {{"x.txt", "1"}, {"y.txt", "2"}});
  write("b/0.tar", {{"x.txt", "3"}, {"x.json", R"({"weight": 0.5, "factor": 2})"}, {"z.xyz", "4"}});
  write("b/1.tar", {{"x.txt", "5"}, {"bad.png", "no picture"}});
  DataSources both{"mixture.toml", {}};
  both.sources.push_back({.name = "first", .data = "a", .base = shards()});
  both.sources.push_back({.name = "second",
                          .data = "b/{0..2}.tar",
                          .base = shards(),
                          .reading = {.ignore_parts = "png", .weight_key = "factor"}});
  const auto dataset = Dataset::open(both, options_).value();
  ASSERT_EQ(dataset->size(), 4U);
  EXPECT_EQ(dataset->shard(1), "first/0.tar");
  EXPECT_EQ(dataset->shard(2), "second/0.tar");
  EXPECT_EQ(dataset->shape(2).weight, 2.0F) << "each source has its own reading";
  EXPECT_TRUE(std::filesystem::exists(shards() / "b/.isocost/1.tar.idx"))
      << "a mixture and its sources alone share indexes";
  const std::vector<DatasetSource>& sources = dataset->sources();
  ASSERT_EQ(sources.size(), 2U);
  EXPECT_EQ(sources[1].name, "second");
  EXPECT_EQ(sources[1].first, 2U);
  EXPECT_EQ(sources[1].size, 2U);
  ASSERT_EQ(sources[1].findings.broken.size(), 1U);
  EXPECT_EQ(sources[1].findings.broken[0].name, "second/2.tar");
  EXPECT_EQ(dataset->findings().shards, 4U);
  DatasetOptions alone = options_;
  EXPECT_EQ(sources[0].fingerprint,
            Dataset::open((shards() / "a").string(), alone).value()->fingerprint())
      << "the name is the mixture's";
  both.sources[1].data = "nowhere";
  EXPECT_THAT(Dataset::open(both, options_).error().message(),
              HasSubstr("source second: nowhere: no such file or directory"));
}

TEST_F(DatasetTest, AShardThatChangesUnderAnOpenDataSetIsRefused) {
  write("a.tar", {{"a.txt", "x"}});
  const auto dataset = open();
  write("a.tar", {{"a.txt", "x"}, {"b.txt", std::string(20000, 'y')}});
  const auto source = dataset->open_part(0, 0);
  ASSERT_FALSE(source.has_value());
  EXPECT_THAT(source.error().message(), HasSubstr("has changed"));
}

// The memory of a process is a file whose first bytes cannot be read.
TEST_F(DatasetTest, AShardThatCannotBeReadIsNoBadShard) {
  write("a.tar", {{"a.txt", "x"}});
  std::filesystem::create_symlink("/proc/self/mem", shards() / "b.tar");
  const auto dataset = Dataset::open(shards(), options_);
  ASSERT_FALSE(dataset.has_value());
  EXPECT_EQ(dataset.error().code(), ErrorCode::kIo);
  EXPECT_THAT(dataset.error().message(), HasSubstr("b.tar: "));
  EXPECT_THAT(dataset.error().message(), HasSubstr("Input/output error"));
}

TEST_F(DatasetTest, ProgressCountsEveryShard) {
  for (int i = 0; i < 5; ++i)
    write(std::to_string(i) + ".tar", {{std::to_string(i) + ".txt", "x"}});
  std::mutex mutex;
  std::vector<std::uint64_t> done;
  options_.progress = [&](std::uint64_t now, std::uint64_t total, std::string_view) {
    EXPECT_EQ(total, 5U);
    const std::scoped_lock lock(mutex);  // of several threads
    done.push_back(now);
  };
  options_.workers = 3;
  (void)open();
  EXPECT_THAT(done, UnorderedElementsAre(1, 2, 3, 4, 5));
}

}  // namespace
}  // namespace isocost
