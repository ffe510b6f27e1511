// Records in place: a data set of records equals that of the shards that make-shards writes of
// them, and notices what has changed since it was indexed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/base64.h"
#include "base/byte_source.h"
#include "loader/dataset/check.h"
#include "loader/dataset/dataset.h"
#include "loader/dataset/shard_writing/make_shards.h"
#include "loader/dataset/stores/media_files.h"
#include "loader/dataset/token_pass.h"
#include "tests/loader/dataset/shard_writing/records_fixture.h"
#include "tests/support/tar_files.h"

namespace isocost {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

std::string bytes_of(const ByteSource& source) {
  std::string bytes(static_cast<std::size_t>(source.size()), '\0');
  const std::size_t read = source.read_at(0, std::as_writable_bytes(std::span(bytes))).value();
  bytes.resize(read);
  return bytes;
}

std::string json_of(const Dataset& dataset, SampleId id) {
  const auto json = dataset.open_json(id).value();
  return json ? bytes_of(*json) : "none";
}

class RecordsInPlace : public RecordsFixture {
 protected:
  RecordsInPlace() {
    reading_.log = [this](LogLevel, std::string_view text) { said_.emplace_back(text); };
    write_file(scratch_ / "model/tokenizer.json", "{}");
    write_file(scratch_ / "model/chat_template.jinja", "{{ messages }}");
  }
  std::unique_ptr<Dataset> open(const fs::path& data) {
    auto dataset = Dataset::open(data, reading_);
    EXPECT_TRUE(dataset.has_value()) << dataset.error().message();
    return dataset ? *std::move(dataset) : nullptr;
  }
  std::string refusal(const fs::path& data) {
    const auto dataset = Dataset::open(data, reading_);
    return dataset ? "" : dataset.error().message();
  }
  // Compares a source in place with the shards that are made of it. Returns the number of samples.
  std::uint64_t compare(const fs::path& source) {
    SCOPED_TRACE(source.string());
    options_.force = true;
    options_.skip_bad = true;
    options_.samples_per_shard = 10'000;
    options_.number_keys = reading_.reading.number_keys;
    options_.media_root = reading_.reading.media_root;
    const auto made = make_shards(source, out(), options_);
    EXPECT_TRUE(made.has_value()) << made.error().message();
    if (!made) return 0;
    const auto tars = open(out());
    const auto place = open(source);
    if (!tars || !place) return 0;
    EXPECT_EQ(place->size(), tars->size());
    EXPECT_EQ(place->bad().size(), made->bad.size());
    EXPECT_EQ(place->weighted().count, tars->weighted().count);
    for (SampleId id = 0; id < std::min(place->size(), tars->size()); ++id) {
      compare_sample(*tars, *place, id);
    }
    compare_texts(source);
    return place->size();
  }
  static void compare_sample(const Dataset& tars, const Dataset& place, SampleId id) {
    SCOPED_TRACE(std::string(tars.key(id)));
    EXPECT_EQ(place.key(id), tars.key(id));
    const SampleShape shape = tars.shape(id);
    EXPECT_EQ(place.shape(id).weight, shape.weight);
    EXPECT_EQ(place.shape(id).parts, shape.parts);
    EXPECT_EQ(json_of(place, id), json_of(tars, id));
    for (std::size_t i = 0; i < shape.parts.size(); ++i) {
      EXPECT_EQ(place.part_name(id, i), tars.part_name(id, i));
      EXPECT_EQ(bytes_of(*place.open_part(id, i).value()),
                bytes_of(*tars.open_part(id, i).value()));
    }
    EXPECT_GT(place.read_ahead_bytes(id), 0);
    place.read_ahead(id, {});
    EXPECT_TRUE(place.check_index(id).has_value());
  }
  // Compares what a tokenizer reads, so that the tokens are equal.
  void compare_texts(const fs::path& source) const {
    const fs::path model = scratch_ / "model";
    const auto tars = TokenPass::open(out(), model, "", {});
    const auto place = TokenPass::open(source, model, "", reading_);
    ASSERT_TRUE(tars && place);
    const auto expected = (*tars)->texts(0).value();
    const auto found = (*place)->texts(0).value();
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      EXPECT_EQ(found[i].key, expected[i].key);
      EXPECT_EQ(found[i].json, expected[i].json);
      EXPECT_EQ(found[i].texts, expected[i].texts);
      EXPECT_EQ(found[i].media, expected[i].media);
    }
  }
  static std::string turns(std::string_view question) {
    return R"("conversations": [{"from": "human", "value": ")" + std::string(question) +
           R"("}, {"from": "gpt", "value": "Yes."}])";
  }

  DatasetOptions reading_;
  std::vector<std::string> said_;
};

