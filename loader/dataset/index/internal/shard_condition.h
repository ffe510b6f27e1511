#pragma once

#include <cstdint>
#include <string>

#include "loader/dataset/index/index_format.h"

namespace isocost {

/// The findings of reading an archive to its end.
struct ArchiveFindings {
  std::string damage;         ///< Why it could not be read to its end; empty: it could.
  bool has_end_mark = false;  ///< Whether the archive has the mark that ends a tar file.
  std::uint64_t samples = 0;  ///< Samples that were found, good and bad.
};

/// Decides whether a shard is whole, damaged or lost, and why: sets `condition`, `problem`,
/// `has_end_mark` and `samples_when_whole`. On entry `samples_when_whole` is what the shard had
/// when it was last seen whole; 0: it never was. A shard is broken
/// - where its archive cannot be read to its end,
/// - if it has no sample, and
/// - if it ends without an end mark, with fewer samples than it once had.
/// A broken shard without samples is lost, any other one is damaged.
void judge(ArchiveState& archive, const ArchiveFindings& found);

}  // namespace isocost
