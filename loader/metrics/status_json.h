#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "loader/metrics/snapshot.h"

namespace isocost {

/// Returns the page /status.json: the values of /metrics under the same names, as one JSON
/// document. See docs/metrics.md. Unknown values are left out.
std::string status_json(const NodeMetrics& metrics);

/// Reads a page that `status_json` wrote. In the snapshot returned, `training.ranks`,
/// `correction.rank_slowdowns` and, with a layout, `places` have one entry per rank; places consist
/// of lower-case letters, digits, commas and spaces; numbers that the page leaves out are NaN, and
/// `NodeSummary::gap_mean`, which the page does not hold, is 0. Takes any bytes. Errors: kCorrupt
/// naming the key that is missing, unknown, given twice, mistyped or out of range; kUnsupported for
/// another program's document or another version.
Result<NodeMetrics> parse_status(std::string_view json);

}  // namespace isocost
