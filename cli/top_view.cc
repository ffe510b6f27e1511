#include "cli/top_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "loader/metrics/reader.h"

namespace isocost::cli {
namespace {

constexpr std::string_view kPrefix = "isocost_";
constexpr std::size_t kMostModules = 16;
constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

bool is_plain(std::string_view name) {
  return !name.empty() && name.size() <= 64 && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
  });
}

bool is_place(std::string_view name) {
  return name.size() <= 64 && std::all_of(name.begin(), name.end(), [](char c) {
           return c == ',' || c == ' ' || is_plain({&c, 1});
         });
}

std::optional<std::int64_t> number_of(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (code != std::errc() || end != text.data() + text.size() || number < 0) return std::nullopt;
  return number;
}

double share(double part, double whole) { return whole > 0 ? part / whole : kUnknown; }

void take_module(Scrape& scrape, const MetricSample& sample, const std::string& name) {
  Scrape::Module& module = scrape.modules[std::string(sample.label("module"))];
  if (name == "prediction_error_ratio") module.error = sample.value;
  if (name == "correction_fixed_factor") module.fixed_factor = sample.value;
  const auto bucket = number_of(sample.label("bucket"));
  if (name == "correction_factor" && bucket) module.factors[*bucket] = sample.value;
}

void take_rank(Scrape& scrape, const MetricSample& sample, const std::string& name,
               std::int64_t number) {
  Scrape::Rank& rank = scrape.ranks[number];
  if (name == "rank_slowdown") rank.slowdown_factor = sample.value;
  if (name == "rank_busy_seconds_total") rank.busy = sample.value;
  if (name == "rank_idle_seconds_total") rank.idle = sample.value;
  if (name == "data_wait_seconds_total") rank.data_wait = sample.value;
  if (name == "rank_place" && is_place(sample.label("place"))) rank.place = sample.label("place");
  const std::string module(sample.label("module"));
  if (module.empty()) return;
  if (name == "predicted_seconds_total") rank.modules[module].predicted = sample.value;
  if (name == "measured_seconds_total") rank.modules[module].measured = sample.value;
}

// None where the module was not measured.
Scrape::Seconds seconds_of(const std::map<std::string, Scrape::Seconds>& modules,
                           const std::string& name) {
  const auto found = modules.find(name);
  return found == modules.end() ? Scrape::Seconds{} : found->second;
}

// What grew since; all of it where the node was started anew meanwhile.
struct Growth {
  explicit Growth(const TopView& view) : now(view.now), before(view.before) {
    if (now.value("uptime_seconds") < before.value("uptime_seconds")) before = Scrape{};
    window = now.value("uptime_seconds") - before.value("uptime_seconds");
  }

  double of(const std::string& counter) const { return now.value(counter) - before.value(counter); }
  double per_second(const std::string& counter) const { return share(of(counter), window); }
  Scrape::Rank of(std::int64_t number) const {
    Scrape::Rank rank = now.ranks.at(number);
    const auto old = before.ranks.find(number);
    if (old == before.ranks.end()) return rank;
    rank.busy -= old->second.busy;
    rank.idle -= old->second.idle;
    rank.data_wait -= old->second.data_wait;
    for (auto& [name, seconds] : rank.modules) {
      const auto its = old->second.modules.find(name);
      if (its == old->second.modules.end()) continue;
      seconds.predicted -= its->second.predicted;
      seconds.measured -= its->second.measured;
    }
    return rank;
  }

  const Scrape& now;
  Scrape before;
  double window = 0;
};

// Sums and shares over all ranks.
struct Sums {
  std::map<std::string, Scrape::Seconds> modules;
  double idle_share = kUnknown;
  double data_wait_share = kUnknown;
};

