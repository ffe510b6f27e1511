#include "cli/trace/trace_csv.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <utility>

#include "base/counted.h"
#include "base/read_file.h"
#include "cli/trace/cost_csv.h"
#include "costmodel/sample_cost.h"

namespace isocost::cli {
namespace {

constexpr std::size_t kMaxFileBytes = std::size_t{256} << 20;
constexpr std::size_t kMaxRows = 10'000'000;
constexpr double kMaxCount = 1e9;

std::string shown(std::string_view text) {
  std::string out;
  for (const char c : text.substr(0, 40)) out += c >= ' ' && c < 127 ? c : '?';
  return "'" + out + "'";
}

Error corrupt_row(std::size_t row, const std::string& what) {
  return {ErrorCode::kCorrupt, "row " + std::to_string(row + 1) + " below the header: " + what};
}

Result<std::vector<std::uint64_t>> parse_weights(std::string_view text, std::size_t traces) {
  if (text.empty()) return std::vector<std::uint64_t>(traces, 1);
  std::vector<std::uint64_t> weights;
  std::uint64_t sum = 0;
  for (const std::string& part : split_list(text)) {
    std::uint64_t weight = 0;
    const auto [end, failure] = std::from_chars(part.data(), part.data() + part.size(), weight);
    if (failure != std::errc() || end != part.data() + part.size() || weight > 1'000'000) {
      return Error(ErrorCode::kInvalidArgument,
                   "weight " + shown(part) + " must be a whole number up to 1000000");
    }
    weights.push_back(weight);
    sum += weight;
  }
  if (weights.size() != traces || sum == 0) {
    return Error(ErrorCode::kInvalidArgument,
                 counted(weights.size(), "weight") + " for " + counted(traces, "trace") +
                     "; give one per trace, at least one of them above zero");
  }
  return weights;
}

}  // namespace

std::vector<Load> TraceMix::draw(std::size_t count, Random& random) const {
  std::uint64_t total = 0;
  for (const std::uint64_t weight : weights) total += weight;
  std::vector<Load> loads;
  loads.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    std::uint64_t ticket = random.below(total);
    std::size_t trace = 0;
    while (ticket >= weights[trace]) ticket -= weights[trace++];
    loads.push_back(traces[trace][random.below(traces[trace].size())]);
  }
  return loads;
}

std::vector<std::string> split_list(std::string_view text) {
  std::vector<std::string> parts;
  for (std::size_t start = 0; start <= text.size();) {
    const std::size_t comma = std::min(text.find(',', start), text.size());
    std::string_view part = text.substr(start, comma - start);
    const std::size_t first = std::min(part.find_first_not_of(' '), part.size());
    part.remove_prefix(first);
    part = part.substr(0, part.find_last_not_of(' ') + 1);
    parts.emplace_back(part);
    start = comma + 1;
  }
  return parts;
}

Result<std::vector<Load>> parse_trace(std::string_view text) {
  const CostCsvOptions options{.wanted = {"encoder_patches", "llm_tokens"}, .max_rows = kMaxRows};
  ISOCOST_ASSIGN(const CostCsv table, parse_cost_csv(text, options));
  std::vector<Load> loads;
  loads.reserve(table.rows());
  for (std::size_t row = 0; row < table.rows(); ++row) {
    const double patches = table.values[2 * row];
    const double tokens = table.values[2 * row + 1];
    for (const double value : {patches, tokens}) {
      if (value > kMaxCount || value != std::floor(value)) {
        return corrupt_row(row, "patches and tokens must be whole numbers up to 1000000000");
      }
    }
    if (patches == 0 && tokens == 0) return corrupt_row(row, "neither patches nor tokens");
    loads.push_back(
        load_of_counts(static_cast<std::int64_t>(patches), static_cast<std::int64_t>(tokens)));
  }
  if (loads.empty()) return Error(ErrorCode::kCorrupt, "no rows below the header");
  return loads;
}

Result<TraceMix> read_traces(std::string_view files, std::string_view weights) {
  TraceMix mix;
  for (const std::string& file : split_list(files)) {
    if (file.empty()) {
      return Error(ErrorCode::kInvalidArgument,
                   "--trace has an empty file name; remove the extra comma");
    }
    ISOCOST_ASSIGN(const std::string text, read_file("trace", file, kMaxFileBytes));
    auto loads = parse_trace(text);
    if (!loads) return std::move(loads).error().with_context("trace " + file);
    mix.traces.push_back(*std::move(loads));
  }
  ISOCOST_ASSIGN(mix.weights, parse_weights(weights, mix.traces.size()));
  return mix;
}

}  // namespace isocost::cli
