#include "loader/metrics/status_json.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/counted.h"
#include "base/json_object.h"
#include "loader/metrics/internal/metric_table.h"

namespace isocost {
namespace {

using nlohmann::ordered_json;

constexpr std::int64_t kVersion = 2;
constexpr const char* kKind = "node status";
constexpr JsonFormat kFormat{.name = kKind,
                             .max_bytes = std::size_t{64} << 20,
                             .remedy = "use the isocost top of the node's own version"};
constexpr std::size_t kMostRanks = 100'000;  // the limit of PlanOptions
constexpr std::size_t kMostNamed = 100'000;  // sources of a mixture, servers of its data
constexpr std::size_t kMostPlaceLetters = 64;
constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

// Returns the key of the table with a row of this kind for each name.
template <typename Row>
std::string list_of() {
  return std::string(Row::kLabel) + "s";
}

// Returns a number that JSON can hold: it is finite, and not a little below 0, as a difference may
// be after rounding.
double amount_of(double value) { return std::isfinite(value) ? std::max(value, 0.0) : 0; }

std::string module_key(std::size_t module) {
  return std::string(module_name(static_cast<CostModule>(module)));
}

bool is_place(std::string_view text) {
  return text.size() <= kMostPlaceLetters && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == ',' || c == ' ';
         });
}

// The fields of an object, which it puts into their order at the end.
class Fields {
 public:
  template <typename Value>
  void set(const MetricInfo& info, Value&& value) {
    fields_.push_back({info.json_order, info.name, std::forward<Value>(value)});
  }
  ordered_json object() && {
    std::stable_sort(fields_.begin(), fields_.end(),
                     [](const Field& a, const Field& b) { return a.order < b.order; });
    ordered_json object = ordered_json::object();
    for (Field& field : fields_) object[field.name] = std::move(field.value);
    return object;
  }

 private:
  struct Field {
    int order;
    const char* name;
    ordered_json value;
  };
  std::vector<Field> fields_;
};

// Writes the metrics.
class Writer {
 public:
  static constexpr bool kReads = false;

  template <std::integral Number>
  void count(const MetricInfo& info, Number value) {
    node_.set(info, value);
  }
  void flag(const MetricInfo& info, bool value) { node_.set(info, value); }
  void amount(const MetricInfo& info, double value) {
    if (std::isfinite(value)) node_.set(info, amount_of(value));
  }
  void position(const MetricInfo& epoch, const MetricInfo& step,
                const std::optional<Position>& position) {
    if (!position) return;
    node_.set(epoch, position->epoch);
    node_.set(step, position->step);
  }
  void places(const MetricInfo& info, const std::vector<std::string>& places) {
    if (!places.empty()) ranks_.set(info, places);
  }
  template <typename Of>
  void by_module(const MetricInfo& info, const Of& of) {
    for (std::size_t m = 0; m < kModules; ++m) {
      if (std::isfinite(of(m))) modules_.at(m).set(info, amount_of(of(m)));
    }
  }
  template <typename Of>
  void by_bucket(const MetricInfo& info, const Of& of) {
    for (std::size_t m = 0; m < kModules; ++m) {
      ordered_json buckets = ordered_json::object();
      for (std::size_t b = 0; b < kShapeBuckets; ++b) {
        if (std::isfinite(of(m, b))) buckets[bucket_label(b)] = amount_of(of(m, b));
      }
      modules_.at(m).set(info, std::move(buckets));
    }
  }
  void by_rank(const MetricInfo& info, const std::vector<RankTotals>& ranks,
               double RankTotals::* member) {
    ranks_.set(info, column(ranks, [&](const RankTotals& rank) { return rank.*member; }));
  }
  void by_module_and_rank(const MetricInfo& info, const std::vector<RankTotals>& ranks,
                          ModuleSeconds RankTotals::* member) {
    ordered_json modules = ordered_json::object();
    for (std::size_t m = 0; m < kModules; ++m) {
      modules[module_key(m)] =
          column(ranks, [&](const RankTotals& rank) { return (rank.*member).at(m); });
    }
    ranks_.set(info, std::move(modules));
  }
  void slowdowns(const MetricInfo& info, const std::vector<double>& slowdowns, std::size_t) {
    ranks_.set(info, column(slowdowns, [](double slowdown) { return slowdown; }));
  }

  template <typename Row, typename Of>
  void by_name(const MetricInfo& info, const std::vector<Row>& rows, const Of& of) {
    if (rows.empty()) return;
    ordered_json names = ordered_json::array();
    ordered_json values = ordered_json::array();
    for (const Row& row : rows) {
      names.push_back(row.name);
      values.push_back(of(row));
    }
    ordered_json& table = named_[list_of<Row>()];
    table[Row::kLabel] = std::move(names);
    table[info.name] = std::move(values);
  }

