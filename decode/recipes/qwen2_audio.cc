// Qwen2-Audio: a sound becomes Whisper's log-mel spectrogram of 30 s, and a token for each 40 ms of
// sound. The oracles are WhisperFeatureExtractor and Qwen2AudioProcessor of transformers.

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

/// Least tokens of a clip. With a single one, transformers would assume that the placeholders were
/// not expanded, which packed rows do not support.
constexpr std::int64_t kLeastTokens = 2;
constexpr std::int64_t kLeastSamples = 961;  // at 16 kHz, for that many tokens

struct Qwen2AudioOptions {
  std::int64_t mel_bins = 0;
  std::int64_t audio_token_id = 0;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Qwen2AudioOptions, mel_bins, audio_token_id)

// Returns the tokens of a clip. The encoder halves the mel frames twice, the first time rounding
// up. Qwen2AudioProcessor counts the frames in which the sound begins.
std::int64_t tokens_of(const AudioPlan& clip) {
  const std::int64_t frames = clip.window_frames.front() - kFramesBehindClip;
  return (frames + 1) / 2 / 2;
}

class Qwen2Audio final : public ClipModel {
 public:
  explicit Qwen2Audio(Qwen2AudioOptions options) : options_(options) {}

  std::string description() const override { return description_of("qwen2_audio", options_); }

 private:
  std::optional<MediaTokens> media_tokens(Modality modality) const override {
    if (modality != Modality::kAudio) return std::nullopt;
    return MediaTokens{.modality = Modality::kAudio, .id = options_.audio_token_id};
  }

  Result<PartPlan> plan_medium(const PartShape& shape, const SampleShape&) const override {
    if (shape.frames <= 0 || shape.sample_rate <= 0) return impossible_part(shape, "samples");
    PartPlan plan;
    plan.audio = plan_clip(shape, options_.mel_bins);
    plan.tokens = tokens_of(plan.audio);
    if (plan.tokens < kLeastTokens) {
      return Error(ErrorCode::kUnsupported,
                   "a sound of " + counted(plan.audio.samples, "sample") +
                       " at 16 kHz: at least 961 make two tokens, and transformers takes a single "
                       "one for a placeholder that nobody has repeated");
    }
    return plan;
  }

  Result<PartPlan> plan_smallest(PartShape& shape) const override {
    shape.sample_rate = static_cast<std::int32_t>(kRecipeSampleRate);
    shape.channels = 1;
    shape.frames = kLeastSamples;
    return plan_medium(shape, {});
  }

  const Qwen2AudioOptions options_;
};

}  // namespace

Result<Family> read_qwen2_audio(ModelFiles& files, const ModelType&) {
  Qwen2AudioOptions options;
  const char* id = files.config.has("audio_token_id") ? "audio_token_id" : "audio_token_index";
  ISOCOST_ASSIGN(options.audio_token_id, files.config.integer(id, 0, kMostTokenId));
  ISOCOST_ASSIGN(options.mel_bins, read_whisper_extractor(files.image_processor));
  ISOCOST_ASSIGN(Settings encoder, files.config.object("audio_config"));
  ISOCOST_TRY(encoder.choice("model_type", {"qwen2_audio_encoder"}, "qwen2_audio_encoder"));
  ISOCOST_TRY(
      check_whisper_encoder(encoder, kManyMelBins, options.mel_bins, files.image_processor));
  files.processor.ignore({"feature_extractor", "audio_token", "audio_bos_token", "audio_eos_token",
                          "processor_class"});
  ISOCOST_TRY(files.processor.check_all_asked());
  return std::make_shared<const Qwen2Audio>(options);
}

Result<Family> parse_qwen2_audio(std::string_view description) {
  ISOCOST_ASSIGN(const auto options, options_from<Qwen2AudioOptions>("qwen2_audio", description));
  if (options.mel_bins == kFewMelBins || options.mel_bins == kManyMelBins) {
    return std::make_shared<const Qwen2Audio>(options);
  }
  return Error(ErrorCode::kCorrupt, "description of qwen2_audio: mel_bins must be 80 or 128");
}

}  // namespace isocost
