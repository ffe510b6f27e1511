#pragma once

#include <span>
#include <string>

#include "base/log.h"
#include "base/result.h"
#include "loader/dataset/catalogue/shard_findings.h"
#include "loader/dataset/dataset.h"

namespace isocost {

/// Treatment of shards that are not as they should be. See docs/config.md.
struct ShardOptions {
  /// Damaged and lost shards beyond which nothing starts: a count, or a percentage of all shards.
  std::string allow_broken = "0";
  /// Whether archives that are not read, beside the shards and after their ends, are passed over
  /// without a warning.
  bool accept_unread = false;

  /// Checks the values. Errors: kInvalidArgument.
  Status validate() const;
};

/// Logs findings as warnings, without more than a few dozen lines.
void log_findings(const ShardFindings& findings, const ShardOptions& options, const LogSink& log);

/// Checks that no more shards are broken than the options allow, of each source. Errors: kCorrupt
/// with their names.
Status check_findings(std::span<const DatasetSource> sources, const ShardOptions& options);

}  // namespace isocost
