#include "loader/dataset/catalogue/shard_selection.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

namespace isocost {
namespace {

constexpr std::uint64_t kBitsOfWord = 64;
constexpr std::uint64_t kWordsOfBlock = 8;

std::uint64_t words_for(std::uint64_t samples) { return (samples + kBitsOfWord - 1) / kBitsOfWord; }

// Returns the place of the n-th bit that is set, counted from 0.
std::uint64_t place_of_bit(std::uint64_t word, std::uint64_t n) {
  for (; n > 0; --n) word &= word - 1;
  return static_cast<std::uint64_t>(std::countr_zero(word));
}

Error does_not_fit(const char* what) { return {ErrorCode::kCorrupt, what}; }

}  // namespace

ShardSelection::ShardSelection(std::uint64_t samples, const std::vector<std::uint32_t>& dropped,
                               const Cuts& cuts)
    : samples_(samples), usable_(samples) {
  for (const auto& [sample, cut] : cuts) {
    cut_samples_.push_back(static_cast<std::uint32_t>(sample));
    cuts_.push_back(cut);
  }
  if (dropped.empty()) return;
  bits_.assign(words_for(samples), ~std::uint64_t{0});
  if (samples % kBitsOfWord != 0) bits_.back() >>= kBitsOfWord - samples % kBitsOfWord;
  for (const std::uint32_t sample : dropped) {
    bits_[sample / kBitsOfWord] &= ~(std::uint64_t{1} << (sample % kBitsOfWord));
  }
  count();
}

Result<ShardSelection> ShardSelection::create(std::uint64_t samples,
                                              std::vector<std::uint64_t> bits,
                                              std::vector<std::uint32_t> cut_samples,
                                              std::vector<TurnCut> cuts) {
  if (samples > std::numeric_limits<std::uint32_t>::max()) return does_not_fit("too many samples");
  if (!bits.empty() && bits.size() != words_for(samples)) {
    return does_not_fit("another number of bits than of samples");
  }
  const std::uint64_t rest = samples % kBitsOfWord;
  if (!bits.empty() && rest != 0 && bits.back() >> rest != 0) {
    return does_not_fit("bits of no sample");
  }
  if (cut_samples.size() != cuts.size()) return does_not_fit("cuts without a sample");
  const auto not_rising =
      std::ranges::adjacent_find(cut_samples, [](auto a, auto b) { return a >= b; });
  if (not_rising != cut_samples.end() || (!cut_samples.empty() && cut_samples.back() >= samples)) {
    return does_not_fit("cuts of no sample");
  }
  ShardSelection selection;
  selection.samples_ = samples;
  selection.usable_ = samples;
  selection.bits_ = std::move(bits);
  selection.cut_samples_ = std::move(cut_samples);
  selection.cuts_ = std::move(cuts);
  if (!selection.bits_.empty()) selection.count();
  return selection;
}

// Counts the usable samples before each block, and all of them.
void ShardSelection::count() {
  usable_ = 0;
  before_.clear();
  before_.reserve((bits_.size() + kWordsOfBlock - 1) / kWordsOfBlock);
  for (std::size_t word = 0; word < bits_.size(); ++word) {
    if (word % kWordsOfBlock == 0) before_.push_back(static_cast<std::uint32_t>(usable_));
    usable_ += static_cast<std::uint64_t>(std::popcount(bits_[word]));
  }
}

std::uint64_t ShardSelection::sample(std::uint64_t i) const {
  if (bits_.empty()) return i;
  const auto after = std::ranges::upper_bound(before_, i);
  const auto block = static_cast<std::uint64_t>(after - before_.begin()) - 1;
  std::uint64_t left = i - before_[block];
  for (std::uint64_t word = block * kWordsOfBlock; word < bits_.size(); ++word) {
    const auto usable = static_cast<std::uint64_t>(std::popcount(bits_[word]));
    if (left < usable) return word * kBitsOfWord + place_of_bit(bits_[word], left);
    left -= usable;
  }
  return samples_;
}

const TurnCut* ShardSelection::cut_of(std::uint64_t sample) const {
  const auto found = std::ranges::lower_bound(cut_samples_, sample);
  if (found == cut_samples_.end() || *found != sample) return nullptr;
  return &cuts_[static_cast<std::size_t>(found - cut_samples_.begin())];
}

}  // namespace isocost
