#include "decode/internal/image_model.h"

#include <string>

namespace isocost {

Result<PartPlan> ImageModel::plan_part(const PartShape& shape) const {
  if (shape.format == MediaFormat::kTokens) return plan_tokens(shape);
  if (shape.modality != Modality::kImage) {
    return Error(ErrorCode::kUnsupported,
                 std::string(modality_name(shape.modality)) +
                     " parts are not supported yet with a model's directory");
  }
  ISOCOST_TRY(check_picture(shape));
  return plan_picture(shape);
}

Status ImageModel::plan_sample(const SampleShape& shape, SamplePlan&) const {
  return check_tokens_first(shape);
}

std::int64_t ImageModel::working_set_bytes(const PartShape& shape, const PartPlan& plan) const {
  if (shape.format == MediaFormat::kTokens) return tokens_working_set_bytes(shape);
  return picture_bytes(shape, plan);
}

Status ImageModel::add(const PartBytes& bytes, const SamplePlan& plan, std::size_t i,
                       SampleTensors& to, const DecodeLimit&) const {
  if (bytes.shape->format == MediaFormat::kTokens) {
    return add_tokens(bytes, plan, image_tokens(), to);
  }
  return add_picture(bytes, plan.parts[i], to);
}

}  // namespace isocost
