// Conversations, captions and class directories: what make_shards writes for each, and what it
// refuses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "loader/dataset/dataset.h"
#include "loader/dataset/records/internal/json_records.h"
#include "loader/dataset/shard_writing/make_shards.h"
#include "tests/loader/dataset/shard_writing/records_fixture.h"
#include "tests/support/tar_files.h"

namespace isocost {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class RecordForms : public RecordsFixture {};

TEST_F(RecordForms, ConversationsThatNeedAModelAreCounted) {
  options_.log = [](LogLevel, std::string_view text) { ADD_FAILURE() << text; };
  const std::string turns =
      R"("messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}])";
  const auto conversations = make("{" + turns + "}\n{" + turns + "}");
  ASSERT_TRUE(conversations.has_value()) << conversations.error().message();
  EXPECT_EQ(conversations->conversations, 2U);
  // native28 reads a text beside the conversation, and captions.
  options_.force = true;
  for (const std::string& record :
       {"{" + turns + R"(, "text": "a"})", std::string(R"({"file_name": "b.png", "text": "a"})")}) {
    const auto others = make(record);
    ASSERT_TRUE(others.has_value()) << others.error().message();
    EXPECT_EQ(others->conversations, 0U);
  }
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
      R"({"conversations": [{"from": "system", "value": "be kind"}, {"from": "human", "value": "<image>"},)"
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
          R"(", "image": null}, {"image": "b.png"}]},)"
          R"( {"role": "assistant", "content": null, "tool_calls": [{"name": "f"}]}]}])",
      "data.json");
  ASSERT_TRUE(made.has_value()) << made.error().message();
  EXPECT_THAT(names(), ElementsAre("m.000.jpg", "m.001.png", "m.002.wav", "m.003.mp4", "m.004.png",
                                   "m.json"));
  EXPECT_THAT(unread(*made), IsEmpty());
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
  write_file(tree / "b.jxl", "alone");
  write_file(tree / "c.jxl", "alone");
  write_file(tree / "Thumbs.db", "alone");
  EXPECT_THAT(make_shards(tree, out(), options_).error().message(),
              HasSubstr("b: jxl: begins as no format that is read: convert it, or leave such parts "
                        "out with --ignore-parts jxl"));
  options_.reading.ignore_parts = "jxl";
  const auto made = make_shards(tree, out(), options_);
  ASSERT_TRUE(made.has_value()) << made.error().message();
  EXPECT_THAT(names(), ElementsAre("a.bin", "a.json", "a.png"));
  EXPECT_THAT(unread(*made),
              ElementsAre("JSON key url 1", "file db 1", "file jxl 2", "part bin 1"));

  for (const char* name : {"a.png", "a.bin", "a.json"}) fs::remove(tree / name);
  options_.force = true;
  EXPECT_THAT(make_shards(tree, out(), options_).error().message(), HasSubstr(".db, .jxl"));
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
        BadCase{R"({"image": "../out.png", )" TURN("<image>"), "leaves the directory"},
        BadCase{R"({"image": "a/../../out.png", )" TURN("<image>"), "leaves the directory"},
        BadCase{R"({"image": "", )" TURN("<image>"),
                "1 <image> placeholder (turn 1) for 0 image files"},
        BadCase{R"({"image": "b\u0000.png", )" TURN("<image>"), "control character"},
        BadCase{R"({"image": "gone.png", )" TURN("<image>"), "gone.png"},
        BadCase{R"({"image": "junk.png", )" TURN("<image>"), "PNG"},
        BadCase{R"({"image": "x.tiff", )" TURN("<image>"), "is no TIFF"},
        BadCase{R"({"label": false, )" TURN("hi"), "is preference data"},
        BadCase{R"({"image": "b", )" TURN("<image>"), "'b': there is no such file in '"},
        BadCase{R"({"image": "bare", )" TURN("<image>"), "not the extension of"},
        BadCase{R"({"image": "v.mp4", )" TURN("<image>"),
                "is video (MP4), but its record names it as image"},
        BadCase{R"({"id": ["a"], )" TURN("x"), "neither a string nor a number"},
        BadCase{R"({"id": "a.b", )" TURN("x"), "dot"},
        BadCase{R"({"id": "../a", )" TURN("x"), "'..'"},
        BadCase{R"({"id": "good", )" TURN("x"), "the id was used before"},
        BadCase{R"({"weight": "heavy", )" TURN("x"), "'weight' that is no number"},
        BadCase{R"({"image": "b.png"})", "no \"messages\" and no \"conversations\""},
        BadCase{R"({"messages": ["x"]})", "turn 1: not an object"},
        BadCase{R"({"id": "k", "messages": [{"role": "Narrator", "content": "x"}]})",
                "turn 1: role 'Narrator' is none of system, developer, user, assistant, tool, "},
        BadCase{PART(R"({"type": "document", "text": "..."})"),
                "turn 1: a content part has the type 'document', which is none of text, image, "},
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