Sums sums_of(const Growth& growth) {
  Sums sums;
  double busy = 0;
  double idle = 0;
  double wait = 0;
  for (const auto& [number, ignored] : growth.now.ranks) {
    const Scrape::Rank rank = growth.of(number);
    busy += rank.busy;
    idle += rank.idle;
    wait += rank.data_wait;
    for (const auto& [name, seconds] : rank.modules) {
      sums.modules[name].predicted += seconds.predicted;
      sums.modules[name].measured += seconds.measured;
    }
  }
  sums.idle_share = share(idle, busy + idle);
  sums.data_wait_share = share(wait, growth.window * static_cast<double>(growth.now.ranks.size()));
  return sums;
}

nlohmann::ordered_json json_of(const Scrape::Seconds& seconds) {
  return {{"predicted_s", seconds.predicted}, {"measured_s", seconds.measured}};
}

nlohmann::ordered_json json_of(const Scrape::Module& module, const Scrape::Seconds& seconds) {
  nlohmann::ordered_json json = json_of(seconds);
  json["mape"] = module.error;
  json["fixed_factor"] = module.fixed_factor;
  for (const auto& [bucket, factor] : module.factors) {
    json["factors"][std::to_string(bucket)] = factor;
  }
  return json;
}

nlohmann::ordered_json json_of(std::int64_t number, const Scrape::Rank& rank) {
  nlohmann::ordered_json json = {{"rank", number},
                                 {"slowdown_factor", rank.slowdown_factor},
                                 {"busy_s", rank.busy},
                                 {"idle_s", rank.idle},
                                 {"data_wait_s", rank.data_wait}};
  if (!rank.place.empty()) json["place"] = rank.place;
  for (const auto& [name, seconds] : rank.modules) json["modules"][name] = json_of(seconds);
  return json;
}

std::string number(double value, const char* unit = "", int digits = 4) {
  return std::isfinite(value) ? fmt::format("{:.{}g}{}", value, digits, unit) : std::string("-");
}

std::string percent(double value) {
  return std::isfinite(value) ? fmt::format("{:.2f} %", 100 * value) : std::string("-");
}

std::string bytes(double value) {
  if (!std::isfinite(value)) return "-";
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  for (; value >= 1024 && unit + 1 < std::size(kUnits); ++unit) value /= 1024;
  return fmt::format("{:.{}f} {}", value, unit == 0 ? 0 : 1, kUnits[unit]);
}

// How far predictions were off in sum; positive: too expensive.
double bias(const Scrape::Seconds& seconds) {
  return share(seconds.predicted - seconds.measured, seconds.measured);
}

std::string head_lines(const TopView& view, const Growth& growth, const Sums& sums) {
  const Scrape& now = view.now;
  const auto v = [&now](const char* name) { return now.value(name); };
  std::string out = fmt::format("isocost top  {}  up {:.0f} s, counted over {:.0f} s\n\n", view.url,
                                v("uptime_seconds"), growth.window);
  out += fmt::format("job         epoch {}, step {}; {:.0f} of {:.0f} ranks connected\n",
                     number(now.known("epoch"), "", 9), number(now.known("step"), "", 9),
                     v("ranks_connected"), v("ranks"));
  out += fmt::format("throughput  {}, {}, decoded {}/s\n",
                     number(growth.per_second("samples_delivered_total"), " samples/s"),
                     number(growth.per_second("steps_planned_total"), " steps/s"),
                     bytes(growth.per_second("decoded_bytes_total")));
  out += fmt::format("samples     {:.0f} delivered, {:.0f} bad, {:.0f} decoded again\n",
                     v("samples_delivered_total"), v("samples_bad_total"),
                     v("samples_decoded_again_total"));
  out += fmt::format("memory      {} of {}, peak {}\n", bytes(v("memory_in_use_bytes")),
                     bytes(v("memory_budget_bytes")), bytes(v("memory_peak_bytes")));
  out += fmt::format(
      "queues      planned {:.0f} microbatches, decoded {:.0f} samples ({}), unacknowledged {:.0f} "
      "microbatches\n",
      v("queue_planned_microbatches"), v("queue_decoded_samples"), bytes(v("queue_decoded_bytes")),
      v("queue_unacknowledged_microbatches"));
  out += fmt::format("plan        imbalance {}, makespan {} (bound {})\n",
                     number(now.known("plan_imbalance_ratio"), "", 5),
                     number(now.known("plan_makespan_seconds"), " s"),
                     number(now.known("plan_lower_bound_seconds"), " s"));
  out += fmt::format("ranks       idle {}, data wait {}\n", percent(sums.idle_share),
                     percent(sums.data_wait_share));
  return out;
}