TEST_F(RecordsInPlace, ConversationsEqualTheirShards) {
  const std::string llava =
      R"({"id": "a/1", "image": "images/a.jpg", "weight": 0.5, "score": 1.0e2, )" +
      turns("<image> What?") + "}\n\n  " +
      R"({"image": ["b.png", "images/a.jpg"], "video": "v.mp4", "audios": ["s.wav"], )" +
      turns("<audio><image> and <video> or <image>?") + "} \r\n" +
      R"({"id": "missing", "image": "none.jpg", )" + turns("<image>") + "}\n" +
      R"({"id": "junk", "image": "junk.png", )" + turns("<image>") + "}\n" + R"({"id": "a/1", )" +
      turns("again") + "}\n" + R"({"id": "text", )" + turns("only text") + "}\nnot JSON\n";
  EXPECT_EQ(compare(records(llava, "llava.jsonl")), 3U);
  EXPECT_EQ(compare(records("\xEF\xBB\xBF" + llava, "mark.jsonl")), 3U);
  const std::string messages =
      R"({"id": "m", "messages": [{"role": "user", "content": [{"type": "image", "image": "b.png"}, )"
      R"({"type": "text", "text": "What?"}]}, {"role": "assistant", "content": "A dot.", "weight": 0}]})";
  EXPECT_EQ(compare(records(messages, "messages.jsonl")), 1U);
}

TEST_F(RecordsInPlace, WhatIsWrittenAnewEqualsItsShards) {
  const std::string instructions =
      R"({"instruction": "Translate", "input": "A cat.", "output": "Eine Katze.", "number": 1e2})"
      "\n"
      R"({"query": "<image>What is it?", "response": "A cat.", "images": ["images/a.jpg"], "system": "Be brief."})"
      "\n"
      R"({"image": "b.png", "question": "What \u00e4 is it?", "answers": ["A cat.", "A tabby."]})";
  EXPECT_EQ(compare(records(instructions, "ask.jsonl")), 3U);
  EXPECT_THAT(said_, Contains(HasSubstr("several answers")));
  const std::string captions =
      R"({"file_name": "b.png", "text": "A \u00e4 dot.", "url": "x", "weight": 2})"
      "\n"
      R"({"image": "images/a.jpg", "caption": "A grey one."})"
      "\n"
      R"({"file_name": "s.wav", "text": ""})"
      "\n"
      R"({"file_name": "b.png", "text": ""})";
  EXPECT_EQ(compare(records(captions, "metadata.jsonl")), 3U);
  const std::string held =
      R"({"id": "1", "messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,)" +
      encode_base64(png_) +
      R"("}}, {"type": "image", "image": "images/a.jpg"}]}, {"role": "assistant", "content": "yes"}]})" +
      "\n" + R"({"id": "2", "image": ")" + encode_base64(jpeg_) + R"(", )" + turns("<image>") + "}";
  EXPECT_EQ(compare(records(held, "held.jsonl")), 2U);
}

TEST_F(RecordsInPlace, AManifestEqualsItsShards) {
  EXPECT_EQ(
      compare(records(
          R"({"key": "cats/1", "parts": [{"name": "jpg", "file": "images/a.jpg"}, )"
          R"({"name": "caption.txt", "text": "A cat."}, {"name": "json", "json": {"weight": 0.5, "x": [1]}}]})"
          "\n"
          R"({"key": "cats/2", "parts": [{"name": "png", "file": "b.png"}, {"name": "bin", "file": "x.tiff"}]})"
          "\n"
          R"({"key": "a.b/c.d", "parts": [{"name": "png", "file": "b.png"}]})"
          "\n"
          R"({"key": "twice", "parts": [{"name": "png", "file": "b.png"}, {"name": "png", "file": "b.png"}]})",
          "manifest.jsonl")),
      2U);
}

TEST_F(RecordsInPlace, AnArrayAndCompressedFilesEqualTheirShards) {
  const std::string one = R"({"id": 7, "image": "b.png", )" + turns("<image>") + "}";
  const std::string two = R"({ "image": "images/a.jpg", )" + turns("<image>") + "}";
  const std::string array = " [\n" + one + " ,\n  " + two + "\n, 3]\n";
  EXPECT_EQ(compare(records(array, "data.json")), 2U);
  EXPECT_EQ(compare(records(gzip(array), "packed.json.gz")), 2U);
  EXPECT_EQ(compare(records(gzip(one + "\n" + two), "data.jsonl.gz")), 2U);
  EXPECT_EQ(compare(records(zstd(one + "\n" + two), "data.jsonl.zst")), 2U);
  EXPECT_EQ(compare(records(zstd(array), "without_extension")), 2U);
}

