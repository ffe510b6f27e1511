#pragma once

#include <cstdint>

#include "base/result.h"
#include "decode/prepare/model_files.h"

namespace isocost {

/// The mel bins that WhisperFeatureExtractor has.
inline constexpr std::int64_t kFewMelBins = 80;
inline constexpr std::int64_t kManyMelBins = 128;

/// Reads the settings of a WhisperFeatureExtractor, of which only the bins may differ. Returns
/// these. Errors: kUnsupported with file, key and value for any other setting.
Result<std::int64_t> read_whisper_extractor(Settings& settings);

/// Checks that a model's encoder takes 30 s of so many bins. `encoder` has its settings, and
/// `otherwise` are the bins if they do not say. Errors: kUnsupported with file, key and value.
Status check_whisper_encoder(Settings& encoder, std::int64_t otherwise, std::int64_t bins,
                             const Settings& extractor);

}  // namespace isocost
