// The recipe `native28`, the demo's: pictures keep their own size, and tokens are bytes.
// decode/recipe.h describes it.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/tensor_schema.h"
#include "base/utf8.h"
#include "decode/audio/audio.h"
#include "decode/bytes/media_bytes.h"
#include "decode/bytes/sample_json.h"
#include "decode/prepare/exact_image.h"
#include "decode/prepare/recipe_family.h"
#include "decode/recipes/families.h"
#include "decode/recipes/internal/family_description.h"
#include "decode/recipes/internal/native28_grid.h"
#include "decode/resize/patchify.h"
#include "decode/shape/decode_limit.h"
#include "decode/shape/recipe_options.h"
#include "decode/video/video.h"

namespace isocost {
namespace {

/// Returns the whole text. The recipe may use a part of it.
Result<std::vector<std::uint8_t>> read_text(const PartBytes& part) {
  ISOCOST_TRY(check_size(part));
  ISOCOST_ASSIGN(std::vector<std::uint8_t> bytes,
                 read_some(*part.source, 0, static_cast<std::size_t>(part.source->size())));
  if (part.shape->format == MediaFormat::kJson) {
    ISOCOST_ASSIGN(
        const SampleJson json,
        parse_sample_json({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, ""));
    bytes.assign(json.text.begin(), json.text.end());
  } else if (const std::size_t valid = valid_utf8_prefix(bytes); valid < bytes.size()) {
    return corrupt("is not UTF-8 at byte " + std::to_string(valid));
  } else {
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    const std::size_t mark = text.size() - without_byte_order_mark(text).size();
    bytes.erase(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(mark));
  }
  if (static_cast<std::int64_t>(bytes.size()) != part.shape->text_bytes) {
    return corrupt("its text has changed since it was indexed");
  }
  return bytes;
}

// The options in a description.
struct Native28Numbers : Native28Options {};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Native28Numbers, max_image_patches, max_frame_patches, video_fps,
                                   max_video_frames, max_audio_seconds, max_text_tokens, truncated)

// Pictures only need to look right, so they are resized as fast as possible.
constexpr ExactResize kResize{ResampleFilter::kBilinear, ResizeOrder::kWidthFirst,
                              Exactness::kFast};

class Native28 final : public RecipeFamily {
 public:
  explicit Native28(const Native28Options& options) : options_(options) {}

  std::string description() const override;
  Result<PartPlan> plan_part(const SampleShape& sample, std::size_t i) const override;
  Status plan_sample(const SampleShape& shape, SamplePlan& plan) const override;
  std::vector<double> timestamps_s(const PartShape& shape, const PartPlan& plan) const override;
  std::int64_t working_set_bytes(const PartShape& shape, const PartPlan& plan) const override;
  Status add(const PartBytes& bytes, const SamplePlan& plan, std::size_t i, SampleTensors& to,
             const DecodeLimit& limit) const override;

 private:
  static Status add_text(const PartBytes& bytes, const PartPlan& plan, SampleTensors& to);
  Status add_image(const PartBytes& bytes, const PartPlan& plan, SampleTensors& to,
                   const DecodeLimit& limit) const;
  static Status add_video(const PartBytes& bytes, const PartPlan& plan, SampleTensors& to,
                          const DecodeLimit& limit);
  static Status add_audio(const PartBytes& bytes, const PartPlan& plan, SampleTensors& to);
  Status add_part(const PartBytes& bytes, const PartPlan& plan, SampleTensors& to,
                  const DecodeLimit& limit) const;

