// Conversations, captions and class directories: what make_shards writes for each, and what it
// refuses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "base/byte_source.h"
#include "base/scratch_directory.h"
#include "loader/dataset/dataset.h"
#include "loader/dataset/formats/tar_listing.h"
#include "loader/dataset/shard_writing/internal/json_records.h"
#include "loader/dataset/shard_writing/make_shards.h"
#include "tests/support/av_media.h"
#include "tests/support/media.h"
#include "tests/support/tar_files.h"

namespace isocost {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Members = std::vector<std::pair<std::string, std::string>>;

std::string as_text(const test::Bytes& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

class RecordForms : public testing::Test {
 protected:
  RecordForms() {
    fs::create_directories(scratch_ / "images");
    write_file(scratch_ / "images/a.jpg", jpeg_);
    write_file(scratch_ / "b.png", png_);
    write_file(scratch_ / "s.wav", wav_);
    test::VideoSpec spec;
    spec.frames = 4;
    video_ = as_text(test::make_video(spec));
    write_file(scratch_ / "v.mp4", video_);
    write_file(scratch_ / "junk.png", "this is no picture");
    write_file(scratch_ / "x.tiff", "II*");
  }

  fs::path out() const { return scratch_ / "out"; }
  fs::path records(std::string_view text, std::string_view name = "data.jsonl") {
    write_file(scratch_ / name, text);
    return scratch_ / name;
  }
  Result<MadeShards> make(std::string_view text, std::string_view name = "data.jsonl") {
    return make_shards(records(text, name), out(), options_);
  }
  // Names and bodies of the only shard, in order.
  Members members() const {
    const std::string bytes = read_file(out() / "shard-000000.tar");
    const MemoryByteSource source(std::as_bytes(std::span(bytes)));
    auto listing = TarListing::open(source);
    EXPECT_TRUE(listing.has_value());
    Members members;
    while (const auto member = listing->next()) {
      members.emplace_back(member->name, bytes.substr(static_cast<std::size_t>(member->offset),
                                                      static_cast<std::size_t>(member->size)));
    }
    return members;
  }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& [name, body] : members()) names.push_back(name);
    return names;
  }

  ScratchDirectory scratch_ = ScratchDirectory::create("isocost-test").value();
  std::string jpeg_ = as_text(test::make_jpeg(32, 16));
  std::string png_ = tiny_png(7, 5);
  std::string wav_ = tiny_wav(1600);
  std::string video_;
  MakeShardsOptions options_;
};

std::vector<std::string> unread(const MadeShards& made) {
  std::vector<std::string> lines;
  for (const Unread& item : made.unread) {
    lines.push_back(item.kind + " " + item.name + " " + std::to_string(item.count));
  }
  return lines;
}

TEST_F(RecordForms, ConversationsThatNeedAModelAreToldOnceBeforeAnythingIsWritten) {
  std::vector<std::string> said;
  options_.log = [&](LogLevel level, std::string_view text) {
    EXPECT_EQ(level, LogLevel::kWarning);
    for (const auto& entry : fs::recursive_directory_iterator(out())) {
      EXPECT_FALSE(entry.is_regular_file()) << entry.path();
    }
    said.emplace_back(text);
  };
  const std::string turns = R"("messages": [{"role": "user", "content": "a"}])";
  ASSERT_TRUE(make("{" + turns + "}\n{" + turns + "}"));
  ASSERT_EQ(said.size(), 1U);
  EXPECT_THAT(said[0], HasSubstr("data.jsonl:1: a conversation"));
  EXPECT_THAT(said[0], HasSubstr("serve --model DIR"));
  // native28 reads a text beside the conversation, and captions.
  options_.force = true;
  ASSERT_TRUE(make("{" + turns + R"(, "text": "a"})"));
  ASSERT_TRUE(make(R"({"file_name": "b.png", "text": "a"})"));
  EXPECT_EQ(said.size(), 1U);
}

