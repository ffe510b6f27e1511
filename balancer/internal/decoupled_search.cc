#include "balancer/internal/decoupled_search.h"

#include <algorithm>
#include <utility>

namespace isocost {
namespace {

// Steps back of up to this share of the step are allowed when a search starts, none at its end.
constexpr double kFirstStepBack = 2e-3;

}  // namespace

std::vector<std::uint32_t> even_intervals(std::size_t numbers, std::size_t width) {
  std::vector<std::uint32_t> intervals(numbers);
  for (std::size_t n = 0; n < numbers; ++n) intervals[n] = static_cast<std::uint32_t>(n / width);
  return intervals;
}

void couple_encoders(const PipelineModel& model, DecoupledChoice& choice) {
  choice.interval_of = even_intervals(model.places(), 1);
  for (std::size_t place = 0; place < choice.bins.size(); ++place) {
    const std::size_t number =
        place % model.microbatches * model.llm.replicas + place / model.microbatches;
    for (const std::uint32_t sample : choice.bins[place]) {
      choice.encoder_of[sample] = static_cast<std::uint32_t>(number % model.encoder.replicas);
    }
  }
}

void deal_to_encoders(const PipelineModel& model, std::span<const PipelineLoad> samples,
                      DecoupledChoice& choice) {
  const std::size_t replicas = model.llm.replicas;
  std::vector<double> busy(model.encoder.replicas, 0.0);
  std::vector<std::uint32_t> group;
  for (std::size_t number = 0; number < choice.interval_of.size(); ++number) {
    const std::size_t place = number % replicas * model.microbatches + number / replicas;
    for (const std::uint32_t sample : choice.bins[place]) {
      if (samples[sample].encoder_units > 0) group.push_back(sample);
    }
    const bool ends = number + 1 == choice.interval_of.size() ||
                      choice.interval_of[number + 1] != choice.interval_of[number];
    if (!ends) continue;
    std::stable_sort(group.begin(), group.end(), [&](std::uint32_t a, std::uint32_t b) {
      return samples[a].encoder_s > samples[b].encoder_s;
    });
    for (const std::uint32_t sample : group) {
      std::size_t best = 0;
      double least = 0;
      for (std::size_t e = 0; e < busy.size(); ++e) {
        const double after = busy[e] + samples[sample].encoder_s * model.encoder.speed_of(e);
        if (e == 0 || after < least) {
          best = e;
          least = after;
        }
      }
      busy[best] = least;
      choice.encoder_of[sample] = static_cast<std::uint32_t>(best);
    }
    group.clear();
  }
}

DecoupledSearch::DecoupledSearch(const PipelineModel& model, std::span<const PipelineLoad> samples,
                                 DecoupledStep& step, DecoupledChoice choice)
    : model_(&model), samples_(samples), step_(&step), choice_(std::move(choice)) {
  for (std::uint32_t i = 0; i < samples.size(); ++i) {
    if (samples[i].encoder_units > 0) with_media_.push_back(i);
  }
  step_->write_all(choice_);
  score_ = step_->look(choice_);
}

bool DecoupledSearch::offer(const DecoupledChoice& choice) {
  step_->write_all(choice);
  const DecoupledScore score = step_->look(choice);
  if (score < score_) {
    score_ = score;
    choice_ = choice;
    return true;
  }
  step_->write_all(choice_);
  return false;
}

bool DecoupledSearch::change_bins(Random& random) {
  const std::size_t places = choice_.bins.size();
  if (places < 2) return false;
  const std::size_t a = random.below(places);
  const std::size_t b = (a + 1 + random.below(places - 1)) % places;
  auto& from = choice_.bins[a];
  auto& to = choice_.bins[b];
  places_[0] = a;
  places_[1] = b;
  bins_before_[0] = from;
  bins_before_[1] = to;
  const std::uint64_t kind = random.below(5);
  if (kind == 0) {
    std::swap(from, to);
  } else {
    const std::size_t i = random.below(from.size());
    if (kind <= 2) {
      if (from.size() == 1) {
        bins_before_[0].clear();
        return false;
      }
      to.push_back(from[i]);
      from.erase(from.begin() + static_cast<std::ptrdiff_t>(i));
    } else {
      std::swap(from[i], to[random.below(to.size())]);
    }
    std::sort(from.begin(), from.end());
    std::sort(to.begin(), to.end());
  }
  step_->write(choice_, a);
  step_->write(choice_, b);
  return true;
}

bool DecoupledSearch::change_encoders(Random& random) {
  if (model_->encoder.replicas < 2) return false;
  const std::uint32_t sample = with_media_[random.below(with_media_.size())];
  const std::uint32_t from = choice_.encoder_of[sample];
  const std::uint32_t other = with_media_[random.below(with_media_.size())];
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
  bins_before_[0].clear();
  return random.below(2) == 0 ? change_encoders(random) : change_bins(random);
}

void DecoupledSearch::take_back() {
  for (const auto& [sample, replica] : encoders_before_) choice_.encoder_of[sample] = replica;
  if (bins_before_[0].empty()) return;
  for (const int i : {0, 1}) {
    choice_.bins[places_[i]] = std::move(bins_before_[i]);
    step_->write(choice_, places_[i]);
  }
}

void DecoupledSearch::improve(std::int64_t looks, Random& random) {
  DecoupledScore best = score_;
  DecoupledChoice best_choice = choice_;
  for (std::int64_t i = 0; i < looks; ++i) {
    if (!change(random)) continue;
    const double left = 1 - static_cast<double>(i) / static_cast<double>(looks);
    const DecoupledScore found = step_->look(choice_);
    const double back = best.step_s * kFirstStepBack * left * left * random.uniform();
    DecoupledScore most = score_;
    most.step_s += back;
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
  step_->write_all(choice_);
}

}  // namespace isocost
