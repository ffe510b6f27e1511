#include "balancer/layout/place.h"

#include <span>
#include <string_view>

#include "base/counted.h"

namespace isocost {
namespace {

bool has_encoder_ranks(const Layout& layout) {
  return layout.encoder_place == EncoderPlacement::kOwnRanks;
}

std::size_t encoder_ranks(const Layout& layout) {
  return has_encoder_ranks(layout) ? layout.encoder.ranks() : 0;
}

std::size_t encoder_receivers(const Layout& layout) {
  return encoder_ranks(layout) / layout.encoder.tensor;
}

const ModuleDegrees& degrees_of(const Layout& layout, LayoutModule module) {
  return module == LayoutModule::kEncoder ? layout.encoder : layout.llm;
}

std::string_view name_of(LayoutModule module) {
  return module == LayoutModule::kEncoder ? "encoder" : "llm";
}

Status check_index(const Place& place, const char* index, std::size_t value, std::size_t count) {
  if (value < count) return {};
  return Error(ErrorCode::kInvalidArgument, "place " + place.to_string() +
                                                " is outside the layout: " + index + " is 0 to " +
                                                std::to_string(count - 1) + " there");
}

Status check(const Layout& layout, const Place& place) {
  if (place.module == LayoutModule::kEncoder && !has_encoder_ranks(layout)) {
    return Error(ErrorCode::kInvalidArgument,
                 "place " + place.to_string() +
                     " is outside the layout: the encoder has no ranks of its own there");
  }
  const ModuleDegrees& degrees = degrees_of(layout, place.module);
  ISOCOST_TRY(check_index(place, "data", place.data, degrees.data));
  ISOCOST_TRY(check_index(place, "stage", place.stage, degrees.pipeline));
  return check_index(place, "tensor", place.tensor, degrees.tensor);
}

// Returns a stage's share: stage s holds the chunks s, s + stages, ...
double share_of(std::span<const double> shares, std::size_t stage, std::size_t stages) {
  double share = 0;
  for (std::size_t chunk = stage; chunk < shares.size(); chunk += stages) share += shares[chunk];
  return share;
}

// Returns the first chunk that has some of the work, or the number of chunks if none has.
std::size_t first_chunk(std::span<const double> shares) {
  std::size_t chunk = 0;
  while (chunk < shares.size() && shares[chunk] <= 0) ++chunk;
  return chunk;
}

void set_encoder_share(StageWork& work, double share) {
  work.shares[static_cast<std::size_t>(CostModule::kVision)] = share;
  work.shares[static_cast<std::size_t>(CostModule::kAudio)] = share;
}

}  // namespace

std::string Place::to_string() const {
  return std::string(name_of(module)) + ", data " + std::to_string(data) + ", stage " +
         std::to_string(stage) + ", tensor " + std::to_string(tensor);
}

Result<Place> place_of(const Layout& layout, std::size_t rank) {
  if (rank >= layout.ranks()) {
    return Error(ErrorCode::kInvalidArgument,
                 "rank " + std::to_string(rank) + " has no place in a layout of " +
                     counted(layout.ranks(), "rank") + " (" + layout.to_string() + ")");
  }
  Place place;
  place.module = rank < encoder_ranks(layout) ? LayoutModule::kEncoder : LayoutModule::kLlm;
  if (place.module == LayoutModule::kLlm) rank -= encoder_ranks(layout);
  const ModuleDegrees& degrees = degrees_of(layout, place.module);
  place.tensor = rank % degrees.tensor;
  place.data = rank / degrees.tensor % degrees.data;
  place.stage = rank / degrees.tensor / degrees.data;
  return place;
}

Result<std::size_t> rank_of(const Layout& layout, const Place& place) {
  ISOCOST_TRY(check(layout, place));
  const ModuleDegrees& degrees = degrees_of(layout, place.module);
  const std::size_t before = place.module == LayoutModule::kEncoder ? 0 : encoder_ranks(layout);
  return before + (place.stage * degrees.data + place.data) * degrees.tensor + place.tensor;
}

std::size_t receivers(const Layout& layout) {
  return encoder_receivers(layout) + layout.llm.ranks() / layout.llm.tensor;
}

Result<std::size_t> receiver_of(const Layout& layout, const Place& place) {
  ISOCOST_TRY(check(layout, place));
  const std::size_t before = place.module == LayoutModule::kEncoder ? 0 : encoder_receivers(layout);
  return before + place.stage * degrees_of(layout, place.module).data + place.data;
}

Place place_of_receiver(const Layout& layout, std::size_t receiver) {
  const bool encoder = receiver < encoder_receivers(layout);
  Place place{encoder ? LayoutModule::kEncoder : LayoutModule::kLlm};
  const std::size_t replicas = degrees_of(layout, place.module).data;
  const std::size_t index = encoder ? receiver : receiver - encoder_receivers(layout);
  place.data = index % replicas;
  place.stage = index / replicas;
  return place;
}

Result<StageWork> stage_work(const Layout& layout, const PipelineModel& pipeline,
                             const Place& place) {
  ISOCOST_TRY(check(layout, place));
  StageWork work;
  if (place.module == LayoutModule::kEncoder) {
    work.embeds_media = place.stage == 0;
    set_encoder_share(work,
                      share_of(pipeline.encoder.shares, place.stage, layout.encoder.pipeline));
    return work;
  }
  const std::size_t stages = layout.llm.pipeline;
  const auto holds = [&](std::size_t chunk) { return chunk % stages == place.stage; };
  work.shares[static_cast<std::size_t>(CostModule::kLlm)] =
      share_of(pipeline.llm.shares, place.stage, stages);
  work.embeds_tokens = holds(first_chunk(pipeline.llm.shares));
  work.predicts = holds(pipeline.llm.shares.size() - 1);
  if (!has_encoder_ranks(layout)) {
    work.embeds_media = holds(first_chunk(pipeline.encoder_on_llm));
    set_encoder_share(work, share_of(pipeline.encoder_on_llm, place.stage, stages));
  }
  return work;
}

}  // namespace isocost
