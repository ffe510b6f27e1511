#include "loader/node/internal/mixture_of_sources.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace isocost {
namespace {

// Returns the options of a mixture without its sources.
MixtureOptions mixture_options(const NodeOptions& options) {
  MixtureOptions mixture;
  mixture.seed = options.plan.seed;
  mixture.shuffled = options.plan.shuffle != ShufflePolicy::kOff;
  if (options.plan.shuffle == ShufflePolicy::kBlocks) {
    mixture.shuffle_shards = static_cast<std::uint64_t>(options.plan.shuffle_shards);
  }
  mixture.global_batch_size = static_cast<std::uint64_t>(options.plan.global_batch_size);
  const auto steps = static_cast<std::uint64_t>(options.plan.steps);
  mixture.steps = options.mixture->steps;
  if (steps > 0) mixture.steps = mixture.steps == 0 ? steps : std::min(steps, mixture.steps);
  mixture.skipped = options.mixture->skipped;
  return mixture;
}

}  // namespace

Result<std::shared_ptr<const MixtureCursor>> mixture_of_sources(const NodeOptions& options,
                                                                const Dataset& dataset,
                                                                const BlocksOfSources& blocks) {
  if (options.mixture == nullptr) return std::shared_ptr<const MixtureCursor>();
  MixtureOptions mixture = mixture_options(options);
  for (const SourceDescription& described : options.mixture->sources) {
    const auto& opened = dataset.sources();
    const auto found = std::ranges::find(opened, described.name, &DatasetSource::name);
    if (found == opened.end()) continue;
    mixture.sources.push_back(
        {described.name, found->size, found->fingerprint, described.schedule, described.epochs});
  }
  auto created = Mixture::create(std::move(mixture));
  if (!created) return std::move(created).error().with_context(options.data);
  std::vector<SampleId> first;  // by the sources' names
  for (const MixtureSource& source : (*created)->sources()) {
    first.push_back(std::ranges::find(dataset.sources(), source.name, &DatasetSource::name)->first);
  }
  auto orders = blocks.of((*created)->sources());
  auto cursor = std::make_shared<const MixtureCursor>(*std::move(created), std::move(first),
                                                      std::move(orders));
  ISOCOST_TRY_CONTEXT(cursor->saved(), options.data);  // a state must have room for it
  return std::shared_ptr<const MixtureCursor>(std::move(cursor));
}

}  // namespace isocost
