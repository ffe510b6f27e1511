#include "transport/wire/wire.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace isocost {
namespace {

using testing::EndsWith;
using testing::HasSubstr;

MicrobatchHeader example_header() {
  MicrobatchHeader header;
  header.position = {1, 2, 3};
  header.microbatches = 4;
  header.ends_epoch = true;
  header.global_label_tokens = 1234;
  header.plan_hash = 0xFEEDFACECAFEBEEF;
  header.predicted_seconds = {0.5, 0, 2.25};
  header.profile_budget_s = 0.75;
  header.seconds_wanted = false;
  header.cost_model_state = std::string("ISCM\0\1", 6);
  header.load[CostModule::kVision].add_sequence(64);
  header.load[CostModule::kLlm].add_sequence(90);
  header.load.label_tokens = 73;
  header.load.tensor_bytes = 50000;
  header.samples = {
      {7,
       1.0F,
       40,
       "a.tar/x/7",
       R"({"text": "a cat"})",
       {{Modality::kImage, 8, 8, 1, {}}, {Modality::kVideo, 4, 6, 2, {0.25, 0.75}}}},
      {9, 0.0F, 33, "b.tar/9", "", {{Modality::kText}, {Modality::kAudio, 0, 0, 1200, {}}}}};
  header.tensors = {{"vision.patches", DType::kUInt8, {64, 588}},
                    {"llm.input_ids", DType::kInt64, {90}}};
  header.rows = {64, 50, 0, 40};
  header.routes = {{CostModule::kVision, 0, 0, 64, 1, 2, 400},
                   {CostModule::kLlm, 1, 50, 40, 0, 3, 0}};
  return header;
}

// One of each, with every field away from its default.
std::vector<Message> examples() {
  Hello hello{3,         8, {1, 2, 3}, true,
              {4, 5, 6}, 7, true,      {8, 9, 10, "learned", R"({"source": []})", 2},
              "a GPU",   11};
  Welcome welcome{8,  11,        10,    12, {13, 14, 15, {}, R"({"source": [1]})"},
                  22, 33,        44,    55, 66,
                  77, 71,        72,    88, {"isocost.0a", {1, 2}},
                  5,  "a.tar/7", 12.5F, 64};
  EpochEnd end{1, 20, 300, 4, 5, true};
  Report report{{1, 2, 3}, {0.25, -1, 1.5}, 0.5, 0.125, 0.0625};
  FragmentHeader fragment{{1, 2, 3}, 1, {{{"audio.mel", DType::kFloat32, {12, 128}}, 512}}};
  return {hello,
          Credit{3, 4},
          Acknowledgement{{7, 8, 9}},
          report,
          ProfileUpdate{R"({"version": 1})", 1.5, "no memory", {1, 2, 0}},
          Heartbeat{},
          Leave{},
          welcome,
          Refusal{ErrorCode::kAlreadyExists, "rank 3 is taken"},
          example_header(),
          fragment,
          end,
          Failure{ErrorCode::kDraining, "bad sample", true, {1, 5, 2}},
          Notice{"delivery is paused"},
          MicrobatchInBlock{{1, 2, 3}, 7, {0, 64}},
          AttachMemory{{1, 2, 3}},
          PassBlock{7},
          ReleaseBlocks{{7, 9}},
          DropBlock{8}};
}

std::string hex(const std::vector<std::byte>& bytes) {
  constexpr const char* kDigits = "0123456789abcdef";
  std::string text;
  for (const std::byte byte : bytes) {
    text += kDigits[std::to_integer<int>(byte) >> 4];
    text += kDigits[std::to_integer<int>(byte) & 15];
  }
  return text;
}

TEST(Wire, EveryMessageReadsBack) {
  for (const Message& message : examples()) {
    const auto bytes = encode(message);
    const auto read = decode(bytes);
    ASSERT_TRUE(read.has_value()) << message.index() << ": " << read.error().message();
    EXPECT_EQ(read->index(), message.index());
    EXPECT_EQ(encode(*read), bytes) << message.index();
  }
}

TEST(Wire, AMicrobatchKeepsEveryField) {
  const MicrobatchHeader header = example_header();
  const auto read = std::get<MicrobatchHeader>(decode(encode(header)).value());
  EXPECT_EQ(read.position, header.position);
  EXPECT_EQ(read.profile_budget_s, 0.75);
  EXPECT_TRUE(read.ends_epoch);
  EXPECT_EQ(read.cost_model_state, header.cost_model_state);
  EXPECT_EQ(read.predicted_seconds, header.predicted_seconds);
  EXPECT_EQ(read.load, header.load);
  EXPECT_EQ(read.rows, header.rows);
  EXPECT_EQ(read.routes, header.routes);
  EXPECT_EQ(read.samples, header.samples);
  EXPECT_EQ(read.tensors[0].name, "vision.patches");
  EXPECT_EQ(read.tensors[0].shape, (std::vector<std::int64_t>{64, 588}));
}

TEST(Wire, AHelloKeepsTheMixtureAndTheVersionOfItsState) {
  Hello hello;
  hello.has_start = true;
  hello.start = {1, 2, 3, "learned", std::string(kMaxMixtureBytes, 'm'), 2};
  EXPECT_EQ(std::get<Hello>(decode(encode(hello)).value()).start, hello.start);
  hello.start.mixture += 'm';
  EXPECT_EQ(decode(encode(hello)).error().code(), ErrorCode::kCorrupt);
  hello.start.mixture = "\xff";  // a state is JSON, which has no such byte
  EXPECT_EQ(decode(encode(hello)).error().code(), ErrorCode::kCorrupt);
}

TEST(Wire, AWelcomeWithoutALengthHasNoNumbersOfAnEpoch) {
  Welcome welcome;
  EXPECT_TRUE(std::get<Welcome>(decode(encode(welcome)).value()).has_length);
  welcome.has_length = false;
  EXPECT_FALSE(std::get<Welcome>(decode(encode(welcome)).value()).has_length);
  welcome.steps_per_epoch = 1;
  EXPECT_EQ(decode(encode(welcome)).error().code(), ErrorCode::kCorrupt);
}

// The examples of docs/wire_format.md.
TEST(Wire, IsWhatTheDocumentShows) {
  EXPECT_EQ(hex(encode(Heartbeat{})), "49534f4309000500");
  EXPECT_EQ(hex(encode(Credit{2, 7})), "49534f4309000200020000000700000000000000");
  EXPECT_EQ(hex(encode(Acknowledgement{{0, 7, 1}})), "49534f4309000300000000000700000001000000");
  EXPECT_EQ(hex(encode(Refusal{ErrorCode::kAlreadyExists, "rank 0 is taken"})),
            "49534f4309004100020f00000072616e6b20302069732074616b656e");
}

TEST(Wire, EveryCutIsCorrupt) {
  for (const Message& message : examples()) {
    const auto bytes = encode(message);
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      const auto read = decode(std::span(bytes).first(size));
      ASSERT_FALSE(read.has_value()) << message.index() << " cut to " << size;
      EXPECT_EQ(read.error().code(), ErrorCode::kCorrupt);
    }
  }
}

