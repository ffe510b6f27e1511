#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/result.h"
#include "base/scratch_directory.h"
#include "loader/node/node.h"
#include "loader/node/node_options.h"
#include "trainer_adapter/client.h"

namespace isocost {

/// A microbatch as a trainer received it.
struct Received {
  Position position;
  std::uint32_t microbatches = 0;
  std::uint64_t global_label_tokens = 0;
  std::uint64_t plan_hash = 0;
  std::vector<SampleEntry> samples;
  /// Labels that count for the loss: neither ignored nor of repeats; 0 without a label tensor.
  std::int64_t label_positions = 0;
};

/// Everything that one run delivered.
struct Delivered {
  std::vector<std::vector<Received>> ranks;
  std::vector<EpochEnd> epoch_ends;  ///< Ends of epochs that rank 0 received.
  NodeSummary summary;

  /// Returns the samples with weight of each global batch, by (epoch, step).
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::multiset<SampleId>> batches() const;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint64_t> plan_hashes() const;
  /// Returns how often each sample of an epoch was delivered with weight.
  std::map<SampleId, int> counts(std::uint32_t epoch) const;
};

/// Called for each microbatch on the thread of its rank, before the rank asks for the next.
using TrainerStep = std::function<void(std::int64_t rank, Client&, const Microbatch&)>;

/// Has shards of real media in a scratch directory: pictures of several formats and sizes, sounds,
/// texts and interleaved samples.
class LoopTest : public testing::Test {
 protected:
  /// Writes `samples` samples into shards of 16 under `shards()`. Sample i is the same in every
  /// test.
  void make_dataset(int samples);
  std::filesystem::path shards() const { return scratch_ / "shards"; }
  const std::filesystem::path& scratch() const { return scratch_.path(); }

  /// Called between indexing and serving, if set.
  std::function<void(Node& node)> before_serving;
  LogSink node_log;
  LogSink trainer_log;

  /// Defaults for a small job on a free loopback port.
  NodeOptions options(std::int64_t ranks) const;

  /// Runs a node and one client per rank until the last epoch ends. Fails the test on any error.
  Delivered run(const NodeOptions& options, const TrainerStep& step = {});
  /// Runs a node and one client for each receiver of a layout. Fails the test on any error.
  Delivered run(const NodeOptions& options, std::int64_t receivers, const TrainerStep& step);
  /// Returns the node's failure instead of failing the test. Sets `told` to the error that rank
  /// 0's client received.
  Result<Delivered> try_run(const NodeOptions& options, const TrainerStep& step,
                            std::string* told = nullptr, std::int64_t receivers = 0);

  /// Returns the key of the n-th sample that is made of a PNG and a text.
  static std::string png_key(int n);

 private:
  ScratchDirectory scratch_ = ScratchDirectory::create("isocost-loop").value();
};

}  // namespace isocost
