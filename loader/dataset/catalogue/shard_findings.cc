#include "loader/dataset/catalogue/shard_findings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "loader/dataset/catalogue/internal/missing_end_marks.h"
#include "loader/dataset/formats/shard_name.h"
#include "loader/dataset/index/index_location.h"

namespace isocost {
namespace {

bool lacks_end_mark(const Shard& shard) {
  return !shard.view().has_end_mark() && shard.view().condition() != ShardCondition::kLost;
}

// Zeros behind a compressed stream are not read.
std::string_view remedy_without_end_mark(const Shard& shard) {
  return names_compressed_shard(shard.name())
             ? "copy it again, or pack it again if its writer leaves out the mark"
             : "copy it again, or append 1024 zero bytes if its writer leaves out the mark";
}

// A shard that its index calls whole, and that the others show to be cut off. How many samples it
// had is not known.
BrokenShard cut_off(const Shard& shard, std::uint64_t lacking, std::uint64_t shards) {
  return {.name = shard.name(),
          .reason = fmt::format("without the mark that ends a tar file, like {} of the {} shards, "
                                "so cut off between two members; {}",
                                lacking, shards, remedy_without_end_mark(shard)),
          .samples = shard.view().samples() + shard.view().bad()};
}

BrokenShard broken_by_itself(const Shard& shard) {
  const IndexView& view = shard.view();
  return {.name = shard.name(),
          .lost = view.condition() == ShardCondition::kLost,
          .reason = std::string(view.problem()),
          .samples = view.samples() + view.bad(),
          .samples_when_whole = view.samples_when_whole()};
}

void add_conditions(ShardFindings& findings, std::span<const Shard> shards) {
  const auto lacking = static_cast<std::uint64_t>(std::ranges::count_if(shards, lacks_end_mark));
  const bool are_cut = are_cut_off(lacking, findings.shards);
  for (const Shard& shard : shards) {
    if (shard.view().condition() != ShardCondition::kWhole) {
      findings.broken.push_back(broken_by_itself(shard));
    } else if (lacks_end_mark(shard) && are_cut) {
      findings.broken.push_back(cut_off(shard, lacking, findings.shards));
    } else if (lacks_end_mark(shard)) {
      findings.without_end_mark.push_back(shard.name());
    }
  }
}

}  // namespace

ShardFindings shard_findings(const ShardListing& listing, std::span<const Shard> shards,
                             std::string_view source) {
  ShardFindings findings;
  findings.shards = shards.size() + listing.lost.size();
  for (BrokenShard lost : listing.lost) {
    lost.name = name_in_source(source, lost.name);
    findings.broken.push_back(std::move(lost));
  }
  for (const std::string& unread : listing.unread) {
    findings.unread.push_back(name_in_source(source, unread));
  }
  add_conditions(findings, shards);
  for (const Shard& shard : shards) {
    const std::string_view unread = shard.view().unread();
    if (!unread.empty()) findings.unread.push_back(shard.name() + ": " + std::string(unread));
  }
  std::ranges::sort(findings.broken, {}, &BrokenShard::name);
  std::ranges::sort(findings.unread);
  return findings;
}

ShardFindings joined_findings(std::span<const ShardFindings> findings) {
  const auto append = [](auto& all, const auto& some) {
    all.insert(all.end(), some.begin(), some.end());
  };
  ShardFindings joined;
  for (const ShardFindings& each : findings) {
    joined.shards += each.shards;
    append(joined.broken, each.broken);
    append(joined.unread, each.unread);
    append(joined.without_end_mark, each.without_end_mark);
  }
  return joined;
}

}  // namespace isocost
