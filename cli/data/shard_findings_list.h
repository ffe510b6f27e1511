#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "loader/dataset/catalogue/shard_findings.h"
#include "loader/dataset/dataset.h"
#include "loader/dataset/shard_options.h"

namespace isocost::cli {

/// Prints broken shards, archives that are not read and shards without an end mark, one per line.
void print_findings(const ShardFindings& findings);

/// Adds them to a report, as "broken", "unread_archives" and "without_end_mark".
void add_findings(const ShardFindings& findings, nlohmann::ordered_json& report);

/// Returns ", 3 broken" for the line that ends a report; empty if no shard is.
std::string broken_count(const ShardFindings& findings);

/// Returns the exit status of a command that has looked at shards: kFailed if it found a bad
/// sample (`is_good` is false), or more than the options accept.
int findings_status(bool is_good, std::span<const DatasetSource> sources,
                    const ShardOptions& options);

}  // namespace isocost::cli
