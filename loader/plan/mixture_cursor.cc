#include "loader/plan/mixture_cursor.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "base/fingerprint.h"
#include "base/random.h"
#include "loader/plan/mixture/saved_mixture.h"

namespace isocost {
namespace {

ShufflePolicy policy_of(const MixtureOptions& options) {
  if (!options.shuffled) return ShufflePolicy::kOff;
  return options.shuffle_shards > 0 ? ShufflePolicy::kBlocks : ShufflePolicy::kGlobal;
}

// Appends the samples of one source that the draws from `begin` to `begin + count` give.
void append_draws(std::vector<SampleId>& ids, const EpochOrder& order, SampleId first,
                  std::uint64_t begin, std::uint64_t count, std::uint64_t size) {
  for (std::uint64_t draw = begin; draw < begin + count;) {
    const std::uint64_t pass = draw / size;
    const std::uint64_t end = std::min(begin + count, (pass + 1) * size);
    order.append(ids, first, pass, draw - pass * size, end - draw);
    draw = end;
  }
}

}  // namespace

MixtureCursor::MixtureCursor(std::shared_ptr<const Mixture> mixture, std::vector<SampleId> first,
                             std::vector<std::shared_ptr<const BlockOrder>> blocks)
    : mixture_(std::move(mixture)), first_(std::move(first)) {
  const MixtureOptions& options = mixture_->options();
  blocks.resize(options.sources.size());
  orders_.reserve(blocks.size());
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const MixtureSource& source = options.sources[i];
    orders_.emplace_back(policy_of(options), source_seed(options.seed, source.name), source.size,
                         std::move(blocks[i]));
  }
}

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
    append_draws(ids, orders_[i], first_[i], begin, draws.counts[i], source.size);
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
  if (options.shuffle_shards > 0) {
    hash.add(std::string_view("blocks"));
    hash.add(options.shuffle_shards);
  }
  return std::max<std::uint64_t>(hash.value(), 1);
}

Result<std::string> MixtureCursor::saved() const { return mixture_json(mixture_->options()); }

}  // namespace isocost
