#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "costmodel/internal/correction.h"
#include "costmodel/internal/forward_share.h"
#include "costmodel/profile.h"

namespace isocost {

/// What a model goes on from.
struct SavedModel {
  Correction::Saved correction;
  ForwardShare forward;
};

/// Version 2, little-endian: "ISCM", u8 version, u64 fingerprint of the profile; for each module
/// noise, rows, the factors (prior, learned, published) and the evidence on those that were seen;
/// whether a new profile is suggested; the seconds of which the forward share is made; u64
/// fingerprint of all before it.
std::string encode_state(const SavedModel& saved, const CostProfile& profile);
/// Outside bytes: whatever they are, values that correction can go on from, or an error.
Result<SavedModel> decode_state(std::string_view bytes, const CostProfile& profile);

}  // namespace isocost
