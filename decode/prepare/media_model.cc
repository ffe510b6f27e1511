#include "decode/prepare/media_model.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace isocost {

Result<PartPlan> MediaModel::plan_part(const SampleShape& sample, std::size_t i) const {
  const PartShape& shape = sample.parts[i];
  if (shape.format == MediaFormat::kTokens) return plan_tokens(shape);
  if (!takes(shape.modality)) {
    return Error(ErrorCode::kUnsupported, std::string(modality_name(shape.modality)) +
                                              " parts are not taken by this model's recipe");
  }
  if (shape.modality != Modality::kAudio) ISOCOST_TRY(check_picture(shape));
  ISOCOST_ASSIGN(PartPlan plan, plan_medium(shape, sample));
  plan.modality = shape.modality;
  plan.media = shape.modality == Modality::kAudio ? 0 : 1;
  return plan;
}

Status MediaModel::plan_sample(const SampleShape& shape, SamplePlan& plan) const {
  plan.rope = has_rope();
  ISOCOST_TRY(check_tokens_first(shape));
  return check_sample(plan);
}

std::vector<double> MediaModel::timestamps_s(const PartShape&, const PartPlan&) const { return {}; }

std::optional<DummyMedium> MediaModel::dummy(Modality modality) const {
  const std::optional<MediaTokens> tokens = media_tokens(modality);
  if (!tokens || encoder_call(modality) != modality) return std::nullopt;
  DummyMedium medium;
  medium.shape.modality = modality;
  auto plan = plan_smallest(medium.shape);
  if (!plan) return std::nullopt;
  medium.plan = *std::move(plan);
  medium.plan.modality = modality;
  medium.plan.media = modality == Modality::kAudio ? 0 : 1;
  medium.token = tokens->id;
  medium.rope = has_rope();
  return medium;
}

Result<PartPlan> MediaModel::plan_smallest(PartShape& shape) const {
  return impossible_part(shape, "a smallest medium");
}

std::int64_t MediaModel::working_set_bytes(const PartShape& shape, const PartPlan& plan) const {
  if (shape.format == MediaFormat::kTokens) return tokens_working_set_bytes(shape);
  return medium_bytes(shape, plan);
}

Status MediaModel::add(const PartBytes& bytes, const SamplePlan& plan, std::size_t i,
                       SampleTensors& to, const DecodeLimit& limit) const {
  if (bytes.shape->format != MediaFormat::kTokens) {
    if (plan.parts[i].media > 0) to.describe(*bytes.shape, plan.parts[i]);
    return add_medium(bytes, plan.parts[i], to, limit);
  }
  std::vector<MediaTokens> tokens;
  for (const Modality modality : {Modality::kImage, Modality::kVideo, Modality::kAudio}) {
    if (const auto taken = media_tokens(modality)) tokens.push_back(*taken);
  }
  return add_tokens(bytes, plan, tokens, to);
}

}  // namespace isocost
