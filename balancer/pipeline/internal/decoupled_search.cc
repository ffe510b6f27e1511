#include "balancer/pipeline/internal/decoupled_search.h"

#include <algorithm>
#include <numeric>

namespace isocost {
namespace {

// Steps back of up to this share of the step are allowed when a search starts, none at its end.
constexpr double kFirstStepBack = 2e-3;
// Samples so near in the order of LLM seconds count as alike.
constexpr std::size_t kAlike = 12;

// The replica that has finished first after it has taken the sample, too.
std::size_t first_done(const std::vector<double>& busy, const std::vector<double>& slowdowns,
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
  choice.interval_of = even_intervals(model.places(), 1);
  for (std::size_t place = 0; place < choice.bins.size(); ++place) {
    for (const std::uint32_t sample : choice.bins[place]) {
      choice.encoder_of[sample] =
          static_cast<std::uint32_t>(number_of_place(model, place) % model.encoder.replicas);
    }
  }
}

void deal_to_encoders(const PipelineModel& model, std::span<const SampleCost> samples,
                      DecoupledChoice& choice) {
  std::vector<double> busy(model.encoder.replicas, 0.0);
  std::vector<double> slowdowns = model.encoder.replica_slowdowns();
  slowdowns.resize(model.encoder.replicas, 1);
  std::vector<std::uint32_t> together;
  const auto& intervals = choice.interval_of;
  for (std::size_t number = 0; number < intervals.size(); ++number) {
    for (const std::uint32_t sample : choice.bins[place_of_number(model, number)]) {
      if (samples[sample].encoder_units > 0) together.push_back(sample);
    }
    if (number + 1 < intervals.size() && intervals[number + 1] == intervals[number]) continue;
    std::stable_sort(together.begin(), together.end(), [&](std::uint32_t a, std::uint32_t b) {
      return samples[a].encoder_s > samples[b].encoder_s;
    });
    for (const std::uint32_t sample : together) {
      const std::size_t replica = first_done(busy, slowdowns, samples[sample].encoder_s);
      busy[replica] += samples[sample].encoder_s * slowdowns[replica];
      choice.encoder_of[sample] = static_cast<std::uint32_t>(replica);
    }
    together.clear();
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
  llm_rank_.resize(samples.size());
  for (std::uint32_t i = 0; i < by_llm_.size(); ++i) llm_rank_[by_llm_[i]] = i;
  place_of_.resize(samples.size());
  index_places();
  step_->write_all(choice_);
  score_ = step_->look(choice_);
}

void DecoupledSearch::index_places() {
  for (std::size_t place = 0; place < choice_.bins.size(); ++place) {
    for (const std::uint32_t sample : choice_.bins[place]) {
      place_of_[sample] = static_cast<std::uint32_t>(place);
    }
  }
}

bool DecoupledSearch::offer(const DecoupledChoice& choice) {
  step_->write_all(choice);
  const DecoupledScore score = step_->look(choice);
  const bool better = score < score_;
  if (better) {
    score_ = score;
    choice_ = choice;
    index_places();
  }
  step_->write_all(choice_);
  return better;
}

void DecoupledSearch::begin_change(std::size_t a, std::size_t b) {
  changed_bins_ = true;
  places_ = {a, b};
  for (const std::size_t i : {0, 1}) bins_before_[i] = choice_.bins[places_[i]];
}

void DecoupledSearch::end_change() {
  for (const std::size_t place : places_) {
    std::sort(choice_.bins[place].begin(), choice_.bins[place].end());
    for (const std::uint32_t sample : choice_.bins[place]) {
      place_of_[sample] = static_cast<std::uint32_t>(place);
    }
    step_->write(choice_, place);
  }
}

bool DecoupledSearch::change_bins(Random& random) {
  const std::size_t places = choice_.bins.size();
  const std::size_t a = random.below(places);
  const std::size_t b = (a + 1 + random.below(places - 1)) % places;
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

bool DecoupledSearch::swap_alike(Random& random) {
  const std::size_t at = random.below(by_llm_.size());
  const std::size_t other = std::min(by_llm_.size() - 1, at + 1 + random.below(kAlike));
  const std::uint32_t one = by_llm_[at];
  const std::uint32_t two = by_llm_[other];
  const std::uint32_t a = place_of_[one];
  const std::uint32_t b = place_of_[two];
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
      return swap_alike(random);
  }
}

void DecoupledSearch::take_back() {
  for (const auto& [sample, replica] : encoders_before_) choice_.encoder_of[sample] = replica;
  if (!changed_bins_) return;
  for (const std::size_t i : {0, 1}) choice_.bins[places_[i]] = std::move(bins_before_[i]);
  end_change();
}

void DecoupledSearch::improve(std::int64_t looks, Random& random) {
  DecoupledScore best = score_;
  DecoupledChoice best_choice = choice_;
  for (std::int64_t i = 0; i < looks; ++i) {
    if (!change(random)) continue;
    const double left = 1 - static_cast<double>(i) / static_cast<double>(looks);
    DecoupledScore most = score_;
    most.step_s += best.step_s * kFirstStepBack * left * left * random.uniform();
    const DecoupledScore found = step_->look(choice_);
    if (most < found) {
      take_back();
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
  index_places();
  step_->write_all(choice_);
}

void DecoupledSearch::save_feeds(std::int64_t looks) {
  const std::span<const SampleCost> samples = step_->samples();
  for (const auto& bin : choice_.bins) {
    for (std::size_t i = 0; i < bin.size() && looks > 0; ++i) {
      if (samples[bin[i]].encoder_units <= 0) continue;
      for (std::size_t j = 0; j < i && looks > 0; ++j) {
        const std::uint32_t from = choice_.encoder_of[bin[i]];
        const std::uint32_t to = choice_.encoder_of[bin[j]];
        if (samples[bin[j]].encoder_units <= 0 || from == to) continue;
        choice_.encoder_of[bin[i]] = to;
        --looks;
        const DecoupledScore found = step_->look(choice_);
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
