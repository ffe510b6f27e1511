#include "balancer/layout/internal/stage_cut.h"

#include <algorithm>
#include <limits>

namespace isocost {
namespace {

constexpr int kHalvings = 50;  // of the interval that holds the longest stage's seconds

// Gives each stage in turn as many layers as take at most `limit_s`; the last stage takes the rest.
// Returns the cut and the seconds of its longest stage.
std::pair<LayerCut, double> fill(const StageCutProblem& problem, double limit_s) {
  const std::size_t stages = problem.llm_layer_s.size();
  LayerCut cut{.encoder = std::vector<std::int64_t>(stages, 0),
               .llm = std::vector<std::int64_t>(stages, 0)};
  std::int64_t encoder_left = problem.encoder_layers;
  std::int64_t llm_left = problem.llm_layers;
  double longest_s = 0;
  for (std::size_t stage = 0; stage < stages; ++stage) {
    const bool is_last = stage + 1 == stages;
    double seconds = 0;
    const auto take = [&](std::int64_t& left, double layer_s, std::int64_t& taken) {
      while (left > 0 && (is_last || seconds + layer_s <= limit_s)) {
        seconds += layer_s;
        --left;
        ++taken;
      }
    };
    take(encoder_left, problem.encoder_layer_s[stage], cut.encoder[stage]);
    if (encoder_left == 0) take(llm_left, problem.llm_layer_s[stage], cut.llm[stage]);
    if (is_last) seconds += problem.head_layers * problem.llm_layer_s[stage];
    longest_s = std::max(longest_s, seconds);
  }
  return {std::move(cut), longest_s};
}

}  // namespace

LayerCut stage_cut(const StageCutProblem& problem) {
  double least_s = 0;
  auto [best, most_s] = fill(problem, std::numeric_limits<double>::infinity());
  for (int i = 0; i < kHalvings; ++i) {
    const double limit_s = (least_s + most_s) / 2;
    auto [cut, longest_s] = fill(problem, limit_s);
    if (longest_s <= limit_s) {
      best = std::move(cut);
      most_s = longest_s;
    } else {
      least_s = limit_s;
    }
  }
  return best;
}

}  // namespace isocost
