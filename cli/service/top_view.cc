#include "cli/service/top_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string_view>
#include <vector>

#include "base/counted.h"
#include "base/statistics.h"
#include "cli/common/json_output.h"
#include "loader/metrics/status_json.h"

namespace isocost::cli {
namespace {

using nlohmann::ordered_json;

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
using ModuleFactors = CorrectionStatus::ModuleFactors;

constexpr std::size_t kMostSourceLines = 16;

double share(double part, double whole) { return whole > 0 ? part / whole : kUnknown; }

std::string name_of(std::size_t module) {
  return std::string(module_name(static_cast<CostModule>(module)));
}

void subtract(RankTotals& from, const RankTotals& what) {
  for (std::size_t m = 0; m < kModules; ++m) {
    from.predicted.at(m) -= what.predicted.at(m);
    from.measured.at(m) -= what.measured.at(m);
  }
  from.busy -= what.busy;
  from.idle -= what.idle;
  from.data_wait -= what.data_wait;
  from.measuring -= what.measuring;
}

// Returns the growth of the sources' counters; `before` may lack sources.
std::vector<SourceTotals> sources_since(std::vector<SourceTotals> now,
                                        const std::vector<SourceTotals>& before) {
  for (SourceTotals& source : now) {
    const auto earlier = std::ranges::find(before, source.name, &SourceTotals::name);
    if (earlier == before.end() || earlier->samples_sent > source.samples_sent ||
        earlier->labels_sent > source.labels_sent) {
      continue;
    }
    source.samples_sent -= earlier->samples_sent;
    source.labels_sent -= earlier->labels_sent;
    source.predicted_s -= earlier->predicted_s;
  }
  return now;
}

// Growth of the counters between two snapshots.
struct Growth {
  double window_s = 0;
  double samples_per_s = kUnknown;
  double steps_per_s = kUnknown;
  double decoded_bytes_per_s = kUnknown;
  std::vector<RankTotals> ranks;
  RankTotals sum;  // sum over all ranks
  std::vector<SourceTotals> sources;
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
  growth.sources = sources_since(now.training.sources, before.training.sources);
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
  json["prediction_error_ratio"] = now.summary.prediction_error_ratio.at(module);
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

// Formats a percentage in at most 9 characters if it is below 1e100.
std::string percent(double value) {
  const double in_percent = 100 * value;
  if (!std::isfinite(in_percent)) return "-";
  if (std::abs(in_percent) < 100) return fmt::format("{:.2f} %", in_percent);
  return std::abs(in_percent) < 1e5 ? fmt::format("{:.0f} %", in_percent)
                                    : fmt::format("{:.0e} %", in_percent);
}

std::string factor(double value) {
  if (!std::isfinite(value)) return "-";
  if (value < 10) return fmt::format("{:.3f}", value);
  return value < 1000 ? fmt::format("{:.4g}", value) : fmt::format("{:.0e}", value);
}

std::string bytes(double value) {
  if (!std::isfinite(value)) return "-";
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  for (; value >= 1024 && unit + 1 < std::size(kUnits); ++unit) value /= 1024;
  if (value >= 1e4) return fmt::format("{:.4g} {}", value, kUnits[unit]);
  return fmt::format("{:.{}f} {}", value, unit == 0 ? 0 : 1, kUnits[unit]);
}

std::string bytes(std::int64_t value) { return bytes(static_cast<double>(value)); }

std::string seconds(double value) {
  return value < 1e9 ? fmt::format("{:.0f} s", value) : number(value, " s");
}

// Formats parts after a label; continues below it where a line would be longer than kTopColumns.
std::string labelled(std::string_view label, const std::vector<std::string>& parts) {
  constexpr std::size_t kLabelColumns = 12;
  std::string out = fmt::format("{:<{}}", label, kLabelColumns);
  std::size_t column = kLabelColumns;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::string part =
        parts[i].substr(0, kTopColumns - kLabelColumns - 1) + (i + 1 < parts.size() ? "," : "");
    const bool first = i == 0;
    if (!first && column + 1 + part.size() > kTopColumns) {
      out += "\n" + std::string(kLabelColumns, ' ');
      column = kLabelColumns;
    } else if (!first) {
      out += ' ';
      ++column;
    }
    out += part;
    column += part.size();
  }
  return out + "\n";
}

// Returns a line of a table, cut off where numbers are too long for its columns.
std::string fitted(const std::string& line) { return line.substr(0, kTopColumns) + "\n"; }

// Returns the line on a pause; nothing while delivery continues.
std::string pause_line(const NodeMetrics& now) {
  if (now.paused_s <= 0) return "";
  return labelled("PAUSED",
                  {"for " + seconds(now.paused_s), "shards cannot be read; the log says why"});
}

std::string stall_line(const NodeMetrics& now) {
  if (now.stalled_s <= 0) return "";
  return labelled("STALLED", {"for " + seconds(now.stalled_s), "the log says why"});
}

std::string job_line(const NodeMetrics& now) {
  const auto& oldest = now.queue.oldest;
  return labelled(
      "job", {"epoch " + (oldest ? std::to_string(oldest->epoch) : "-"),
              "step " + (oldest ? std::to_string(oldest->step) : "-"),
              fmt::format("{} of {} connected", now.ranks_present, counted(now.ranks, "rank"))});
}

std::string sample_lines(const NodeMetrics& now) {
  const NodeSummary& summary = now.summary;
  return labelled("samples", {fmt::format("{} delivered", summary.delivered),
                              fmt::format("{} bad", summary.bad),
                              fmt::format("{} decoded again", summary.decoded_again)}) +
         labelled("memory", {bytes(now.memory_bytes) + " of " + bytes(now.memory_budget_bytes),
                             "peak " + bytes(summary.memory_peak_bytes)}) +
         labelled("queues", {counted(now.queue.planned, "microbatch") + " planned",
                             fmt::format("{} unacknowledged", now.queue.unacknowledged),
                             counted(now.waiting_samples, "sample") + " decoded (" +
                                 bytes(now.waiting_bytes) + ")"});
}

// Returns a name in printable ASCII.
std::string ascii(std::string_view name) {
  std::string text;
  for (const char c : name) text += c >= ' ' && c <= '~' ? c : '?';
  return text;
}

// Returns the lines of the servers of shards; nothing where all lie on disks.
std::string server_lines(const NodeMetrics& now) {
  constexpr std::size_t kMostServers = 4;
  std::string out;
  for (std::size_t i = 0; i < std::min(now.stores.size(), kMostServers); ++i) {
    const StoreTotals& store = now.stores[i];
    out += labelled(i == 0 ? "servers" : "",
                    {ascii(store.name), counted(store.requests, "request"),
                     fmt::format("{} in flight", store.in_flight), bytes(store.bytes),
                     fmt::format("{} repeated", store.retries),
                     fmt::format("{} asked to wait", store.throttled)});
  }
  const CacheTotals& cache = now.cache;
  const std::int64_t reads = cache.hits + cache.misses;
  if (reads == 0) return out;
  const double hits = share(static_cast<double>(cache.hits), static_cast<double>(reads));
  return out + labelled("cache", {counted(cache.hits, "read") + " (" + percent(hits) + ")",
                                  bytes(cache.hit_bytes), counted(cache.misses, "miss"),
                                  bytes(cache.kept_bytes) + " written",
                                  fmt::format("{} evicted", cache.evicted)});
}

// Returns which steps trainers are asked to measure.
std::string measured_steps(const CorrectionStatus& correction) {
  if (correction.measuring_stride <= 1) return "measuring every step";
  return fmt::format("measuring one step in {}", correction.measuring_stride);
}

std::string penalties(const CorrectionStatus& correction) {
  std::string out;
  for (std::size_t m = 0; m < kModules; ++m) {
    out += fmt::format("{}{} {}", out.empty() ? "" : " / ", name_of(m),
                       factor(correction.modules.at(m).penalty));
  }
  return out;
}

std::string correction_line(const NodeMetrics& now) {
  const CorrectionStatus& correction = now.correction;
  const char* state = correction.on ? "on" : "paused";
  if (!now.correct) state = "off (correct = off)";
  return labelled("correction",
                  {fmt::format("{}: gain {}", state, percent(correction.gain)),
                   "overhead " + percent(correction.overhead) + " (trainers " +
                       percent(correction.measuring) + ")",
                   measured_steps(correction), "penalties " + penalties(correction),
                   counted(correction.drifts, "drift") +
                       (correction.reprofile_suggested ? " (measure the model profile again)" : ""),
                   counted(now.summary.measurements, "measurement"),
                   fmt::format("{} rejected", now.summary.measurements_rejected)});
}

// Returns the line of a layout's value; nothing before the first estimate.
std::string layout_line(const NodeMetrics& now) {
  if (!std::isfinite(now.layout_gain)) return "";
  const std::string value = now.layout_gain > 0
                                ? "another one would be " + percent(now.layout_gain) +
                                      " faster (simulated; the node's log has the command)"
                                : "none found that is faster (simulated)";
  return labelled("layout", {value});
}

std::string head_lines(const TopView& view, const Growth& growth) {
  const NodeMetrics& now = view.now;
  const TrainingTotals& training = now.training;
  return labelled("isocost top", {view.url, "up " + seconds(now.uptime_s),
                                  "counted over " + seconds(growth.window_s)}) +
         "\n" + pause_line(now) + stall_line(now) + job_line(now) +
         labelled("throughput", {number(growth.samples_per_s, " samples/s"),
                                 number(growth.steps_per_s, " steps/s"),
                                 "decoded " + bytes(growth.decoded_bytes_per_s) + "/s"}) +
         sample_lines(now) + server_lines(now) +
         labelled("plan", {"imbalance " + number(training.imbalance, "", 5),
                           "makespan " + number(training.makespan_s, " s") + " (bound " +
                               number(training.lower_bound_s, " s") + ")"}) +
         labelled("ranks", {"idle " + percent(growth.idle_fraction),
                            "data wait " + percent(growth.data_wait_fraction)}) +
         correction_line(now) + layout_line(now);
}

// Returns the median factor, then the factor that differs most from it, then the number of others
// that differ.
std::string factor_list(const ModuleFactors& factors) {
  constexpr double kLeast = 0.005;
  std::vector<double> values(factors.buckets.begin(), factors.buckets.end());
  if (!std::all_of(values.begin(), values.end(), [](double f) { return std::isfinite(f); })) {
    return "-";
  }
  const double common = median(values);
  std::size_t others = 0;
  std::size_t most = 0;
  double largest = 0;
  for (std::size_t b = 0; b < kShapeBuckets; ++b) {
    const double distance = common > 0 ? std::abs(factors.buckets.at(b) / common - 1) : 0;
    if (distance < kLeast) continue;
    ++others;
    if (distance > largest) most = b;
    largest = std::max(largest, distance);
  }
  std::string out = factor(common);
  if (others > 0) out += ", " + bucket_label(most) + ": " + factor(factors.buckets.at(most));
  return others > 1 ? out + fmt::format(" +{}", others - 1) : out;
}

// Returns the lines of the sources that gave most samples; nothing without a mixture.
std::string source_lines(const Growth& growth) {
  if (growth.sources.empty()) return "";
  std::vector<SourceTotals> sources = growth.sources;
  std::ranges::stable_sort(sources, std::ranges::greater(), &SourceTotals::samples_sent);
  SourceTotals sum;
  for (const SourceTotals& source : sources) {
    sum.samples_sent += source.samples_sent;
    sum.predicted_s += source.predicted_s;
  }
  std::string out = fmt::format("{:>10} {:>8} {:>12} {:>11} {:>8}  {}\n", "samples", "share",
                                "labels", "predicted s", "share", "source");
  for (std::size_t s = 0; s < std::min(sources.size(), kMostSourceLines); ++s) {
    const SourceTotals& source = sources[s];
    out += fitted(fmt::format("{:>10} {:>8} {:>12} {:>11} {:>8}  {}", source.samples_sent,
                              percent(share(static_cast<double>(source.samples_sent),
                                            static_cast<double>(sum.samples_sent))),
                              source.labels_sent, number(source.predicted_s),
                              percent(share(source.predicted_s, sum.predicted_s)),
                              ascii(source.name)));
  }
  if (sources.size() > kMostSourceLines) {
    out += counted(sources.size() - kMostSourceLines, "other source") + " not shown\n";
  }
  return out + "\n";
}

double bias(double predicted, double measured) { return share(predicted - measured, measured); }

std::string module_lines(const NodeMetrics& now, const RankTotals& sum) {
  std::string out =
      fmt::format("{:<6} {:>11} {:>10} {:>8} {:>8} {:>6}  {}\n", "module", "predicted s",
                  "measured s", "bias", "error", "fixed", "factors by length");
  for (std::size_t m = 0; m < kModules; ++m) {
    const ModuleFactors& factors = now.correction.modules.at(m);
    const double predicted = sum.predicted.at(m);
    const double measured = sum.measured.at(m);
    out +=
        fitted(fmt::format("{:<6} {:>11} {:>10} {:>8} {:>8} {:>6}  {}", name_of(m),
                           number(predicted), number(measured), percent(bias(predicted, measured)),
                           percent(now.summary.prediction_error_ratio.at(m)), factor(factors.fixed),
                           factor_list(factors)));
  }
  return out;
}

// Returns the numbers of the ranks to show, in ascending order if all are shown.
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

// Returns a rank's line. The place of a layout's receiver has a line of its own.
std::string rank_line(const NodeMetrics& now, const Growth& growth, std::size_t r) {
  const RankTotals& rank = growth.ranks[r];
  std::string out =
      fmt::format("{:>5} {:>8} {:>9} {:>8} {:>8}", r, factor(now.correction.rank_slowdowns[r]),
                  number(rank.busy), percent(share(rank.idle, rank.busy + rank.idle)),
                  percent(share(rank.data_wait, growth.window_s)));
  for (std::size_t m = 0; m < kModules; ++m) {
    out += fmt::format(" {:>11}", percent(bias(rank.predicted.at(m), rank.measured.at(m))));
  }
  out = fitted(out);
  return now.places.empty() ? out : out + fitted("      " + now.places[r]);
}

std::string rank_lines(const NodeMetrics& now, const Growth& growth, std::size_t most) {
  std::string out =
      fmt::format("{:>5} {:>8} {:>9} {:>8} {:>8}", "rank", "slowdown", "busy s", "idle", "wait");
  for (std::size_t m = 0; m < kModules; ++m) out += fmt::format(" {:>11}", name_of(m) + " bias");
  out += '\n';
  const std::vector<std::size_t> shown = busiest(growth.ranks, most);
  for (const std::size_t r : shown) out += rank_line(now, growth, r);
  const std::size_t hidden = growth.ranks.size() - shown.size();
  return hidden > 0 ? out + counted(hidden, "less busy rank") + " not shown\n" : out;
}

}  // namespace

std::size_t source_rows(const NodeMetrics& now) {
  const std::size_t sources = now.training.sources.size();
  constexpr std::size_t kHeadAndBlank = 2;
  if (sources == 0) return 0;
  return std::min(sources, kMostSourceLines + 1) + kHeadAndBlank;
}

std::string top_json(const TopView& view) {
  const Growth growth = growth_of(view);
  ordered_json json = {{"version", kJsonVersion},
                       {"url", view.url},
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
  if (!growth.sources.empty()) {
    json["sources"] = ordered_json::array();
    for (const SourceTotals& source : growth.sources) {
      json["sources"].push_back({{"source", source.name},
                                 {"samples_sent", source.samples_sent},
                                 {"label_tokens_sent", source.labels_sent},
                                 {"predicted_s", source.predicted_s}});
    }
  }
  json["ranks"] = ordered_json::array();
  for (std::size_t r = 0; r < growth.ranks.size(); ++r) {
    json["ranks"].push_back(rank_json(view.now, growth.ranks[r], r));
  }
  return json.dump(2, ' ', false, ordered_json::error_handler_t::replace);
}

std::string top_table(const TopView& view, std::size_t most_ranks) {
  const Growth growth = growth_of(view);
  return head_lines(view, growth) + "\n" + module_lines(view.now, growth.sum) + "\n" +
         source_lines(growth) + rank_lines(view.now, growth, most_ranks);
}

}  // namespace isocost::cli
