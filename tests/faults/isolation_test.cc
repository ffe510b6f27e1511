// Decoders that crash, hang or take too long: with isolation they cost their own sample, at most.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/sanitized.h"
#include "base/scratch_directory.h"
#include "base/units.h"
#include "decode/isolation/guarded_decoder.h"
#include "decode/isolation/isolated_decoder.h"
#include "decode/probe.h"
#include "tests/support/media.h"

namespace isocost {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using test::Bytes;
using testing::HasSubstr;
using testing::Not;

// Fields of /proc/PID/status, "" if there is none.
std::string status_of(pid_t process, const std::string& field) {
  std::ifstream file("/proc/" + std::to_string(process) + "/status");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(field + ":\t")) continue;
    return line.substr(field.size() + 2);
  }
  return "";
}

// The decode workers of this process: it has no other children.
std::vector<pid_t> workers() {
  std::vector<pid_t> children;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const std::string name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const pid_t process = std::stoi(name);
    if (status_of(process, "PPid") == std::to_string(getpid())) children.push_back(process);
  }
  return children;
}

void signal_workers(int signal) {
  for (const pid_t worker : workers()) kill(worker, signal);
}

// Calls a function when it is read for the n-th time: workers read in the middle of decoding.
class HookedSource final : public ByteSource {
 public:
  HookedSource(const Bytes& bytes, std::function<void(int)> on_read)
      : inner_(bytes), on_read_(std::move(on_read)) {}
  std::int64_t size() const override { return inner_.size(); }
  Result<std::size_t> read_at(std::int64_t offset, std::span<std::byte> to) const override {
    on_read_(++reads_);
    if (fails) return Error(ErrorCode::kIo, "the disk is gone");
    return inner_.read_at(offset, to);
  }
  bool fails = false;

 private:
  MemoryByteSource inner_;
  std::function<void(int)> on_read_;
  mutable int reads_ = 0;
};

PartShape shape_of(const Bytes& bytes, const std::string& name) {
  return probe(MemoryByteSource(bytes), name, {}).value();
}

Bytes bytes_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

Bytes golden(const std::string& name) {
  return bytes_of(fs::path(ISOCOST_SOURCE_DIR) / "tests/decode/golden" / name);
}

class IsolationTest : public testing::Test {
 protected:
  void TearDown() override {
    decoder_.reset();
    EXPECT_THAT(workers(), testing::IsEmpty()) << "a worker outlives its decoder";
  }
  SampleDecoder& decoder(milliseconds cpu_time = std::chrono::minutes(1),
                         std::int64_t memory = 512 * kMiB) {
    decoder_ =
        make_isolated_decoder(
            recipe_,
            {.program = ISOCOST_PROGRAM,
             .workers = 2,
             .cpu_time = cpu_time,
             .memory = memory,
             .log = [this](LogLevel, std::string_view text) { log_ += std::string(text) + "\n"; }})
            .value();
    return *decoder_;
  }
  SampleDecoder::Tensors decode(SampleDecoder& decoder, const ByteSource& source,
                                const PartShape& shape, const std::stop_token& stop = {}) {
    const PartBytes part{&shape, &source};
    return decoder.tensors(std::span(&part, 1), pool_, stop);
  }

  std::unique_ptr<SampleDecoder> hostile_decoder(const std::string& mode,
                                                 milliseconds cpu_time = std::chrono::minutes(1)) {
    // A worker gets no variable of the tests, so a script sets this one.
    const fs::path script = scratch_.path() / mode;
    std::ofstream(script) << "#!/bin/sh\nHOSTILE_WORKER='" << mode
                          << "' exec " ISOCOST_SOURCE_DIR
                             "/tests/faults/hostile_worker.py \"$@\"\n";
    fs::permissions(script, fs::perms::owner_all);
    return make_isolated_decoder(recipe_, {.program = script,
                                           .workers = 1,
                                           .cpu_time = cpu_time,
                                           .memory = 64 * kMiB,
                                           .log = {}})
        .value();
  }

  const Recipe recipe_ = Recipe::create({}).value();
  BufferPool pool_;
  std::string log_;
  const Bytes picture_ = test::make_png(300, 200);
  const PartShape shape_ = shape_of(picture_, "a.png");

 private:
  ScratchDirectory scratch_ = ScratchDirectory::create("isocost-isolation").value();
  std::unique_ptr<SampleDecoder> decoder_;
};