TEST_F(RecordsInPlace, ADirectoryOfFilesEqualsItsShards) {
  for (const char* name : {"cat/1.0.jpg", "cat/1.1.jpg", "dog/2.jpg"}) {
    write_file(scratch_ / "tree" / name, jpeg_);
  }
  write_file(scratch_ / "tree/cat/1.txt", "A cat.");
  write_file(scratch_ / "tree/dog/2.json", R"({"text": "A dog.", "weight": 3})");
  write_file(scratch_ / "tree/dog/3.png", "no picture");
  write_file(scratch_ / "tree/notes", "without an extension");
  EXPECT_EQ(compare(scratch_ / "tree"), 2U);
  EXPECT_THAT(said_, Contains(HasSubstr("its files are read as samples")));
  const auto dataset = open(scratch_ / "tree");
  ASSERT_EQ(dataset->bad().size(), 1U);
  EXPECT_THAT(dataset->bad()[0].reason, HasSubstr("dog/3.png"));
  // A file that is added belongs to the next start.
  write_file(scratch_ / "tree/dog/4.png", png_);
  EXPECT_EQ(open(scratch_ / "tree")->size(), 3U);
}

TEST_F(RecordsInPlace, OptionsSayWhereMediaLieAndHowSamplesAreCalled) {
  fs::create_directories(scratch_ / "records");
  const fs::path file =
      records(R"({"id": "x", "image": "a.jpg", )" + turns("<image>") + "}\n" +
                  R"({"id": "x", "image": "../b.png", )" + turns("<image>") + "}\n" +
                  R"({"id": "x", "image": "a.jpg", )" + turns("<image> again") + "}",
              "records/data.jsonl");
  const auto without = open(file);
  EXPECT_EQ(without->size(), 0U);
  EXPECT_EQ(without->bad().size(), 3U);
  reading_.reading.media_root = scratch_ / "images";
  reading_.reading.number_keys = true;
  EXPECT_EQ(compare(file), 2U);
  const auto dataset = open(file);
  ASSERT_EQ(dataset->bad().size(), 1U);
  EXPECT_THAT(dataset->bad()[0].reason,
              AllOf(HasSubstr("data.jsonl:2"), HasSubstr("leaves the directory")));
  EXPECT_THAT(data_arguments(file.string(), reading_), HasSubstr("--number-keys"));
  reading_.reading.media_root = scratch_ / "nowhere";
  EXPECT_THAT(refusal(file), HasSubstr("is no directory"));
}

TEST_F(RecordsInPlace, BadRecordsAreNamedByLineAndFile) {
  const std::string good = R"({"image": "b.png", )" + turns("<image>") + "}";
  const auto dataset =
      open(records(good + "\n{\"image\": \n" + R"({"id": "j", "image": "junk.png", )" +
                       turns("<image>") + "}\n" + good.substr(0, good.size() / 2),
                   "cut.jsonl"));
  EXPECT_EQ(dataset->size(), 1U);
  ASSERT_EQ(dataset->bad().size(), 3U);
  EXPECT_EQ(dataset->bad()[0].shard, "cut.jsonl-000000");
  EXPECT_THAT(dataset->bad()[0].reason, AllOf(HasSubstr("cut.jsonl:2: "), HasSubstr("the record")));
  EXPECT_EQ(dataset->bad()[1].key, "j");
  EXPECT_EQ(dataset->bad()[1].part, "000.png");
  EXPECT_THAT(dataset->bad()[1].reason, AllOf(HasSubstr("cut.jsonl:3: "), HasSubstr("junk.png: ")));
  EXPECT_THAT(dataset->bad()[2].reason, HasSubstr("cut.jsonl:4: "));
  const auto array = open(records("[" + good + "," + good.substr(0, 20), "cut.json"));
  ASSERT_EQ(array->bad().size(), 1U);
  EXPECT_THAT(array->bad()[0].reason, HasSubstr("the array does not end"));
  EXPECT_EQ(array->size(), 1U);
  const std::string packed = gzip(good + "\n" + good);
  EXPECT_THAT(refusal(records(packed.substr(0, packed.size() - 9), "cut.jsonl.gz")),
              HasSubstr("cut off"));
  EXPECT_THAT(refusal(records("[]", "empty.json")), HasSubstr("no record"));
}

