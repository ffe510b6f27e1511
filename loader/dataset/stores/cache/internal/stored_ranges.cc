#include "loader/dataset/stores/cache/internal/stored_ranges.h"

#include <algorithm>
#include <utility>

namespace isocost {
namespace {

// Ranges before an offset that are looked at for one that holds it. Ranges overlap where a part was
// read alone and with its neighbours, so that few begin within another.
constexpr int kMostLookedAt = 16;

}  // namespace

void StoredRanges::add(const StoredRange& added) {
  const auto [at, is_new] = ranges_.try_emplace(added.range.begin, added);
  if (!is_new && at->second.range.end < added.range.end) at->second = added;
}

void StoredRanges::remove(const StoredRange& removed) {
  const auto found = ranges_.find(removed.range.begin);
  if (found != ranges_.end() && found->second.record == removed.record) ranges_.erase(found);
}

void StoredRanges::set_verified(const StoredRange& verified) {
  const auto found = ranges_.find(verified.range.begin);
  if (found != ranges_.end() && found->second.record == verified.record) {
    found->second.is_verified = true;
  }
}

std::optional<StoredRange> StoredRanges::holding(std::int64_t offset) const {
  std::optional<StoredRange> best;
  auto at = ranges_.upper_bound(offset);
  for (int i = 0; i < kMostLookedAt && at != ranges_.begin(); ++i) {
    --at;
    const StoredRange& candidate = at->second;
    if (candidate.range.end <= offset) continue;
    if (!best || candidate.range.end > best->range.end) best = candidate;
  }
  return best;
}

std::vector<StoredRange> StoredRanges::cover(ByteRange wanted) const {
  std::vector<StoredRange> found;
  for (std::int64_t at = wanted.begin; at < wanted.end;) {
    const auto next = holding(at);
    if (!next) return {};
    at = next->range.end;
    found.push_back(*next);
  }
  return found;
}

std::vector<ByteRange> StoredRanges::missing(ByteRange wanted) const {
  std::vector<ByteRange> found;
  for (std::int64_t at = wanted.begin; at < wanted.end;) {
    if (const auto held = holding(at)) {
      at = held->range.end;
      continue;
    }
    const auto next = ranges_.upper_bound(at);
    const std::int64_t end = next == ranges_.end() ? wanted.end : std::min(wanted.end, next->first);
    found.push_back({at, end});
    at = end;
  }
  return found;
}

std::int64_t StoredRanges::bytes() const {
  std::int64_t sum = 0;
  std::int64_t counted_to = 0;
  for (const auto& [begin, held] : ranges_) {
    sum += std::max<std::int64_t>(held.range.end - std::max(begin, counted_to), 0);
    counted_to = std::max(counted_to, held.range.end);
  }
  return sum;
}

std::vector<StoredRange> StoredRanges::all() const {
  std::vector<StoredRange> found;
  found.reserve(ranges_.size());
  for (const auto& [begin, held] : ranges_) found.push_back(held);
  return found;
}

}  // namespace isocost
