#pragma once

#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/result.h"

namespace isocost {

// A report and a record are both {case: {policy: row}}. A row has some of the measures, a hash of
// its plans, and in a record perhaps the reason why it is worse than it was.

/// Measures that grow as decisions get worse.
inline constexpr std::array<const char*, 6> kQualityMeasures = {
    "makespan",    "gap", "idle_fraction", "largest_microbatch_bytes", "peak_activation_bytes",
    "memory_bytes"};

/// Returns a line for each difference between a report and the record; none if they agree.
std::vector<std::string> differences(const nlohmann::json& report, const nlohmann::json& recorded);

/// Returns the record to write for a report. Rows that are worse than recorded get the reason, and
/// a row keeps the reason it has until it is better again. Errors: kInvalidArgument, with all rows
/// that are worse, if there are any and `reason` is empty.
Result<nlohmann::json> make_record(nlohmann::json report, const nlohmann::json& recorded,
                                   const std::string& reason);

}  // namespace isocost