TEST(Wire, WhatIsTooLongIsCorrupt) {
  for (const Message& message : examples()) {
    auto bytes = encode(message);
    bytes.push_back(std::byte{0});
    EXPECT_FALSE(decode(bytes).has_value()) << message.index();
  }
}

// Names of files are bytes of any kind, and a long message is cut.
TEST(Wire, ErrorsArriveAsPrintableText) {
  const auto sent = [](std::string message) {
    const auto bytes = encode(Refusal{ErrorCode::kIo, std::move(message)});
    return std::get<Refusal>(decode(bytes).value()).message;
  };
  EXPECT_EQ(sent("a\xFF.tar\x1B[2J: Größe"), "a?.tar?[2J: Größe");
  const std::string cut = sent(std::string(kMaxTextBytes - 1, 'x') + "ß");
  EXPECT_EQ(cut, std::string(kMaxTextBytes - 1, 'x') + "?");
}

// Both versions are named, and the side to update.
TEST(Wire, AnotherVersionIsRefusedButItsRefusalIsRead) {
  auto bytes = encode(Hello{});
  for (const int version : {1, kProtocolVersion + 1}) {
    bytes[4] = static_cast<std::byte>(version);
    const auto read = decode(bytes);
    EXPECT_EQ(read.error().code(), ErrorCode::kUnsupported);
    const std::string& message = read.error().message();
    const int older = std::min<int>(version, kProtocolVersion);
    const int newer = std::max<int>(version, kProtocolVersion);
    EXPECT_THAT(message,
                HasSubstr("versions " + std::to_string(older) + " and " + std::to_string(newer)));
    EXPECT_THAT(message, EndsWith("update the side that uses version " + std::to_string(older)));
  }
  bytes = encode(Refusal{ErrorCode::kUnsupported, "too old"});
  bytes[4] = std::byte{kProtocolVersion + 1};
  EXPECT_EQ(std::get<Refusal>(decode(bytes).value()).message, "too old");
}

TEST(Wire, LimitsHold) {
  MicrobatchHeader header = example_header();
  header.tensors[0].name = "Vision Patches";
  EXPECT_FALSE(decode(encode(header)).has_value()) << "name";
  header = example_header();
  header.tensors[0].shape = {std::numeric_limits<std::int64_t>::max(), 588};
  EXPECT_FALSE(decode(encode(header)).has_value()) << "overflow";
  header = example_header();
  header.tensors[0].shape = {-1, 588};
  EXPECT_FALSE(decode(encode(header)).has_value()) << "negative";
  header = example_header();
  header.position.microbatch = header.microbatches;
  EXPECT_FALSE(decode(encode(header)).has_value()) << "position";
  header = example_header();
  header.samples[0].weight = std::numeric_limits<float>::quiet_NaN();
  EXPECT_FALSE(decode(encode(header)).has_value()) << "weight";
  header = example_header();
  header.routes[0].sample = 2;
  EXPECT_FALSE(decode(encode(header)).has_value()) << "a route of no sample";
  header = example_header();
  header.routes[0].first_unit = 0xFFFFFFFF;
  EXPECT_FALSE(decode(encode(header)).has_value()) << "a route beyond the microbatch";
  header = example_header();
  header.routes[0].module = static_cast<CostModule>(kModules);
  EXPECT_FALSE(decode(encode(header)).has_value()) << "a route of no module";
}

