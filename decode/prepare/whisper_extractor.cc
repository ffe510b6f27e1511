#include "decode/prepare/whisper_extractor.h"

#include <string>

#include "decode/audio/audio.h"
#include "decode/audio/log_mel.h"

namespace isocost {

Result<std::int64_t> read_whisper_extractor(Settings& settings) {
  ISOCOST_TRY(settings.choice("feature_extractor_type", {"WhisperFeatureExtractor"}));
  ISOCOST_ASSIGN(const std::int64_t bins,
                 settings.integer("feature_size", kFewMelBins, kManyMelBins, kFewMelBins));
  if (bins != kFewMelBins) ISOCOST_TRY(settings.only("feature_size", kManyMelBins));
  ISOCOST_TRY(settings.only("sampling_rate", kRecipeSampleRate));
  ISOCOST_TRY(settings.only("hop_length", kMelHop));
  ISOCOST_TRY(settings.only("n_fft", kMelFft));
  ISOCOST_TRY(settings.only("chunk_length", kWindowMelFrames * kMelHop / kRecipeSampleRate));
  ISOCOST_TRY(settings.only("n_samples", kWindowMelFrames * kMelHop));
  ISOCOST_TRY(settings.only("nb_max_frames", kWindowMelFrames));
  ISOCOST_TRY(settings.only("padding_side", "right"));
  ISOCOST_TRY(settings.only("padding_value", 0));
  ISOCOST_TRY(settings.only("dither", 0));
  ISOCOST_TRY(settings.only("do_normalize", false));
  // Ignored because Qwen2AudioProcessor always asks for the mask, Whisper has none, and the filters
  // are computed again.
  settings.ignore({"return_attention_mask", "mel_filters", "processor_class"});
  ISOCOST_TRY(settings.check_all_asked());
  return bins;
}

Status check_whisper_encoder(Settings& encoder, std::int64_t otherwise, std::int64_t bins,
                             const Settings& extractor) {
  ISOCOST_TRY(encoder.only("max_source_positions", kWindowMelFrames / 2));
  ISOCOST_ASSIGN(const std::int64_t own,
                 encoder.integer("num_mel_bins", kFewMelBins, kManyMelBins, otherwise));
  if (own == bins) return {};
  return Error(ErrorCode::kUnsupported, encoder.file() + ": num_mel_bins is " +
                                            std::to_string(own) + ", and feature_size in " +
                                            extractor.file() + " is " + std::to_string(bins));
}

}  // namespace isocost
