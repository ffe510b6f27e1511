#include "loader/dataset/catalogue/shard_findings.h"

#include <algorithm>

namespace isocost {
namespace {

void add(ShardFindings& findings, const Shard& shard) {
  const IndexView& view = shard.view();
  if (view.condition() != ShardCondition::kWhole) {
    findings.broken.push_back({.name = shard.name(),
                               .lost = view.condition() == ShardCondition::kLost,
                               .reason = std::string(view.problem()),
                               .samples = view.samples() + view.bad(),
                               .samples_when_whole = view.samples_when_whole()});
  } else if (!view.has_end_mark()) {
    findings.without_end_mark.push_back(shard.name());
  }
  if (!view.unread().empty()) {
    findings.unread.push_back(shard.name() + ": " + std::string(view.unread()));
  }
}

}  // namespace

ShardFindings shard_findings(const ShardListing& listing, std::span<const Shard> shards) {
  ShardFindings findings;
  findings.shards = shards.size() + listing.lost.size();
  findings.broken = listing.lost;
  findings.unread = listing.unread;
  for (const Shard& shard : shards) add(findings, shard);
  std::ranges::sort(findings.broken, {}, &BrokenShard::name);
  std::ranges::sort(findings.unread);
  return findings;
}

}  // namespace isocost