  ordered_json document() && {
    ordered_json modules = ordered_json::object();
    for (std::size_t m = 0; m < kModules; ++m) {
      modules[module_key(m)] = std::move(modules_.at(m)).object();
    }
    ordered_json document = {{"version", kVersion}, {"kind", kKind}};
    document["node"] = std::move(node_).object();
    document["modules"] = std::move(modules);
    document["ranks"] = std::move(ranks_).object();
    document.update(named_);
    return document;
  }

 private:
  template <typename Row, typename Of>
  static ordered_json column(const std::vector<Row>& rows, const Of& of) {
    ordered_json values = ordered_json::array();
    for (const Row& row : rows) values.push_back(amount_of(of(row)));
    return values;
  }

  Fields node_;
  std::array<Fields, kModules> modules_;
  Fields ranks_;
  ordered_json named_ = ordered_json::object();  // tables with rows of names
};

// Reads an object; stops at the first error, which `status` holds.
class ObjectReader {
 public:
  ObjectReader(JsonObject object, Status& status) : object_(std::move(object)), status_(status) {}

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
  void position(const std::string& epoch, const std::string& step,
                std::optional<Position>& position) {
    if (!object_.has(epoch) && !object_.has(step)) return;
    position.emplace();
    count(epoch, position->epoch);
    count(step, position->step);
  }
  template <typename Of>
  void column(const std::string& name, std::size_t rows, const Of& of) {
    std::vector<double> values;
    take(name, object_.amounts(name, kMostRanks), values);
    if (!check_rows(name, values.size(), rows)) return;
    for (std::size_t row = 0; row < rows; ++row) of(row) = values[row];
  }
  // Reads one number for each row.
  template <typename Row, typename Of>
  void by_name(const std::string& name, std::vector<Row>& rows, const Of& of) {
    using Number = std::remove_reference_t<decltype(of(rows.front()))>;
    if constexpr (std::integral<Number>) {
      std::vector<std::int64_t> values;
      take(name, object_.wholes(name, kMostNamed, 0, std::numeric_limits<std::int64_t>::max()),
           values);
      set_rows(name, values, rows, of);
    } else {
      std::vector<double> values;
      take(name, object_.amounts(name, kMostNamed), values);
      set_rows(name, values, rows, of);
    }
  }
  template <typename Row>
  void names(std::vector<Row>& rows) {
    std::vector<std::string> names;
    take(Row::kLabel, object_.text_list(Row::kLabel, kMostNamed), names);
    for (std::string& name : names) rows.push_back({.name = std::move(name)});
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
    ObjectReader reader(*std::move(inner), status_);
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
  template <typename Values, typename Row, typename Of>
  void set_rows(const std::string& name, const Values& values, std::vector<Row>& rows,
                const Of& of) {
    if (!status_) return;
    if (values.size() != rows.size()) {
      status_ = object_.wrong(
          name, "must have " + counted(rows.size(), "entry") + ", as " + Row::kLabel + " has");
      return;
    }
    for (std::size_t r = 0; r < rows.size(); ++r) {
      auto& value = of(rows[r]);
      value = static_cast<std::remove_reference_t<decltype(value)>>(values[r]);
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

// Reads the metrics into lists with an entry for each rank.
class Reader {
 public:
  static constexpr bool kReads = true;
  /// `named`: tables with rows of names, by their labels.
  Reader(ObjectReader& node, std::vector<ObjectReader>& modules, ObjectReader& ranks,
         std::map<std::string, ObjectReader>& named, std::size_t rows)
      : node_(node), modules_(modules), ranks_(ranks), named_(named), rows_(rows) {}

  template <std::integral Number>
  void count(const MetricInfo& info, Number& value) {
    node_.count(info.name, value);
  }
  void flag(const MetricInfo& info, bool& value) { node_.flag(info.name, value); }
  void amount(const MetricInfo& info, double& value) { node_.amount(info.name, value); }
  void position(const MetricInfo& epoch, const MetricInfo& step,
                std::optional<Position>& position) {
    node_.position(epoch.name, step.name, position);
  }
  void places(const MetricInfo& info, std::vector<std::string>& places) {
    ranks_.places(info.name, places, rows_);
  }
  template <typename Of>
  void by_module(const MetricInfo& info, const Of& of) {
    for (std::size_t m = 0; m < kModules; ++m) modules_[m].amount(info.name, of(m));
  }
  template <typename Of>
  void by_bucket(const MetricInfo& info, const Of& of) {
    for (std::size_t m = 0; m < kModules; ++m) {
      modules_[m].object(info.name, [&](ObjectReader& buckets) {
        for (std::size_t b = 0; b < kShapeBuckets; ++b) buckets.amount(bucket_label(b), of(m, b));
      });
    }
  }
  void by_rank(const MetricInfo& info, std::vector<RankTotals>& ranks,
               double RankTotals::* member) {
    ranks_.column(info.name, rows_, [&](std::size_t r) -> double& { return ranks[r].*member; });
  }
  void by_module_and_rank(const MetricInfo& info, std::vector<RankTotals>& ranks,
                          ModuleSeconds RankTotals::* member) {
    ranks_.object(info.name, [&](ObjectReader& modules) {
      for (std::size_t m = 0; m < kModules; ++m) {
        modules.column(module_key(m), rows_,
                       [&](std::size_t r) -> double& { return (ranks[r].*member).at(m); });
      }
    });
  }
  void slowdowns(const MetricInfo& info, std::vector<double>& slowdowns, std::size_t) {
    ranks_.column(info.name, rows_, [&](std::size_t r) -> double& { return slowdowns[r]; });
  }
  template <typename Row, typename Of>
  void by_name(const MetricInfo& info, std::vector<Row>& rows, const Of& of) {
    const auto table = named_.find(Row::kLabel);
    if (table != named_.end()) table->second.by_name(info.name, rows, of);
  }

 private:
  ObjectReader& node_;
  std::vector<ObjectReader>& modules_;
  ObjectReader& ranks_;
  std::map<std::string, ObjectReader>& named_;
  const std::size_t rows_;
};

// Returns the metrics with one entry per rank in every list.
NodeMetrics with_equal_lists(NodeMetrics node) {
  const std::size_t rows = std::max(
      {node.training.ranks.size(), node.places.size(), node.correction.rank_slowdowns.size()});
  node.training.ranks.resize(rows);
  node.correction.rank_slowdowns.resize(rows, 1);
  if (!node.places.empty()) node.places.resize(rows);
  return node;
}

// Begins to read the table with a row of this kind for each name, if there is one.
template <typename Row>
Status read_names(const JsonObject& document, std::vector<Row>& rows,
                  std::map<std::string, ObjectReader>& named, Status& status) {
  if (!document.has(list_of<Row>())) return {};
  ISOCOST_ASSIGN(JsonObject table, document.object(list_of<Row>()));
  named.try_emplace(Row::kLabel, std::move(table), status).first->second.names(rows);
  return {};
}

// Reads all values, with `rows` entries in every list.
Status read_values(const JsonObject& document, std::size_t rows, NodeMetrics& node) {
  Status status;
  ISOCOST_ASSIGN(JsonObject node_object, document.object("node"));
  ObjectReader node_reader(std::move(node_object), status);
  ISOCOST_ASSIGN(const JsonObject modules, document.object("modules"));
  std::vector<std::string> names;
  std::vector<ObjectReader> module_readers;
  for (std::size_t m = 0; m < kModules; ++m) {
    names.push_back(module_key(m));
    ISOCOST_ASSIGN(JsonObject module, modules.object(names.back()));
    module_readers.emplace_back(std::move(module), status);
  }
  const std::vector<std::string_view> known(names.begin(), names.end());
  ISOCOST_TRY(modules.only_keys(std::span(known)));
  ISOCOST_ASSIGN(JsonObject ranks, document.object("ranks"));
  ObjectReader rank_reader(std::move(ranks), status);
  std::map<std::string, ObjectReader> named;
  ISOCOST_TRY(read_names(document, node.training.sources, named, status));
  ISOCOST_TRY(read_names(document, node.stores, named, status));
  Reader reader(node_reader, module_readers, rank_reader, named, rows);
  visit_metrics(reader, node);
  for (const auto& [label, table] : named) table.finish();
  node_reader.finish();
  for (const ObjectReader& module : module_readers) module.finish();
  rank_reader.finish();
  return status;
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
  const NodeMetrics node = with_equal_lists(metrics);
  Writer writer;
  visit_metrics(writer, node);
  return std::move(writer).document().dump(-1, ' ', false,
                                           nlohmann::json::error_handler_t::replace) +
         "\n";
}

Result<NodeMetrics> parse_status(std::string_view json) {
  ISOCOST_ASSIGN(const JsonObject document, JsonObject::parse(json, kFormat));
  ISOCOST_TRY(check_head(document));
  ISOCOST_TRY(document.only_keys({"version", "kind", "node", "modules", "ranks",
                                  list_of<SourceTotals>(), list_of<StoreTotals>()}));
  ISOCOST_ASSIGN(const JsonObject ranks, document.object("ranks"));
  ISOCOST_ASSIGN(const std::vector<double> slowdowns, ranks.amounts("rank_slowdown", kMostRanks));
  NodeMetrics node;
  node.training.ranks.resize(slowdowns.size());
  node.correction.rank_slowdowns.resize(slowdowns.size());
  ISOCOST_TRY(read_values(document, slowdowns.size(), node));
  if (!std::isfinite(node.uptime_s)) return document.wrong("node.uptime_seconds", "is missing");
  return node;
}

}  // namespace isocost
