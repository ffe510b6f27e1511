#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "costmodel/internal/correction.h"
#include "costmodel/profile.h"

namespace isocost {

/// Version 1, little-endian: "ISCM", u8 version, u64 fingerprint of the profile; for each module
/// noise, rows, the factors (prior, learnt, published) and the evidence on those that were seen;
/// the ranks; u64 fingerprint of all before it.
std::string encode_state(const Correction::Saved& saved, const CostProfile& profile);
/// Outside bytes: whatever they are, values that correction can go on from, or an error.
Result<Correction::Saved> decode_state(std::string_view bytes, const CostProfile& profile);

}  // namespace isocost
