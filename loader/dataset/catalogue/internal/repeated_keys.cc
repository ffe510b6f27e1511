#include "loader/dataset/catalogue/internal/repeated_keys.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string_view>

#include "base/fingerprint.h"

namespace isocost {
namespace {

// Hash of a sample's key, with the sample that has it.
struct KeyOccurrence {
  std::uint64_t hash;
  SamplePosition at;
  auto operator<=>(const KeyOccurrence&) const = default;
};

std::vector<KeyOccurrence> sorted_keys(std::span<const Shard> shards) {
  std::vector<KeyOccurrence> occurrences;
  for (std::uint32_t s = 0; s < shards.size(); ++s) {
    const IndexView& view = shards[s].view();
    for (std::uint32_t i = 0; i < view.samples(); ++i) {
      occurrences.push_back({Fingerprint::of(view.key(i)), {s, i}});
    }
  }
  std::sort(occurrences.begin(), occurrences.end());
  return occurrences;
}

// Returns the first sample of `earlier` with the key of `at`; all keys have the same hash.
std::optional<SamplePosition> first_with_key(std::span<const Shard> shards,
                                             std::span<const KeyOccurrence> earlier,
                                             const SamplePosition& at) {
  const auto key_of = [&](const SamplePosition& position) {
    return shards[position.shard].view().key(position.sample);
  };
  const auto found = std::ranges::find_if(
      earlier, [&](const KeyOccurrence& each) { return key_of(each.at) == key_of(at); });
  if (found == earlier.end()) return std::nullopt;
  return found->at;
}

}  // namespace

std::vector<RepeatedKey> repeated_keys(std::span<const Shard> shards) {
  const std::vector<KeyOccurrence> occurrences = sorted_keys(shards);
  std::vector<RepeatedKey> repeats;
  std::size_t begin = 0;  // begin of the run of equal hashes
  for (std::size_t i = 1; i < occurrences.size(); ++i) {
    if (occurrences[begin].hash != occurrences[i].hash) begin = i;
    const auto earlier = std::span(occurrences).subspan(begin, i - begin);
    if (const auto first = first_with_key(shards, earlier, occurrences[i].at)) {
      repeats.push_back({occurrences[i].at, *first});
    }
  }
  std::ranges::sort(repeats, {}, &RepeatedKey::repeat);
  return repeats;
}

}  // namespace isocost
