// Prints how well the orders of samples mix shards, for docs/stores.md. It has no clock: the same
// seeds print the same figures on every machine.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <numbers>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "loader/plan/block_order.h"
#include "loader/plan/cursor.h"
#include "loader/plan/mixture/mixture.h"
#include "loader/plan/mixture_cursor.h"

namespace isocost {
namespace {

constexpr std::uint64_t kShards = 1000;
constexpr std::uint64_t kShardSamples = 256;
constexpr std::uint64_t kSamples = kShards * kShardSamples;
constexpr std::uint64_t kBatch = 256;
constexpr std::uint64_t kSeeds = 10;

struct Order {
  ShufflePolicy shuffle;
  std::uint64_t window_shards;  // of kBlocks

  std::string name() const {
    if (shuffle == ShufflePolicy::kOff) return "off";
    if (shuffle == ShufflePolicy::kGlobal) return "global";
    return "blocks, " + std::to_string(window_shards) + (window_shards == 1 ? " shard" : " shards");
  }
};

std::shared_ptr<const BlockOrder> blocks_of(std::uint64_t shards, const Order& order) {
  if (order.shuffle != ShufflePolicy::kBlocks) return nullptr;
  const std::vector<std::uint64_t> samples(shards, kShardSamples);
  return std::make_shared<const BlockOrder>(samples, order.window_shards);
}

Cursor one_data_set(const Order& order, std::uint64_t seed) {
  CursorOptions options;
  options.seed = seed;
  options.size = kSamples;
  options.global_batch_size = kBatch;
  options.tail = TailPolicy::kDrop;
  options.shuffle = order.shuffle;
  options.blocks = blocks_of(kShards, order);
  return Cursor(options);
}

// Two sources of half of the samples each, in equal proportions, for one pass over both.
Cursor two_sources(const Order& order, std::uint64_t seed) {
  MixtureOptions mixture;
  for (const std::string name : {"a", "b"}) {
    MixtureSource source;
    source.name = name;
    source.size = kSamples / 2;
    source.schedule.points = {{0, 1.0}};
    mixture.sources.push_back(std::move(source));
  }
  mixture.seed = seed;
  mixture.shuffled = order.shuffle != ShufflePolicy::kOff;
  mixture.shuffle_shards = order.shuffle == ShufflePolicy::kBlocks ? order.window_shards : 0;
  mixture.global_batch_size = kBatch;
  mixture.steps = kSamples / kBatch;
  CursorOptions options;
  const auto blocks = blocks_of(kShards / 2, order);
  options.mixture = std::make_shared<const MixtureCursor>(
      Mixture::create(std::move(mixture)).value(), std::vector<SampleId>{0, kSamples / 2},
      std::vector<std::shared_ptr<const BlockOrder>>{blocks, blocks});
  return Cursor(options);
}

// Log-normal lengths in tokens, each source's from short to long.
std::vector<double> sorted_lengths(std::size_t sources) {
  Random random(1);
  std::vector<double> lengths(kSamples);
  for (double& length : lengths) {
    const double normal = std::sqrt(-2 * std::log(1 - random.uniform())) *
                          std::cos(2 * std::numbers::pi * random.uniform());
    length = std::exp(6 + normal);
  }
  const auto size = static_cast<std::ptrdiff_t>(kSamples / sources);
  for (auto begin = lengths.begin(); begin != lengths.end(); begin += size) {
    std::sort(begin, begin + size);
  }
  return lengths;
}

// The figures of one seed.
struct Figures {
  double correlation = 0;    // of position and place in the shards, by rank
  double shards = 0;         // shards that a step draws from, mean
  double mean_run = 0;       // samples of one shard that follow one another, mean
  double longest_run = 0;    // the longest one of a step, mean
  double cost_variance = 0;  // of a step's tokens, relative to the square of their mean
};

Figures figures_of(const Cursor& cursor, const std::vector<double>& lengths) {
  Figures figures;
  const std::uint64_t steps = cursor.steps(0);
  const double middle = (kSamples - 1) / 2.0;
  double runs = 0;
  double sum = 0;
  double squares = 0;
  for (std::uint64_t step = 0; step < steps; ++step) {
    const std::vector<SampleId> ids = cursor.batch(0, step);
    std::vector<bool> seen(kShards);
    double longest = 0;
    double run = 0;
    double tokens = 0;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const bool goes_on = i > 0 && ids[i] / kShardSamples == ids[i - 1] / kShardSamples;
      run = goes_on ? run + 1 : 1;
      if (!goes_on) ++runs;
      longest = std::max(longest, run);
      figures.shards += seen[ids[i] / kShardSamples] ? 0 : 1;
      seen[ids[i] / kShardSamples] = true;
      tokens += lengths[ids[i]];
      const double position = static_cast<double>(step * kBatch + i) - middle;
      figures.correlation += position * (static_cast<double>(ids[i]) - middle);
    }
    figures.longest_run += longest;
    sum += tokens;
    squares += tokens * tokens;
  }
  const auto count = static_cast<double>(steps);
  figures.correlation /= (static_cast<double>(kSamples) * kSamples - 1) / 12.0 * kSamples;
  figures.shards /= count;
  figures.longest_run /= count;
  figures.mean_run = count * kBatch / runs;
  figures.cost_variance = (squares / count) / (sum / count * (sum / count)) - 1;
  return figures;
}

// Mean over the seeds, and standard deviation.
class Spread {
 public:
  void add(double value) { values_.push_back(value); }
  double mean() const {
    double sum = 0;
    for (const double value : values_) sum += value;
    return sum / static_cast<double>(values_.size());
  }
  double deviation() const {
    double sum = 0;
    for (const double value : values_) sum += (value - mean()) * (value - mean());
    return std::sqrt(sum / static_cast<double>(values_.size() - 1));
  }

