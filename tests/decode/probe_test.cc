#include "decode/probe.h"
#include "decode/bytes/sample_json.h"
#include "decode/bytes/sniff.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/media.h"

namespace isocost {
namespace {

using test::Bytes;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

Result<PartShape> probe_bytes(const Bytes& bytes, std::string_view name,
                              const ProbeLimits& limits = {}) {
  return probe(MemoryByteSource(bytes), name, limits);
}

Bytes text(std::string_view value) { return test::text_bytes(value); }

const std::vector<std::pair<MediaFormat, std::string>> kImages = {{MediaFormat::kJpeg, "jpg"},
                                                                  {MediaFormat::kPng, "0.png"},
                                                                  {MediaFormat::kWebp, "WEBP"},
                                                                  {MediaFormat::kGif, "a.b.gif"},
                                                                  {MediaFormat::kBmp, "bmp"}};

void append_be32(Bytes& bytes, std::uint32_t value) {
  for (const int shift : {24, 16, 8, 0}) bytes.push_back(static_cast<std::byte>(value >> shift));
}

/// Signature and header only, as a bomb would begin.
Bytes png_header(std::uint32_t width, std::uint32_t height) {
  Bytes bytes = text(std::string_view("\x89PNG\r\n\x1A\n\0\0\0\x0DIHDR", 16));
  append_be32(bytes, width);
  append_be32(bytes, height);
  const Bytes rest = text(std::string_view("\x08\x02\0\0\0", 5));
  bytes.insert(bytes.end(), rest.begin(), rest.end());
  append_be32(bytes, static_cast<std::uint32_t>(
                         crc32(0, reinterpret_cast<const Bytef*>(bytes.data() + 12), 17)));
  const Bytes data = text(std::string_view("\0\0\0\0IDAT", 8));
  bytes.insert(bytes.end(), data.begin(), data.end());
  return bytes;
}

TEST(ProbeImage, GivesFormatAndSize) {
  for (const auto& [format, name] : kImages) {
    const auto shape = probe_bytes(test::make_image(format, 123, 45), name);
    ASSERT_TRUE(shape.has_value()) << name << shape.error().to_string();
    EXPECT_EQ(shape->format, format);
    EXPECT_EQ(shape->modality, Modality::kImage);
    EXPECT_EQ(shape->width, 123);
    EXPECT_EQ(shape->height, 45);
    EXPECT_EQ(shape->orientation, 1);
  }
}

TEST(ProbeImage, ReadsEveryWebpKind) {
  const auto picture = test::gradient(123, 45, 1);
  std::vector<std::uint8_t> alpha(std::size_t{123} * 45, 90);
  for (const Bytes& bytes : {test::make_webp(picture, false), test::make_webp(picture, true),
                             test::make_webp(picture, alpha)}) {
    const auto shape = probe_bytes(bytes, "webp");
    ASSERT_TRUE(shape.has_value());
    EXPECT_EQ(shape->width, 123);
    EXPECT_EQ(shape->height, 45);
  }
}

TEST(ProbeImage, TellsWhichJpegsAreHeldWhole) {
  test::JpegSpec spec;
  EXPECT_EQ(probe_bytes(test::make_jpeg(test::gradient(60, 50, 1), spec), "jpg")->channels, 0);
  spec.progressive = true;
  EXPECT_EQ(probe_bytes(test::make_jpeg(test::gradient(60, 50, 1), spec), "jpg")->channels, 3);
}

TEST(ProbeImage, TurnsBySidesOfExifInEitherByteOrder) {
  for (int orientation = 2; orientation <= 8; ++orientation) {
    for (const bool big : {false, true}) {
      test::JpegSpec spec;
      spec.orientation = orientation;
      spec.big_endian_exif = big;
      const auto shape = probe_bytes(test::make_jpeg(test::gradient(60, 50, 1), spec), "jpg");
      ASSERT_TRUE(shape.has_value());
      EXPECT_EQ(shape->orientation, orientation);
      EXPECT_EQ(shape->width, orientation > 4 ? 50 : 60);
    }
  }
}

TEST(ProbeImage, StepsOverLargeSegmentsWithoutReadingThem) {
  test::JpegSpec spec;
  spec.app_bytes = 10 << 20;
  const Bytes bytes = test::make_jpeg(test::gradient(60, 50, 1), spec);
  const MemoryByteSource memory(bytes);
  const test::CountingByteSource source(memory);
  ASSERT_TRUE(probe(source, "jpg", {}).has_value());
  EXPECT_LT(source.bytes_read(), 1 << 20);
}

TEST(ProbeImage, RefusesABombBeforeAnythingIsAllocated) {
  const auto huge = probe_bytes(png_header(60'000, 60'000), "png");
  ASSERT_FALSE(huge.has_value());
  EXPECT_EQ(huge.error().code(), ErrorCode::kResourceExhausted);
  EXPECT_THAT(huge.error().message(), HasSubstr("60000x60000"));
  ProbeLimits limits;
  limits.max_pixels = 60'000LL * 60'000;
  EXPECT_TRUE(probe_bytes(png_header(60'000, 60'000), "png", limits).has_value());
  limits.max_pixels = 99;
  for (const auto& [format, name] : kImages) {
    EXPECT_EQ(probe_bytes(test::make_image(format, 10, 10), name, limits).error().code(),
              ErrorCode::kResourceExhausted);
  }
}

TEST(ProbeImage, RefusesSizesThatCannotBe) {
  EXPECT_EQ(probe_bytes(png_header(0, 5), "png").error().code(), ErrorCode::kCorrupt);
  EXPECT_EQ(probe_bytes(png_header(0x80000000U, 5), "png").error().code(), ErrorCode::kCorrupt);
}

TEST(ProbeImage, APrefixGivesTheSameShapeOrAnErrorOfOurs) {
  for (const auto& [format, name] : kImages) {
    const Bytes bytes = test::make_image(format, 40, 30);
    const PartShape whole = *probe_bytes(bytes, name);
    for (std::size_t n = 0; n < std::min<std::size_t>(bytes.size(), 2000); ++n) {
      const auto shape =
          probe_bytes(Bytes(bytes.begin(), bytes.begin() + static_cast<long>(n)), name);
      if (shape.has_value()) {
        EXPECT_EQ(shape->width, whole.width);
        EXPECT_EQ(shape->height, whole.height);
      } else {
        EXPECT_EQ(shape.error().code(), ErrorCode::kCorrupt) << name << " " << n;
      }
    }
  }
}

TEST(Probe, ReadsMediaByTheirContent) {
  const auto format = [](const Bytes& bytes, std::string_view name) {
    const auto shape = probe_bytes(bytes, name);
    EXPECT_TRUE(shape.has_value()) << name << ": " << shape.error().to_string();
    return shape.has_value() ? format_name(shape->format) : "";
  };
  const Bytes wav = test::make_wav(test::sine(16'000, 1, 100, 440), 16'000, 1);
  EXPECT_EQ(format(test::make_png(9, 9), "cat.jpg"), "PNG");
  EXPECT_EQ(format(test::make_gif(9, 9), "jpeg"), "GIF");
  EXPECT_EQ(format(test::make_webp(9, 9), "jpg"), "WebP");
  EXPECT_EQ(format(test::make_bmp(9, 9), "jfif"), "BMP");
  EXPECT_EQ(format(test::make_jpeg(9, 9), "png"), "JPEG");
  EXPECT_EQ(format(wav, "mp3"), "WAV");
  EXPECT_EQ(format(test::make_video({}), "mkv"), "MP4");
  Bytes tagged = text(std::string_view("ID3\x03\0\0\0\0\0\x05     ", 15));
  const Bytes flac =
      test::make_audio(MediaFormat::kFlac, test::sine(16'000, 1, 2000, 440), 16'000, 1);
  tagged.insert(tagged.end(), flac.begin(), flac.end());
  EXPECT_EQ(format(tagged, "mp3"), "FLAC");
  // Content decides what a part is, too.
  EXPECT_EQ(format(wav, "mp4"), "WAV");
  EXPECT_EQ(format(test::make_bmp(9, 9), "wav"), "BMP");
}

// Bytes of sounds may equal the marks of MPEG-TS.
TEST(Probe, ReadsSoundsWithTheMarkOfAnotherFormatAsSounds) {
  const auto begins = [](std::initializer_list<std::size_t> marks, std::size_t size,
                         std::initializer_list<std::size_t> frames) {
    std::vector<std::uint8_t> head(size, 0x55);
    for (const std::size_t at : marks) head[at] = 0x47;
    for (const std::size_t at : frames) {
      head[at] = 0xFF;
      head[at + 1] = 0xFB;
      head[at + 2] = 0x54;
      head[at + 3] = 0xC4;
    }
    return sniff(head);
  };
  EXPECT_EQ(begins({4, 196}, 512, {0}), MediaFormat::kMp3);
  EXPECT_EQ(begins({4, 196, 388}, 512, {0, 192, 384}), MediaFormat::kMp3);
  EXPECT_EQ(begins({4, 196, 388}, 512, {}), MediaFormat::kMpegTs);
  EXPECT_EQ(begins({4, 196, 388}, 512, {0}), MediaFormat::kMpegTs);  // a time
  EXPECT_EQ(begins({4, 196}, 388, {}), MediaFormat::kMpegTs);
  EXPECT_EQ(begins({0, 188, 376}, 512, {}), MediaFormat::kMpegTs);
  EXPECT_EQ(begins({0, 188}, 376, {}), MediaFormat::kMpegTs);
  EXPECT_EQ(begins({0, 188}, 512, {}), std::nullopt);
}

// Noise with the mark of ADTS has no stream that could be a video.
TEST(Probe, NamesOnlyTheStreamThatAFormatMayHold) {
  Bytes noise = text("\xFF\xF1\x50\x80\x02\x1F\xFC");
  std::uint32_t state = 1;
  while (noise.size() < 20'000) {
    state = state * 1'664'525U + 1'013'904'223U;
    noise.push_back(static_cast<std::byte>(state >> 24));
  }
  const auto shape = probe_bytes(noise, "a.aac");
  ASSERT_FALSE(shape.has_value());
  EXPECT_THAT(shape.error().message(), Not(HasSubstr("video")));
}

TEST(Probe, NamesFormatsThatAreNotRead) {
  const auto message = [](const Bytes& bytes, std::string_view name) {
    const auto shape = probe_bytes(bytes, name);
    if (shape.has_value()) return std::string();
    EXPECT_EQ(shape.error().code(), ErrorCode::kCorrupt);
    return shape.error().message();
  };
  const auto head = [](std::string_view marks) {
    Bytes bytes = text(marks);
    bytes.resize(200, std::byte{1});
    return bytes;
  };
  EXPECT_EQ(message(head("\xFF\x0A"), "jpg"),
            "is JPEG XL, not JPEG as its name says, and is not read: convert it");
  EXPECT_THAT(message(head(std::string_view("\0\0\0\x0CjP  ", 8)), "avif"),
              HasSubstr("is JPEG 2000, not AVIF"));
  EXPECT_THAT(message(head(std::string_view("\0\0\0\x14"
                                            "ftypjp2 ",
                                            12)),
                      "mp4"),
              HasSubstr("is JPEG 2000, not MP4"));
  EXPECT_THAT(message(head(".snd"), "wav"), HasSubstr("is AU, not WAV"));
  EXPECT_THAT(message(head("riff\x2E\x91\xCF\x11"), "wav"), HasSubstr("is Wave64, not WAV"));
  EXPECT_THAT(message(head("wvpk"), "wav"), HasSubstr("is WavPack, not WAV"));
  EXPECT_THAT(message(head("\x0B\x77"), "ac3"), HasSubstr("is AC-3, which is not read"));
  EXPECT_THAT(message(head(std::string_view("\0\0\x01\xB3", 4)), "mpg"),
              HasSubstr("is MPEG video without a container, not MPEG-PS"));
  EXPECT_THAT(message(head(std::string_view("\0\0\0\x01\x67", 5)), "mp4"),
              HasSubstr("is H.264 without a container, not MP4"));
  EXPECT_THAT(message(head("<!DOCTYPE html>"), "jpg"), HasSubstr("is a web page, not JPEG"));
  EXPECT_THAT(message(head("\xFF\xFEh"), "mp3"), HasSubstr("is UTF-16 text, not MP3"));
  EXPECT_EQ(message(text(std::string_view("\xFF\xFEh\0i\0", 6)), "txt"),
            "is UTF-16 text, not UTF-8 text as its name says");
  EXPECT_THAT(message(text(std::string_view("\xFE\xFF\0{\0}", 6)), "json"),
              HasSubstr("is UTF-16 text, not JSON"));
  EXPECT_THAT(message(test::make_png(9, 9), "txt"), HasSubstr("is PNG, not UTF-8 text"));
  // Texts in Latin-1 whose words are marks of media.
  EXPECT_EQ(message(text("The free caf\xE9"), "txt"), "is not UTF-8 at byte 12");
  EXPECT_EQ(message(text("ID3 tags of caf\xE9s"), "txt"), "is not UTF-8 at byte 15");
  EXPECT_THAT(message(test::make_gif(9, 9), "json"), HasSubstr("is GIF, not JSON"));
  EXPECT_THAT(message(text("not a picture at all, and longer than any header"), "jpg"),
              HasSubstr("is no JPEG"));
}

TEST(Probe, RefusesZeroBytesOfMediaAndUnknownExtensions) {
  for (const std::string name : {"jpg", "png", "webp", "gif", "bmp", "wav", "flac", "ogg", "opus",
                                 "mp3", "mp4", "mkv", "avi", "json"}) {
    EXPECT_EQ(probe_bytes({}, name).error().code(), ErrorCode::kCorrupt) << name;
  }
  EXPECT_EQ(probe_bytes({}, "txt")->text_bytes, 0) << "the transcript of silence";
  EXPECT_EQ(probe_bytes(text("x"), "exe").error().code(), ErrorCode::kUnsupported);
  EXPECT_EQ(probe_bytes(text("x"), "").error().code(), ErrorCode::kUnsupported);
}

TEST(Probe, PassesOnReadErrors) {
  const Bytes bytes = test::make_png(9, 9);
  const MemoryByteSource memory(bytes);
  const test::FailingByteSource source(memory, 0);
  EXPECT_EQ(probe(source, "png", {}).error().code(), ErrorCode::kIo);
}

TEST(ProbeText, CountsBytesAndChecksWhatItSees) {
  EXPECT_EQ(probe_bytes(text("naïve"), "caption.txt")->text_bytes, 6);
  EXPECT_THAT(probe_bytes(text("ab\xFFzz"), "txt").error().message(), HasSubstr("at byte 2"));
  EXPECT_FALSE(probe_bytes(text("\xC0\x80"), "txt").has_value());      // overlong
  EXPECT_FALSE(probe_bytes(text("\xED\xA0\x80"), "txt").has_value());  // a surrogate
  EXPECT_FALSE(probe_bytes(text("\xF4\x90\x80\x80"), "txt").has_value());
  EXPECT_FALSE(probe_bytes(text("abc\xE2\x82"), "txt").has_value());  // cut off
  EXPECT_TRUE(probe_bytes(text("\xE2\x82\xAC \xF0\x9F\x98\x80"), "txt").has_value());
  EXPECT_TRUE(probe_bytes(text("BMW: a car, longer than a header"), "txt").has_value());
  EXPECT_TRUE(probe_bytes(text(std::string(4095, 'a') + "é and more"), "txt").has_value());
  ProbeLimits limits;
  limits.max_text_bytes = 3;
  EXPECT_EQ(probe_bytes(text("four"), "txt", limits).error().code(), ErrorCode::kResourceExhausted);
}

TEST(ProbeJson, CountsTheTextOnly) {
  EXPECT_EQ(probe_bytes(text(R"({"text": "h\u00e9", "other": [1, 2]})"), "json")->text_bytes, 3);
  EXPECT_EQ(probe_bytes(text("{}"), "json")->text_bytes, 0);
  ProbeLimits limits;
  limits.max_json_bytes = 3;
  EXPECT_EQ(probe_bytes(text("{   }"), "json", limits).error().code(),
            ErrorCode::kResourceExhausted);
}

TEST(SampleJson, ReadsItsMembersAndIgnoresOthers) {
  const auto json = parse_sample_json(
      R"({"text": "a b", "weight": 0.25, "deep": {"text": 1, "weight": "x"}, "n": null})");
  ASSERT_TRUE(json.has_value()) << json.error().to_string();
  EXPECT_EQ(json->text, "a b");
  EXPECT_EQ(json->weight, 0.25F);
  EXPECT_EQ(parse_sample_json("{\"weight\": 3}")->weight, 3.0F);
  EXPECT_EQ(parse_sample_json("{}")->weight, 1.0F);
}

TEST(SampleJson, ReadsTheWeightUnderAGivenKey) {
  const auto json = parse_sample_json(R"({"weight": "12.5 kg", "scale": 0.5})", "scale");
  ASSERT_TRUE(json.has_value()) << json.error().to_string();
  EXPECT_EQ(json->weight, 0.5F);
  EXPECT_THAT(json->unread, ElementsAre("weight"));
  EXPECT_EQ(parse_sample_json(R"({"weight": "12.5 kg"})", "")->weight, 1.0F);
  EXPECT_FALSE(parse_sample_json(R"({"scale": 1, "scale": 2})", "scale").has_value());
}

TEST(SampleJson, ReadsWhatPythonWrites) {
  const auto json = parse_sample_json(
      "\xEF\xBB\xBF{\"text\": \"a\", \"score\": NaN, \"other\": [Infinity, -Infinity, 1e999]}");
  ASSERT_TRUE(json.has_value()) << json.error().to_string();
  EXPECT_EQ(json->text, "a");
  EXPECT_THAT(json->unread, ElementsAre("other", "score"));
}

TEST(SampleJson, NullCountsAsAbsent) {
  const auto json = parse_sample_json(
      R"({"text": null, "weight": null, "messages": null, "conversations": null, "score": null})");
  ASSERT_TRUE(json.has_value()) << json.error().to_string();
  EXPECT_EQ(json->text, "");
  EXPECT_EQ(json->weight, 1.0F);
  EXPECT_FALSE(json->is_conversation);
  EXPECT_THAT(json->unread, IsEmpty());
}

TEST(SampleJson, NamesTheMembersThatNoModelSees) {
  const auto unread = [](std::string_view text) { return parse_sample_json(text)->unread; };
  EXPECT_THAT(unread(R"({"b": {"text": 1}, "a": 0, "a": 1, "text": "", "weight": 2})"),
              ElementsAre("a", "b"));
  EXPECT_THAT(unread(R"({"task": "x", "language": "en", "system": "s", "tools": []})"),
              ElementsAre("system", "tools"));
  EXPECT_THAT(unread(R"({"system": "s", "tools": [], "messages": []})"), IsEmpty());
  std::string many = "{\"k\": 0";
  for (int i = 0; i < 1000; ++i) many += ", \"k" + std::to_string(i) + "\": 1";
  EXPECT_EQ(unread(many + "}").size(), SampleJson::kMostUnread);
}

TEST(SampleJson, ErrorsNameTheMember) {
  const auto message = [](std::string_view value) {
    const auto json = parse_sample_json(value);
    if (json.has_value()) return std::string("accepted");
    EXPECT_EQ(json.error().code(), ErrorCode::kCorrupt);
    return json.error().message();
  };
  EXPECT_THAT(message(""), HasSubstr("its JSON is wrong at line 1, column 1"));
  EXPECT_THAT(message("[]"), HasSubstr("its JSON is no object"));
  EXPECT_THAT(message("3"), HasSubstr("is no object"));
  EXPECT_THAT(message("null"), HasSubstr("is no object"));
  EXPECT_THAT(message("{\"a\": 1"), HasSubstr("column 8: ',' or '}' is expected, and the end"));
  EXPECT_THAT(message("{} x"), HasSubstr("column 4: the end is expected, and 'x' stands there"));
  EXPECT_THAT(message("{\"a\": \"\xFF\"}"), HasSubstr("UTF-8 is expected"));
  EXPECT_THAT(message("{\"text\": \"\\ud800\"}"), HasSubstr("both halves of a character"));
  EXPECT_THAT(message("{\"text\": NaN}"), HasSubstr("'text'"));
  EXPECT_THAT(message("{\"weight\": NaN}"), HasSubstr("'weight' NaN"));
  EXPECT_THAT(message("{\"weight\": -Infinity}"), HasSubstr("'weight' -Infinity"));
  EXPECT_THAT(message("{\"text\": 1}"), HasSubstr("'text'"));
  EXPECT_THAT(message("{\"text\": [\"a\"]}"), HasSubstr("'text'"));
  EXPECT_THAT(message("{\"weight\": \"1\"}"), HasSubstr("'weight'"));
  EXPECT_THAT(message("{\"weight\": -1}"), HasSubstr("negative"));
  EXPECT_THAT(message("{\"weight\": 1e300}"), HasSubstr("too large"));
  EXPECT_THAT(message("{\"text\": \"a\", \"text\": \"b\"}"), HasSubstr("twice"));
  const std::string deep = "{\"a\": " + std::string(1'000'000, '[');
  EXPECT_THAT(message(deep), HasSubstr("deep"));
}

TEST(SampleShape, NamesTellTheModality) {
  EXPECT_EQ(modality_from_name("0.TXT"), Modality::kText);
  EXPECT_EQ(modality_from_name("json"), Modality::kText);
  EXPECT_EQ(modality_from_name("jpg"), Modality::kImage);
  EXPECT_EQ(modality_from_name("0.Avif"), Modality::kImage);
  EXPECT_EQ(modality_from_name("m4a"), Modality::kAudio);
  EXPECT_EQ(modality_from_name("ts"), Modality::kVideo);
  for (const char* name : {"meta.json", "cls", "npy", "pdf", "jpg.bak", ""}) {
    EXPECT_FALSE(modality_from_name(name).has_value()) << name;
  }
}

// Returns the extensions in backquotes of the table that follows a mark, by the first cell of their
// row.
std::vector<std::pair<std::string, std::string>> listed_extensions(const std::string& mark) {
  std::ifstream page(ISOCOST_SOURCE_DIR "/docs/formats.md");
  std::vector<std::pair<std::string, std::string>> listed;
  std::string line;
  while (std::getline(page, line) && line != "<!-- extensions: " + mark + " -->") {
  }
  while (std::getline(page, line) && line.starts_with("|")) {
    const std::string first = line.substr(2, line.find(" |") - 2);
    for (std::size_t at = line.find('`'); at != std::string::npos; at = line.find('`', at + 1)) {
      const std::size_t end = line.find('`', at + 1);
      listed.emplace_back(first, line.substr(at + 1, end - at - 1));
      at = end;
    }
  }
  return listed;
}

TEST(SampleShape, TheDocumentedTableIsTheOneInTheCode) {
  const auto read = listed_extensions("media");
  const auto other = listed_extensions("other media");
  EXPECT_EQ(read.size(), 56U);
  EXPECT_EQ(other.size(), 14U);
  for (const auto& [modality, extension] : read) {
    ASSERT_TRUE(format_from_extension(extension).has_value()) << extension;
    EXPECT_EQ(modality_name(modality_of(*format_from_extension(extension))), modality) << extension;
  }
  for (const auto& [modality, extension] : other) {
    EXPECT_FALSE(format_from_extension(extension).has_value()) << extension;
    ASSERT_TRUE(modality_from_name(extension).has_value()) << extension;
    EXPECT_EQ(modality_name(*modality_from_name(extension)), modality) << extension;
  }
}

TEST(SampleShape, ExtensionsAreReadWithoutCase) {
  EXPECT_EQ(format_from_extension("JPG"), MediaFormat::kJpeg);
  EXPECT_EQ(format_from_extension("0.left.jpeg"), MediaFormat::kJpeg);
  EXPECT_EQ(format_from_extension("webm"), MediaFormat::kMatroska);
  EXPECT_FALSE(format_from_extension("jpg.").has_value());
  EXPECT_EQ(format_from_extension("TIFF"), MediaFormat::kTiff);
  EXPECT_FALSE(format_from_extension("jxl").has_value());
  EXPECT_EQ(format_from_extension("json"), MediaFormat::kJson);
  EXPECT_FALSE(format_from_extension("meta.json").has_value());
  EXPECT_EQ(format_from_extension("0.M4A"), MediaFormat::kM4a);
  EXPECT_EQ(format_from_extension("m2ts"), MediaFormat::kMpegTs);
  EXPECT_EQ(modality_of(MediaFormat::kJson), Modality::kText);
  EXPECT_EQ(modality_of(MediaFormat::kBmp), Modality::kImage);
  EXPECT_EQ(modality_of(MediaFormat::kMp3), Modality::kAudio);
  EXPECT_EQ(modality_of(MediaFormat::kAvi), Modality::kVideo);
  for (int i = 0; i <= static_cast<int>(kLastFormat); ++i) {
    const auto format = static_cast<MediaFormat>(i);
    EXPECT_NE(format_name(format), "unknown");
    const auto sound = sound_only(format);
    if (!sound) continue;
    EXPECT_EQ(modality_of(format), Modality::kVideo);
    EXPECT_EQ(modality_of(*sound), Modality::kAudio);
  }
}

}  // namespace
}  // namespace isocost
