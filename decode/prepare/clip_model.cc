#include "decode/prepare/clip_model.h"

#include "decode/audio/audio.h"

namespace isocost {

std::int64_t ClipModel::medium_bytes(const PartShape& shape, const PartPlan&) const {
  return audio_working_set_bytes(shape, kClipSeconds);
}

Status ClipModel::add_medium(const PartBytes& bytes, const PartPlan& plan, SampleTensors& to,
                             const DecodeLimit&) const {
  ISOCOST_TRY(check_size(bytes));
  return audio_log_mel(*bytes.source, *bytes.shape, plan.audio, to.next_audio(plan.audio));
}

}  // namespace isocost
