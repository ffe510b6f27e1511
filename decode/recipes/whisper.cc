// Whisper: a sound becomes the log-mel spectrogram of 30 s that the encoder hears, and its
// transcript becomes the tokens that the decoder writes. A sample is one sound and one transcript.
// The oracles are WhisperFeatureExtractor and WhisperTokenizer of transformers.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/counted.h"
#include "base/result.h"
#include "decode/audio/audio.h"
#include "decode/prepare/clip_model.h"
#include "decode/prepare/model_files.h"
#include "decode/prepare/recipe_family.h"
#include "decode/prepare/whisper_extractor.h"
#include "decode/recipes/families.h"
#include "decode/recipes/internal/family_description.h"

namespace isocost {
namespace {

constexpr std::int64_t kMostPositions = std::int64_t{1} << 20;

struct WhisperOptions {
  std::int64_t mel_bins = 0;
  std::int64_t max_target_positions = 0;
  /// Id of the token that transformers puts in front of the labels, which the decoder reads first.
  std::int64_t decoder_start_token_id = 0;
  /// Whether transcripts may name a language and a task.
  bool is_multilingual = true;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(WhisperOptions, mel_bins, max_target_positions,
                                   decoder_start_token_id, is_multilingual)

class Whisper final : public ClipModel {
 public:
  explicit Whisper(WhisperOptions options) : options_(options) {}

  std::string description() const override { return description_of("whisper", options_); }

  std::string text_settings() const override {
    const nlohmann::json settings = {{"decoder_start_token_id", options_.decoder_start_token_id},
                                     {"is_multilingual", options_.is_multilingual}};
    return "whisper " + settings.dump();
  }

 private:
  bool takes(Modality modality) const override { return modality == Modality::kAudio; }
  // Returns nothing: the decoder attends to the sound from every token, so no token represents it.
  std::optional<MediaTokens> media_tokens(Modality) const override { return std::nullopt; }

  Status check_sample(const SamplePlan& plan) const override {
    const auto sounds = std::ranges::count(plan.parts, Modality::kAudio, &PartPlan::modality);
    if (sounds != 1) {
      return Error(ErrorCode::kUnsupported, "the sample has " + counted(sounds, "sound") +
                                                ", and Whisper takes exactly one");
    }
    // The decoder does not read the last token, but writes it.
    const std::int64_t read = plan.tokens - 1;
    if (read <= options_.max_target_positions) return {};
    return Error(ErrorCode::kUnsupported,
                 "its transcript makes " + counted(read, "token") +
                     " for the decoder, which has max_target_positions = " +
                     std::to_string(options_.max_target_positions) +
                     " of them: cut the sound and its transcript into shorter ones");
  }

  Result<PartPlan> plan_medium(const PartShape& shape, const SampleShape&) const override {
    if (shape.frames <= 0 || shape.sample_rate <= 0) return impossible_part(shape, "samples");
    // A sound that must be cut is refused, since its transcript cannot be cut at the same place.
    if (audio_samples_16k(shape, kClipSeconds) < audio_samples_16k(shape, 2 * kClipSeconds)) {
      const double seconds = static_cast<double>(shape.frames) / shape.sample_rate;
      return Error(ErrorCode::kUnsupported,
                   "a sound of " + nlohmann::json(seconds).dump() +
                       " s: Whisper hears 30 s, and its transcript would go on; cut it into "
                       "sounds of at most 30 s, each with its own transcript");
    }
    PartPlan plan;
    plan.audio = plan_clip(shape, options_.mel_bins);
    plan.placeholders = 0;
    return plan;
  }

  const WhisperOptions options_;
};

bool is_possible(const WhisperOptions& options) {
  return (options.mel_bins == kFewMelBins || options.mel_bins == kManyMelBins) &&
         options.max_target_positions > 0 && options.max_target_positions <= kMostPositions &&
         options.decoder_start_token_id >= 0 && options.decoder_start_token_id < kMostTokenId;
}

}  // namespace

Result<Family> read_whisper(ModelFiles& files, const ModelType&) {
  WhisperOptions options;
  ISOCOST_ASSIGN(options.mel_bins, read_whisper_extractor(files.image_processor));
  ISOCOST_TRY(
      check_whisper_encoder(files.config, kFewMelBins, options.mel_bins, files.image_processor));
  ISOCOST_ASSIGN(options.max_target_positions,
                 files.config.integer("max_target_positions", 1, kMostPositions, 448));
  ISOCOST_ASSIGN(options.decoder_start_token_id,
                 files.config.integer("decoder_start_token_id", 0, kMostTokenId - 1));
  ISOCOST_ASSIGN(options.is_multilingual, files.generation.flag("is_multilingual", true));
  files.processor.ignore({"feature_extractor", "processor_class"});
  ISOCOST_TRY(files.processor.check_all_asked());
  return std::make_shared<const Whisper>(options);
}

Result<Family> parse_whisper(std::string_view description) {
  ISOCOST_ASSIGN(const auto options, options_from<WhisperOptions>("whisper", description));
  if (is_possible(options)) return std::make_shared<const Whisper>(options);
  return Error(ErrorCode::kCorrupt, "description of whisper: a number is out of range");
}

}  // namespace isocost