TEST_F(RecordForms, LlavaJsonLines) {
  const std::string first =
      R"({"id": "coco/17", "image": "images/a.jpg", "weight": 0.5, "score": 1.0e2,)"
      R"( "conversations": [{"from": "human", "value": "<image>\nWhat is it?"},)"
      R"( {"from": "gpt", "value": "A gradient."}]})";
  const std::string second =
      R"({"id": 18, "image": ["b.png", "images/a.jpg"], "video": "v.mp4", "audios": ["s.wav"],)"
      R"( "conversations": [{"from": "human", "value": "<audio><image> and <video>"},)"
      R"( {"from": "gpt", "value": "Yes."}, {"from": "human", "value": "Or <image>?"}]})";
  const auto made = make(first + "\r\n\n  " + second + " \n");
  ASSERT_TRUE(made.has_value()) << made.error().message();
  EXPECT_EQ(members(), (Members{{"coco/17.000.jpg", jpeg_},
                                {"coco/17.json", first},
                                {"18.000.wav", wav_},
                                {"18.001.png", png_},
                                {"18.002.mp4", video_},
                                {"18.003.jpg", jpeg_},
                                {"18.json", second}}));
  EXPECT_THAT(unread(*made), ElementsAre("JSON key score 1"));

  const auto dataset = Dataset::open(out(), {});
  ASSERT_TRUE(dataset.has_value()) << dataset.error().message();
  EXPECT_THAT((*dataset)->bad(), IsEmpty());
  ASSERT_EQ((*dataset)->size(), 2U);
  EXPECT_EQ((*dataset)->key(1), "18");
  EXPECT_EQ((*dataset)->shape(0).weight, 0.5F);
  const std::vector<Modality> order = {Modality::kAudio, Modality::kImage, Modality::kVideo,
                                       Modality::kImage};
  const SampleShape shape = (*dataset)->shape(1);
  ASSERT_EQ(shape.parts.size(), order.size() + 1);
  EXPECT_EQ(shape.parts.back().format, MediaFormat::kJson);
  for (std::size_t i = 0; i < order.size(); ++i) {
    EXPECT_EQ(shape.parts[i].modality, order[i]);
    EXPECT_THAT(std::string((*dataset)->part_name(1, i)), HasSubstr("00" + std::to_string(i)));
  }
  const auto json = (*dataset)->open_json(1);
  ASSERT_TRUE(json.has_value());
  ASSERT_NE(*json, nullptr);
  EXPECT_EQ((*json)->size(), static_cast<std::int64_t>(second.size()));
}

TEST_F(RecordForms, LlavaArrayOverSeveralLines) {
  const auto made = make(
      "\xEF\xBB\xBF [\n {\"image\": \"b.png\",\n  \"conversations\":"
      " [{\"from\": \"human\", \"value\": \"<image> a ] } , [ \\\" brace\"}]},\n"
      " {\"conversations\": [{\"from\": \"human\", \"value\": \"no picture\"}]}\n]\n",
      "data.json");
  ASSERT_TRUE(made.has_value()) << made.error().message();
  EXPECT_THAT(names(), ElementsAre("000000001.000.png", "000000001.json", "000000002.json"));
  EXPECT_THAT(members()[1].second, HasSubstr(R"("<image> a ] } , [ \" brace")"));
}

TEST_F(RecordForms, ShareGptWithSystemAndTools) {
  const auto made = make(
      R"({"conversations": [{"from": "system", "value": "s"}, {"from": "human", "value": "<image>"},)"
      R"( {"role": "assistant", "content": "by role"}], "system": "be kind", "tools": "[]",)"
      R"( "images": ["b.png"], "source": "web"})");
  ASSERT_TRUE(made.has_value()) << made.error().message();
  EXPECT_THAT(names(), ElementsAre("000000001.000.png", "000000001.json"));
  EXPECT_THAT(unread(*made), ElementsAre("JSON key source 1"));
}

