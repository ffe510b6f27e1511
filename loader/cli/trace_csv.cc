#include "loader/cli/trace_csv.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <limits>
#include <utility>

#include "balancer/analytic_profile.h"

namespace isocost::cli {
namespace {

constexpr std::uintmax_t kMaxFileBytes = std::uintmax_t{256} << 20;
constexpr std::size_t kMaxRows = 10'000'000;
constexpr std::size_t kMaxColumns = 256;
constexpr std::int64_t kMaxCount = 1'000'000'000;
constexpr std::size_t kAbsent = std::numeric_limits<std::size_t>::max();

struct Columns {
  std::size_t count = 0;
  std::size_t patches = kAbsent;
  std::size_t tokens = kAbsent;
  std::size_t modality = kAbsent;
};

Error corrupt(std::size_t line, const std::string& what) {
  return {ErrorCode::kCorrupt, "line " + std::to_string(line) + ": " + what};
}

std::string shown(std::string_view text) {
  std::string out;
  for (const char c : text.substr(0, 40)) out += c >= ' ' && c < 127 ? c : '?';
  return "'" + out + "'";
}

std::string_view next_line(std::string_view& text) {
  const std::size_t end = std::min(text.find('\n'), text.size());
  std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  return line;
}

void split(std::string_view line, std::vector<std::string_view>& fields) {
  fields.clear();
  for (std::size_t start = 0; start <= line.size() && fields.size() <= kMaxColumns;) {
    const std::size_t comma = std::min(line.find(',', start), line.size());
    fields.push_back(line.substr(start, comma - start));
    start = comma + 1;
  }
}

Status take_column(std::string_view name, std::size_t index, std::size_t& column) {
  if (column != kAbsent) return corrupt(1, "column " + shown(name) + " is there twice");
  column = index;
  return {};
}

Result<Columns> parse_header(std::string_view line) {
  std::vector<std::string_view> fields;
  if (line.starts_with("\xEF\xBB\xBF")) line.remove_prefix(3);
  split(line, fields);
  if (fields.size() > kMaxColumns) return corrupt(1, "more than 256 columns");
  Columns columns{.count = fields.size()};
  for (std::size_t i = 0; i < fields.size(); ++i) {
    if (fields[i] == "encoder_patches") ISOCOST_TRY(take_column(fields[i], i, columns.patches));
    if (fields[i] == "llm_tokens") ISOCOST_TRY(take_column(fields[i], i, columns.tokens));
    if (fields[i] == "modality") ISOCOST_TRY(take_column(fields[i], i, columns.modality));
  }
  for (const auto& [column, name] :
       {std::pair{columns.patches, "encoder_patches"}, std::pair{columns.tokens, "llm_tokens"}}) {
    if (column == kAbsent) {
      return corrupt(1, "the header has no column '" + std::string(name) +
                            "'; a trace needs encoder_patches and llm_tokens");
    }
  }
  return columns;
}

Result<std::int64_t> parse_count(std::string_view field, const char* column, std::size_t line) {
  std::int64_t value = 0;
  const auto [end, failure] = std::from_chars(field.data(), field.data() + field.size(), value);
  if (failure != std::errc() || end != field.data() + field.size() || value < 0 ||
      value > kMaxCount) {
    return corrupt(line, std::string(column) + " is " + shown(field) +
                             "; it must be a whole number from 0 to 1000000000");
  }
  return value;
}

Result<Load> parse_row(const std::vector<std::string_view>& fields, const Columns& columns,
                       std::size_t line) {
  if (fields.size() != columns.count) {
    return corrupt(line, std::to_string(fields.size()) + " fields where the header has " +
                             std::to_string(columns.count));
  }
  ISOCOST_ASSIGN(const std::int64_t patches,
                 parse_count(fields[columns.patches], "encoder_patches", line));
  ISOCOST_ASSIGN(const std::int64_t tokens,
                 parse_count(fields[columns.tokens], "llm_tokens", line));
  if (patches == 0 && tokens == 0) return corrupt(line, "neither patches nor tokens");
  const bool audio = columns.modality != kAbsent && fields[columns.modality] == "audio";
  return load_of_counts(patches, tokens, audio);
}

Result<std::string> read_file(const std::string& path) {
  std::error_code failure;
  if (!std::filesystem::exists(path, failure)) {
    return Error(ErrorCode::kNotFound, "trace " + path + " does not exist");
  }
  if (std::filesystem::is_regular_file(path, failure) &&
      std::filesystem::file_size(path, failure) > kMaxFileBytes) {
    return Error(ErrorCode::kCorrupt, "trace " + path + " is larger than 256 MiB");
  }
  std::ifstream file(path, std::ios::binary);
  std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (!file.is_open() || file.bad()) {
    return Error(ErrorCode::kIo, "trace " + path + " cannot be read");
  }
  return text;
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
                 std::to_string(weights.size()) + " weights for " + std::to_string(traces) +
                     " traces; one each is needed, and one above zero");
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
    parts.emplace_back(text.substr(start, comma - start));
    start = comma + 1;
  }
  return parts;
}

Result<std::vector<Load>> parse_trace(std::string_view text) {
  ISOCOST_ASSIGN(const Columns columns, parse_header(next_line(text)));
  std::vector<Load> loads;
  std::vector<std::string_view> fields;
  for (std::size_t line = 2; !text.empty(); ++line) {
    const std::string_view row = next_line(text);
    if (row.empty()) continue;
    if (loads.size() == kMaxRows) return corrupt(line, "more than 10000000 rows");
    split(row, fields);
    ISOCOST_ASSIGN(loads.emplace_back(), parse_row(fields, columns, line));
  }
  if (loads.empty()) return Error(ErrorCode::kCorrupt, "no rows below the header");
  return loads;
}

Result<TraceMix> read_traces(std::string_view files, std::string_view weights) {
  TraceMix mix;
  for (const std::string& file : split_list(files)) {
    ISOCOST_ASSIGN(const std::string text, read_file(file));
    auto loads = parse_trace(text);
    if (!loads) return std::move(loads).error().with_context("trace " + file);
    mix.traces.push_back(*std::move(loads));
  }
  ISOCOST_ASSIGN(mix.weights, parse_weights(weights, mix.traces.size()));
  return mix;
}

}  // namespace isocost::cli
