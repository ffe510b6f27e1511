#include "tests/e2e/loop_fixture.h"

#include <cmath>
#include <fstream>
#include <memory>
#include <optional>
#include <span>
#include <thread>
#include <utility>

#include "balancer/layout/layout.h"
#include "decode/recipe.h"
#include "loader/dataset/dataset.h"
#include "loader/dataset/shard_writing/make_shards.h"
#include "tests/support/media.h"

namespace isocost {
namespace {

Received received(const Microbatch& microbatch) {
  const MicrobatchHeader& header = microbatch.header;
  Received seen{header.position,  header.microbatches, header.global_label_tokens,
                header.plan_hash, header.samples,      0};
  const auto labels = microbatch.find("llm.labels");
  const auto weights = microbatch.find("llm.loss_weights");
  EXPECT_EQ(labels.has_value(), weights.has_value());
  if (!labels || !weights) return seen;
  for (std::size_t i = 0; i < labels->as<std::int64_t>().size(); ++i) {
    const bool counts = weights->as<float>()[i] > 0;
    if (counts && labels->as<std::int64_t>()[i] != kIgnoredLabel) ++seen.label_positions;
  }
  return seen;
}

// A trainer's loop: takes microbatches until the last epoch has ended. `told` is set to the error
// that ended it, if any.
void train(std::int64_t rank, const Node& node, std::uint64_t layout, const LogSink& log,
           const TrainerStep& step, std::vector<Received>& seen, std::vector<EpochEnd>& ends,
           std::string& told) {
  ClientOptions options;
  options.endpoint = node.endpoint();
  options.rank = static_cast<std::int32_t>(rank);
  options.layout = layout;
  options.log = log;
  auto client = Client::connect(options);
  if (!client) {
    told = client.error().message();
    return;
  }
  for (;;) {
    auto next = (*client)->next({});
    if (!next) {
      told = next.error().message();
      return;
    }
    if (next->has_value()) {
      seen.push_back(received(**next));
      if (step) step(rank, **client, **next);
      continue;
    }
    ASSERT_TRUE((*client)->epoch_end().has_value());
    ends.push_back(*(*client)->epoch_end());
    if (ends.back().last_epoch) break;
  }
  (*client)->close();
}

}  // namespace

std::map<std::pair<std::uint32_t, std::uint32_t>, std::multiset<SampleId>> Delivered::batches()
    const {
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::multiset<SampleId>> out;
  for (const auto& rank : ranks) {
    for (const Received& seen : rank) {
      auto& ids = out[{seen.position.epoch, seen.position.step}];
      for (const SampleEntry& sample : seen.samples) {
        if (sample.weight > 0) ids.insert(sample.id);
      }
    }
  }
  return out;
}

std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint64_t> Delivered::plan_hashes() const {
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint64_t> out;
  for (const auto& rank : ranks) {
    for (const Received& seen : rank) {
      out[{seen.position.epoch, seen.position.step}] = seen.plan_hash;
    }
  }
  return out;
}

std::map<SampleId, int> Delivered::counts(std::uint32_t epoch) const {
  std::map<SampleId, int> out;
  for (const auto& [step, ids] : batches()) {
    if (step.first != epoch) continue;
    for (const SampleId id : ids) ++out[id];
  }
  return out;
}

namespace {

void write_file(const std::filesystem::path& file, std::span<const std::byte> bytes) {
  std::ofstream out(file, std::ios::binary);
  out.write(reinterpret_cast<const char*>(bytes.data()),
            static_cast<std::streamsize>(bytes.size()));
}

// A tone of `seconds`, mono.
test::Bytes tone(double seconds) {
  std::vector<float> samples(static_cast<std::size_t>(16000 * seconds));
  for (std::size_t i = 0; i < samples.size(); ++i) {
    samples[i] = 0.3F * std::sin(0.05F * static_cast<float>(i));
  }
  return test::make_audio(MediaFormat::kFlac, samples, 16000, 1);
}

std::string text_of(int i) { return "sample " + std::to_string(i) + std::string(i % 37, '.'); }

std::string key_of(int i) {
  std::string digits = std::to_string(i);
  return "s" + std::string(4 - digits.size(), '0') + digits;
}

// Five kinds in turn: PNG and text, JPEG and text, sound and text, text, and an interleaved sample
// whose last in forty is a video.
void write_sample(const std::filesystem::path& stem, int i) {
  const std::string body = text_of(i);
  const auto text = std::as_bytes(std::span(body));
  const auto part = [&](const std::string& name, std::span<const std::byte> bytes) {
    write_file(stem.string() + "." + name, bytes);
  };
  switch (i % 5) {
    case 0:
      part("png", test::make_png(60 + i % 50, 45 + i % 31, static_cast<std::uint64_t>(i)));
      part("txt", text);
      return;
    case 1:
      part("jpg", test::make_jpeg(200 + i % 90, 150, static_cast<std::uint64_t>(i), 1 + i % 8));
      part("txt", text);
      return;
    case 2:
      part("flac", tone(0.5 + i % 3));
      part("txt", text);
      return;
    case 3:
      part("txt", text);
      return;
    default:
      part("0.txt", text);
      part("1.webp", test::make_webp(40, 90, static_cast<std::uint64_t>(i)));
      part("2.txt", text);
      if (i % 40 == 39) part("3.mp4", test::make_video({}));
      return;
  }
}

}  // namespace

void LoopTest::make_dataset(int samples) {
  const std::filesystem::path files = scratch() / "files";
  std::filesystem::create_directories(files);
  for (int i = 0; i < samples; ++i) write_sample(files / key_of(i), i);
  MakeShardsOptions making;
  making.samples_per_shard = 16;
  const auto made = make_shards(files, shards(), making);
  ASSERT_TRUE(made.has_value()) << made.error().message();
  ASSERT_EQ(made->samples, static_cast<std::uint64_t>(samples));
}

std::string LoopTest::png_key(int n) { return key_of(5 * n); }

NodeOptions LoopTest::options(std::int64_t ranks) const {
  NodeOptions options;
  options.data = shards();
  options.plan.ranks = ranks;
  options.plan.global_batch_size = 16;
  options.plan.microbatches = 2;
  options.service.bind = "tcp://127.0.0.1:*";
  options.bad_samples.file = scratch() / "bad.jsonl";
  options.decode.memory = 256 * kMiB;
  return options;
}

Result<Delivered> LoopTest::try_run(const NodeOptions& options, const TrainerStep& step,
                                    std::string* told, std::int64_t receivers) {
  ISOCOST_ASSIGN(const std::unique_ptr<Node> node, Node::create(options, {}, node_log));
  if (before_serving) before_serving(*node);
  const std::uint64_t layout = options.plan.layout ? options.plan.layout->fingerprint() : 0;
  Delivered delivered;
  if (receivers == 0) receivers = options.plan.ranks;
  delivered.ranks.resize(static_cast<std::size_t>(receivers));
  std::vector<std::vector<EpochEnd>> ends(delivered.ranks.size());
  std::vector<std::string> refusals(delivered.ranks.size());
  std::optional<Result<NodeSummary>> outcome;
  {
    std::vector<std::jthread> trainers;
    for (std::int64_t rank = 0; rank < receivers; ++rank) {
      const auto at = static_cast<std::size_t>(rank);
      trainers.emplace_back([&, rank, at] {
        train(rank, *node, layout, trainer_log, step, delivered.ranks[at], ends[at], refusals[at]);
      });
    }
    outcome = node->run({});
  }
  if (told != nullptr) *told = refusals.front();
  ISOCOST_ASSIGN(delivered.summary, *std::move(outcome));
  for (const std::string& refusal : refusals) EXPECT_EQ(refusal, "");
  delivered.epoch_ends = ends.front();
  return delivered;
}

Delivered LoopTest::run(const NodeOptions& options, const TrainerStep& step) {
  return run(options, options.plan.ranks, step);
}

Delivered LoopTest::run(const NodeOptions& options, std::int64_t receivers,
                        const TrainerStep& step) {
  auto delivered = try_run(options, step, nullptr, receivers);
  EXPECT_TRUE(delivered.has_value()) << delivered.error().message();
  return delivered ? *std::move(delivered) : Delivered{};
}

}  // namespace isocost