TEST_F(RecordForms, MessagesWithTypedParts) {
  const std::string absolute = (scratch_ / "s.wav").string();
  const auto made = make(
      R"([{"id": "m", "messages": [{"role": "system", "content": "be kind"}, {"role": "user",)"
      R"( "content": [{"type": "text", "text": "What"}, {"type": "image", "image": "images/a.jpg"},)"
      R"( {"type": "image_url", "image_url": {"url": "b.png", "detail": "low"}},)"
      R"( {"type": "input_audio", "input_audio": {"path": ")" +
          absolute + R"("}}, {"type": "video", "url": "file://)" + (scratch_ / "v.mp4").string() +
          R"(", "image": null}, {"image": "b.png"}, {"type": "thinking", "text": "..."}]},)"
          R"( {"role": "assistant", "content": null, "tool_calls": []}]}])",
      "data.json");
  ASSERT_TRUE(made.has_value()) << made.error().message();
  EXPECT_THAT(names(), ElementsAre("m.000.jpg", "m.001.png", "m.002.wav", "m.003.mp4", "m.004.png",
                                   "m.json"));
  EXPECT_THAT(unread(*made), ElementsAre("content part thinking 1"));
}

TEST_F(RecordForms, MessagesWhosePathsAreInLists) {
  const auto made = make(
      R"({"messages": [{"role": "user", "content": [{"type": "image", "index": 0, "text": null},)"
      R"( {"type": "text", "text": "and", "index": null}, {"type": "image", "index": 1},)"
      R"( {"type": "image", "path": "images/a.jpg"}]}, {"role": "user", "content": ["Or:",)"
      R"( {"type": "image"}]}],)"
      R"( "images": [{"path": "images/a.jpg", "bytes": null}, "b.png", "images/a.jpg"]})");
  ASSERT_TRUE(made.has_value()) << made.error().message();
  EXPECT_THAT(names(), ElementsAre("000000001.000.jpg", "000000001.001.png", "000000001.002.jpg",
                                   "000000001.003.jpg", "000000001.json"));
}

