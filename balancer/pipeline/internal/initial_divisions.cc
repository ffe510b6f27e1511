#include "balancer/pipeline/internal/initial_divisions.h"

#include <algorithm>
#include <limits>

namespace isocost {
namespace {

double larger(const std::vector<double>& costs, std::size_t item) {
  return std::max(costs[2 * item], costs[2 * item + 1]);
}

double larger(const std::vector<double>& costs, const std::vector<std::uint32_t>& bin) {
  double first = 0;
  double second = 0;
  for (const std::size_t item : bin) {
    first += costs[2 * item];
    second += costs[2 * item + 1];
  }
  return std::max(first, second);
}

}  // namespace

MicrobatchBins weighted_lpt(const std::vector<double>& costs, std::span<const std::uint32_t> items,
                            const std::vector<double>& weights, std::size_t each) {
  std::vector<std::uint32_t> order(items.begin(), items.end());
  std::stable_sort(order.begin(), order.end(), [&costs](std::uint32_t a, std::uint32_t b) {
    return larger(costs, a) > larger(costs, b);
  });
  MicrobatchBins bins(weights.size());
  std::vector<double> loads(2 * weights.size(), 0.0);
  std::size_t empty = bins.size();
  for (std::size_t i = 0; i < order.size(); ++i) {
    const double* cost = &costs[std::size_t{2} * order[i]];
    // If only as many items are left as there are empty bins, they may only go to those.
    const bool only_empty = order.size() - i <= empty;
    std::size_t best = bins.size();
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t b = 0; b < bins.size(); ++b) {
      if ((each > 1 && bins[b].size() == each) || (only_empty && !bins[b].empty())) continue;
      const double after =
          std::max(loads[2 * b] + cost[0], loads[2 * b + 1] + cost[1]) / weights[b];
      if (best == bins.size() || after < least) {
        least = after;
        best = b;
      }
    }
    if (bins[best].empty()) --empty;
    bins[best].push_back(order[i]);
    loads[2 * best] += cost[0];
    loads[2 * best + 1] += cost[1];
  }
  for (auto& bin : bins) std::sort(bin.begin(), bin.end());
  return bins;
}

MicrobatchBins tapered_bins(const std::vector<double>& costs, const MicrobatchBins& bins,
                            std::size_t microbatches, std::size_t ramp, double taper) {
  std::vector<double> weights(microbatches);
  const std::size_t reach = std::max<std::size_t>(1, std::min(ramp, (microbatches + 1) / 2));
  for (std::size_t m = 0; m < microbatches; ++m) {
    const std::size_t from_end = std::min({m, microbatches - 1 - m, reach});
    weights[m] = taper + (1 - taper) * static_cast<double>(from_end) / static_cast<double>(reach);
  }
  MicrobatchBins out;
  for (std::size_t first = 0; first < bins.size(); first += microbatches) {
    std::vector<std::uint32_t> items;
    for (std::size_t m = 0; m < microbatches; ++m) {
      items.insert(items.end(), bins[first + m].begin(), bins[first + m].end());
    }
    std::sort(items.begin(), items.end());
    MicrobatchBins replica = weighted_lpt(costs, items, weights, 1);
    out.insert(out.end(), replica.begin(), replica.end());
  }
  return out;
}

MicrobatchBins small_at_the_ends(const std::vector<double>& costs, const MicrobatchBins& bins,
                                 std::size_t microbatches) {
  MicrobatchBins out(bins.size());
  std::vector<std::size_t> order(microbatches);
  for (std::size_t first = 0; first < bins.size(); first += microbatches) {
    for (std::size_t m = 0; m < microbatches; ++m) order[m] = first + m;
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return larger(costs, bins[a]) < larger(costs, bins[b]);
    });
    for (std::size_t i = 0; i < microbatches; ++i) {
      const std::size_t slot = i % 2 == 0 ? i / 2 : microbatches - 1 - i / 2;
      out[first + slot] = bins[order[i]];
    }
  }
  return out;
}

}  // namespace isocost
