#include "loader/dataset/index/internal/shard_condition.h"

namespace isocost {
namespace {

// Returns why the shard is broken; empty: it is whole.
std::string problem_of(const ArchiveFindings& found, std::uint64_t samples_when_whole) {
  if (!found.damage.empty()) return found.damage;
  if (!found.has_end_mark && found.samples < samples_when_whole) {
    return "cut off, without the mark that ends a tar file; copy the shard again";
  }
  if (found.samples == 0) return "no samples; members are named key.extension";
  return "";
}

}  // namespace

void judge(ArchiveState& archive, const ArchiveFindings& found) {
  archive.has_end_mark = found.has_end_mark;
  archive.problem = problem_of(found, archive.samples_when_whole);
  if (archive.problem.empty()) {
    archive.samples_when_whole = found.samples;
  } else {
    archive.condition = found.samples == 0 ? ShardCondition::kLost : ShardCondition::kDamaged;
  }
}

}  // namespace isocost