TEST_F(RecordForms, PlaceholdersBesideTypedPartsAreText) {
  for (const char* turns : {"messages", "conversations"}) {
    options_.force = true;
    const auto made =
        make("{\"" + std::string(turns) +
             R"(": [{"role": "user", "content": [{"type": "image", "image": "b.png"},)"
             R"( {"type": "text", "text": "Is <image> a tag?"}]},)"
             R"( {"role": "assistant", "content": "<image> and <video> are."}]})");
    ASSERT_TRUE(made.has_value()) << made.error().message();
    EXPECT_THAT(names(), ElementsAre("000000001.000.png", "000000001.json"));
  }
}

TEST_F(RecordForms, PlaceholdersInMessagesWithoutMediaAreText) {
  const auto made = make(R"({"messages": [{"role": "user", "content": "What is <image>?"}]})");
  ASSERT_TRUE(made.has_value()) << made.error().message();
  EXPECT_THAT(names(), ElementsAre("000000001.json"));
}

TEST_F(RecordForms, KeysThatSomeRecipeReadsAreNotListed) {
  const auto made =
      make(R"({"file_name": "s.wav", "text": "x", "language": "de", "task": "transcribe",)"
           R"( "weight": 0.5, "speaker": 7})");
  ASSERT_TRUE(made.has_value()) << made.error().message();
  EXPECT_THAT(unread(*made), ElementsAre("JSON key speaker 1"));
}

TEST_F(RecordForms, PathsStartAtTheMediaRoot) {
  options_.media_root = scratch_ / "images";
  const std::string line =
      R"({"image": "./x/../a.jpg", "conversations": [{"from": "human", "value": "<image>"}]})";
  ASSERT_TRUE(make(line).has_value());
  EXPECT_EQ(members()[0].second, jpeg_);

  options_.force = true;
  ASSERT_TRUE(make(R"({"key": "k", "parts": [{"name": "jpg", "file": "a.jpg"}]})").has_value());
  EXPECT_EQ(members(), (Members{{"k.jpg", jpeg_}}));

  options_.media_root = scratch_ / "nowhere";
  EXPECT_EQ(make(line).error().code(), ErrorCode::kNotFound);
  options_.media_root = scratch_.path();
  EXPECT_EQ(make_shards(scratch_ / "images", out(), options_).error().code(),
            ErrorCode::kInvalidArgument);
}

TEST_F(RecordForms, NumbersReplaceIdsThatRepeat) {
  const std::string record = R"({"id": "a.b", "messages": [{"role": "user", "content": "x"}]})";
  options_.number_keys = true;
  ASSERT_TRUE(make(record + "\n\n" + record).has_value());
  EXPECT_EQ(members(), (Members{{"000000001.json", record}, {"000000003.json", record}}));
  options_.force = true;
  ASSERT_TRUE(make(R"({"key": "../k", "parts": [{"name": "txt", "text": "x"}]})").has_value());
  EXPECT_THAT(names(), ElementsAre("000000001.txt"));
  EXPECT_EQ(make_shards(scratch_ / "images", out(), options_).error().code(),
            ErrorCode::kInvalidArgument);
}

TEST_F(RecordForms, CaptionsBecomeATextPart) {
  const auto made =
      make(R"({"file_name": "images/a.jpg", "text": "A gradient."})"
           "\n"
           R"({"file_name": "s.wav", "caption": "Silence.", "url": "https://example.org/s.wav"})"
           "\n"
           R"({"image": "b.png", "caption": "Schwarz, überall.", "text": null, "id": "black"})"
           "\n");
  ASSERT_TRUE(made.has_value()) << made.error().message();
  EXPECT_EQ(
      members(),
      (Members{{"000000001.000.jpg", jpeg_},
               {"000000001.txt", "A gradient."},
               {"000000002.000.wav", wav_},
               {"000000002.txt", "Silence."},
               {"000000002.json", R"({"file_name":"s.wav","url":"https://example.org/s.wav"})"},
               {"black.000.png", png_},
               {"black.txt", "Schwarz, überall."}}));
  EXPECT_THAT(unread(*made), ElementsAre("JSON key url 1"));
  const auto dataset = Dataset::open(out(), {});
  ASSERT_TRUE(dataset.has_value());
  ASSERT_EQ((*dataset)->size(), 3U);
  EXPECT_EQ((*dataset)->shape(1).parts.size(), 2U);
}

TEST_F(RecordForms, ASoundsCaptionMayBeEmpty) {
  const auto made = make(R"({"file_name": "s.wav", "text": ""})");
  ASSERT_TRUE(made.has_value()) << made.error().message();
  EXPECT_EQ(members(), (Members{{"000000001.000.wav", wav_}, {"000000001.txt", ""}}));
  const auto dataset = Dataset::open(out(), {});
  ASSERT_TRUE(dataset.has_value());
  EXPECT_THAT((*dataset)->bad(), IsEmpty());
  ASSERT_EQ((*dataset)->shape(0).parts.size(), 2U);
  EXPECT_EQ((*dataset)->shape(0).parts[1].text_bytes, 0);
}

TEST_F(RecordForms, ClassDirectoriesBecomeJsonThatNoModelSees) {
  const auto tree = scratch_ / "tree";
  fs::create_directories(tree / "train/cat");
  fs::create_directories(tree / "train/dög");
  write_file(tree / "train/cat/1.png", png_);
  write_file(tree / "train/dög/1.jpg", jpeg_);
  ASSERT_TRUE(make_shards(tree, out(), options_).has_value());
  EXPECT_THAT(names(), ElementsAre("train/cat/1.png", "train/dög/1.jpg"));

  options_.force = true;
  options_.class_from_directory = true;
  const auto made = make_shards(tree, out(), options_);
  ASSERT_TRUE(made.has_value()) << made.error().message();
  EXPECT_EQ(members(), (Members{{"train/cat/1.png", png_},
                                {"train/cat/1.json", R"({"class":"cat"})"},
                                {"train/dög/1.jpg", jpeg_},
                                {"train/dög/1.json", R"({"class":"dög"})"}}));
  EXPECT_THAT(unread(*made), ElementsAre("JSON key class 2"));
  const auto dataset = Dataset::open(out(), {});
  ASSERT_TRUE(dataset.has_value());
  EXPECT_EQ((*dataset)->shape(0).parts.size(), 1U);

  write_file(tree / "stray.png", png_);
  EXPECT_THAT(make_shards(tree, out(), options_).error().message(), HasSubstr("no directory"));
  fs::remove(tree / "stray.png");
  write_file(tree / "train/cat/1.json", "{}");
  EXPECT_THAT(make_shards(tree, out(), options_).error().message(), HasSubstr("JSON of its own"));
  EXPECT_EQ(make("{}").error().code(), ErrorCode::kInvalidArgument);
}

TEST_F(RecordForms, CountsFilesThatNoModelSees) {
  const auto tree = scratch_ / "tree";
  fs::create_directories(tree);
  write_file(tree / "a.png", png_);
  write_file(tree / "a.bin", "beside a picture");
  write_file(tree / "a.json", R"({"url": 1, "text": "read"})");
  write_file(tree / "b.heic", "alone");
  write_file(tree / "c.heic", "alone");
  write_file(tree / "Thumbs.db", "alone");
  EXPECT_THAT(
      make_shards(tree, out(), options_).error().message(),
      HasSubstr("b: heic: begins as no format that is read: convert it, or leave such parts "
                "out with --ignore-parts heic"));
  options_.ignore_parts = "heic";
  const auto made = make_shards(tree, out(), options_);
  ASSERT_TRUE(made.has_value()) << made.error().message();
  EXPECT_THAT(names(), ElementsAre("a.bin", "a.json", "a.png"));
  EXPECT_THAT(unread(*made),
              ElementsAre("JSON key url 1", "file db 1", "file heic 2", "part bin 1"));

  for (const char* name : {"a.png", "a.bin", "a.json"}) fs::remove(tree / name);
  options_.force = true;
  EXPECT_THAT(make_shards(tree, out(), options_).error().message(), HasSubstr(".db, .heic"));
}

TEST_F(RecordForms, ADirectoryWithCaptionsIsNotReadWithoutThem) {
  records(R"({"file_name": "b.png", "text": "x"})", "metadata.jsonl");
  const auto refused = make_shards(scratch_.path(), out(), options_);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code(), ErrorCode::kInvalidArgument);
  EXPECT_THAT(refused.error().message(), HasSubstr("metadata.jsonl"));
}

struct BadCase {
  const char* record;
  const char* says;
};

class BadRecord : public RecordForms, public testing::WithParamInterface<BadCase> {
 protected:
  // Checks that the record is refused as a line and as an element of an array.
  void is_refused(std::string_view good, std::string_view good_name) {
    const std::string line(GetParam().record);
    for (const auto& [text, name, place] :
         {std::tuple(std::string(good) + "\n" + line + "\n", "data.jsonl", "data.jsonl:2"),
          std::tuple("[" + std::string(good) + ",\n" + line + "]", "data.json",
                     "data.json:2, element 2")}) {
      options_.force = true;
      options_.skip_bad = false;
      const auto refused = make(text, name);
      ASSERT_FALSE(refused.has_value());
      EXPECT_EQ(refused.error().code(), ErrorCode::kCorrupt);
      EXPECT_THAT(refused.error().message(), HasSubstr(place));
      EXPECT_THAT(refused.error().message(), HasSubstr(GetParam().says));
      options_.skip_bad = true;
      const auto made = make(text, name);
      ASSERT_TRUE(made.has_value()) << made.error().message();
      EXPECT_EQ(made->samples, 1U);
      ASSERT_EQ(made->bad.size(), 1U);
      EXPECT_THAT(made->bad[0].shard, testing::EndsWith(place));
      EXPECT_THAT(made->bad[0].reason, HasSubstr(GetParam().says));
      EXPECT_EQ(names().back(), good_name);
    }
  }
};

TEST_P(BadRecord, IsAnErrorThatNamesItsPlaceOrIsLeftOut) {
  is_refused(R"({"id": "good", "conversations": [{"from": "human", "value": "hello"}]})",
             "good.json");
}

#define TURN(value) R"("conversations": [{"from": "human", "value": ")" value R"("}]})"
#define PART(part) R"({"messages": [{"role": "user", "content": [)" part R"(]}]})"

// tests/conversations.json has the errors of conversations.
INSTANTIATE_TEST_SUITE_P(
    Conversations, BadRecord,
    testing::Values(
        BadCase{R"({"image": "b.png", )" TURN("<image><image>"),
                "2 <image> placeholders (turn 1) for 1 image file"},
        BadCase{R"({"image": "http://example.org/a.jpg", )" TURN("<image>"), "download it first"},
        BadCase{R"({"image": "s3://bucket/a.jpg", )" TURN("<image>"), "download it first"},
        BadCase{R"({"image": "data:image/png;base64,AAAA", )" TURN("<image>"), "base64"},
        BadCase{R"({"image": "../out.png", )" TURN("<image>"), "leaves the directory"},
        BadCase{R"({"image": "a/../../out.png", )" TURN("<image>"), "leaves the directory"},
        BadCase{R"({"image": "", )" TURN("<image>"),
                "1 <image> placeholder (turn 1) for 0 image files"},
        BadCase{R"({"image": "b\u0000.png", )" TURN("<image>"), "control character"},
        BadCase{R"({"image": "gone.png", )" TURN("<image>"), "gone.png"},
        BadCase{R"({"image": "junk.png", )" TURN("<image>"), "PNG"},
        BadCase{R"({"image": "x.tiff", )" TURN("<image>"), "no format that is read"},
        BadCase{R"({"image": "b", )" TURN("<image>"), "not the extension of"},
        BadCase{R"({"image": "v.mp4", )" TURN("<image>"),
                "is video (MP4), but its record names it as image"},
        BadCase{R"({"id": ["a"], )" TURN("x"), "neither a string nor a number"},
        BadCase{R"({"id": "a.b", )" TURN("x"), "dot"},
        BadCase{R"({"id": "../a", )" TURN("x"), "'..'"},
        BadCase{R"({"id": "good", )" TURN("x"), "the id was used before"},
        BadCase{R"({"weight": "heavy", )" TURN("x"), "'weight' that is no number"},
        BadCase{R"({"image": "b.png"})", "no \"messages\" and no \"conversations\""},
        BadCase{R"({"messages": ["x"]})", "turn 1: not an object"},
        BadCase{PART(R"({"type": "image_url", "image_url": {"url": "HTTPS://example.org/a.jpg"}})"),
                "download it first"},
        BadCase{R"({"messages": )", "end"},
        BadCase{"{\"id\": \"\xFF\"}",
                "the record is wrong at line 1, column 9: UTF-8 is expected, and '?\"}' stands "
                "there"}));

class BadCaption : public BadRecord {};

TEST_P(BadCaption, IsAnErrorThatNamesItsPlaceOrIsLeftOut) {
  is_refused(R"({"id": "good", "file_name": "b.png", "text": "hello"})", "good.txt");
}

INSTANTIATE_TEST_SUITE_P(
    Captions, BadCaption,
    testing::Values(BadCase{R"({"file_name": "b.png"})", "no string \"text\" or \"caption\""},
                    BadCase{R"({"file_name": "b.png", "text": 5})", "no string"},
                    BadCase{R"({"file_name": "b.png", "text": ""})", "zero bytes"},
                    BadCase{R"({"file_name": 5, "text": "x"})", "\"file_name\" is no string"},
                    BadCase{R"({"file_name": "b.png", "image": "b.png", "text": "x"})",
                            "beside it"},
                    BadCase{R"({"text": "x"})", "no \"file_name\" or \"image\""},
                    BadCase{R"({"file_name": "../b.png", "text": "x"})", "leaves the directory"}));

TEST_F(RecordForms, TheFirstObjectTellsTheForm) {
  EXPECT_THAT(make(R"({"data": []})").error().message(), HasSubstr("none of the forms"));
  EXPECT_THAT(make("{\n").error().message(),
              HasSubstr("line 1, column 2: a name in double quotes is expected, and the end"));
  options_.skip_bad = true;
  const auto made = make(
      "no JSON\n{\"data\": []}\n"
      R"({"file_name": "b.png", "text": "x"})"
      "\n"
      R"({"key": "k", "parts": [{"name": "txt", "text": "x"}]})");
  ASSERT_TRUE(made.has_value());
  EXPECT_EQ(made->samples, 1U);
  EXPECT_EQ(made->bad.size(), 3U);
}

TEST_F(RecordForms, DeepAndWideRecordsAreRefusedBeforeTheyAreParsed) {
  const auto record = [](const std::string& more) {
    return R"({"conversations": [{"from": "human", "value": "x"}], "more": )" + more + "}";
  };
  const auto nested = [](std::size_t depth) {
    return std::string(depth, '[') + std::string(depth, ']');
  };
  ASSERT_TRUE(make(record(nested(60))).has_value());
  options_.force = true;
  EXPECT_THAT(make(record(nested(66))).error().message(), HasSubstr("64 deep"));
  EXPECT_THAT(make(record(nested(1'000'000))).error().message(), HasSubstr("68 deep"));
  std::string wide = "{";
  for (int i = 0; i < 5000; ++i) wide += "\"" + std::to_string(i) + "\": 0,";
  wide.back() = '}';
  EXPECT_THAT(make(record(wide)).error().message(), HasSubstr("more than 4096 members"));
}

// The texts of all records, or the reasons why there is none.
std::vector<std::string> read_all(const fs::path& file) {
  auto records = JsonRecords::open(file);
  EXPECT_TRUE(records.has_value());
  std::vector<std::string> found;
  for (;;) {
    auto record = (*records)->next();
    if (record && !*record) break;
    found.push_back(record ? **record : "(" + record.error().message() + ")");
  }
  EXPECT_LE((*records)->done(), (*records)->total());
  return found;
}

// json.dump writes NaN and Infinity, and pandas has them where a table has no value.
TEST_F(RecordForms, RecordsArePythonsJson) {
  const std::string record =
      R"({"id": "1", "image": "images/a.jpg", "conversations": [{"from": "human", "value": "<image>"}, {"from": "gpt", "value": "yes"}], "score": NaN})";
  auto made = make(record);
  ASSERT_TRUE(made.has_value()) << made.error().message();
  EXPECT_EQ(members(), (Members{{"1.000.jpg", jpeg_}, {"1.json", record}}));
  options_.force = true;
  made =
      make(R"({"file_name": "b.png", "text": "x", "score": NaN, "more": [-Infinity, {"a": 1.5}]})");
  ASSERT_TRUE(made.has_value()) << made.error().message();
  EXPECT_EQ(members()[2].second,
            R"({"file_name":"b.png","score":NaN,"more":[-Infinity,{"a":1.5}]})");
  made = make(
      R"({"key": "k", "parts": [{"name": "txt", "text": "x"}, {"name": "json", "json": {"score": Infinity}}]})");
  ASSERT_TRUE(made.has_value()) << made.error().message();
  EXPECT_EQ(members()[1].second, R"({"score":Infinity})");
  EXPECT_THAT(make(R"({"id": NaN, "file_name": "b.png", "text": "x"})").error().message(),
              HasSubstr("\"id\" is neither"));
}

TEST_F(RecordForms, WhatTheIndexDoesNotReadIsCounted) {
  const auto made = make(
      R"({"key": "k", "parts": [{"name": "txt", "text": "x"}, {"name": "json", "json": {"text": "y", "url": null}}, {"name": "meta.json", "json": []}, {"name": "cls", "text": "1"}]})");
  ASSERT_TRUE(made.has_value()) << made.error().message();
  EXPECT_THAT(unread(*made), ElementsAre("JSON key text 1", "part cls 1", "part meta.json 1"));
}

TEST_F(RecordForms, ColumnsWithoutAMediumNameNone) {
  const auto made = make(
      R"({"id": "1", "image": "", "video": [null], "conversations": [{"from": "human", "value": "hi"}]})"
      "\n"
      R"({"id": "2", "image": "b.png", "video": null, "conversations": [{"from": "human", "value": "<image>"}]})");
  ASSERT_TRUE(made.has_value()) << made.error().message();
  EXPECT_THAT(names(), ElementsAre("1.json", "2.000.png", "2.json"));
}

TEST_F(RecordForms, TheContentOfAFileMustBeWhatItsRecordSays) {
  write_file(scratch_ / "sound.mp4", wav_);
  const std::string audio = R"({"id": "1", "audio": "sound.mp4", )" TURN("<audio>");
  ASSERT_TRUE(make(audio).has_value());
  const std::string image = R"({"id": "1", "image": "sound.mp4", )" TURN("<image>");
  options_.force = true;
  EXPECT_THAT(make(image).error().message(),
              HasSubstr("is audio (WAV), but its record names it as image"));
}

TEST_F(RecordForms, AFileOfAnotherEncodingIsNamed) {
  const std::string marked("\xFF\xFE{\0}\0", 6);
  EXPECT_THAT(make(marked).error().message(), HasSubstr("data.jsonl: is UTF-16 text"));
  const std::string unmarked("{\0\"\0a\0\"\0", 8);
  EXPECT_THAT(make(unmarked).error().message(), HasSubstr("data.jsonl: is UTF-16 text"));
}

TEST_F(RecordForms, ArraysThatAreDamaged) {
  EXPECT_THAT(read_all(records("[]")), IsEmpty());
  EXPECT_THAT(read_all(records(" [ \n ] \n")), IsEmpty());
  EXPECT_THAT(read_all(records("[1, \"a,]\\\"]\" , {\"b\": [2, 3]}]")),
              ElementsAre("1", R"("a,]\"]")", R"({"b": [2, 3]})"));
  EXPECT_THAT(read_all(records("[1,,2]")), ElementsAre("1", "", "2"));
  EXPECT_THAT(read_all(records("[1] 2")), ElementsAre("1", HasSubstr("follows the end")));
  EXPECT_THAT(read_all(records("[1, {\"a\"")), ElementsAre("1", HasSubstr("does not end")));
  EXPECT_THAT(read_all(records("[1, ")), ElementsAre("1", HasSubstr("does not end")));
  EXPECT_THAT(read_all(records("[")), ElementsAre(HasSubstr("does not end")));
}

TEST_F(RecordForms, ARecordThatIsTooLongIsLeftOut) {
  const std::string large(JsonRecords::kMaxBytes - 2, 'x');
  EXPECT_EQ(read_all(records("\"" + large + "\"\n1\n")).front().size(), JsonRecords::kMaxBytes);
  EXPECT_THAT(read_all(records("\"" + large + "x\"\n1\n")),
              ElementsAre("(longer than 64 MiB)", "1"));
  EXPECT_THAT(read_all(records("[\"" + large + "x\", 1]")),
              ElementsAre("(longer than 64 MiB)", "1"));
}

}  // namespace
}  // namespace isocost
