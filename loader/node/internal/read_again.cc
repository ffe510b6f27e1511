#include "loader/node/internal/read_again.h"

#include <algorithm>

namespace isocost {
namespace {

// With answers after 0.5 s, enough for 256 samples a second.
constexpr std::size_t kMostAhead = 128;
constexpr std::size_t kLeastAhead = 16;  // of one receiver

// Reads up to `most` samples again that are looked at. Returns how many may still be looked at.
std::size_t read_again(PlaceInStep place, SealedStep& step, const StepDecoder& decoder,
                       std::size_t most) {
  const std::uint32_t microbatches = step.plan.microbatches_of(place.receiver);
  for (; place.microbatch < microbatches; ++place.microbatch, place.index = 0) {
    const PlannedMicrobatch& bin = step.plan.microbatch_of(place.receiver, place.microbatch);
    for (; place.index < bin.samples.size(); ++place.index) {
      if (most-- == 0) return 0;
      StepSample& sample = step.samples[bin.samples[place.index].index];
      if (!sample.decoded && !sample.read) sample.read = decoder.read_again(sample.id);
    }
  }
  return most;
}

}  // namespace

void read_again_from(const PlaceInStep& place, SealedStep& step, SealedStep* following,
                     const StepDecoder& decoder) {
  if (!decoder.reads_servers()) return;
  const std::size_t most = std::max(kMostAhead / step.plan.receivers(), kLeastAhead);
  const std::size_t left = read_again(place, step, decoder, most);
  if (left > 0 && following != nullptr) {
    read_again({.receiver = place.receiver}, *following, decoder, left);
  }
}

}  // namespace isocost
