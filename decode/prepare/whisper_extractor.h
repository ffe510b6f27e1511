#pragma once

#include <cstdint>

#include "base/result.h"
#include "decode/prepare/model_files.h"

namespace isocost {

/// Numbers of mel bins that WhisperFeatureExtractor may have.
inline constexpr std::int64_t kFewMelBins = 80;
inline constexpr std::int64_t kManyMelBins = 128;

/// Reads the settings of a WhisperFeatureExtractor, in which only the number of mel bins may
/// differ. Returns this number. Errors: kUnsupported with file, key and value for any other
/// setting.
Result<std::int64_t> read_whisper_extractor(Settings& settings);

/// Checks that a model's encoder takes 30 s with `bins` mel bins. `encoder` holds its settings, and
/// `otherwise` is the number of bins if they lack it. Errors: kUnsupported with file, key and
/// value.
Status check_whisper_encoder(Settings& encoder, std::int64_t otherwise, std::int64_t bins,
                             const Settings& extractor);

}  // namespace isocost