TEST(Wire, ImpossiblePartsAreCorrupt) {
  MicrobatchHeader header = example_header();
  header.samples[0].parts[0].modality = static_cast<Modality>(kModalities);
  EXPECT_FALSE(decode(encode(header)).has_value()) << "no modality";
  header = example_header();
  header.samples[0].parts[1].frames = 3;
  EXPECT_FALSE(decode(encode(header)).has_value()) << "fewer times than frames";
  for (const double seconds :
       {-1.0, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    header = example_header();
    header.samples[0].parts[1].timestamps_s[0] = seconds;
    EXPECT_FALSE(decode(encode(header)).has_value()) << seconds;
  }
  header = example_header();
  header.samples[0].json = "{\"text\": \"\xff\"}";
  EXPECT_FALSE(decode(encode(header)).has_value()) << "not UTF-8";
}

TEST(Wire, KeysAreReadAsPrintableText) {
  MicrobatchHeader header = example_header();
  header.samples[0].key = "a.tar/\x1b[2J\xff";
  const auto read = std::get<MicrobatchHeader>(decode(encode(header)).value());
  EXPECT_EQ(read.samples[0].key, "a.tar/?[2J?");
}

TEST(Wire, DescriptionsBeyondALimitAreLeftOut) {
  MicrobatchHeader header = example_header();
  header.samples[0].key = std::string(kMaxSampleKeyBytes + 1, 'k');
  header.samples[0].json = std::string(kMaxSampleJsonBytes + 1, 'j');
  header.samples[0].parts.resize(kMaxSampleParts + 1);
  header.samples[1].key = std::string(kMaxSampleKeyBytes, 'k');
  header.samples[1].json = std::string(kMaxSampleJsonBytes, 'j');
  header.samples[1].parts.resize(kMaxSampleParts);
  const auto read = std::get<MicrobatchHeader>(decode(encode(header)).value());
  EXPECT_EQ(read.samples[0], (SampleEntry{7, 1.0F, 40}));
  EXPECT_EQ(read.samples[1], header.samples[1]);
}

TEST(Wire, DescriptionsOfAHeaderTakeNoMoreThanTheirLimit) {
  MicrobatchHeader header = example_header();
  header.tensors.clear();
  header.rows.clear();
  header.routes.clear();
  constexpr std::size_t kFit = kMaxSampleDescriptionBytes / kMaxSampleJsonBytes;
  SampleEntry sample;
  sample.json = std::string(kMaxSampleJsonBytes, 'j');
  header.samples.assign(kFit + 1, sample);
  const auto bytes = encode(header);
  EXPECT_LT(bytes.size(), kMaxSampleDescriptionBytes + (kFit + 1) * 64);
  const auto read = std::get<MicrobatchHeader>(decode(bytes).value());
  EXPECT_EQ(read.samples[kFit - 1].json, sample.json);
  EXPECT_EQ(read.samples[kFit].json, "");
}

TEST(Wire, AnEncoderMicrobatchMayBeEmpty) {
  MicrobatchHeader header = example_header();
  header.samples.clear();
  header.tensors.clear();
  header.rows.clear();
  header.routes.clear();
  const auto read = decode(encode(header));
  ASSERT_TRUE(read.has_value()) << read.error().message();
  EXPECT_TRUE(std::get<MicrobatchHeader>(*read).samples.empty());
}

TEST(Wire, AnUnknownModuleIsSkipped) {
  auto bytes = encode(Report{{0, 0, 0}, {1, 2, 3}});
  // "audio" stands after the position, the count, and the first module.
  const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  bytes[text.find("audio")] = std::byte{'z'};
  const auto report = std::get<Report>(decode(bytes).value());
  EXPECT_EQ(report.seconds[0], 1);
  EXPECT_EQ(report.seconds[1], -1);
  EXPECT_EQ(report.seconds[2], 3);
}

// The corpus of the fuzz target is one file a message; kept equal to the code by this test.
TEST(Wire, TheFuzzCorpusIsUpToDate) {
  for (const Message& message : examples()) {
    const std::filesystem::path file = std::filesystem::path(ISOCOST_SOURCE_DIR) /
                                       "tests/transport/wire/corpus/wire_fuzz" /
                                       ("message-" + std::to_string(message.index()));
    const auto bytes = encode(message);
    const std::string expected(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    if (std::getenv("ISOCOST_WRITE_CORPUS") != nullptr) {
      std::ofstream(file, std::ios::binary) << expected;
    }
    std::ifstream in(file, std::ios::binary);
    const std::string read((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
    EXPECT_EQ(read, expected) << file << ": run this test with ISOCOST_WRITE_CORPUS=1";
  }
}

}  // namespace
}  // namespace isocost
