#include "cli/top_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string_view>
#include <utility>
#include <vector>

#include "base/counted.h"
#include "loader/metrics/status_json.h"

namespace isocost::cli {
namespace {

using nlohmann::ordered_json;

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
using ModuleFactors = CorrectionStatus::ModuleFactors;

double share(double part, double whole) { return whole > 0 ? part / whole : kUnknown; }

std::string name_of(std::size_t module) {
  return std::string(module_name(static_cast<Module>(module)));
}

void subtract(RankTotals& from, const RankTotals& what) {
  for (std::size_t m = 0; m < kModules; ++m) {
    from.predicted.at(m) -= what.predicted.at(m);
    from.measured.at(m) -= what.measured.at(m);
  }
  from.busy -= what.busy;
  from.idle -= what.idle;
  from.data_wait -= what.data_wait;
}

// What was counted between two snapshots.
struct Growth {
  double window_s = 0;
  double samples_per_s = kUnknown;
  double steps_per_s = kUnknown;
  double decoded_bytes_per_s = kUnknown;
  std::vector<RankTotals> ranks;
  RankTotals sum;  // of all ranks
  double idle_fraction = kUnknown;
  double data_wait_fraction = kUnknown;
};

Growth growth_of(const TopView& view) {
  const NodeMetrics start;
  const NodeMetrics& now = view.now;
  const NodeMetrics& before = now.uptime_s < view.before.uptime_s ? start : view.before;
  Growth growth;
  growth.window_s = now.uptime_s - before.uptime_s;
  const auto per_second = [&growth](auto value, auto earlier) {
    return share(static_cast<double>(value) - static_cast<double>(earlier), growth.window_s);
  };
  growth.samples_per_s = per_second(now.summary.delivered, before.summary.delivered);
  growth.steps_per_s = per_second(now.summary.steps_delivered, before.summary.steps_delivered);
  growth.decoded_bytes_per_s = per_second(now.decoded_bytes, before.decoded_bytes);

  growth.ranks = now.training.ranks;
  const auto& earlier = before.training.ranks;
  for (std::size_t r = 0; r < std::min(growth.ranks.size(), earlier.size()); ++r) {
    subtract(growth.ranks[r], earlier[r]);
  }
  RankTotals& sum = growth.sum;
  for (const RankTotals& rank : growth.ranks) {
    for (std::size_t m = 0; m < kModules; ++m) {
      sum.predicted.at(m) += rank.predicted.at(m);
      sum.measured.at(m) += rank.measured.at(m);
    }
    sum.busy += rank.busy;
    sum.idle += rank.idle;
    sum.data_wait += rank.data_wait;
  }
  growth.idle_fraction = share(sum.idle, sum.busy + sum.idle);
  growth.data_wait_fraction =
      share(sum.data_wait, growth.window_s * static_cast<double>(growth.ranks.size()));
  return growth;
}

ordered_json seconds_json(const RankTotals& totals, std::size_t module) {
  return {{"predicted_s", totals.predicted.at(module)}, {"measured_s", totals.measured.at(module)}};
}

ordered_json module_json(const NodeMetrics& now, const RankTotals& sum, std::size_t module) {
  const ModuleFactors& factors = now.correction.modules.at(module);
  ordered_json json = seconds_json(sum, module);
  json["mape"] = now.summary.mape.at(module);
  json["fixed_factor"] = factors.fixed;
  for (std::size_t b = 0; b < kShapeBuckets; ++b) {
    json["factors"][bucket_label(b)] = factors.buckets.at(b);
  }
  return json;
}

ordered_json rank_json(const NodeMetrics& now, const RankTotals& totals, std::size_t rank) {
  ordered_json json = {{"rank", rank},
                       {"slowdown", now.correction.rank_slowdowns[rank]},
                       {"busy_s", totals.busy},
                       {"idle_s", totals.idle},
                       {"data_wait_s", totals.data_wait}};
  if (!now.places.empty()) json["place"] = now.places[rank];
  for (std::size_t m = 0; m < kModules; ++m) json["modules"][name_of(m)] = seconds_json(totals, m);
  return json;
}

std::string number(double value, const char* unit = "", int digits = 4) {
  return std::isfinite(value) ? fmt::format("{:.{}g}{}", value, digits, unit) : std::string("-");
}

std::string percent(double value) {
  return std::isfinite(value) ? fmt::format("{:.2f} %", 100 * value) : std::string("-");
}

std::string factor(double value) {
  return std::isfinite(value) ? fmt::format("{:.3f}", value) : std::string("-");
}

std::string bytes(double value) {
  if (!std::isfinite(value)) return "-";
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  for (; value >= 1024 && unit + 1 < std::size(kUnits); ++unit) value /= 1024;
  return fmt::format("{:.{}f} {}", value, unit == 0 ? 0 : 1, kUnits[unit]);
}

std::string bytes(std::int64_t value) { return bytes(static_cast<double>(value)); }

std::string head_lines(const TopView& view, const Growth& growth) {
  const NodeMetrics& now = view.now;
  const auto& oldest = now.queue.oldest;
  std::string out = fmt::format("isocost top  {}  up {:.0f} s, counted over {:.0f} s\n\n", view.url,
                                now.uptime_s, growth.window_s);
  out += fmt::format("job         epoch {}, step {}; {} of {} connected\n",
                     oldest ? std::to_string(oldest->epoch) : "-",
                     oldest ? std::to_string(oldest->step) : "-", now.ranks_present,
                     counted(now.ranks, "rank"));
  out +=
      fmt::format("throughput  {}, {}, decoded {}/s\n", number(growth.samples_per_s, " samples/s"),
                  number(growth.steps_per_s, " steps/s"), bytes(growth.decoded_bytes_per_s));
  out += fmt::format("samples     {} delivered, {} bad, {} decoded again\n", now.summary.delivered,
                     now.summary.bad, now.summary.decoded_again);
  out += fmt::format("memory      {} of {}, peak {}\n", bytes(now.memory_bytes),
                     bytes(now.memory_budget_bytes), bytes(now.summary.memory_peak_bytes));
  out +=
      fmt::format("queues      planned {}, decoded {} ({}), unacknowledged {}\n",
                  counted(now.queue.planned, "microbatch"), counted(now.waiting_samples, "sample"),
                  bytes(now.waiting_bytes), counted(now.queue.unacknowledged, "microbatch"));
  out += fmt::format("plan        imbalance {}, makespan {} (bound {})\n",
                     number(now.training.imbalance, "", 5), number(now.training.makespan_s, " s"),
                     number(now.training.lower_bound_s, " s"));
  out += fmt::format("ranks       idle {}, data wait {}\n", percent(growth.idle_fraction),
                     percent(growth.data_wait_fraction));
  return out;
}

std::string correction_line(const NodeMetrics& now) {
  const CorrectionStatus& correction = now.correction;
  const char* state = correction.on ? "on" : "paused";
  if (!now.correct) state = "off (correct = off)";
  return fmt::format(
      "correction  {}: gain {}, overhead {}; {}{}; {}, {} rejected\n", state,
      percent(correction.gain), percent(correction.overhead), counted(correction.drifts, "drift"),
      correction.reprofile_suggested ? " (measure the model profile again)" : "",
      counted(now.summary.measurements, "measurement"), now.summary.measurements_rejected);
}

// The median factor, then the factors that differ from it, the most different first.
std::string factor_list(const ModuleFactors& factors) {
  constexpr std::size_t kMost = 4;
  constexpr double kLeast = 0.005;
  std::vector<double> sorted(factors.buckets.begin(), factors.buckets.end());
  if (!std::all_of(sorted.begin(), sorted.end(), [](double f) { return std::isfinite(f); })) {
    return "-";
  }
  std::sort(sorted.begin(), sorted.end());
  const double common = sorted[sorted.size() / 2];
  const auto distance = [&](std::size_t bucket) {
    return common > 0 ? std::abs(factors.buckets.at(bucket) / common - 1) : 0;
  };

  std::vector<std::size_t> others;
  for (std::size_t b = 0; b < kShapeBuckets; ++b) {
    if (distance(b) >= kLeast) others.push_back(b);
  }
  std::stable_sort(others.begin(), others.end(),
                   [&](std::size_t a, std::size_t b) { return distance(a) > distance(b); });
  std::string out = factor(common);
  for (std::size_t i = 0; i < std::min(others.size(), kMost); ++i) {
    out += fmt::format(", {}: {}", bucket_label(others[i]), factor(factors.buckets.at(others[i])));
  }
  return others.size() > kMost ? out + fmt::format(", {} more", others.size() - kMost) : out;
}

std::string module_lines(const NodeMetrics& now, const RankTotals& sum) {
  std::string out =
      fmt::format("{:<8} {:>12} {:>12} {:>9} {:>9} {:>7}  {}\n", "module", "predicted s",
                  "measured s", "bias", "MAPE", "fixed", "factors by length");
  for (std::size_t m = 0; m < kModules; ++m) {
    const ModuleFactors& factors = now.correction.modules.at(m);
    const double predicted = sum.predicted.at(m);
    const double measured = sum.measured.at(m);
    out +=
        fmt::format("{:<8} {:>12} {:>12} {:>9} {:>9} {:>7}  {}\n", name_of(m), number(predicted),
                    number(measured), percent(share(predicted - measured, measured)),
                    percent(now.summary.mape.at(m)), factor(factors.fixed), factor_list(factors));
  }
  return out;
}

// Numbers of the ranks to show, in ascending order where all are shown.
std::vector<std::size_t> busiest(const std::vector<RankTotals>& ranks, std::size_t most) {
  std::vector<std::size_t> numbers(ranks.size());
  std::iota(numbers.begin(), numbers.end(), std::size_t{0});
  if (numbers.size() <= most) return numbers;
  std::stable_sort(numbers.begin(), numbers.end(), [&ranks](std::size_t a, std::size_t b) {
    return ranks[a].busy > ranks[b].busy;
  });
  numbers.resize(most);
  return numbers;
}

std::string rank_lines(const NodeMetrics& now, const Growth& growth, std::size_t most) {
  std::string out =
      fmt::format("{:>5} {:>8} {:>8} {:>8} {:>8}", "rank", "slowdown", "busy s", "idle", "wait");
  for (std::size_t m = 0; m < kModules; ++m) {
    out += fmt::format("  {:>16}", name_of(m) + " pred/meas");
  }
  out += now.places.empty() ? "\n" : "  place\n";
  const std::vector<std::size_t> shown = busiest(growth.ranks, most);
  for (const std::size_t r : shown) {
    const RankTotals& rank = growth.ranks[r];
    out += fmt::format("{:>5} {:>8} {:>8} {:>8} {:>8}", r, factor(now.correction.rank_slowdowns[r]),
                       number(rank.busy), percent(share(rank.idle, rank.busy + rank.idle)),
                       percent(share(rank.data_wait, growth.window_s)));
    for (std::size_t m = 0; m < kModules; ++m) {
      out +=
          fmt::format("  {:>16}", number(rank.predicted.at(m)) + "/" + number(rank.measured.at(m)));
    }
    out += now.places.empty() ? "\n" : "  " + now.places[r] + "\n";
  }
  const std::size_t hidden = growth.ranks.size() - shown.size();
  return hidden > 0 ? out + counted(hidden, "less busy rank") + " not shown\n" : out;
}

}  // namespace

std::string top_json(const TopView& view) {
  const Growth growth = growth_of(view);
  ordered_json json = {{"url", view.url},
                       {"window_s", growth.window_s},
                       {"samples_per_s", growth.samples_per_s},
                       {"steps_per_s", growth.steps_per_s},
                       {"decoded_bytes_per_s", growth.decoded_bytes_per_s},
                       {"idle_fraction", growth.idle_fraction},
                       {"data_wait_fraction", growth.data_wait_fraction}};
  json["node"] = ordered_json::parse(status_json(view.now))["node"];
  for (std::size_t m = 0; m < kModules; ++m) {
    json["modules"][name_of(m)] = module_json(view.now, growth.sum, m);
  }
  json["ranks"] = ordered_json::array();
  for (std::size_t r = 0; r < growth.ranks.size(); ++r) {
    json["ranks"].push_back(rank_json(view.now, growth.ranks[r], r));
  }
  return json.dump(2, ' ', false, ordered_json::error_handler_t::replace);
}

std::string top_table(const TopView& view, std::size_t most_ranks) {
  const Growth growth = growth_of(view);
  return head_lines(view, growth) + correction_line(view.now) + "\n" +
         module_lines(view.now, growth.sum) + "\n" + rank_lines(view.now, growth, most_ranks);
}

}  // namespace isocost::cli
