#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "costmodel/internal/correction.h"
#include "costmodel/internal/forward_share.h"
#include "costmodel/profile.h"

namespace isocost {

/// The state of a cost model.
struct SavedModel {
  Correction::Saved correction;
  ForwardShare forward;
};

/// Encodes the state. Version 2, little-endian: "ISCM", u8 version, u64 fingerprint of the profile;
/// for each module noise, rows, the factors (prior, learned, published) and the evidence on those
/// that were seen; whether a new profile is suggested; the decaying sums of the forward share; u64
/// fingerprint of all bytes before it.
std::string encode_state(const SavedModel& saved, const CostProfile& profile);
/// Decodes bytes from outside. Every value is checked, so correction can continue from any decoded
/// state. Errors: those of CostModel::restore_state.
Result<SavedModel> decode_state(std::string_view bytes, const CostProfile& profile);

}  // namespace isocost
