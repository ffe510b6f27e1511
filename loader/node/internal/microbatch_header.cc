#include "loader/node/internal/microbatch_header.h"

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/tensor_schema.h"

namespace isocost {
namespace {

bool consumes(const StepPlan& plan, std::size_t receiver, std::string_view name) {
  if (plan.layout_receivers.empty()) return true;
  const TensorEntry* entry = find_tensor(name);
  if (entry == nullptr) return false;
  const StageWork& work = plan.layout_receivers[receiver].work;
  switch (entry->reader) {
    case TensorReader::kMediaEmbedding:
      return work.embeds_media;
    case TensorReader::kTokenEmbedding:
      return work.embeds_tokens;
    case TensorReader::kPrediction:
      return work.predicts;
    case TensorReader::kEveryStage:
      return work.shares.at(static_cast<std::size_t>(entry->module)) > 0;
  }
  return false;
}

// Returns the specifications of the microbatch's tensors: those of its samples that the receiver
// consumes, with their rows added up, in the order of first appearance.
std::vector<TensorSpec> combined_specs(const StepPlan& plan,
                                       std::span<const DeliveredSample> samples,
                                       std::size_t receiver) {
  std::vector<TensorSpec> specs;
  for (const DeliveredSample& delivered : samples) {
    for (const TensorSpec& spec : delivered.sample->specs) {
      if (!consumes(plan, receiver, spec.name)) continue;
      const auto found = std::find_if(specs.begin(), specs.end(), [&](const TensorSpec& other) {
        return other.name == spec.name;
      });
      if (found == specs.end()) {
        specs.push_back(spec);
      } else {
        found->shape.front() += spec.shape.front();
      }
    }
  }
  return specs;
}

std::uint32_t rows_of(const StepSample& sample, const std::string& tensor) {
  for (const TensorSpec& spec : sample.specs) {
    if (spec.name == tensor) return static_cast<std::uint32_t>(spec.shape.front());
  }
  return 0;
}

// Returns the header's entry of a sample, with JSON text and parts for receivers that use them.
SampleEntry entry_of(const StepPlan& plan, const DeliveredSample& delivered, std::size_t receiver) {
  const StepSample& sample = *delivered.sample;
  SampleEntry entry{sample.id, delivered.weight,
                    static_cast<std::uint32_t>(sample.load.label_tokens), sample.key};
  const bool whole = plan.layout_receivers.empty();
  const StageWork work = whole ? StageWork{} : plan.layout_receivers[receiver].work;
  if (whole || work.embeds_tokens || work.predicts) entry.json = sample.json;
  if (whole || work.embeds_tokens || work.embeds_media) entry.parts = sample.parts;
  return entry;
}

}  // namespace

MicrobatchHeader header_of(const SealedStep& step, std::size_t receiver, std::uint32_t microbatch) {
  const PlannedMicrobatch& bin = step.plan.microbatch_of(receiver, microbatch);
  MicrobatchHeader header;
  header.position = {step.epoch, step.step, microbatch};
  header.microbatches = step.plan.microbatches_of(receiver);
  header.ends_epoch = step.ends_epoch;
  header.global_label_tokens = step.plan.global_label_tokens;
  header.plan_hash = step.plan.hash;
  if (microbatch == 0) header.profile_budget_s = step.profile_budget_s;
  header.seconds_wanted = step.seconds_wanted;
  if (microbatch == 0) header.cost_model_state = step.cost_model_state;
  header.predicted_seconds = step.plan.predicted_of(receiver, microbatch);
  header.load = bin.load;
  header.routes = bin.routes;
  const std::vector<DeliveredSample> samples = step.delivered(receiver, microbatch);
  for (const DeliveredSample& sample : samples) {
    header.samples.push_back(entry_of(step.plan, sample, receiver));
  }
  header.tensors = combined_specs(step.plan, samples, receiver);
  for (const DeliveredSample& sample : samples) {
    for (const TensorSpec& whole : header.tensors) {
      header.rows.push_back(rows_of(*sample.sample, whole.name));
    }
  }
  return header;
}

std::vector<NamedTensor> consumed(const StepPlan& plan, std::size_t receiver,
                                  std::span<const NamedTensor> tensors) {
  std::vector<NamedTensor> result;
  for (const NamedTensor& named : tensors) {
    if (consumes(plan, receiver, named.name)) result.push_back(named);
  }
  return result;
}

}  // namespace isocost
