#include "costmodel/cuts.h"

#include <algorithm>
#include <functional>
#include <vector>

#include "base/statistics.h"

namespace isocost {
namespace {

// Calls `with` with the seconds of the cut and of the whole module for each load with which both
// were measured. Skips small loads, which are dominated by kernel launches.
void for_each_pair(const ModuleProfile& profile, const ProfileCut& cut,
                   const std::function<void(double cut_s, double whole_s)>& with) {
  std::int64_t most = 0;
  for (const ProfilePoint& point : cut.points) most = std::max(most, point.load.units);
  for (const ProfilePoint& point : cut.points) {
    if (2 * point.load.units < most) continue;
    for (const ProfilePoint& whole : profile.points) {
      if (whole.load == point.load) with(point.seconds(), whole.seconds());
    }
  }
}

}  // namespace

std::optional<double> tensor_share(const ModuleProfile& profile, std::int64_t tensor) {
  if (tensor == 1) return 1;
  std::vector<double> shares;
  for (const ProfileCut& cut : profile.cuts) {
    if (cut.tensor != tensor || cut.layers != 0) continue;
    for_each_pair(profile, cut,
                  [&shares](double cut_s, double whole_s) { shares.push_back(cut_s / whole_s); });
  }
  if (shares.empty()) return std::nullopt;
  return median(shares);
}

double work_outside_layers(const ModuleProfile& profile) {
  if (!profile.architecture) return 0;
  const auto all = static_cast<double>(profile.architecture->layers);
  std::vector<double> outside;
  for (const ProfileCut& cut : profile.cuts) {
    if (cut.tensor != 1 || cut.layers == 0) continue;
    const auto some = static_cast<double>(cut.layers);
    for_each_pair(profile, cut, [&](double cut_s, double whole_s) {
      const double layer_s = (whole_s - cut_s) / (all - some);
      // If noise makes fewer layers as slow as all, the point is useless.
      if (layer_s > 0) outside.push_back(std::max(0.0, whole_s / layer_s - all));
    });
  }
  return outside.empty() ? profile.architecture->head_layers() : median(outside);
}

}  // namespace isocost