// 25,000 records, whatever their file is like, are three shards.
TEST_F(RecordsInPlace, AShardHasTenThousandRecords) {
  std::string lines;
  std::string array = "[";
  for (int i = 0; i < 25'000; ++i) {
    const std::string record =
        R"({"instruction": "Say )" + std::to_string(i) + R"(", "output": "yes"})";
    lines += record + (i % 7 == 0 ? "\n\n" : "\n");
    array += (i == 0 ? "" : ",\n") + record;
  }
  array += "]";
  for (const auto& [name, text] : std::vector<std::pair<std::string, std::string>>{
           {"lines.jsonl", lines}, {"lines.jsonl.gz", gzip(lines)}, {"array.json", array}}) {
    SCOPED_TRACE(name);
    const fs::path file = records(text, name);
    const auto dataset = open(file);
    ASSERT_EQ(dataset->size(), 25'000U);
    ASSERT_EQ(dataset->shards(), 3U);
    EXPECT_EQ(dataset->shard_name(2), name + "-000002");
    EXPECT_EQ(dataset->shard(9'999), name + "-000000");
    EXPECT_EQ(dataset->shard(10'000), name + "-000001");
    for (const SampleId id : {SampleId{0}, SampleId{9'999}, SampleId{10'000}, SampleId{24'999}}) {
      EXPECT_THAT(json_of(*dataset, id), HasSubstr("Say " + std::to_string(id) + "\""));
    }
    EXPECT_EQ(dataset->key(10'000), name == "array.json" ? "000010001" : "000011430");
    // The next start reads neither the records nor their media.
    const fs::path index = scratch_ / ".isocost" / (name + "-000001.idx");
    const auto written = fs::last_write_time(index);
    reading_.progress = [&](std::uint64_t, std::uint64_t, std::string_view what) {
      EXPECT_EQ(what.find("records"), std::string_view::npos) << what;
    };
    const auto again = open(file);
    reading_.progress = {};
    EXPECT_EQ(again->fingerprint(), dataset->fingerprint());
    EXPECT_EQ(fs::last_write_time(index), written);
    // A division that cannot be read is made again.
    write_file(scratch_ / ".isocost" / (name + ".records"),
               "isocost-records-1 5 5 99999999999 0\n");
    EXPECT_EQ(open(file)->fingerprint(), dataset->fingerprint());
  }
  EXPECT_EQ(compare(scratch_ / "lines.jsonl"), 25'000U);
}

class ChangedRecords : public RecordsInPlace {
 protected:
  ChangedRecords() {
    std::string text;
    for (const char* image : {"images/a.jpg", "b.png"}) {
      text += R"({"image": ")" + std::string(image) + R"(", )" + turns("<image>") + "}\n";
    }
    file_ = records(text);
  }
  // Changes bytes, and keeps the file's time if it is told to.
  static void change(const fs::path& file, const std::string& bytes, bool keep_time = false) {
    const auto time = fs::last_write_time(file);
    write_file(file, bytes);
    fs::last_write_time(file, keep_time ? time : time + std::chrono::seconds(1));
  }
  fs::path file_;
};

TEST_F(ChangedRecords, AMediumThatHasChangedIsAFaultOfTheMachine) {
  const auto dataset = open(file_);
  ASSERT_EQ(dataset->size(), 2U);
  ASSERT_FALSE(dataset->shape(0).parts.empty()) << "its index is open from here on";
  change(scratch_ / "b.png", tiny_png(3, 3));
  // A start compares nothing.
  const auto second = open(file_);
  EXPECT_EQ(second->size(), 2U);
  EXPECT_TRUE(second->open_part(0, 0).has_value());
  const auto part = second->open_part(1, 0);
  ASSERT_FALSE(part.has_value());
  EXPECT_EQ(part.error().code(), ErrorCode::kUnavailable);
  EXPECT_THAT(part.error().message(),
              AllOf(HasSubstr("b.png"), HasSubstr("has changed since it was indexed")));
  EXPECT_EQ(open(file_)->shape(1).parts[0].width, 3) << "a start after that indexes it again";
  fs::remove(scratch_ / "images/a.jpg");
  const auto absent = dataset->open_part(0, 0);
  ASSERT_FALSE(absent.has_value());
  EXPECT_EQ(absent.error().code(), ErrorCode::kNotFound);
}

TEST_F(ChangedRecords, AChangeBetweenReadsIsNoticedWhenTheFileIsOpenedAgain) {
  MediaFiles files(1);
  const fs::path first = scratch_ / "images/a.jpg";
  const fs::path second = scratch_ / "b.png";
  const auto source = files.open(first, stamp_of(first).value()).value();
  EXPECT_EQ(bytes_of(*source), jpeg_);
  EXPECT_EQ(bytes_of(*files.open(second, stamp_of(second).value()).value()), png_);
  EXPECT_EQ(bytes_of(*source), jpeg_) << "opened again";
  EXPECT_EQ(bytes_of(*files.open(second, stamp_of(second).value()).value()), png_);
  change(first, png_);
  std::byte byte{};
  const auto read = source->read_at(0, std::span(&byte, 1));
  ASSERT_FALSE(read.has_value());
  EXPECT_EQ(read.error().code(), ErrorCode::kUnavailable);
}

std::size_t open_files() {
  return static_cast<std::size_t>(
      std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator()));
}

TEST_F(ChangedRecords, SourcesShareAFewOpenFiles) {
  MediaFiles files(3);
  const std::size_t before = open_files();
  std::vector<std::unique_ptr<ByteSource>> sources;
  for (int i = 0; i < 40; ++i) {
    const fs::path file = scratch_ / ("many/" + std::to_string(i) + ".bin");
    write_file(file, std::to_string(i));
    sources.push_back(files.open(file, stamp_of(file).value()).value());
  }
  for (int i = 0; i < 40; ++i) {
    EXPECT_EQ(bytes_of(*sources[static_cast<std::size_t>(i)]), std::to_string(i));
    EXPECT_LE(open_files(), before + 3);
  }
}

TEST_F(ChangedRecords, OtherRecordsAreIndexedAgainOrRefused) {
  const auto dataset = open(file_);
  std::string text = read_file(file_);
  change(file_, text + text);
  EXPECT_EQ(open(file_)->size(), 4U);
  const auto again = open(file_);
  text = read_file(file_);
  text[2] = 'I';
  change(file_, text, /*keep_time=*/true);
  const auto json = open(file_)->open_json(0);
  ASSERT_FALSE(json.has_value());
  EXPECT_EQ(json.error().code(), ErrorCode::kUnavailable);
}

TEST_F(ChangedRecords, CheckComparesAllMedia) {
  // Without a model's directory a conversation is no sample, and a caption is.
  records(R"({"file_name": "images/a.jpg", "text": "grey"})"
          "\n"
          R"({"file_name": "b.png", "text": "black"})");
  CheckOptions options;
  options.dataset.log = [](LogLevel, std::string_view) {};
  const auto good = check_dataset(DataSources::of_text(file_.string(), {}), options);
  ASSERT_TRUE(good.has_value()) << good.error().message();
  EXPECT_EQ(good->samples, 2U);
  change(scratch_ / "b.png", png_ + "x");
  change(scratch_ / "images/a.jpg", jpeg_ + "x");
  const auto changed = check_dataset(DataSources::of_text(file_.string(), {}), options);
  ASSERT_FALSE(changed.has_value());
  EXPECT_EQ(changed.error().code(), ErrorCode::kUnavailable);
  EXPECT_THAT(changed.error().message(), HasSubstr("has changed since it was indexed"));
  const auto after = check_dataset(DataSources::of_text(file_.string(), {}), options);
  EXPECT_TRUE(after.has_value()) << after.error().message();
}

TEST_F(ChangedRecords, FilesOfRecordsAreNamedByPatternsAndDirectories) {
  fs::create_directories(scratch_ / "set/sub");
  for (const char* name : {"set/a.jsonl", "set/b.jsonl", "set/sub/c.jsonl"}) {
    records(R"({"instruction": "x", "output": "y"})", name);
  }
  EXPECT_EQ(open(scratch_ / "set")->size(), 2U);
  EXPECT_EQ(open(scratch_ / "set/{a,b}.jsonl")->shards(), 2U);
  const auto all = open(scratch_ / "set/**/*.jsonl");
  ASSERT_EQ(all->shards(), 3U);
  EXPECT_EQ(all->shard_name(2), "sub/c.jsonl-000000");
  EXPECT_EQ(json_of(*all, 2), json_of(*all, 0));
  EXPECT_EQ(open(scratch_ / "set/a.jsonl")->shards(), 1U);
}

}  // namespace
}  // namespace isocost