std::string correction_line(const Scrape& now) {
  const auto v = [&now](const char* name) { return now.value(name); };
  const char* gate = v("correction_on") > 0 ? "on" : "shut";
  if (v("correction_enabled") == 0) gate = "off (correct = off)";
  return fmt::format(
      "correction  {}: gain {} against overhead {}; {:.0f} drifts{}; {:.0f} measured, {:.0f} "
      "rejected\n",
      gate, percent(v("correction_gain_ratio")), percent(v("correction_overhead_ratio")),
      v("drifts_total"), v("reprofile_suggested") > 0 ? " (profile again)" : "",
      v("measurements_total"), v("measurements_rejected_total"));
}

// What most buckets have, then those that differ, the farthest first.
std::string factor_list(const Scrape::Module& module) {
  constexpr std::size_t kMost = 4;
  constexpr double kLeast = 0.005;
  if (module.factors.empty()) return "";
  std::vector<double> sorted;
  sorted.reserve(module.factors.size());
  for (const auto& [bucket, factor] : module.factors) sorted.push_back(factor);
  std::sort(sorted.begin(), sorted.end());
  const double common = sorted[sorted.size() / 2];
  const auto distance = [common](double factor) { return std::abs(factor / common - 1); };

  std::vector<std::pair<std::int64_t, double>> others;
  for (const auto& factor : module.factors) {
    if (distance(factor.second) >= kLeast) others.emplace_back(factor);
  }
  std::sort(others.begin(), others.end(), [&distance](const auto& a, const auto& b) {
    return std::pair(distance(b.second), a.first) < std::pair(distance(a.second), b.first);
  });
  std::string out = fmt::format("{:.3f}", common);
  for (std::size_t i = 0; i < std::min(others.size(), kMost); ++i) {
    out += fmt::format(", {}: {:.3f}", others[i].first, others[i].second);
  }
  return others.size() > kMost ? out + fmt::format(", {} more", others.size() - kMost) : out;
}

std::string module_lines(const Scrape& now, const Sums& sums) {
  std::string out =
      fmt::format("{:<8} {:>12} {:>12} {:>9} {:>9} {:>7}  {}\n", "module", "predicted s",
                  "measured s", "off by", "MAPE", "fixed", "factors by length");
  for (const auto& [name, module] : now.modules) {
    const Scrape::Seconds seconds = seconds_of(sums.modules, name);
    out += fmt::format("{:<8} {:>12} {:>12} {:>9} {:>9} {:>7.3f}  {}\n", name,
                       number(seconds.predicted), number(seconds.measured), percent(bias(seconds)),
                       percent(module.error), module.fixed_factor, factor_list(module));
  }
  return out;
}

