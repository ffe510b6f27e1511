#include "loader/plan/mixture/mixture_edit.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/counted.h"

namespace isocost {
namespace {

Error refused(const std::string& what) { return {ErrorCode::kInvalidArgument, what}; }

Error other_setting(const char* name, const std::string& saved, const std::string& present) {
  return refused(std::string(name) + " is " + present + ", and was " + saved +
                 " when the state was saved: give " + saved +
                 ", or begin a new job, since all steps would have other samples");
}

std::string shuffle_of(const MixtureOptions& options) {
  if (!options.shuffled) return "off";
  return options.shuffle_shards > 0 ? "blocks" : "global";
}

// Checks what no step of a job can change.
Status check_settings(const MixtureOptions& saved, const MixtureOptions& present) {
  if (saved.seed != present.seed) {
    return other_setting("seed", std::to_string(saved.seed), std::to_string(present.seed));
  }
  if (shuffle_of(saved) != shuffle_of(present)) {
    return other_setting("shuffle", shuffle_of(saved), shuffle_of(present));
  }
  if (saved.shuffle_shards != present.shuffle_shards) {
    return other_setting("shuffle_shards", std::to_string(saved.shuffle_shards),
                         std::to_string(present.shuffle_shards));
  }
  if (saved.global_batch_size != present.global_batch_size) {
    return other_setting("global_batch_size", std::to_string(saved.global_batch_size),
                         std::to_string(present.global_batch_size));
  }
  return {};
}

const MixtureSource* find_source(const MixtureOptions& options, const std::string& name) {
  const auto found = std::ranges::find(options.sources, name, &MixtureSource::name);
  return found == options.sources.end() ? nullptr : &*found;
}

bool by_size(const MixtureOptions& options) {
  return !options.sources.empty() && options.sources.front().schedule.points.empty();
}

// Returns whether a source had a share before a position, by which it bears on later steps.
bool took_part(const MixtureSource& source, std::uint64_t position) {
  const auto& points = source.schedule.points;
  for (std::size_t i = 0; i < points.size() && points[i].step < position; ++i) {
    const bool rises =
        source.schedule.ramp && i + 1 < points.size() && points[i + 1].proportion > 0;
    if (points[i].proportion > 0 || rises) return source.schedule.end > 0;
  }
  return false;
}

// Returns the samples that each source gave before a position, which may be the mixture's end.
std::vector<std::uint64_t> drawn_before(const Mixture& mixture, std::uint64_t position) {
  if (position == 0) return std::vector<std::uint64_t>(mixture.sources().size());
  const StepDraws last = mixture.draws(position - 1);
  std::vector<std::uint64_t> drawn = last.before;
  for (std::size_t i = 0; i < drawn.size(); ++i) drawn[i] += last.counts[i];
  return drawn;
}

// Checks that the sources that gave samples before `position`, or `all`, are what they were.
Status check_data(const Mixture& saved, const MixtureOptions& present, std::uint64_t position,
                  bool all) {
  const std::vector<std::uint64_t> drawn = drawn_before(saved, position);
  for (std::size_t i = 0; i < drawn.size(); ++i) {
    const MixtureSource& source = saved.sources()[i];
    const MixtureSource* now = find_source(present, source.name);
    if (now == nullptr || (drawn[i] == 0 && !all)) continue;
    if (now->size == source.size && now->fingerprint == source.fingerprint) continue;
    const std::string sizes = now->size == source.size
                                  ? "has other samples than"
                                  : "has " + counted(now->size, "usable sample") + ", and had " +
                                        std::to_string(source.size);
    return refused("source '" + source.name + "' " + sizes +
                   " when the state was saved: data that has changed is another source, so give "
                   "it a new name, and a proportion from step " +
                   std::to_string(position) + " on");
  }
  return {};
}

Status check_by_size(const MixtureOptions& saved, const MixtureOptions& present) {
  const auto same = [&](const MixtureSource& source) {
    const MixtureSource* other = find_source(present, source.name);
    return other != nullptr && other->epochs == source.epochs;
  };
  const bool all = by_size(saved) == by_size(present) &&
                   saved.sources.size() == present.sources.size() &&
                   std::ranges::all_of(saved.sources, same);
  if (all) return {};
  return refused(
      "the mixture has no proportions, so it is one pass over all samples, which cannot change in "
      "its middle: give the sources with which the state was saved, all without a proportion and "
      "with the same epochs");
}

// Checks that two mixtures give the same samples to all positions before `end`.
Status check_draws(const Mixture& saved, const Mixture& present, std::uint64_t end) {
  std::vector<std::pair<std::size_t, std::size_t>> both;  // of the same name
  for (std::size_t i = 0; i < present.sources().size(); ++i) {
    const std::string& name = present.sources()[i].name;
    const auto other = std::ranges::find(saved.sources(), name, &MixtureSource::name);
    both.emplace_back(static_cast<std::size_t>(other - saved.sources().begin()), i);
  }
  // A source that is new changes the counts of all others, so it is the one to name.
  std::ranges::stable_partition(
      both, [&](const auto& pair) { return pair.first == saved.sources().size(); });
  for (std::uint64_t position = 0; position < end; ++position) {
    const StepDraws was = saved.draws(position);
    const StepDraws now = present.draws(position);
    for (const auto& [then, here] : both) {
      const std::uint64_t gave = then < was.counts.size() ? was.counts[then] : 0;
      if (gave == now.counts[here]) continue;
      return refused("source '" + present.sources()[here].name + "' gives " +
                     counted(now.counts[here], "sample") + " to step " + std::to_string(position) +
                     ", and gave it " + std::to_string(gave) +
                     " when it was trained: change proportions, epochs and sources from step " +
                     std::to_string(end) + " on only");
    }
  }
  return {};
}

// Checks that no step of a window that has begun needs a source that is gone.
Status check_window(const Mixture& saved, const MixtureOptions& present, std::uint64_t begin,
                    std::uint64_t end) {
  for (std::uint64_t position = begin; position < end; ++position) {
    const StepDraws draws = saved.draws(position);
    for (std::size_t i = 0; i < draws.counts.size(); ++i) {
      const std::string& name = saved.sources()[i].name;
      if (draws.counts[i] == 0 || find_source(present, name) != nullptr) continue;
      return refused("source '" + name + "' is gone, and step " + std::to_string(position) +
                     " needs " + counted(draws.counts[i], "sample") +
                     " of it, because a look-ahead window has begun: keep it, with a proportion of "
                     "0 from step " +
                     std::to_string(end) + " on");
    }
  }
  return {};
}

// Returns the number of steps of a mixture without those left out; nothing without an end.
std::optional<std::uint64_t> steps_of(const Mixture& mixture) {
  const auto length = mixture.length();
  return length ? std::optional(mixture.options().skipped.steps_before(*length)) : std::nullopt;
}

// Returns the position behind `steps` steps, and not behind those that are left out after them.
std::uint64_t behind(const SkippedSteps& skipped, std::uint64_t steps) {
  return steps == 0 ? 0 : skipped.position_of(steps - 1) + 1;
}

// Returns the present mixture, with the sources of the saved one that are gone.
MixtureOptions with_dropped(const MixtureOptions& saved, MixtureOptions present,
                            std::uint64_t position) {
  for (const MixtureSource& source : saved.sources) {
    if (find_source(present, source.name) != nullptr || !took_part(source, position)) continue;
    present.sources.push_back(source);
    ProportionSchedule& schedule = present.sources.back().schedule;
    schedule.end = std::min(schedule.end, position);
  }
  return present;
}

}  // namespace

std::uint64_t end_of_window(std::uint64_t step, std::uint64_t lookahead) {
  const std::uint64_t window = std::max<std::uint64_t>(lookahead, 1);
  return (step + window - 1) / window * window;
}

Status check_skipped_steps(const SkippedSteps& saved, const SkippedSteps& present,
                           std::uint64_t step) {
  const std::uint64_t differs = saved.first_difference(present, step);
  if (differs == step) return {};
  return refused("skip_steps: after " + counted(differs, "step") + " comes step " +
                 std::to_string(present.position_of(differs)) + " of the data, and step " +
                 std::to_string(saved.position_of(differs)) +
                 " came when it was trained: leave out steps from " +
                 std::to_string(saved.position_of(step)) +
                 " on only, and keep the ranges before it");
}

Result<std::shared_ptr<const Mixture>> continued_mixture(const MixtureOptions& saved,
                                                         const MixtureOptions& present,
                                                         std::uint64_t step,
                                                         std::uint64_t lookahead,
                                                         std::uint64_t epoch) {
  if (epoch == 0 && step == 0) return Mixture::create(present);
  ISOCOST_TRY(check_settings(saved, present));
  if (by_size(saved) || by_size(present)) ISOCOST_TRY(check_by_size(saved, present));
  auto was = Mixture::create(saved);
  if (!was) return std::move(was).error().with_context("the mixture of the saved state");
  // The last window ends with the mixture.
  const std::uint64_t window_end = end_of_window(step, lookahead);
  const std::uint64_t kept = std::min(window_end, steps_of(**was).value_or(window_end));
  ISOCOST_TRY(check_skipped_steps(saved.skipped, present.skipped, kept));
  const std::uint64_t end = behind(saved.skipped, kept);
  ISOCOST_TRY(check_data(**was, present, end, epoch > 0));
  ISOCOST_TRY(check_window(**was, present, behind(saved.skipped, step), end));
  ISOCOST_ASSIGN(auto now, Mixture::create(with_dropped(saved, present, end)));
  if (const std::uint64_t length = now->length().value_or(end); length < end) {
    return refused("the mixture has " + counted(length, "step") + ", and " + counted(end, "step") +
                   " have been trained: give a larger number of steps, or more epochs");
  }
  if (kept < window_end && steps_of(*now) != kept) {
    return refused("the mixture had " + counted(kept, "step") +
                   ", and its last look-ahead window is composed of what was left of them: give it "
                   "the same number. One that ends with a whole window can be made longer");
  }
  if (!std::ranges::equal((*was)->sources(), now->sources())) {
    ISOCOST_TRY(check_draws(**was, *now, end));
  }
  return now;
}

}  // namespace isocost
