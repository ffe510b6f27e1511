// A sample's tensors depend only on its bytes: not on workers, ranks, memory, restarts or cuts.

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "decode/probe.h"
#include "decode/recipe.h"
#include "loader/dataset/shard_writing/make_shards.h"
#include "loader/node/node_thread.h"
#include "tests/e2e/loop_fixture.h"
#include "tests/support/media.h"
#include "tests/trainer_adapter/tcp_proxy.h"

namespace isocost {
namespace {

namespace fs = std::filesystem;
using test::Bytes;

// The hash of each tensor that the recipe makes of a sample, by tensor name.
using TensorHashes = std::map<std::string, std::size_t>;
// By the sample's key, without its shard.
using SampleHashes = std::map<std::string, TensorHashes>;

std::size_t hash_of(std::span<const std::byte> bytes) {
  return std::hash<std::string_view>{}({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

/// Collects the tensors that ranks received. Thread-safe.
class Collector {
 public:
  /// Fails the test if a sample was received before with other tensors.
  void add(const Microbatch& microbatch) {
    const MicrobatchHeader& header = microbatch.header;
    std::vector<std::size_t> first_row(header.tensors.size(), 0);
    for (std::size_t s = 0; s < header.samples.size(); ++s) {
      TensorHashes hashes;
      for (std::size_t t = 0; t < header.tensors.size(); ++t) {
        const std::size_t rows = header.rows[s * header.tensors.size() + t];
        const SharedTensor tensor = microbatch[header.tensors[t].name];
        const std::size_t row_bytes = static_cast<std::size_t>(tensor.size_bytes()) /
                                      static_cast<std::size_t>(tensor.shape.front());
        const auto bytes = std::span(tensor.bytes()).subspan(first_row[t] * row_bytes);
        if (rows > 0) hashes[header.tensors[t].name] = hash_of(bytes.first(rows * row_bytes));
        first_row[t] += rows;
      }
      keep(header.samples[s].key, hashes);
    }
  }
  SampleHashes take() {
    const MutexLock lock(mutex_);
    return std::exchange(seen_, {});
  }

 private:
  void keep(const std::string& key, const TensorHashes& hashes) {
    const MutexLock lock(mutex_);
    const auto at = seen_.try_emplace(key.substr(key.find('/') + 1), hashes).first;
    EXPECT_EQ(at->second, hashes) << key;
  }

  Mutex mutex_;
  SampleHashes seen_ ISOCOST_GUARDED_BY(mutex_);
};

Bytes video(MediaFormat container, const char* encoder, int frames) {
  test::VideoSpec spec;
  spec.container = container;
  spec.encoder = encoder;
  spec.frames = frames;
  return test::make_video(spec);
}

Bytes sound(MediaFormat format, int i) {
  const std::int32_t rate = format == MediaFormat::kOpus ? 48'000 : 22'050;
  return test::make_audio(format, test::sine(rate, 1, rate / 2 + 1000 * i, 300 + 50 * i), rate, 1);
}

struct NamedBytes {
  std::string name;
  Bytes bytes;
};

// The i-th sample of each kind: every picture, sound and video format, text, JSON, and all mixed.
// Parts are in the order of their names, as in the shards.
std::vector<std::vector<NamedBytes>> samples_of_each_kind(int i) {
  const auto seed = static_cast<std::uint64_t>(i);
  const test::JpegSpec progressive{.orientation = 1 + i % 8, .progressive = true};
  const Bytes text = test::text_bytes("sample " + std::string(static_cast<std::size_t>(i), '.'));
  const Bytes json = test::text_bytes(R"({"text": "a caption", "weight": 2})");
  return {
      {{"jpg", test::make_jpeg(900 + 30 * i, 900, seed, 1 + i % 8)}, {"txt", text}},
      {{"jpg", test::make_jpeg(test::gradient(90, 60 + 9 * i, seed), progressive)}},
      {{"json", json}, {"png", test::make_png(900, 900 + i, seed)}},
      {{"webp", test::make_webp(40 + i, 90, seed)}},
      {{"gif", test::make_gif(890, 910 + i, seed)}, {"txt", text}},
      {{"bmp", test::make_bmp(30 + i, 70, seed)}},
      {{"wav", sound(MediaFormat::kWav, i)}},
      {{"flac", sound(MediaFormat::kFlac, i)}, {"txt", text}},
      {{"ogg", sound(MediaFormat::kOggVorbis, i)}},
      {{"opus", sound(MediaFormat::kOpus, i)}},
      {{"mp3", sound(MediaFormat::kMp3, i)}},
      {{"mp4", video(MediaFormat::kMp4, "libx264", 20 + i)}, {"txt", text}},
      {{"mkv", video(MediaFormat::kMatroska, "libx265", 11)}},
      {{"webm", video(MediaFormat::kMatroska, "libvpx-vp9", 10 + i)}},
      {{"avi", video(MediaFormat::kAvi, "mpeg4", 15)}},
      {{"txt", text}},
      {{"0.txt", text},
       {"1.png", test::make_png(50, 50, seed)},
       {"2.flac", sound(MediaFormat::kFlac, i)},
       {"3.mp4", video(MediaFormat::kMp4, "mpeg4", 10)}},
  };
}

// The recipe's tensors of a sample, without a node.
TensorHashes decoded_directly(const std::vector<NamedBytes>& parts) {
  std::vector<MemoryByteSource> sources;
  SampleShape shape;
  for (const NamedBytes& part : parts) {
    sources.emplace_back(part.bytes);
    shape.parts.push_back(probe(sources.back(), part.name, {}).value());
  }
  std::vector<PartBytes> views;
  views.reserve(parts.size());
  for (std::size_t i = 0; i < parts.size(); ++i) views.push_back({&shape.parts[i], &sources[i]});
  BufferPool pool;
  TensorHashes hashes;
  const Recipe recipe = Recipe::create({}).value();
  const std::vector<NamedTensor> tensors = recipe.tensors(views, pool).value();
  for (const NamedTensor& named : tensors) {
    hashes[named.name] = hash_of(named.tensor.bytes());
  }
  return hashes;
}

class SampleTensors : public LoopTest {
 protected:
  static constexpr int kOfEachKind = 3;

  void SetUp() override {
    const fs::path files = scratch() / "files";
    fs::create_directories(files);
    int samples = 0;
    for (int i = 0; i < kOfEachKind; ++i) {
      for (const std::vector<NamedBytes>& parts : samples_of_each_kind(i)) {
        const std::string key = "sample" + std::to_string(100 + samples++);
        for (const NamedBytes& part : parts) {
          std::ofstream(files / (key + "." + part.name), std::ios::binary)
              .write(reinterpret_cast<const char*>(part.bytes.data()),
                     static_cast<std::streamsize>(part.bytes.size()));
        }
        expected_[key] = decoded_directly(parts);
      }
    }
    MakeShardsOptions making;
    making.samples_per_shard = 16;
    ASSERT_TRUE(make_shards(files, shards(), making).has_value());
  }

  // Every sample was received, with the tensors that the recipe makes of its files.
  void expect_all_received() {
    const SampleHashes received = collector_.take();
    for (const auto& [key, hashes] : expected_) EXPECT_TRUE(received.contains(key)) << key;
    for (const auto& [key, hashes] : received) EXPECT_EQ(hashes, expected_.at(key)) << key;
  }

  // Runs a job to its end and compares what it delivered.
  NodeSummary expect_same(const NodeOptions& options) {
    const Delivered delivered =
        run(options, [this](std::int64_t, Client&, const Microbatch& m) { collector_.add(m); });
    expect_all_received();
    return delivered.summary;
  }

  // Trains on up to `microbatches` microbatches as rank 0 and disconnects without a leave. Returns
  // the state to resume from, if the epoch did not end before.
  std::optional<StartPoint> train(const ClientOptions& options, int microbatches,
                                  const std::function<void()>& after_each = {}) {
    const auto client = Client::connect(options).value();
    StartPoint state = client->welcome().start;
    for (int i = 0; i < microbatches; ++i) {
      const auto next = client->next({});
      EXPECT_TRUE(next.has_value()) << next.error().message();
      const std::optional<Microbatch>* microbatch = next ? &*next : nullptr;
      if (microbatch == nullptr || !microbatch->has_value()) {
        client->close();
        return std::nullopt;
      }
      const MicrobatchHeader& header = (*microbatch)->header;
      collector_.add(**microbatch);
      if (header.last_of_step()) state.step = header.position.step + 1;
      if (after_each) after_each();
    }
    return state;
  }

  static ClientOptions client_of(const std::string& endpoint) {
    ClientOptions options;
    options.endpoint = endpoint;
    return options;
  }

  Collector collector_;
  SampleHashes expected_;
};

TEST_F(SampleTensors, AreTheRecipesForAnyWorkersAndRanks) {
  for (const auto& [ranks, workers] : {std::pair(1, 1), std::pair(1, 3), std::pair(2, 3)}) {
    SCOPED_TRACE(std::to_string(ranks) + " ranks, " + std::to_string(workers) + " workers");
    NodeOptions opts = options(ranks);
    opts.decode.workers = workers;
    expect_same(opts);
  }
}

TEST_F(SampleTensors, AreTheSameWhenLittleMemoryMakesThemDecodeAgain) {
  NodeOptions opts = options(2);
  opts.decode.workers = 3;
  opts.plan.global_batch_size = static_cast<std::int64_t>(expected_.size());
  // Half of it holds the working set of a video, or the tensors of five of the nine large pictures.
  opts.decode.memory = 24 * kMiB;
  EXPECT_GE(expect_same(opts).decoded_again, 4U);
}

TEST_F(SampleTensors, AreTheSameAfterARestartFromASavedState) {
  std::optional<StartPoint> state;
  {
    NodeThread first(Node::create(options(1), {}, {}).value());
    state = train(client_of(first.endpoint()), 3);  // in the middle of the second step
    EXPECT_TRUE(first.stop());
  }
  ASSERT_TRUE(state.has_value());
  EXPECT_EQ(state.value_or(StartPoint{}).step, 1U);
  NodeThread second(Node::create(options(1), {}, {}).value());
  ClientOptions resumed = client_of(second.endpoint());
  resumed.start = state;
  EXPECT_EQ(train(resumed, 1000), std::nullopt);
  expect_all_received();
}

// A client that goes without acknowledging leaves a microbatch whose tensors the node has released:
// here the first one of a step.
TEST_F(SampleTensors, AreTheSameWhenANewClientOfARankMakesThemDecodeAgain) {
  NodeThread serving(Node::create(options(1), {}, {}).value());
  std::optional<StartPoint> left = StartPoint{};
  int clients = 0;
  while (left && ++clients < 100) left = train(client_of(serving.endpoint()), 3);
  EXPECT_GT(clients, 3);
  expect_all_received();
  EXPECT_GT(serving.node().summary().decoded_again, 10U);
}

std::uint16_t port_of(const std::string& endpoint) {
  return static_cast<std::uint16_t>(std::stoi(endpoint.substr(endpoint.rfind(':') + 1)));
}

class Reconnect : public SampleTensors {
 protected:
  // Cuts the connection so many bytes after each microbatch was received. It may be that nothing
  // was on its way each time: then there is another job.
  void expect_same(bool shared_memory, std::uint64_t cut_after) {
    constexpr int kMostJobs = 10;
    int jobs = 1;
    while (samples_decoded_again(shared_memory, cut_after) == 0) ASSERT_LT(jobs++, kMostJobs);
  }

 private:
  std::uint64_t samples_decoded_again(bool shared_memory, std::uint64_t cut_after) {
    NodeOptions open = options(1);
    open.service.insecure = true;  // the proxy has another endpoint, at which no job key is found
    open.service.shared_memory = shared_memory;
    NodeThread serving(Node::create(open, {}, {}).value());
    TcpProxy proxy(port_of(serving.endpoint()));
    EXPECT_EQ(train(client_of(proxy.endpoint()), 1000, [&] { proxy.cut_after(cut_after); }),
              std::nullopt);
    expect_all_received();
    EXPECT_EQ(serving.node().metrics().microbatches_shared > 0, shared_memory);
    return serving.node().summary().decoded_again;
  }
};

TEST_F(Reconnect, TensorsAreTheSameOverTheSocket) { expect_same(false, 20'000); }

// The messages that still go over the socket are short.
TEST_F(Reconnect, TensorsAreTheSameInSharedMemory) { expect_same(true, 10); }

}  // namespace
}  // namespace isocost
