#include "loader/metrics/status_json.h"

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/counted.h"
#include "base/json_object.h"

namespace isocost {
namespace {

using nlohmann::ordered_json;

constexpr std::int64_t kVersion = 2;
constexpr const char* kKind = "node status";
constexpr JsonFormat kFormat{.name = kKind,
                             .max_bytes = std::size_t{64} << 20,
                             .remedy = "use the isocost top of the node's own version"};
constexpr std::size_t kMostRanks = 100'000;  // the limit of PlanOptions
constexpr std::size_t kMostPlaceLetters = 64;
constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

// Returns a number that JSON can hold: it is finite, and not a little below 0, as a difference may
// be after rounding.
double amount_of(double value) { return std::isfinite(value) ? std::max(value, 0.0) : 0; }

bool is_place(std::string_view text) {
  return text.size() <= kMostPlaceLetters && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == ',' || c == ' ';
         });
}

// Writer and Reader offer the same functions, so that one list of fields, below, serves both.
class Writer {
 public:
  static constexpr bool kReads = false;
  explicit Writer(ordered_json& object) : object_(object) {}

  template <std::integral Number>
  void count(const std::string& name, Number value) {
    object_[name] = value;
  }
  void flag(const std::string& name, bool value) { object_[name] = value; }
  void amount(const std::string& name, double value) {
    if (std::isfinite(value)) object_[name] = amount_of(value);
  }
  void position(const std::optional<Position>& position) {
    if (!position) return;
    object_["epoch"] = position->epoch;
    object_["step"] = position->step;
  }
  template <typename Of>
  void column(const std::string& name, std::size_t rows, const Of& of) {
    ordered_json values = ordered_json::array();
    for (std::size_t row = 0; row < rows; ++row) values.push_back(amount_of(of(row)));
    object_[name] = std::move(values);
  }
  void places(const std::string& name, const std::vector<std::string>& places, std::size_t) {
    if (!places.empty()) object_[name] = places;
  }
  template <typename Visit>
  void object(const std::string& name, const Visit& visit) {
    ordered_json inner = ordered_json::object();
    Writer writer(inner);
    visit(writer);
    object_[name] = std::move(inner);
  }

 private:
  ordered_json& object_;
};

// Reads values; stops at the first error, which `status` holds.
class Reader {
 public:
  static constexpr bool kReads = true;
  Reader(JsonObject object, Status& status) : object_(std::move(object)), status_(status) {}

  template <std::integral Number>
  void count(const std::string& name, Number& value) {
    constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<Number>::max());
    constexpr auto kLimit = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    std::int64_t read = 0;
    take(name, object_.whole(name, 0, static_cast<std::int64_t>(std::min(kMost, kLimit))), read);
    value = static_cast<Number>(read);
  }
  void flag(const std::string& name, bool& value) { take(name, object_.flag(name), value); }
  void amount(const std::string& name, double& value) {
    value = kUnknown;
    if (object_.has(name)) take(name, object_.amount(name), value);
  }
  void position(std::optional<Position>& position) {
    if (!object_.has("epoch") && !object_.has("step")) return;
    position.emplace();
    count("epoch", position->epoch);
    count("step", position->step);
  }
  template <typename Of>
  void column(const std::string& name, std::size_t rows, const Of& of) {
    std::vector<double> values;
    take(name, object_.amounts(name, kMostRanks), values);
    if (!check_rows(name, values.size(), rows)) return;
    for (std::size_t row = 0; row < rows; ++row) of(row) = values[row];
  }
  void places(const std::string& name, std::vector<std::string>& places, std::size_t rows) {
    if (!object_.has(name)) return;
    take(name, object_.text_list(name, kMostRanks), places);
    if (!check_rows(name, places.size(), rows)) return;
    if (!std::all_of(places.begin(), places.end(), is_place)) {
      status_ = object_.wrong(name, "must name places like 'llm, data 0, stage 1, tensor 0'");
    }
  }
  template <typename Visit>
  void object(const std::string& name, const Visit& visit) {
    known_.push_back(name);
    if (!status_) return;
    auto inner = object_.object(name);
    if (!inner) {
      status_ = std::move(inner).error();
      return;
    }
    Reader reader(*std::move(inner), status_);
    visit(reader);
    reader.finish();
  }
  void finish() const {
    if (!status_) return;
    const std::vector<std::string_view> known(known_.begin(), known_.end());
    status_ = object_.only_keys(std::span(known));
  }

 private:
  template <typename Value>
  void take(const std::string& name, Result<Value> read, Value& value) {
    known_.push_back(name);
    if (!status_) return;
    if (read) {
      value = *std::move(read);
    } else {
      status_ = std::move(read).error();
    }
  }
  bool check_rows(const std::string& name, std::size_t rows, std::size_t wanted) {
    if (status_ && rows != wanted) {
      status_ =
          object_.wrong(name, "must have " + counted(wanted, "entry") + ", as rank_slowdown has");
    }
    return status_.has_value();
  }

  JsonObject object_;
  Status& status_;
  std::vector<std::string> known_;
};

