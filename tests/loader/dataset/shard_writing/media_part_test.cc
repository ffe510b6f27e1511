// Media that records hold in base64 or name by paths that are spelt otherwise.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/base64.h"
#include "loader/dataset/records/internal/percents.h"
#include "loader/dataset/shard_writing/make_shards.h"
#include "tests/loader/dataset/shard_writing/records_fixture.h"
#include "tests/support/tar_files.h"

namespace isocost {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

std::string base64(std::string_view bytes, std::string_view last_two = "+/") {
  std::string text = encode_base64(bytes);
  std::ranges::replace(text, '+', last_two[0]);
  std::ranges::replace(text, '/', last_two[1]);
  return text;
}

TEST(Percents, AreDecodedWhereTheyAreWhole) {
  EXPECT_EQ(decode_percents("a%20b%2Fc%C3%a9%"), "a b/c\xC3\xA9%");
  EXPECT_EQ(decode_percents("100%-1%zz%2"), "100%-1%zz%2");
}

class MediaPart : public RecordsFixture {
 protected:
  std::string messages(const std::string& part) const {
    return R"({"id": "1", "score": 1.0e2, "messages": [{"role": "user", "content": [)" + part +
           R"(]}, {"role": "assistant", "content": "yes"}]})";
  }
  std::string conversation(const std::string& image) const {
    return R"({"id": "1", "image": )" + image +
           R"(, "conversations": [{"from": "human", "value": "<image>"}, {"from": "gpt", "value": "yes"}]})";
  }
  std::string error_of(const std::string& image) {
    options_.force = true;
    const auto made = make(conversation(image));
    return made ? "" : made.error().message();
  }
  // Makes a sample of an image and returns what is logged.
  std::vector<std::string> remarks_of(const std::string& text) {
    std::vector<std::string> said;
    options_.force = true;
    options_.log = [&](LogLevel, std::string_view line) { said.emplace_back(line); };
    const auto made = make(text);
    EXPECT_TRUE(made.has_value()) << made.error().message();
    return said;
  }
};

TEST_F(MediaPart, BytesInBase64BecomeAPartAndLeaveTheRecord) {
  const std::string png = base64(png_);
  const std::string lines = png.substr(0, 8) + "\\r\\n" + png.substr(8);
  const std::string url = "data:image/png;base64," + png;
  for (
      const std::string& part : {
          R"({"type": "image_url", "image_url": {"url": ")" + url + R"("}})",
          R"({"type": "input_image", "image_url": "DATA:image/png;charset=utf-8;BASE64,)" + png +
              R"("})",
          R"({"type": "image", "image": ")" + url + R"(", "url": ")" + url + R"("})",
          R"({"type": "image", "image": ")" + lines + R"("})",
          R"({"type": "image", "image": {"bytes": ")" + png + R"(", "path": "gone.png"}})",
          R"({"type": "image", "bytes": ")" + base64(png_, "-_") + R"(", "path": "gone.png"})",
          R"({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": ")" +
              png + R"("}})",
          R"({"type": "image", "image": "data:;base64,)" + png + R"("})",
      }) {
    SCOPED_TRACE(part);
    options_.force = true;
    const auto made = make(messages(part));
    ASSERT_TRUE(made.has_value()) << made.error().message();
    ASSERT_THAT(names(), ElementsAre("1.000.png", "1.json"));
    EXPECT_EQ(members()[0].second, png_);
    EXPECT_THAT(members()[1].second, AllOf(HasSubstr("\"000.png\""), Not(HasSubstr(png.substr(30))),
                                           HasSubstr(R"("score":100.0)")));
  }
}

TEST_F(MediaPart, BytesInListsBecomeParts) {
  const auto made =
      make(R"({"id": "1", "images": [{"bytes": ")" + base64(jpeg_) +
           R"(", "path": null}, "b.png"],)" + R"( "audios": ["data:audio/x-wav;base64,)" +
           base64(wav_) + R"("], "video": ")" + base64(video_) +
           R"(", "conversations": [{"from": "human", "value": "<image><audio><image><video>"},)" +
           R"( {"from": "gpt", "value": "yes"}]})");
  ASSERT_TRUE(made.has_value()) << made.error().message();
  EXPECT_THAT(names(), ElementsAre("1.000.jpg", "1.001.wav", "1.002.png", "1.003.mp4", "1.json"));
  EXPECT_EQ(members()[0].second, jpeg_);
  EXPECT_EQ(members()[1].second, wav_);
  EXPECT_EQ(members()[3].second, video_);
  EXPECT_THAT(
      members()[4].second,
      HasSubstr(R"("images":[{"bytes":"000.jpg","path":null},"b.png"],"audios":["001.wav"],)"
                R"("video":"003.mp4")"));
}