std::string rank_lines(const Growth& growth, std::size_t most) {
  std::vector<std::pair<std::int64_t, Scrape::Rank>> ranks;
  ranks.reserve(growth.now.ranks.size());
  for (const auto& [number, ignored] : growth.now.ranks) {
    ranks.emplace_back(number, growth.of(number));
  }
  if (ranks.size() > most) {
    std::stable_sort(ranks.begin(), ranks.end(),
                     [](const auto& a, const auto& b) { return a.second.busy > b.second.busy; });
    ranks.resize(most);
  }
  std::string out =
      fmt::format("{:>5} {:>7} {:>8} {:>8} {:>8}", "rank", "factor", "busy s", "idle", "wait");
  for (const auto& [name, ignored] : growth.now.modules) {
    out += fmt::format("  {:>16}", name + " pred/meas");
  }
  const bool places = std::any_of(ranks.begin(), ranks.end(),
                                  [](const auto& rank) { return !rank.second.place.empty(); });
  out += places ? "  place\n" : "\n";
  for (const auto& [rank_number, rank] : ranks) {
    out += fmt::format("{:>5} {:>7.3f} {:>8} {:>8} {:>8}", rank_number, rank.slowdown_factor,
                       number(rank.busy), percent(share(rank.idle, rank.busy + rank.idle)),
                       percent(share(rank.data_wait, growth.window)));
    for (const auto& [name, ignored] : growth.now.modules) {
      const Scrape::Seconds seconds = seconds_of(rank.modules, name);
      out += fmt::format("  {:>16}", number(seconds.predicted) + "/" + number(seconds.measured));
    }
    out += rank.place.empty() ? "\n" : "  " + rank.place + "\n";
  }
  const std::size_t hidden = growth.now.ranks.size() - ranks.size();
  return hidden > 0 ? out + fmt::format("{} ranks that were less busy are not shown\n", hidden)
                    : out;
}

}  // namespace

double Scrape::known(const std::string& name) const {
  const auto found = values.find(name);
  return found == values.end() ? kUnknown : found->second;
}

double Scrape::value(const std::string& name) const {
  const auto found = values.find(name);
  return found == values.end() ? 0 : found->second;
}

Result<Scrape> read_scrape(std::string_view text) {
  ISOCOST_ASSIGN(const std::vector<MetricSample> samples, parse_prometheus_text(text));
  Scrape scrape;
  for (const MetricSample& sample : samples) {
    if (!sample.name.starts_with(kPrefix) || !std::isfinite(sample.value)) continue;
    const std::string name = sample.name.substr(kPrefix.size());
    const std::string_view module = sample.label("module");
    if (!is_plain(name + std::string(module))) {
      return Error(ErrorCode::kCorrupt, "the metrics name a module or metric that cannot be");
    }
    if (!module.empty()) scrape.modules.try_emplace(std::string(module));
    if (scrape.modules.size() > kMostModules) {
      return Error(ErrorCode::kCorrupt, "the metrics name more than 16 modules");
    }
    if (sample.labels.empty()) {
      scrape.values[name] = sample.value;
    } else if (const auto rank = number_of(sample.label("rank"))) {
      take_rank(scrape, sample, name, *rank);
    } else if (!module.empty()) {
      take_module(scrape, sample, name);
    }
  }
  if (!scrape.values.contains("uptime_seconds")) {
    return Error(ErrorCode::kUnsupported,
                 "these are another program's metrics: isocost_uptime_seconds is not among them");
  }
  return scrape;
}

std::string top_json(const TopView& view) {
  const Growth growth(view);
  const Sums sums = sums_of(growth);
  nlohmann::ordered_json json = {{"url", view.url},
                                 {"window_s", growth.window},
                                 {"samples_per_s", growth.per_second("samples_delivered_total")},
                                 {"steps_per_s", growth.per_second("steps_planned_total")},
                                 {"decoded_bytes_per_s", growth.per_second("decoded_bytes_total")},
                                 {"idle_share", sums.idle_share},
                                 {"data_wait_share", sums.data_wait_share}};
  json["node"] = view.now.values;
  json["modules"] = nlohmann::ordered_json::object();
  for (const auto& [name, module] : view.now.modules) {
    json["modules"][name] = json_of(module, seconds_of(sums.modules, name));
  }
  json["ranks"] = nlohmann::ordered_json::array();
  for (const auto& [number, ignored] : view.now.ranks) {
    json["ranks"].push_back(json_of(number, growth.of(number)));
  }
  return json.dump(2);
}

std::string top_table(const TopView& view, std::size_t most_ranks) {
  const Growth growth(view);
  const Sums sums = sums_of(growth);
  return head_lines(view, growth, sums) + correction_line(view.now) + "\n" +
         module_lines(view.now, sums) + "\n" + rank_lines(growth, most_ranks);
}

}  // namespace isocost::cli
