#include "loader/plan/block_order.h"

#include <algorithm>
#include <numeric>
#include <string_view>
#include <utility>

#include "base/fingerprint.h"
#include "base/random.h"
#include "loader/plan/permutation.h"

namespace isocost {

// The shards of an epoch in their order.
struct BlockOrder::Epoch {
  std::uint64_t seed = 0;
  std::uint64_t epoch = 0;
  std::uint64_t window_seed = 0;      // of the permutations within windows
  std::vector<std::uint32_t> shards;  // numbers of the shards that have samples
  std::vector<std::uint64_t> begins;  // position at which each of them begins, and the size

  bool is(std::uint64_t other_seed, std::uint64_t other_epoch) const {
    return seed == other_seed && epoch == other_epoch;
  }
  // Returns the place in `shards`, between `from` and `to`, of the shard that a position lies in.
  std::size_t place_of(std::uint64_t position, std::size_t from, std::size_t to) const {
    const auto begin = begins.begin();
    const auto behind = std::upper_bound(begin + static_cast<std::ptrdiff_t>(from),
                                         begin + static_cast<std::ptrdiff_t>(to), position);
    return static_cast<std::size_t>(behind - begin) - 1;
  }
};

BlockOrder::BlockOrder(std::span<const std::uint64_t> samples, std::uint64_t window_shards) {
  Fingerprint hash;
  first_.reserve(samples.size() + 1);
  first_.push_back(0);
  for (const std::uint64_t count : samples) {
    if (count == 0) continue;
    first_.push_back(first_.back() + count);
    hash.add(count);
  }
  fingerprint_ = hash.value();
  window_shards_ =
      std::clamp<std::uint64_t>(window_shards, 1, std::max<std::uint64_t>(shards(), 1));
}

std::shared_ptr<const BlockOrder::Epoch> BlockOrder::permuted(std::uint64_t seed,
                                                              std::uint64_t epoch) const {
  auto made = std::make_shared<Epoch>();
  made->seed = seed;
  made->epoch = epoch;
  // The seed is hashed before the epoch is added, so that neighbouring seeds and epochs share no
  // keys, and with a word, so that no key is one of shuffle = global.
  const std::uint64_t seed_hash = Random(seed ^ Fingerprint::of("shuffle = blocks")).next();
  Random keys(Random(seed_hash + epoch).next());
  made->window_seed = keys.next();
  made->shards.resize(shards());
  std::iota(made->shards.begin(), made->shards.end(), std::uint32_t{0});
  Random random(keys.next());
  shuffle(std::span(made->shards), random);
  made->begins.reserve(made->shards.size() + 1);
  made->begins.push_back(0);
  for (const std::uint32_t shard : made->shards) {
    made->begins.push_back(made->begins.back() + first_[shard + 1] - first_[shard]);
  }
  return made;
}

// Computes an epoch once, also if several threads ask for it: the others wait.
std::shared_ptr<const BlockOrder::Epoch> BlockOrder::epoch_of(std::uint64_t seed,
                                                              std::uint64_t epoch) const {
  const MutexLock lock(mutex_);
  auto& [latest, before] = kept_;
  if (latest != nullptr && latest->is(seed, epoch)) return latest;
  if (before == nullptr || !before->is(seed, epoch)) before = permuted(seed, epoch);
  std::swap(latest, before);
  return latest;
}

void BlockOrder::append(std::vector<SampleId>& ids, SampleId first, std::uint64_t seed,
                        std::uint64_t epoch, std::uint64_t begin, std::uint64_t count) const {
  if (count == 0) return;
  const std::shared_ptr<const Epoch> order = epoch_of(seed, epoch);
  const std::size_t all = order->shards.size();
  const std::uint64_t end = begin + count;
  for (std::uint64_t position = begin; position < end;) {
    const std::uint64_t window = order->place_of(position, 0, all) / window_shards_;
    const std::size_t from = window * window_shards_;
    const std::size_t to = std::min<std::size_t>(from + window_shards_, all);
    const std::uint64_t window_begin = order->begins[from];
    const std::uint64_t window_end = order->begins[to];
    const Permutation within(order->window_seed, window, window_end - window_begin);
    for (; position < std::min(end, window_end); ++position) {
      const std::uint64_t drawn = window_begin + within.at(position - window_begin);
      const std::size_t place = order->place_of(drawn, from, to);
      ids.push_back(first + first_[order->shards[place]] + (drawn - order->begins[place]));
    }
  }
}

}  // namespace isocost