TEST_F(MediaPart, CaptionsAndQuestionsHoldBytes) {
  const std::string url = "\"data:image/jpeg;base64," + base64(png_) + "\"";
  ASSERT_TRUE(make(R"({"image": )" + url + R"(, "text": "x", "more": 1})").has_value());
  EXPECT_EQ(members(), (Members{{"000000001.000.png", png_},
                                {"000000001.txt", "x"},
                                {"000000001.json", R"({"image":"000.png","more":1})"}}));
  options_.force = true;
  ASSERT_TRUE(make(R"({"file_name": )" + url + R"(, "text": "x"})").has_value());
  EXPECT_THAT(names(), ElementsAre("000000001.000.png", "000000001.txt"));
  ASSERT_TRUE(make(R"({"image": )" + url + R"(, "question": "a", "answer": "b"})").has_value());
  EXPECT_THAT(names(), ElementsAre("000000001.000.png", "000000001.json"));
}

// Bytes without marks, such as those of an MP3 after junk, have the format that the record says.
TEST_F(MediaPart, TheRecordsWordCountsWhereTheBytesHaveNoMarks) {
  const std::string sound =
      R"({"type": "input_audio", "input_audio": {"format": "mp3", "data": ")" + base64("no marks") +
      R"("}})";
  EXPECT_THAT(make(messages(sound)).error().message(), HasSubstr("1: 000.mp3: "));
}

TEST_F(MediaPart, DataUrlsMayHaveNoBase64) {
  std::string escaped;
  for (const char c : png_) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    const auto byte = static_cast<unsigned char>(c);
    escaped += '%';
    escaped += kDigits[byte >> 4];
    escaped += kDigits[byte & 15];
  }
  EXPECT_EQ(error_of("\"data:image/png," + escaped + "\""), "");
  EXPECT_EQ(members()[0].second, png_);
  std::string percents = base64(png_);
  for (std::size_t at = 0; (at = percents.find_first_of("+/=", at)) != percents.npos; at += 3) {
    percents.replace(at, 1, percents[at] == '+' ? "%2B" : percents[at] == '/' ? "%2F" : "%3D");
  }
  EXPECT_EQ(error_of("\"data:image/png;base64," + percents + "\""), "");
}

TEST_F(MediaPart, BytesThatAreNoMediumAreNamed) {
  EXPECT_THAT(error_of(R"("data:image/png;base64,AAA!")"),
              HasSubstr("'data:image/png;base64,AAA!' is no base64: '!' is character 4"));
  EXPECT_THAT(error_of(R"("data:text/plain;base64,aGVsbG8gd29ybGQ=")"),
              HasSubstr("holds bytes of no medium that is read"));
  EXPECT_THAT(error_of(R"("data:image/png;base64,")"), HasSubstr("holds zero bytes"));
  EXPECT_THAT(error_of(R"("data:image/png;base64")"), HasSubstr("without a comma"));
  EXPECT_THAT(error_of(R"({"bytes": [137, 80]})"), HasSubstr("'bytes' is a list, and no base64"));
  EXPECT_THAT(error_of(R"({"bytes": "b'\\x89PNG'"})"),
              HasSubstr("is no base64: ''' is character 2"));
  EXPECT_THAT(error_of("\"" + std::string(9000, 'a') + "\""),
              HasSubstr("longer than a path can be, and no base64 of a medium"));
  EXPECT_THAT(error_of("\"data:video/mp4;base64," + base64(wav_) + "\""),
              HasSubstr("is audio (WAV), but its record names it as image"));
}

// A path may look like base64: the file counts.
TEST_F(MediaPart, AFileGoesBeforeBase64OfItsName) {
  const std::string name = base64(png_);
  fs::create_directories((scratch_.path() / name).parent_path());
  write_file(scratch_.path() / name, jpeg_);
  EXPECT_THAT(error_of("\"" + name + "\""), HasSubstr("not the extension of"));
}