// Visits the metrics without labels, in the order of /metrics.
template <typename Visitor, typename Metrics>
void visit_node(Visitor& at, Metrics& node) {
  at.amount("uptime_seconds", node.uptime_s);
  at.count("ranks", node.ranks);
  at.count("ranks_connected", node.ranks_present);
  at.position(node.queue.oldest);
  at.count("epochs_planned_total", node.summary.epochs);
  at.count("steps_planned_total", node.summary.steps);
  const auto steps = static_cast<double>(node.summary.steps);
  double planning_s = node.summary.plan_seconds_mean * steps;
  at.amount("planning_seconds_total", planning_s);
  if constexpr (Visitor::kReads) {
    node.summary.plan_seconds_mean = steps > 0 ? planning_s / steps : 0;
  }
  at.count("steps_delivered_total", node.summary.steps_delivered);
  at.count("samples_planned_total", node.summary.planned);
  at.count("samples_delivered_total", node.summary.delivered);
  at.count("samples_sent_total", node.training.samples_sent);
  at.count("microbatches_sent_total", node.training.microbatches_sent);
  at.count("microbatches_shared_total", node.microbatches_shared);
  at.count("samples_bad_total", node.summary.bad);
  at.count("samples_replaced_total", node.summary.replaced);
  at.count("samples_repeated_total", node.summary.repeated);
  at.count("samples_over_limit_total", node.summary.over_limit);
  at.count("samples_dropped_total", node.summary.dropped);
  at.count("samples_decoded_again_total", node.summary.decoded_again);
  at.count("decoded_bytes_total", node.decoded_bytes);
  at.count("memory_in_use_bytes", node.memory_bytes);
  at.count("memory_peak_bytes", node.summary.memory_peak_bytes);
  at.count("memory_budget_bytes", node.memory_budget_bytes);
  at.amount("paused_seconds", node.paused_s);
  at.amount("stalled_seconds", node.stalled_s);
  at.count("queue_steps", node.queue.steps);
  at.count("queue_planned_microbatches", node.queue.planned);
  at.count("queue_unacknowledged_microbatches", node.queue.unacknowledged);
  at.count("queue_decoded_samples", node.waiting_samples);
  at.count("queue_decoded_bytes", node.waiting_bytes);
  at.amount("plan_imbalance_ratio", node.training.imbalance);
  at.amount("plan_makespan_seconds", node.training.makespan_s);
  at.amount("plan_lower_bound_seconds", node.training.lower_bound_s);
  at.count("measured_steps_total", node.training.measured_steps);
  at.count("measurements_total", node.summary.measurements);
  at.count("measurements_rejected_total", node.summary.measurements_rejected);
  at.flag("correction_enabled", node.correct);
  at.flag("correction_on", node.correction.on);
  at.amount("correction_gain_ratio", node.correction.gain);
  at.amount("correction_overhead_ratio", node.correction.overhead);
  at.count("drifts_total", node.correction.drifts);
  at.flag("reprofile_suggested", node.correction.reprofile_suggested);
  at.count("reprofiles_total", node.summary.reprofiles);
}

template <typename Visitor, typename Metrics>
void visit_module(Visitor& at, Metrics& node, std::size_t module) {
  auto& factors = node.correction.modules.at(module);
  at.amount("prediction_error_ratio", node.summary.prediction_error_ratio.at(module));
  at.amount("prediction_noise_ratio", factors.noise);
  at.amount("correction_fixed_factor", factors.fixed);
  at.object("correction_factor", [&](auto& buckets) {
    for (std::size_t b = 0; b < kShapeBuckets; ++b) {
      buckets.amount(bucket_label(b), factors.buckets.at(b));
    }
  });
}