  const Native28Options options_;
};

std::string Native28::description() const {
  return description_of("native28", Native28Numbers{options_});
}

Result<PartPlan> Native28::plan_part(const SampleShape& sample, std::size_t i) const {
  const PartShape& shape = sample.parts[i];
  PartPlan plan;
  switch (shape.modality) {
    case Modality::kText:
      if (shape.text_bytes < 0) return impossible_part(shape, "a size");
      if (shape.format == MediaFormat::kJson && shape.text_bytes == 0) {
        return Error(ErrorCode::kUnsupported,
                     "its JSON is a conversation, which native28 does not read: give a model's "
                     "directory as model");
      }
      if (shape.text_bytes == 0) {
        return Error(ErrorCode::kUnsupported,
                     "its text has zero bytes, of which native28 makes none");
      }
      plan.tokens = std::min<std::int64_t>(shape.text_bytes, options_.max_text_tokens);
      plan.label_tokens = plan.tokens;
      return plan;
    case Modality::kImage:
      ISOCOST_TRY(check_picture(shape));
      plan.grid = patch_grid(shape.width, shape.height, options_.max_image_patches);
      plan.images = 1;
      plan.tokens = plan.grid.tokens();
      return plan;
    case Modality::kVideo:
      ISOCOST_TRY(check_picture(shape));
      if (shape.duration_us < 0) return impossible_part(shape, "a duration");
      plan.grid = patch_grid(shape.width, shape.height, options_.max_frame_patches);
      plan.images = frame_count(shape.duration_us, options_.video_fps, options_.max_video_frames);
      plan.tokens = plan.images * plan.grid.tokens();
      return plan;
    case Modality::kAudio:
      if (shape.frames <= 0 || shape.sample_rate <= 0) return impossible_part(shape, "samples");
      plan.audio = plan_audio(shape, options_.max_audio_seconds);
      plan.tokens = plan.mel_frames() / 4;
      return plan;
  }
  return impossible_part(shape, "a modality");
}

Status Native28::plan_sample(const SampleShape&, SamplePlan& plan) const {
  plan.tokens += 2;        // for BOS and EOS
  plan.label_tokens += 1;  // for EOS
  return {};
}

std::vector<double> Native28::timestamps_s(const PartShape& shape, const PartPlan& plan) const {
  std::vector<double> seconds;
  for (const std::int64_t time_us : frame_times_us(shape.duration_us, plan.images)) {
    seconds.push_back(1e-6 * static_cast<double>(time_us));
  }
  return seconds;
}

std::int64_t Native28::working_set_bytes(const PartShape& shape, const PartPlan& plan) const {
  switch (shape.modality) {
    case Modality::kText:
      return 3 * shape.encoded_bytes;  // JSON: the bytes, a token, the unescaped text
    case Modality::kImage:
      return framed_image_bytes(shape, whole(plan.grid), kResize);
    case Modality::kAudio:
      return audio_working_set_bytes(shape, options_.max_audio_seconds);
    case Modality::kVideo:
      return video_working_set_bytes(shape, plan.grid.width(), plan.grid.height());
  }
  return 0;
}

Status Native28::add(const PartBytes& bytes, const SamplePlan& plan, std::size_t i,
                     SampleTensors& to, const DecodeLimit& limit) const {
  if (i == 0) to.append(kTokenBos, kIgnoredLabel);
  ISOCOST_TRY(add_part(bytes, plan.parts[i], to, limit));
  if (i + 1 == plan.parts.size()) to.append(kTokenEos, kTokenEos);
  return {};
}

Status Native28::add_part(const PartBytes& bytes, const PartPlan& plan, SampleTensors& to,
                          const DecodeLimit& limit) const {
  switch (bytes.shape->modality) {
    case Modality::kText:
      return add_text(bytes, plan, to);
    case Modality::kImage:
      return add_image(bytes, plan, to, limit);
    case Modality::kVideo:
      return add_video(bytes, plan, to, limit);
    case Modality::kAudio:
      return add_audio(bytes, plan, to);
  }
  return Error(ErrorCode::kInvalidArgument, "a part of no known modality");
}

Status Native28::add_text(const PartBytes& bytes, const PartPlan& plan, SampleTensors& to) {
  ISOCOST_ASSIGN(const std::vector<std::uint8_t> text, read_text(bytes));
  const auto used = std::span(text).first(static_cast<std::size_t>(plan.tokens));
  for (const std::uint8_t byte : used) to.append(byte, byte);
  return {};
}

Status Native28::add_image(const PartBytes& bytes, const PartPlan& plan, SampleTensors& to,
                           const DecodeLimit& limit) const {
  const PictureDecoding decoding{.exactness = Exactness::kFast, .truncated = options_.truncated};
  to.append(kTokenVision, kIgnoredLabel, plan.tokens);
  return framed_image_patches(*bytes.source, *bytes.shape, whole(plan.grid), plan.grid, kResize,
                              decoding, to.next_image(plan.grid), limit);
}

Status Native28::add_video(const PartBytes& bytes, const PartPlan& plan, SampleTensors& to,
                           const DecodeLimit& limit) {
  ISOCOST_TRY(check_size(bytes));
  to.append(kTokenVision, kIgnoredLabel, plan.tokens);
  const auto times = frame_times_us(bytes.shape->duration_us, plan.images);
  const auto sink = [&](std::size_t, std::span<const std::uint8_t> rgb) -> Status {
    patchify(rgb, plan.grid, to.next_image(plan.grid));
    return {};
  };
  return video_frames(*bytes.source, *bytes.shape, times, plan.grid.width(), plan.grid.height(),
                      sink, limit);
}

Status Native28::add_audio(const PartBytes& bytes, const PartPlan& plan, SampleTensors& to) {
  ISOCOST_TRY(check_size(bytes));
  to.append(kTokenAudio, kIgnoredLabel, plan.tokens);
  return audio_log_mel(*bytes.source, *bytes.shape, plan.audio, to.next_audio(plan.audio));
}

}  // namespace

Result<Family> make_native28(const Native28Options& options) {
  return std::make_shared<const Native28>(options);
}

Result<Family> parse_native28(std::string_view description) {
  ISOCOST_ASSIGN(const Native28Options options,
                 options_from<Native28Numbers>("native28", description));
  ISOCOST_TRY(options.validate());
  return make_native28(options);
}

}  // namespace isocost
