#include "loader/plan/mixture/mixture_course.h"

#include <algorithm>
#include <cmath>

namespace isocost {
namespace {

std::vector<std::uint64_t> edges_of(std::uint64_t positions, std::size_t most) {
  const std::uint64_t parts = std::clamp<std::uint64_t>(positions, 1, most - 1);
  std::vector<std::uint64_t> edges;
  edges.reserve(parts + 1);
  const double width = static_cast<double>(positions) / static_cast<double>(parts);
  for (std::uint64_t part = 0; part <= parts; ++part) {
    edges.push_back(static_cast<std::uint64_t>(std::llround(width * static_cast<double>(part))));
  }
  return edges;
}

}  // namespace

std::uint64_t positions_to_show(const Mixture& mixture) {
  constexpr std::uint64_t kLeast = 1000;
  if (const auto length = mixture.length()) return *length;
  std::uint64_t last = 0;
  for (const MixtureSource& source : mixture.sources()) {
    if (!source.schedule.points.empty()) last = std::max(last, source.schedule.points.back().step);
  }
  return std::max(kLeast, last + last / 4);
}

Result<MixtureCourse> course_of(const Mixture& mixture, std::uint64_t positions, std::size_t most,
                                const std::stop_token& stop) {
  MixtureCourse course;
  course.edges = edges_of(positions, most);
  for (const MixtureSource& source : mixture.sources()) {
    course.sources.push_back({source.name, source.size, {}, MixtureCourse::kNever});
  }
  std::vector<std::uint64_t> given(course.sources.size());
  const auto keep = [&] {
    for (std::size_t i = 0; i < given.size(); ++i) course.sources[i].drawn.push_back(given[i]);
  };
  std::size_t edge = 0;
  for (std::uint64_t position = 0; position < positions; ++position) {
    if (position == course.edges[edge]) {
      if (stop.stop_requested()) return Error(ErrorCode::kCancelled, "stopped while counting");
      keep();
      ++edge;
    }
    const StepDraws draws = mixture.draws(position);
    for (std::size_t i = 0; i < given.size(); ++i) given[i] += draws.counts[i];
    for (const std::size_t i : draws.ended) course.sources[i].ended_with = position;
  }
  keep();
  return course;
}

}  // namespace isocost
