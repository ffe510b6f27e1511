#include "loader/node/decoding/sample_examiner.h"

#include <optional>
#include <string>
#include <utility>

#include "loader/dataset/decoding_memory.h"
#include "loader/dataset/sample_name.h"

namespace isocost {

BadSample bad_sample(const Dataset& dataset, SampleId id, std::string reason) {
  return {std::string(dataset.shard(id)), dataset.key(id), "", std::move(reason)};
}

Result<std::optional<BadSample>> SampleExaminer::examine(StepSample& sample) const {
  const SampleId id = sample.id;
  ISOCOST_ASSIGN(const SampleShape shape, context_.dataset->checked_shape(id));
  std::optional<BadSample> bad = check_shape(sample, shape);
  // SamplePreparer checks the index of a good sample; each check is a system call. A hook must not
  // see damage either.
  if (bad || context_.load_hook) ISOCOST_TRY(context_.dataset->check_index(id));
  if (bad) return bad;
  ISOCOST_TRY(apply_hook(sample));
  bad = check_load(sample);
  if (bad) ISOCOST_TRY(context_.dataset->check_index(id));
  return bad;
}

// Finds samples whose shape alone rules them out; fills in what the shape says of the others.
std::optional<BadSample> SampleExaminer::check_shape(StepSample& sample,
                                                     const SampleShape& shape) const {
  const Dataset& dataset = *context_.dataset;
  auto load = context_.recipe->load(shape);
  auto parts = context_.recipe->parts(shape);
  auto needed = decoding_bytes(*context_.recipe, shape, context_.memory);
  if (!load) return bad_sample(dataset, sample.id, load.error().message());
  if (!parts) return bad_sample(dataset, sample.id, parts.error().message());
  if (!needed) {
    BadSample bad = bad_sample(dataset, sample.id, needed.error().message());
    bad.over_limit = needed.error().code() == ErrorCode::kResourceExhausted;
    return bad;
  }
  sample.load = *load;
  sample.weight = shape.weight;
  sample.key = sample_name(dataset.shard(sample.id), dataset.key(sample.id));
  sample.parts = *std::move(parts);
  return std::nullopt;
}

Status SampleExaminer::apply_hook(StepSample& sample) const {
  if (!context_.load_hook) return {};
  ISOCOST_ASSIGN(sample.load, context_.load_hook(sample.id, *context_.dataset, sample.load));
  return {};
}

// Finds samples that a microbatch or a pipeline stage could not hold, whatever the plan.
std::optional<BadSample> SampleExaminer::check_load(const StepSample& sample) const {
  if (context_.limits != nullptr) {
    if (auto reason = context_.limits->why_too_large(sample.load)) {
      BadSample bad = bad_sample(*context_.dataset, sample.id, *std::move(reason));
      bad.over_limit = true;
      return bad;
    }
  }
  if (context_.layout == nullptr) return std::nullopt;
  auto reason = context_.layout->beyond_memory(sample.load);
  if (!reason) return std::nullopt;
  return bad_sample(*context_.dataset, sample.id, *std::move(reason));
}

}  // namespace isocost