template <typename Visitor, typename Metrics>
void visit_ranks(Visitor& at, Metrics& node, std::size_t rows) {
  auto& ranks = node.training.ranks;
  at.column("rank_slowdown", rows,
            [&](std::size_t r) -> auto& { return node.correction.rank_slowdowns[r]; });
  at.column("rank_busy_seconds_total", rows, [&](std::size_t r) -> auto& { return ranks[r].busy; });
  at.column("rank_idle_seconds_total", rows, [&](std::size_t r) -> auto& { return ranks[r].idle; });
  at.column("data_wait_seconds_total", rows,
            [&](std::size_t r) -> auto& { return ranks[r].data_wait; });
  at.column("forward_seconds_total", rows,
            [&](std::size_t r) -> auto& { return ranks[r].forward; });
  for (const auto& [name, member] : {std::pair("predicted_seconds_total", &RankTotals::predicted),
                                     std::pair("measured_seconds_total", &RankTotals::measured)}) {
    at.object(name, [&ranks, rows, member = member](auto& modules) {
      for (std::size_t m = 0; m < kModules; ++m) {
        modules.column(std::string(module_name(static_cast<Module>(m))), rows,
                       [&](std::size_t r) -> auto& { return (ranks[r].*member).at(m); });
      }
    });
  }
  at.places("rank_place", node.places, rows);
}

template <typename Visitor, typename Metrics>
void visit_status(Visitor& at, Metrics& node, std::size_t rows) {
  at.object("node", [&](auto& fields) { visit_node(fields, node); });
  at.object("modules", [&](auto& modules) {
    for (std::size_t m = 0; m < kModules; ++m) {
      modules.object(std::string(module_name(static_cast<Module>(m))),
                     [&](auto& module) { visit_module(module, node, m); });
    }
  });
  at.object("ranks", [&](auto& ranks) { visit_ranks(ranks, node, rows); });
}

// Returns the metrics with one entry per rank in every list.
NodeMetrics with_equal_lists(NodeMetrics node) {
  const std::size_t rows = std::max(
      {node.training.ranks.size(), node.places.size(), node.correction.rank_slowdowns.size()});
  node.training.ranks.resize(rows);
  node.correction.rank_slowdowns.resize(rows, 1);
  if (!node.places.empty()) node.places.resize(rows);
  return node;
}

// Checks the head before the rest, since another program's document is not a broken one.
Status check_head(const JsonObject& document) {
  const auto kind = document.text("kind");
  if (!kind || *kind != kKind) {
    return Error(ErrorCode::kUnsupported, "this is not the status of an Isocost node");
  }
  return document.check_version(kVersion);
}

}  // namespace

std::string status_json(const NodeMetrics& metrics) {
  NodeMetrics node = with_equal_lists(metrics);
  node.correction.on = node.correct && node.correction.on;
  ordered_json document = {{"version", kVersion}, {"kind", kKind}};
  Writer writer(document);
  visit_status(writer, std::as_const(node), node.training.ranks.size());
  return document.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

Result<NodeMetrics> parse_status(std::string_view json) {
  ISOCOST_ASSIGN(const JsonObject document, JsonObject::parse(json, kFormat));
  ISOCOST_TRY(check_head(document));
  ISOCOST_TRY(document.only_keys({"version", "kind", "node", "modules", "ranks"}));
  ISOCOST_ASSIGN(const JsonObject ranks, document.object("ranks"));
  ISOCOST_ASSIGN(const std::vector<double> slowdowns, ranks.amounts("rank_slowdown", kMostRanks));
  NodeMetrics node;
  node.training.ranks.resize(slowdowns.size());
  node.correction.rank_slowdowns.resize(slowdowns.size());
  Status status;
  Reader reader(document, status);
  visit_status(reader, node, slowdowns.size());
  ISOCOST_TRY(std::move(status));
  if (!std::isfinite(node.uptime_s)) return document.wrong("node.uptime_seconds", "is missing");
  return node;
}

}  // namespace isocost