TEST_F(MediaPart, PathsThatAreSpeltOtherwiseAreFound) {
  fs::create_directories(scratch_ / "my photos");
  write_file(scratch_ / "my photos/a b.png", png_);
  write_file(scratch_ / "my photos/Caf\xC3\xA9.png", png_);   // composed
  write_file(scratch_ / "my photos/nin\xCC\x83o.png", png_);  // decomposed
  write_file(scratch_ / "100%25.png", png_);                  // an escape that is none
  fs::create_directories(scratch_ / "Fu\xCC\x88r");           // decomposed
  write_file(scratch_ / "Fu\xCC\x88r/\xC3\xA4.png", png_);    // in it a composed one
  const std::string file = "file://" + scratch_.path().string();
  const std::string percents =
      "1 path had escapes of URLs and named a file that is spelt otherwise";
  const std::string windows =
      "1 path had Windows separators and named a file that is spelt otherwise";
  const std::string form =
      "1 path had another Unicode form and named a file that is spelt otherwise";
  const std::string both =
      "1 path had Windows separators and escapes of URLs and named a file that is spelt otherwise";
  for (const auto& [path, remark] : std::vector<std::pair<std::string, std::string>>{
           {"my photos/a b.png", ""},
           {"my photos\\\\a b.png", windows},
           {"my photos\\\\.\\\\..\\\\my photos/a b.png", windows},
           {"my%20photos/a%20b.png", percents},
           {"my%20photos\\\\a%20b.png", both},
           {"my%20photos%5Ca%20b.png", both},
           {"my photos/a b%2Epng", percents},
           {"my photos/Cafe\xCC\x81.png", form},
           {"my photos/ni\xC3\xB1o.png", form},
           {"F\xC3\xBCr/a\xCC\x88.png", form},
           {"my%20photos/Caf%C3%A9.png", percents},
           {"my%20photos/Cafe%CC%81.png",
            "1 path had escapes of URLs and another Unicode form and named a file that is spelt "
            "otherwise"},
           {"100%25.png", ""},
           {file + "/my photos/a b.png", ""},
           {file + "/my%20photos/a%20b.png", percents},
           {"FILE://LOCALHOST" + (scratch_.path() / "b.png").string(), ""},
           {"file:" + (scratch_.path() / "b.png").string(), ""},
           {"file://my%20photos/a%20b.png", percents}}) {
    SCOPED_TRACE(path);
    const auto said = remarks_of(conversation("\"" + path + "\""));
    if (remark.empty()) {
      EXPECT_THAT(said, ElementsAre());
    } else {
      EXPECT_THAT(said, ElementsAre(remark));
    }
    EXPECT_EQ(members()[0].second, png_);
  }
}

TEST_F(MediaPart, RemarksCountPathsOnce) {
  std::string text;
  for (int i = 0; i < 12; ++i) {
    text += R"({"file_name": "images\\a.jpg", "text": "x"})"
            "\n";
  }
  EXPECT_THAT(remarks_of(text), ElementsAre("12 paths had Windows separators and named a file that "
                                            "is spelt otherwise"));
  EXPECT_THAT(remarks_of(R"({"key": "k", "parts": [{"name": "jpg", "file": "images\\a.jpg"}]})"),
              ElementsAre(HasSubstr("1 path had Windows separators")));
}

TEST_F(MediaPart, PathsOfNoOrSeveralFilesAreNamedWithWhatWasTried) {
  EXPECT_THAT(
      error_of(R"("x\\gone%20.png")"),
      HasSubstr(R"('x\gone%20.png': there is no such file in ')" + scratch_.path().string() +
                R"('; tried too: 'x/gone%20.png', 'x\gone .png', 'x/gone .png')"));
  EXPECT_THAT(error_of("\"\xC3\xA4.png\""),
              HasSubstr("tried too: its composed and decomposed Unicode forms"));
  EXPECT_THAT(error_of(R"("/gone.png")"), HasSubstr("'/gone.png': there is no such file"));
  write_file(scratch_ / "a b.png", png_);
  write_file(scratch_ / "x\\a b.png", png_);
  fs::create_directories(scratch_ / "x");
  write_file(scratch_ / "x/a b.png", png_);
  EXPECT_THAT(error_of(R"("x\\a%20b.png")"),
              AllOf(HasSubstr("may be several files, such as "), HasSubstr("x/a b.png'"),
                    HasSubstr(R"(x\a b.png')")));
}

TEST_F(MediaPart, NoSpellingLeavesTheMediaRoot) {
  options_.media_root = scratch_ / "images";
  for (const char* path : {"../b.png", "..\\\\b.png", "%2e%2e/b.png", "..%2Fb.png", "..%5Cb.png",
                           "x/..\\\\..\\\\b.png"}) {
    EXPECT_THAT(error_of("\"" + std::string(path) + "\""), HasSubstr("leaves the directory"))
        << path;
  }
  std::string absolute = (scratch_.path() / "b.png").string();
  for (std::size_t at = 0; (at = absolute.find('/', at)) != absolute.npos;) {
    absolute.replace(at, 1, "%2F");
  }
  EXPECT_THAT(error_of("\"" + absolute + "\""), HasSubstr("leaves the directory"));
  EXPECT_THAT(error_of(R"("%00.png")"), HasSubstr("there is no such file"));
}

TEST_F(MediaPart, PathsOfWindowsGetAdvice) {
  for (const char* path : {R"(C:\\data\\a.jpg)", "C:/data/a.jpg", R"(\\\\host\\share\\a.jpg)",
                           "file:///C:/data/a.jpg", "file:///d:/a.jpg"}) {
    EXPECT_THAT(error_of("\"" + std::string(path) + "\""),
                HasSubstr("is a path of Windows: name files relative to one directory, and give "
                          "that directory as --media-root"))
        << path;
  }
}

}  // namespace
}  // namespace isocost