TEST_F(IsolationTest, APictureThatNeedsAWorkerStartsIt) {
  const auto guarded = make_guarded_decoder(recipe_, {.program = ISOCOST_PROGRAM,
                                                      .workers = 2,
                                                      .cpu_time = std::chrono::minutes(1),
                                                      .memory = 512 * kMiB,
                                                      .log = {}});
  EXPECT_TRUE(decode(*guarded, MemoryByteSource(picture_), shape_).has_value());
  EXPECT_THAT(workers(), testing::IsEmpty());
  for (const std::string name : {"lzw.tif", "420.heic", "420.avif", "avif_called.jpg"}) {
    const Bytes bytes = golden(name);
    const PartShape shape = shape_of(bytes, name);
    const MemoryByteSource source(bytes);
    const PartBytes part{&shape, &source};
    const auto here = recipe_.tensors(std::span(&part, 1), pool_);
    const auto there = decode(*guarded, source, shape);
    ASSERT_TRUE(here.has_value() && there.has_value()) << name;
    EXPECT_TRUE(std::ranges::equal(here->front().tensor.bytes(), there->front().tensor.bytes()));
    EXPECT_EQ(workers().size(), 1U) << name;
    const auto refused =
        decode(*make_in_process_decoder(recipe_, std::chrono::minutes(1)), source, shape);
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().error.code(), ErrorCode::kInvalidArgument);
  }
}

TEST_F(IsolationTest, WithoutAProgramAPictureThatNeedsAWorkerIsNoBadSample) {
  const auto guarded = make_guarded_decoder(recipe_, {.program = "/nonexistent/isocost",
                                                      .workers = 1,
                                                      .cpu_time = std::chrono::minutes(1),
                                                      .memory = 64 * kMiB,
                                                      .log = {}});
  EXPECT_TRUE(decode(*guarded, MemoryByteSource(picture_), shape_).has_value());
  const Bytes bytes = golden("rgb.tif");
  const auto refused = decode(*guarded, MemoryByteSource(bytes), shape_of(bytes, "rgb.tif"));
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().error.code(), ErrorCode::kUnavailable);
  EXPECT_THAT(refused.error().error.message(), HasSubstr("decode_program"));
}

