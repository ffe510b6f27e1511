#include "loader/plan/mixture_cursor.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "base/fingerprint.h"
#include "base/random.h"
#include "loader/plan/mixture/saved_mixture.h"
#include "loader/plan/permutation.h"

namespace isocost {
namespace {

// Samples of one source, as the draws `begin` to `begin + count` give them.
void append_draws(std::vector<SampleId>& ids, SampleId first, std::uint64_t begin,
                  std::uint64_t count, std::uint64_t size, const std::uint64_t* seed) {
  for (std::uint64_t draw = begin; draw < begin + count;) {
    const std::uint64_t pass = draw / size;
    const std::uint64_t end = std::min(begin + count, (pass + 1) * size);
    std::optional<Permutation> order;
    if (seed != nullptr) order.emplace(*seed, pass, size);
    for (; draw < end; ++draw) {
      const std::uint64_t index = draw - pass * size;
      ids.push_back(first + (order ? order->at(index) : index));
    }
  }
}

}  // namespace

MixtureCursor::MixtureCursor(std::shared_ptr<const Mixture> mixture, std::vector<SampleId> first)
    : mixture_(std::move(mixture)), first_(std::move(first)) {}

std::optional<std::uint64_t> MixtureCursor::steps() const {
  const auto length = mixture_->length();
  return length ? std::optional(mixture_->options().skipped.steps_before(*length)) : std::nullopt;
}

std::optional<std::uint64_t> MixtureCursor::samples() const {
  const auto steps = this->steps();
  if (!steps || *steps == 0) return steps;
  const std::uint64_t last = mixture_->options().skipped.position_of(*steps - 1);
  return (*steps - 1) * mixture_->options().global_batch_size + mixture_->batch_size(last);
}

std::vector<SampleId> MixtureCursor::batch(std::uint64_t epoch, std::uint64_t step) const {
  const MixtureOptions& options = mixture_->options();
  const std::uint64_t position = options.skipped.position_of(step);
  const StepDraws draws = mixture_->draws(position);
  std::vector<SampleId> ids;
  for (std::size_t i = 0; i < draws.counts.size(); ++i) {
    const MixtureSource& source = options.sources[i];
    const std::uint64_t pass = source.size * std::max<std::uint64_t>(source.epochs, 1);
    const std::uint64_t begin = draws.before[i] + (mixture_->by_size() ? epoch * pass : 0);
    const std::uint64_t seed = source_seed(options.seed, source.name);
    append_draws(ids, first_[i], begin, draws.counts[i], source.size,
                 options.shuffled ? &seed : nullptr);
  }
  if (!options.shuffled) return ids;
  // So that plans in the order of the batch mix the sources, too.
  Random random(source_seed(options.seed, "") ^ source_seed(epoch, std::to_string(position)));
  shuffle(std::span(ids), random);
  return ids;
}

std::vector<std::string> MixtureCursor::ended_with(std::uint64_t step) const {
  std::vector<std::string> names;
  const StepDraws draws = mixture_->draws(mixture_->options().skipped.position_of(step));
  names.reserve(draws.ended.size());
  for (const std::size_t i : draws.ended) names.push_back(mixture_->sources()[i].name);
  return names;
}

std::uint64_t MixtureCursor::fingerprint() const {
  const MixtureOptions& options = mixture_->options();
  Fingerprint hash;
  hash.add(std::string_view("mixture"));
  hash.add(options.seed);
  hash.add(options.shuffled);
  hash.add(options.global_batch_size);
  return std::max<std::uint64_t>(hash.value(), 1);
}

Result<std::string> MixtureCursor::saved() const { return mixture_json(mixture_->options()); }

}  // namespace isocost