constexpr std::string_view kTwoLines = R"({"file_name": "b.png", "text": "x"})"
                                       "\n"
                                       R"({"file_name": "images/a.jpg", "text": "y"})"
                                       "\n";

TEST_F(RecordForms, CompressedRecordsAreReadByTheirContent) {
  const std::string array = R"([{"file_name": "b.png", "text": "x"},)"
                            "\n"
                            R"({"file_name": "images/a.jpg", "text": "y"}])";
  const std::string skipped("\x50\x2A\x4D\x18\x04\0\0\0skip", 12);
  const std::string half(kTwoLines.substr(0, 20));
  const std::string rest(kTwoLines.substr(20));
  for (const auto& [name, bytes] :
       {std::pair("data.jsonl.gz", gzip(kTwoLines)),
        {"data.jsonl.zst", zstd(kTwoLines)},
        {"data.json.gz", gzip(array)},
        {"data.jsonl", gzip(half) + gzip("") + gzip(rest) + std::string(700, '\0')},
        {"data.gz", skipped + zstd("\n \n") + zstd(half) + skipped + zstd(rest)},
        {"data.json.zst", zstd(" ") + zstd(array)}}) {
    SCOPED_TRACE(name);
    options_.force = true;
    std::uint64_t done = 0;
    std::uint64_t total = 0;
    options_.progress = [&](std::uint64_t now, std::uint64_t all, std::string_view) {
      EXPECT_GE(now, done);
      done = now;
      total = all;
    };
    const auto made = make(bytes, name);
    ASSERT_TRUE(made.has_value()) << made.error().message();
    EXPECT_EQ(made->samples, 2U);
    EXPECT_EQ(total, bytes.size());
    EXPECT_LE(done, total);
  }
}

TEST_F(RecordForms, ACompressedFileOfRecordsThatIsNotWholeIsNamed) {
  options_.skip_bad = true;  // a file is no bad record
  std::string text;
  for (int i = 0; i < 40'000; ++i) {
    text += R"({"id": )" + std::to_string(i * 7919) + R"(, "messages": [{"role": "user", )" +
            R"("content": "x"}]})" + "\n";
  }
  for (const std::string& whole : {gzip(text), zstd(text)}) {
    EXPECT_THAT(make(whole.substr(0, whole.size() / 2), "data.jsonl.gz").error().message(),
                testing::AllOf(HasSubstr("data.jsonl.gz: the "), HasSubstr("is cut off at byte")));
    std::string damaged = whole;
    damaged[damaged.size() - 6] = static_cast<char>(damaged[damaged.size() - 6] ^ 1);
    damaged.back() = static_cast<char>(damaged.back() ^ 1);
    EXPECT_THAT(make(damaged).error().message(),
                testing::AllOf(HasSubstr("data.jsonl: the "), HasSubstr("is damaged near byte")));
    EXPECT_THAT(make(whole + "{\"more\": 1}").error().message(),
                HasSubstr("behind the end of its"));
    EXPECT_FALSE(fs::exists(out()));
  }
}

TEST_F(RecordForms, FilesOfOtherFormatsAreNamedWithAdvice) {
  std::string tar(512, '\0');
  tar.replace(257, 5, "ustar");
  for (const auto& [bytes, says] :
       {std::pair(std::string("BZh91AY&SY"), "it is compressed by bzip2; unpack it, or compress"),
        {std::string("\xFD"
                     "7zXZ\0\0",
                     7),
         "it is compressed by xz; unpack it"},
        {std::string("PK\x03\x04\x14"), "it is a ZIP archive; unpack it"},
        {std::string("7z\xBC\xAF\x27\x1C"), "it is a 7z archive; unpack it"},
        {std::string("\x04\x22\x4D\x18"), "it is compressed by lz4; unpack it"},
        {std::string("PAR1"), "it is a Parquet file; write its rows as JSON lines"},
        {std::string("ARROW1"), "it is an Arrow file; write its rows as JSON lines"},
        {std::string("version https://git-lfs.github.com/spec/v1"), "git lfs pull"},
        {std::string("<!DOCTYPE html>"), "it is an HTML or XML page"},
        {tar, "it is a tar archive"},
        {gzip(tar), "it is a tar archive"}}) {
    EXPECT_THAT(make(bytes, "data.jsonl").error().message(),
                testing::AllOf(HasSubstr("data.jsonl: no records of JSON: "), HasSubstr(says)));
  }
}

TEST_F(RecordForms, ARecordThatIsTooLongIsLeftOut) {
  const std::string large(JsonRecords::kMaxBytes - 2, 'x');
  EXPECT_EQ(read_all(records("\"" + large + "\"\n1\n")).front().size(), JsonRecords::kMaxBytes);
  EXPECT_THAT(read_all(records("\"" + large + "x\"\n1\n")),
              ElementsAre(HasSubstr("longer than 64 MiB, the limit of a record"), "1"));
  EXPECT_THAT(read_all(records("[\"" + large + "x\", 1]")),
              ElementsAre(HasSubstr("longer than 64 MiB, the limit of a record"), "1"));
}

}  // namespace
}  // namespace isocost