TEST_F(IsolationTest, TensorsAreThoseOfThisProcess) {
  const std::vector<std::pair<std::string, Bytes>> media = {
      {"a.jpg", test::make_jpeg(640, 480)},
      {"b.mp4", test::make_video({})},
      {"c.wav", test::make_wav(test::sine(16'000, 1, 20'000, 440), 16'000, 1)},
      {"d.txt", test::text_bytes("words")},
      {"e.webp", test::make_webp(100, 100)},
      {"f.tif", golden("jpeg.tif")},
      {"g.tif", golden("tiles_deflate.tif")},
      {"h.heic", golden("grid_turned.heic")},
      {"i.heic", golden("444p12.heic")},
      {"j.avif", golden("grid10.avif")},
      {"k.avif", golden("premultiplied12.avif")}};
  std::vector<PartShape> shapes;
  std::vector<MemoryByteSource> sources;
  std::vector<PartBytes> parts;
  for (const auto& [name, bytes] : media) {
    shapes.push_back(shape_of(bytes, name));
    sources.emplace_back(bytes);
  }
  for (std::size_t i = 0; i < media.size(); ++i) parts.push_back({&shapes[i], &sources[i]});
  const auto here = recipe_.tensors(parts, pool_).value();
  const auto there = decoder().tensors(parts, pool_, {}).value();
  ASSERT_EQ(there.size(), here.size());
  for (std::size_t i = 0; i < here.size(); ++i) {
    EXPECT_EQ(there[i].name, here[i].name);
    EXPECT_EQ(there[i].tensor.shape, here[i].tensor.shape);
    EXPECT_THAT(there[i].tensor.bytes(), testing::ElementsAreArray(here[i].tensor.bytes()));
    EXPECT_TRUE(pool_.owns(there[i].tensor.data));
  }
}

// Workers may make few system calls and no threads: what FFmpeg's demuxers and decoders need of
// them is shown by sounds and videos of every container and codec.
TEST_F(IsolationTest, TensorsOfEveryContainerAreThoseOfThisProcess) {
  SampleDecoder& isolated = decoder();
  for (const char* folder : {"audio/golden_sounds", "video/golden_videos"}) {
    const fs::path path = fs::path(ISOCOST_SOURCE_DIR) / "tests/decode" / folder;
    for (const auto& entry : fs::directory_iterator(path)) {
      const fs::path& file = entry.path();
      if (file.extension() == ".f32") continue;
      SCOPED_TRACE(file);
      const Bytes bytes = bytes_of(file);
      const PartShape shape = shape_of(bytes, file.filename().string());
      const MemoryByteSource source(bytes);
      const PartBytes part{&shape, &source};
      const auto here = recipe_.tensors(std::span(&part, 1), pool_).value();
      const auto there = isolated.tensors(std::span(&part, 1), pool_, {});
      ASSERT_TRUE(there.has_value()) << there.error().error.to_string();
      ASSERT_EQ(there->size(), here.size());
      for (std::size_t i = 0; i < here.size(); ++i) {
        EXPECT_TRUE(std::ranges::equal((*there)[i].tensor.bytes(), here[i].tensor.bytes()));
      }
    }
  }
}

TEST_F(IsolationTest, AWorkerThatCrashesCostsNoSample) {
  const HookedSource source(picture_, [](int read) {
    if (read == 1) signal_workers(SIGABRT);
  });
  EXPECT_TRUE(decode(decoder(), source, shape_).has_value());
  EXPECT_THAT(log_, HasSubstr("a decode worker was ended by signal 6"));
}

TEST_F(IsolationTest, ASampleThatCrashesTwoWorkersIsBadAndTheNextOneIsNot) {
  const HookedSource source(picture_, [](int) { signal_workers(SIGABRT); });
  SampleDecoder& decoder = this->decoder();
  const auto crashed = decode(decoder, source, shape_);
  ASSERT_FALSE(crashed.has_value());
  EXPECT_EQ(crashed.error().error.code(), ErrorCode::kCorrupt);
  EXPECT_THAT(crashed.error().error.message(), HasSubstr("signal 6 (Aborted), twice"));
  EXPECT_TRUE(decode(decoder, MemoryByteSource(picture_), shape_).has_value());
}

TEST_F(IsolationTest, AWorkerThatIsKilledForMemoryCostsNoSample) {
  const HookedSource source(picture_, [](int read) {
    if (read == 1) signal_workers(SIGKILL);
  });
  EXPECT_TRUE(decode(decoder(), source, shape_).has_value());
  EXPECT_THAT(log_, HasSubstr("as the system does when memory runs out"));
}

TEST_F(IsolationTest, AWorkerThatStandsStillIsEndedAndItsSampleDecodedAgain) {
  const HookedSource source(picture_, [](int read) {
    if (read == 1) signal_workers(SIGSTOP);
  });
  EXPECT_TRUE(decode(decoder(std::chrono::seconds(1)), source, shape_).has_value());
  EXPECT_THAT(log_, HasSubstr("stood still and was ended"));
}

TEST_F(IsolationTest, AStopEndsADecodeThatHangs) {
  std::stop_source stop;
  const HookedSource source(picture_, [](int) { signal_workers(SIGSTOP); });
  SampleDecoder& decoder = this->decoder();
  const std::jthread stopper([&] {
    std::this_thread::sleep_for(milliseconds(100));
    stop.request_stop();
  });
  const auto begin = std::chrono::steady_clock::now();
  const auto stopped = decode(decoder, source, shape_, stop.get_token());
  ASSERT_FALSE(stopped.has_value());
  EXPECT_EQ(stopped.error().error.code(), ErrorCode::kCancelled);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
}

TEST_F(IsolationTest, AReadThatFailsIsTheMachinesErrorAndTheWorkerGoesOn) {
  HookedSource source(picture_, [](int) {});
  source.fails = true;
  SampleDecoder& decoder = this->decoder();
  const std::vector<pid_t> before = workers();
  const auto failed = decode(decoder, source, shape_);
  ASSERT_FALSE(failed.has_value());
  EXPECT_EQ(failed.error().error.code(), ErrorCode::kIo);
  EXPECT_TRUE(decode(decoder, MemoryByteSource(picture_), shape_).has_value());
  EXPECT_EQ(workers(), before);
}

TEST_F(IsolationTest, DamagedMediaGetTheirUsualError) {
  Bytes damaged = picture_;
  std::fill(damaged.begin() + 60, damaged.begin() + 90, std::byte{0x5A});
  const auto there = decode(decoder(), MemoryByteSource(damaged), shape_);
  const MemoryByteSource source(damaged);
  const PartBytes part{&shape_, &source};
  const auto here = recipe_.tensors(std::span(&part, 1), pool_);
  ASSERT_FALSE(there.has_value());
  EXPECT_EQ(there.error().error.to_string(), here.error().error.to_string());
}

TEST_F(IsolationTest, AWorkerHasNoRightsFilesOrUnlimitedMemory) {
  ASSERT_TRUE(decode(decoder(), MemoryByteSource(picture_), shape_).has_value());
  const pid_t worker = workers().at(0);
  EXPECT_EQ(status_of(worker, "NoNewPrivs"), "1");
  const bool filtered = log_.find("without a filter of system calls") == std::string::npos;
  EXPECT_EQ(status_of(worker, "Seccomp"), filtered ? "2" : "0");
  std::size_t descriptors = 0;
  for (const auto& entry : fs::directory_iterator("/proc/" + std::to_string(worker) + "/fd")) {
    descriptors += 1;
    EXPECT_LE(std::stoi(entry.path().filename().string()), 4);
  }
  EXPECT_LE(descriptors, 5U);
}

TEST_F(IsolationTest, AWorkerGetsNoSecretOfTheEnvironment) {
  setenv("AWS_SECRET_ACCESS_KEY", "planted", 1);
  setenv("HF_TOKEN", "planted", 1);
  setenv("PATHS", "planted", 1);  // not PATH
  setenv("TMPDIR", fs::temp_directory_path().c_str(), 1);
  decoder();
  for (const char* name : {"AWS_SECRET_ACCESS_KEY", "HF_TOKEN", "PATHS"}) unsetenv(name);
  const std::vector<pid_t> processes = workers();
  ASSERT_FALSE(processes.empty());
  for (const pid_t worker : processes) {
    std::ifstream file("/proc/" + std::to_string(worker) + "/environ", std::ios::binary);
    const std::string environment{std::istreambuf_iterator<char>(file), {}};
    EXPECT_THAT(environment, HasSubstr("PATH="));
    EXPECT_THAT(environment, HasSubstr("TMPDIR="));
    EXPECT_THAT(environment, Not(HasSubstr("planted")));
  }
}

TEST_F(IsolationTest, ASampleBeyondItsMemoryIsRefusedAndTheWorkerGoesOn) {
  if (kIsSanitized) GTEST_SKIP() << "sanitizers end a process that has no memory";
  // A PNG is decoded row by row, but the scans of a progressive JPEG are kept.
  const Bytes large = test::make_jpeg(test::gradient(4000, 4000, 1), {.progressive = true});
  SampleDecoder& decoder = this->decoder(std::chrono::minutes(1), 8 * kMiB);
  const auto refused = decode(decoder, MemoryByteSource(large), shape_of(large, "a.jpg"));
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().error.code(), ErrorCode::kOutOfMemory)
      << refused.error().error.message();
  EXPECT_TRUE(decode(decoder, MemoryByteSource(picture_), shape_).has_value());
}

TEST_F(IsolationTest, AProgramThatIsNoWorkerIsRefused) {
  for (const char* program : {"/nowhere/isocost", "/bin/true"}) {
    const auto refused = make_isolated_decoder(
        recipe_, {.program = program, .cpu_time = milliseconds(100), .memory = kMiB, .log = {}});
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().code(), ErrorCode::kInvalidArgument);
    EXPECT_THAT(refused.error().message(), HasSubstr(program));
  }
}