 private:
  std::vector<double> values_;
};

struct Row {
  Spread correlation, shards, mean_run, longest_run, variance;
};

Row row_of(Cursor (*cursor)(const Order&, std::uint64_t), const Order& order,
           const std::vector<double>& lengths) {
  Row row;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    const Figures figures = figures_of(cursor(order, seed), lengths);
    row.correlation.add(figures.correlation);
    row.shards.add(figures.shards);
    row.mean_run.add(figures.mean_run);
    row.longest_run.add(figures.longest_run);
    row.variance.add(figures.cost_variance);
  }
  return row;
}

void print_figures() {
  const std::vector<Order> orders = {{ShufflePolicy::kGlobal, 0},
                                     {ShufflePolicy::kBlocks, 64},
                                     {ShufflePolicy::kBlocks, 16},
                                     {ShufflePolicy::kBlocks, 4},
                                     {ShufflePolicy::kBlocks, 1}};
  const std::vector<double> of_one = sorted_lengths(1);
  const std::vector<double> of_two = sorted_lengths(2);
  double global_one = 0;
  double global_two = 0;
  std::printf(
      "| order | rank correlation | shards in a step | run | longest run in a step | variance, "
      "sorted by length | variance, two such sources |\n|---|---|---|---|---|---|---|\n");
  for (const Order& order : orders) {
    const Row one = row_of(one_data_set, order, of_one);
    const Row two = row_of(two_sources, order, of_two);
    if (order.shuffle == ShufflePolicy::kGlobal) {
      global_one = one.variance.mean();
      global_two = two.variance.mean();
    }
    std::printf("| %s | %.3f ± %.3f | %.1f | %.2f | %.1f | %.2f ± %.2f | %.2f ± %.2f |\n",
                order.name().c_str(), one.correlation.mean(), one.correlation.deviation(),
                one.shards.mean(), one.mean_run.mean(), one.longest_run.mean(),
                one.variance.mean() / global_one, one.variance.deviation() / global_one,
                two.variance.mean() / global_two, two.variance.deviation() / global_two);
  }
}

}  // namespace
}  // namespace isocost

int main() { isocost::print_figures(); }
