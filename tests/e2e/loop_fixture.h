#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/scratch_directory.h"
#include "loader/node/node.h"
#include "loader/node/node_options.h"
#include "trainer_adapter/client.h"

namespace isocost {

/// A microbatch as a trainer saw it.
struct Seen {
  Position position;
  std::uint32_t microbatches = 0;
  std::uint64_t global_label_tokens = 0;
  std::uint64_t plan_hash = 0;
  std::vector<SampleEntry> samples;
  /// Labels in the tensor, where there is one, that are not ignored, repeats left out.
  std::int64_t label_positions = 0;
};

/// All that one run delivered.
struct Delivered {
  std::vector<std::vector<Seen>> ranks;
  std::vector<EpochEnd> epoch_ends;  ///< As rank 0 saw them.
  NodeSummary summary;

  /// Ids with weight of each global batch, in delivery order of (epoch, step).
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::multiset<SampleId>> batches() const;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint64_t> plan_hashes() const;
  /// Every sample of an epoch with the number of times it came with weight.
  std::map<SampleId, int> counts(std::uint32_t epoch) const;
};

/// What a trainer does with each microbatch before it asks for the next; on its own thread.
using TrainerStep = std::function<void(std::int64_t rank, Client&, const Microbatch&)>;

/// A scratch directory with shards of real media: pictures of several formats and sizes, sounds,
/// texts, interleaved samples. One per test, removed with it.
class LoopTest : public testing::Test {
 protected:
  /// Writes `samples` samples into shards of 16 under `shards()`. Sample i is the same in every
  /// test.
  void make_dataset(int samples);
  std::filesystem::path shards() const { return scratch_ / "shards"; }
  const std::filesystem::path& scratch() const { return scratch_.path(); }

  /// Defaults for a small job on a free loopback port.
  NodeOptions options(std::int64_t ranks) const;

  /// Runs a node and one client a rank until the last epoch ends. Fails the test on any error.
  Delivered run(const NodeOptions& options, const TrainerStep& step = {});
  /// The same with a client at each of so many receivers of a layout.
  Delivered run(const NodeOptions& options, std::int64_t receivers, const TrainerStep& step);
  /// The first where the node may fail; `told` takes what rank 0's client was told then.
  Result<Delivered> try_run(const NodeOptions& options, const TrainerStep& step,
                            std::string* told = nullptr, std::int64_t receivers = 0);

  /// Key of the n-th sample that is a PNG and a text.
  static std::string png_key(int n);

 private:
  ScratchDirectory scratch_ = ScratchDirectory::create("isocost-loop").value();
};

}  // namespace isocost
