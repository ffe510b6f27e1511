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

bool lacks_end_mark(const ShardRow& row) {
  return !row.has_end_mark && row.condition != ShardCondition::kLost;
}

// Zeros behind a compressed stream are not read.
std::string_view remedy_without_end_mark(std::string_view shard) {
  return names_compressed_shard(shard)
             ? "copy it again, or pack it again if its writer leaves out the mark"
             : "copy it again, or append 1024 zero bytes if its writer leaves out the mark";
}

// A shard that its index calls whole, and that the others show to be cut off. How many samples it
// had is not known.
BrokenShard cut_off(std::string name, const ShardRow& row, std::uint64_t lacking,
                    std::uint64_t shards) {
  std::string reason = fmt::format(
      "without the mark that ends a tar file, like {} of the {} shards, so cut off between two "
      "members; {}",
      lacking, shards, remedy_without_end_mark(name));
  return {.name = std::move(name), .reason = std::move(reason), .samples = row.samples + row.bad};
}

BrokenShard broken_by_itself(std::string name, const ShardRow& row) {
  return {.name = std::move(name),
          .lost = row.condition == ShardCondition::kLost,
          .reason = row.problem,
          .samples = row.samples + row.bad,
          .samples_when_whole = row.samples_when_whole};
}

void add_conditions(ShardFindings& findings, std::span<const ShardPlace> shards,
                    std::span<const ShardRow> rows, std::string_view source) {
  const auto lacking = static_cast<std::uint64_t>(std::ranges::count_if(rows, lacks_end_mark));
  const bool are_cut = are_cut_off(lacking, findings.shards);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const ShardRow& row = rows[i];
    if (row.condition == ShardCondition::kWhole && row.has_end_mark) continue;
    std::string name = name_in_source(source, shards[i].name);
    if (row.condition != ShardCondition::kWhole) {
      findings.broken.push_back(broken_by_itself(std::move(name), row));
    } else if (are_cut) {
      findings.broken.push_back(cut_off(std::move(name), row, lacking, findings.shards));
    } else {
      findings.without_end_mark.push_back(std::move(name));
    }
  }
}

}  // namespace

ShardFindings shard_findings(const ShardListing& listing, std::span<const ShardRow> rows,
                             std::string_view source) {
  ShardFindings findings;
  findings.shards = rows.size() + listing.lost.size();
  for (BrokenShard lost : listing.lost) {
    lost.name = name_in_source(source, lost.name);
    findings.broken.push_back(std::move(lost));
  }
  for (const std::string& unread : listing.unread) {
    findings.unread.push_back(name_in_source(source, unread));
  }
  add_conditions(findings, listing.shards, rows, source);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].unread.empty()) continue;
    findings.unread.push_back(name_in_source(source, listing.shards[i].name) + ": " +
                              rows[i].unread);
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
