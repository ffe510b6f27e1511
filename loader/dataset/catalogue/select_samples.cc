#include "loader/dataset/catalogue/select_samples.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

#include "loader/dataset/tokens/truncation.h"

namespace isocost {
namespace {

// A sample by the number of its shard and its number in it.
struct SamplePosition {
  std::uint32_t shard = 0;
  std::uint32_t sample = 0;
};

class Selector {
 public:
  explicit Selector(std::span<const Shard> shards)
      : shards_(shards), dropped_(shards.size()), cuts_(shards.size()) {}

  void collect_bad();
  void drop_without_tokens();
  void drop_unusable(const SelectionOptions& options);
  Selection select() &&;

 private:
  void drop(SamplePosition at, std::string reason, bool over_limit);
  // Returns why a sample cannot be used, not even cut; notes where it is cut.
  std::string why_unusable(SamplePosition at, const SelectionOptions& options);

  const std::span<const Shard> shards_;
  std::vector<std::vector<std::uint32_t>> dropped_;  // by shard; `bad_` has the reasons
  std::vector<ShardSelection::Cuts> cuts_;           // by shard
  std::vector<BadSample> bad_;
};

void Selector::collect_bad() {
  for (const Shard& shard : shards_) {
    std::ranges::move(shard.bad(), std::back_inserter(bad_));
  }
}

void Selector::drop(SamplePosition at, std::string reason, bool over_limit) {
  const Shard& shard = shards_[at.shard];
  dropped_[at.shard].push_back(at.sample);
  bad_.push_back({.shard = shard.name(),
                  .key = std::string(shard.view().key(at.sample)),
                  .part = "",
                  .reason = std::move(reason),
                  .over_limit = over_limit});
}

void Selector::drop_without_tokens() {
  for (std::uint32_t s = 0; s < shards_.size(); ++s) {
    const Shard& shard = shards_[s];
    const std::uint64_t samples = shard.tokens() ? shard.samples() : 0;
    for (std::uint32_t i = 0; i < samples; ++i) {
      const std::string_view reason = shard.tokens()->reason(i);
      if (!reason.empty()) drop({s, i}, std::string(reason), false);
    }
  }
}

void Selector::drop_unusable(const SelectionOptions& options) {
  for (std::uint32_t s = 0; s < shards_.size(); ++s) {
    std::vector<std::uint32_t> without = dropped_[s];
    std::ranges::sort(without);
    for (std::uint32_t i = 0; i < shards_[s].samples(); ++i) {
      if (std::ranges::binary_search(without, i)) continue;
      std::string reason = why_unusable({s, i}, options);
      if (!reason.empty()) drop({s, i}, std::move(reason), true);
    }
  }
}

std::string Selector::why_unusable(SamplePosition at, const SelectionOptions& options) {
  const Shard& shard = shards_[at.shard];
  std::string reason = options.check_shape(shard.parts(at.sample, nullptr).shape());
  if (reason.empty() || !options.truncate || !shard.tokens()) return reason;
  Truncation truncated =
      truncate_sample(shard.view(), *shard.tokens(), at.sample, options.check_shape);
  if (!truncated.cut) return std::move(truncated.reason);
  cuts_[at.shard].emplace(at.sample, *truncated.cut);
  return "";
}

Selection Selector::select() && {
  Selection selection;
  selection.shards.reserve(shards_.size());
  for (std::size_t s = 0; s < shards_.size(); ++s) {
    selection.shards.emplace_back(shards_[s].samples(), dropped_[s], cuts_[s]);
  }
  selection.bad = std::move(bad_);
  return selection;
}

}  // namespace

Selection select_samples(std::span<const Shard> shards, const SelectionOptions& options) {
  Selector selector(shards);
  selector.collect_bad();
  selector.drop_without_tokens();
  if (options.check_shape) selector.drop_unusable(options);
  return std::move(selector).select();
}

std::size_t cut_samples(std::span<const ShardSelection> selections) {
  std::size_t cuts = 0;
  for (const ShardSelection& selection : selections) cuts += selection.cuts();
  return cuts;
}

}  // namespace isocost