// The node believes nothing of a worker that can be wrong: it is ended, and its sample is bad.
TEST_F(IsolationTest, WhatAHostileWorkerSaysIsNotBelieved) {
  const MemoryByteSource source(picture_);
  for (const std::string mode :
       {"offset", "size", "more", "width", "lengths", "negative", "missing", "order", "name",
        "cancelled", "machine", "part", "text", "garbage", "flood"}) {
    const auto refused = decode(*hostile_decoder(mode), source, shape_);
    ASSERT_FALSE(refused.has_value()) << mode;
    EXPECT_EQ(refused.error().error.code(), ErrorCode::kCorrupt) << mode;
    EXPECT_EQ(refused.error().part, 0U) << mode;
    EXPECT_THAT(refused.error().error.message(), HasSubstr("and was ended, twice")) << mode;
  }
}

// So the answers above that differ from this one in one thing are refused for that.
TEST_F(IsolationTest, AnAnswerOfThePlansTensorsIsBelieved) {
  const auto decoded = decode(*hostile_decoder("honest"), MemoryByteSource(picture_), shape_);
  ASSERT_TRUE(decoded.has_value()) << decoded.error().error.message();
  EXPECT_EQ(decoded->front().tensor.shape, (std::vector<std::int64_t>{308, 588}));
}

