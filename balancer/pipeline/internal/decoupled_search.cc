#include "balancer/pipeline/internal/decoupled_search.h"

#include <algorithm>
#include <numeric>

namespace isocost {
namespace {

// Largest deterioration that is accepted when a search starts, as a share of the step; none is at
// its end.
constexpr double kFirstDecoupledStepBack = 2e-3;
// Samples this close in the order of LLM seconds count as similar.
constexpr std::size_t kSimilar = 12;

// Returns the replica that would finish the sample first.
std::size_t first_to_finish(const std::vector<double>& busy, const std::vector<double>& slowdowns,
                            double seconds) {
  std::size_t best = 0;
  for (std::size_t e = 1; e < busy.size(); ++e) {
    if (busy[e] + seconds * slowdowns[e] < busy[best] + seconds * slowdowns[best]) best = e;
  }
  return best;
}

}  // namespace

std::vector<std::uint32_t> even_intervals(std::size_t numbers, std::size_t width) {
  std::vector<std::uint32_t> intervals(numbers);
  for (std::size_t n = 0; n < numbers; ++n) intervals[n] = static_cast<std::uint32_t>(n / width);
  return intervals;
}

void couple_encoders(const PipelineModel& model, DecoupledChoice& choice) {
  choice.interval_of = even_intervals(model.slots(), 1);
  for (std::size_t llm_slot = 0; llm_slot < choice.bins.size(); ++llm_slot) {
    for (const std::uint32_t sample : choice.bins[llm_slot]) {
      choice.encoder_of[sample] =
          static_cast<std::uint32_t>(number_of_llm_slot(model, llm_slot) % model.encoder.replicas);
    }
  }
}

void deal_to_encoders(const PipelineModel& model, std::span<const SampleCost> samples,
                      DecoupledChoice& choice) {
  std::vector<double> busy(model.encoder.replicas, 0.0);
  std::vector<double> slowdowns = model.encoder.replica_slowdowns();
  slowdowns.resize(model.encoder.replicas, 1);
  std::vector<std::uint32_t> interval_samples;
  const auto& intervals = choice.interval_of;
  for (std::size_t number = 0; number < intervals.size(); ++number) {
    for (const std::uint32_t sample : choice.bins[llm_slot_of_number(model, number)]) {
      if (samples[sample].encoder_units > 0) interval_samples.push_back(sample);
    }
    if (number + 1 < intervals.size() && intervals[number + 1] == intervals[number]) continue;
    std::stable_sort(interval_samples.begin(), interval_samples.end(),
                     [&](std::uint32_t a, std::uint32_t b) {
                       return samples[a].encoder_s > samples[b].encoder_s;
                     });
    for (const std::uint32_t sample : interval_samples) {
      const std::size_t replica = first_to_finish(busy, slowdowns, samples[sample].encoder_s);
      busy[replica] += samples[sample].encoder_s * slowdowns[replica];
      choice.encoder_of[sample] = static_cast<std::uint32_t>(replica);
    }
    interval_samples.clear();
  }
}

DecoupledSearch::DecoupledSearch(DecoupledStep& step, DecoupledChoice choice)
    : step_(&step), choice_(std::move(choice)) {
  const std::span<const SampleCost> samples = step.samples();
  for (std::uint32_t i = 0; i < samples.size(); ++i) {
    if (samples[i].encoder_units > 0) with_media_.push_back(i);
  }
  by_llm_.resize(samples.size());
  std::iota(by_llm_.begin(), by_llm_.end(), 0U);
  std::stable_sort(by_llm_.begin(), by_llm_.end(), [&](std::uint32_t a, std::uint32_t b) {
    return samples[a].llm_s < samples[b].llm_s;
  });
  llm_slot_of_.resize(samples.size());
  index_llm_slots();
  step_->write_all(choice_);
  score_ = step_->evaluate(choice_);
}

void DecoupledSearch::index_llm_slots() {
  for (std::size_t llm_slot = 0; llm_slot < choice_.bins.size(); ++llm_slot) {
    for (const std::uint32_t sample : choice_.bins[llm_slot]) {
      llm_slot_of_[sample] = static_cast<std::uint32_t>(llm_slot);
    }
  }
}

void DecoupledSearch::offer(const DecoupledChoice& choice) {
  step_->write_all(choice);
  const DecoupledScore score = step_->evaluate(choice);
  if (score < score_) {
    score_ = score;
    choice_ = choice;
    index_llm_slots();
  }
  step_->write_all(choice_);
}

void DecoupledSearch::begin_change(std::size_t a, std::size_t b) {
  changed_bins_ = true;
  changed_slots_ = {a, b};
  for (const std::size_t i : {0, 1}) bins_before_[i] = choice_.bins[changed_slots_[i]];
}

void DecoupledSearch::end_change() {
  for (const std::size_t llm_slot : changed_slots_) {
    std::sort(choice_.bins[llm_slot].begin(), choice_.bins[llm_slot].end());
    for (const std::uint32_t sample : choice_.bins[llm_slot]) {
      llm_slot_of_[sample] = static_cast<std::uint32_t>(llm_slot);
    }
    step_->write(choice_, llm_slot);
  }
}

bool DecoupledSearch::change_bins(Random& random) {
  const std::size_t llm_slots = choice_.bins.size();
  const std::size_t a = random.below(llm_slots);
  const std::size_t b = (a + 1 + random.below(llm_slots - 1)) % llm_slots;
  const std::uint64_t kind = random.below(4);
  auto& from = choice_.bins[a];
  auto& to = choice_.bins[b];
  if (kind == 1 && from.size() == 1) return false;
  begin_change(a, b);
  const std::size_t i = random.below(from.size());
  if (kind == 0) {
    std::swap(from, to);
  } else if (kind == 1) {
    to.push_back(from[i]);
    from.erase(from.begin() + static_cast<std::ptrdiff_t>(i));
  } else {
    std::swap(from[i], to[random.below(to.size())]);
  }
  end_change();
  return true;
}

bool DecoupledSearch::swap_similar(Random& random) {
  const std::size_t at = random.below(by_llm_.size());
  const std::size_t other = std::min(by_llm_.size() - 1, at + 1 + random.below(kSimilar));
  const std::uint32_t one = by_llm_[at];
  const std::uint32_t two = by_llm_[other];
  const std::uint32_t a = llm_slot_of_[one];
  const std::uint32_t b = llm_slot_of_[two];
  if (a == b) return false;
  begin_change(a, b);
  std::replace(choice_.bins[a].begin(), choice_.bins[a].end(), one, two);
  std::replace(choice_.bins[b].begin(), choice_.bins[b].end(), two, one);
  end_change();
  return true;
}

bool DecoupledSearch::change_encoders(Random& random) {
  const std::uint32_t sample = with_media_[random.below(with_media_.size())];
  const std::uint32_t other = with_media_[random.below(with_media_.size())];
  const std::uint32_t from = choice_.encoder_of[sample];
  const std::uint32_t to = choice_.encoder_of[other];
  if (from == to) return false;
  encoders_before_.emplace_back(sample, from);
  choice_.encoder_of[sample] = to;
  if (random.below(2) == 0) {
    encoders_before_.emplace_back(other, to);
    choice_.encoder_of[other] = from;
  }
  return true;
}

bool DecoupledSearch::change(Random& random) {
  encoders_before_.clear();
  changed_bins_ = false;
  switch (random.below(4)) {
    case 0:
      return change_encoders(random);
    case 1:
      return choice_.bins.size() > 1 && change_bins(random);
    default:
      return swap_similar(random);
  }
}

void DecoupledSearch::undo_change() {
  for (const auto& [sample, replica] : encoders_before_) choice_.encoder_of[sample] = replica;
  if (!changed_bins_) return;
  for (const std::size_t i : {0, 1}) choice_.bins[changed_slots_[i]] = std::move(bins_before_[i]);
  end_change();
}

void DecoupledSearch::improve(std::int64_t evaluations, Random& random) {
  DecoupledScore best = score_;
  DecoupledChoice best_choice = choice_;
  for (std::int64_t i = 0; i < evaluations; ++i) {
    if (!change(random)) continue;
    const double left = 1 - static_cast<double>(i) / static_cast<double>(evaluations);
    DecoupledScore most = score_;
    most.step_s += best.step_s * kFirstDecoupledStepBack * left * left * random.uniform();
    const DecoupledScore found = step_->evaluate(choice_);
    if (most < found) {
      undo_change();
      continue;
    }
    score_ = found;
    if (found < best) {
      best = found;
      best_choice = choice_;
    }
  }
  choice_ = std::move(best_choice);
  score_ = best;
  index_llm_slots();
  step_->write_all(choice_);
}

void DecoupledSearch::save_feeds(std::int64_t evaluations) {
  const std::span<const SampleCost> samples = step_->samples();
  for (const auto& bin : choice_.bins) {
    for (std::size_t i = 0; i < bin.size() && evaluations > 0; ++i) {
      if (samples[bin[i]].encoder_units <= 0) continue;
      for (std::size_t j = 0; j < i && evaluations > 0; ++j) {
        const std::uint32_t from = choice_.encoder_of[bin[i]];
        const std::uint32_t to = choice_.encoder_of[bin[j]];
        if (samples[bin[j]].encoder_units <= 0 || from == to) continue;
        choice_.encoder_of[bin[i]] = to;
        --evaluations;
        const DecoupledScore found = step_->evaluate(choice_);
        if (found < score_) {
          score_ = found;
        } else {
          choice_.encoder_of[bin[i]] = from;
        }
      }
    }
  }
}

}  // namespace isocost