TEST_F(IsolationTest, AWorkerThatIgnoresItsLimitIsEnded) {
  const auto hostile = hostile_decoder("spin", milliseconds(100));
  const auto refused = decode(*hostile, MemoryByteSource(picture_), shape_);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().error.code(), ErrorCode::kResourceExhausted);
}

TEST_F(IsolationTest, WorkersThatDiedWhileIdleCostNoSample) {
  SampleDecoder& decoder = this->decoder();
  const MemoryByteSource source(picture_);
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(decode(decoder, source, shape_).has_value());
    signal_workers(SIGKILL);
    while (!std::ranges::all_of(
        workers(), [](pid_t worker) { return status_of(worker, "State").starts_with("Z"); })) {
      std::this_thread::yield();
    }
  }
  EXPECT_TRUE(decode(decoder, source, shape_).has_value());
  EXPECT_THAT(log_, Not(HasSubstr("decoded once more"))) << "nobody is to blame";
}

TEST_F(IsolationTest, AWorkerThatCannotStartAgainIsTheMachinesErrorAndNotTheSamples) {
  const ScratchDirectory scratch = ScratchDirectory::create("isocost-test").value();
  fs::create_symlink(ISOCOST_PROGRAM, scratch / "isocost");
  const auto decoder = make_isolated_decoder(recipe_, {.program = scratch / "isocost",
                                                       .workers = 1,
                                                       .cpu_time = std::chrono::minutes(1),
                                                       .memory = 64 * kMiB,
                                                       .log = {}})
                           .value();
  fs::remove(scratch / "isocost");
  signal_workers(SIGKILL);
  const MemoryByteSource source(picture_);
  SampleDecoder::Tensors refused = decode(*decoder, source, shape_);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().error.code(), ErrorCode::kUnavailable);
  fs::create_symlink(ISOCOST_PROGRAM, scratch / "isocost");
  EXPECT_TRUE(decode(*decoder, source, shape_).has_value());
}

TEST_F(IsolationTest, SignalsDoNotDisturbTheStartOfAWorkerOrItsAnswers) {
  std::signal(SIGALRM, [](int) {});
  const itimerval often{{0, 2000}, {0, 2000}};
  setitimer(ITIMER_REAL, &often, nullptr);
  const auto decoded = decode(decoder(), MemoryByteSource(picture_), shape_);
  const itimerval never{};
  setitimer(ITIMER_REAL, &never, nullptr);
  EXPECT_TRUE(decoded.has_value());
  EXPECT_THAT(log_, Not(HasSubstr("decoded once more")));
}

// A video of still pictures, which decodes for far longer than its bytes suggest.
Bytes long_video() {
  test::VideoSpec spec;
  spec.encoder = "mpeg4";
  spec.width = spec.height = 2048;
  spec.fps = 100;
  spec.frames = 2;
  spec.gop = 600;
  spec.repeats = 5'000;
  spec.yuv = {128, 128, 128};  // a packet says that nothing changes
  return test::make_video(spec);
}

void expect_refused_within_seconds(const SampleDecoder::Tensors& refused) {
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().error.code(), ErrorCode::kResourceExhausted);
  EXPECT_THAT(refused.error().error.message(), HasSubstr("decode_timeout allows 3"));
}

TEST_F(IsolationTest, AVideoThatWouldTakeFarTooLongIsRefusedWithinSeconds) {
  const Bytes video = long_video();
  const PartShape shape = shape_of(video, "a.mp4");
  const auto in_process = make_in_process_decoder(recipe_, std::chrono::seconds(3));
  const auto begin = std::chrono::steady_clock::now();
  expect_refused_within_seconds(decode(*in_process, MemoryByteSource(video), shape));
  expect_refused_within_seconds(
      decode(decoder(std::chrono::seconds(3)), MemoryByteSource(video), shape));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(40));
}

TEST_F(IsolationTest, AStopEndsALongDecodeInThisProcess) {
  const Bytes video = long_video();
  const PartShape shape = shape_of(video, "a.mp4");
  std::stop_source stop;
  const std::jthread stopper([&] {
    std::this_thread::sleep_for(milliseconds(100));
    stop.request_stop();
  });
  const auto decoder = make_in_process_decoder(recipe_, std::chrono::hours(1));
  const auto stopped = decode(*decoder, MemoryByteSource(video), shape, stop.get_token());
  ASSERT_FALSE(stopped.has_value());
  EXPECT_EQ(stopped.error().error.code(), ErrorCode::kCancelled);
}

}  // namespace
}  // namespace isocost
