#include "cli/trace/cost_csv.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

#include "base/counted.h"

namespace isocost::cli {
namespace {

constexpr std::size_t kShownCharacters = 40;

Error corrupt_line(std::size_t line, const std::string& what) {
  return {ErrorCode::kCorrupt, "line " + std::to_string(line) + ": " + what};
}

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

// Returns a field for error messages: shortened, without control characters.
std::string quoted(std::string_view field) {
  std::string shown(field.substr(0, kShownCharacters));
  for (char& c : shown) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) c = '?';
  }
  return "'" + shown + (field.size() > kShownCharacters ? "...'" : "'");
}

// Appends the quoted field that starts at `at` to `field`. Returns the position after the closing
// quote; nothing if the quotes do not close.
std::optional<std::size_t> read_quoted(std::string_view line, std::size_t at, std::string& field) {
  for (++at; at < line.size(); ++at) {
    if (line[at] != '"') {
      field.push_back(line[at]);
    } else if (at + 1 < line.size() && line[at + 1] == '"') {
      field.push_back(line[++at]);
    } else {
      return at + 1;
    }
  }
  return std::nullopt;
}

Result<std::vector<std::string>> split_line(std::string_view line, std::size_t number,
                                            std::size_t max_columns) {
  std::vector<std::string> fields;
  for (std::size_t at = 0; at <= line.size();) {
    if (fields.size() == max_columns) {
      return Error(ErrorCode::kResourceExhausted, "line " + std::to_string(number) +
                                                      ": more than " + std::to_string(max_columns) +
                                                      " columns");
    }
    std::string field;
    const auto first = line.find_first_not_of(" \t", at);
    if (first != std::string_view::npos && line[first] == '"') {
      const auto behind = read_quoted(line, first, field);
      const auto comma = behind ? std::min(line.find(',', *behind), line.size()) : line.size();
      if (!behind || !trimmed(line.substr(*behind, comma - *behind)).empty()) {
        return corrupt_line(number, "column " + std::to_string(fields.size() + 1) +
                                        ": the quotes do not close before the comma");
      }
      at = comma + 1;
    } else {
      const auto comma = std::min(line.find(',', at), line.size());
      field = trimmed(line.substr(at, comma - at));
      at = comma + 1;
    }
    fields.push_back(std::move(field));
  }
  return fields;
}

// Returns whether a number outside of a double's range is tiny; otherwise it is huge.
bool is_tiny(std::string_view number) {
  const auto e = std::min(number.find_first_of("eE"), number.size());
  const std::string_view mantissa = number.substr(0, e);
  const auto first = static_cast<std::int64_t>(mantissa.find_first_of("123456789"));
  const auto point = static_cast<std::int64_t>(std::min(mantissa.find('.'), mantissa.size()));
  std::string_view digits = number.substr(std::min(e + 1, number.size()));
  if (digits.starts_with('+')) digits.remove_prefix(1);
  std::int32_t exponent = 0;
  const auto [end, failure] =
      std::from_chars(digits.data(), digits.data() + digits.size(), exponent);
  if (failure == std::errc::result_out_of_range) return digits.starts_with('-');
  return point - first + exponent < 0;
}

// Reads a number. Accepts NaN and infinity as well, since take_row checks the value.
std::optional<double> read_number(std::string_view field) {
  if (!field.empty() && field.front() == '+') field.remove_prefix(1);
  double value = 0;
  const auto [end, failure] = std::from_chars(field.data(), field.data() + field.size(), value);
  if (end != field.data() + field.size() || field.empty()) return std::nullopt;
  if (failure == std::errc::result_out_of_range) {
    if (!is_tiny(field)) return HUGE_VAL;
    return field.front() == '-' ? -std::numeric_limits<double>::min() : 0.0;
  }
  if (failure != std::errc()) return std::nullopt;
  return value;
}

class Parser {
 public:
  explicit Parser(const CostCsvOptions& options) : options_(options) {}

  Status take(std::string_view line, std::size_t number) {
    ISOCOST_ASSIGN(const auto fields, split_line(line, number, options_.max_columns));
    if (width_ == 0) {
      width_ = fields.size();
      first_line_ = number;
      if (is_header(fields)) return take_header(fields, number);
      ISOCOST_TRY(need_no_header());
      for (std::size_t i = 0; i < width_; ++i) columns_.push_back(i);
      table_.columns = width_;
    }
    return take_row(fields, number);
  }

  Result<CostCsv> finish() && {
    if (width_ == 0) return Error(ErrorCode::kCorrupt, "there are no rows");
    if (table_.values.empty()) return Error(ErrorCode::kCorrupt, "there is a header but no rows");
    return std::move(table_);
  }

 private:
  static bool is_header(const std::vector<std::string>& fields) {
    return std::none_of(fields.begin(), fields.end(),
                        [](const std::string& field) { return read_number(field).has_value(); });
  }

  Status need_no_header() const {
    if (options_.wanted.empty()) return {};
    return Error(ErrorCode::kNotFound, "the first line is not a header; a column '" +
                                           options_.wanted.front() + "' is needed");
  }

  Status take_header(const std::vector<std::string>& fields, std::size_t number) {
    for (std::size_t i = 0; i < fields.size(); ++i) {
      const auto same = std::find(fields.begin(), fields.end(), fields[i]);
      if (!fields[i].empty() && same != fields.begin() + static_cast<std::ptrdiff_t>(i)) {
        return corrupt_line(number, "two columns are called " + quoted(fields[i]));
      }
    }
    for (const std::string& name : options_.wanted) {
      const auto found = std::find(fields.begin(), fields.end(), name);
      if (found == fields.end()) {
        return Error(ErrorCode::kNotFound,
                     "line " + std::to_string(number) + ": there is no column '" + name + "'");
      }
      columns_.push_back(static_cast<std::size_t>(found - fields.begin()));
    }
    if (options_.wanted.empty()) {
      for (std::size_t i = 0; i < width_; ++i) columns_.push_back(i);
    }
    for (const std::size_t column : columns_) table_.names.push_back(fields[column]);
    table_.columns = columns_.size();
    return {};
  }

  Status take_row(const std::vector<std::string>& fields, std::size_t number) {
    if (fields.size() != width_) {
      return corrupt_line(number, counted(fields.size(), "field") + " where line " +
                                      std::to_string(first_line_) + " has " +
                                      std::to_string(width_));
    }
    if (table_.rows() == options_.max_rows) {
      return Error(ErrorCode::kResourceExhausted, "line " + std::to_string(number) +
                                                      ": more than " +
                                                      std::to_string(options_.max_rows) + " rows");
    }
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      const std::string& field = fields[columns_[i]];
      const auto value = read_number(field);
      if (!value) {
        return corrupt_line(number, column(i) + ": " + quoted(field) + " is not a number");
      }
      if (!std::isfinite(*value) || *value < 0) {
        return corrupt_line(number, column(i) + ": " + quoted(field) + " must be finite and >= 0");
      }
      table_.values.push_back(*value == 0 ? 0 : *value);  // avoids negative zeros
    }
    return {};
  }

  std::string column(std::size_t i) const {
    const std::string number = "column " + std::to_string(columns_[i] + 1);
    return table_.names.empty() ? number : number + " (" + quoted(table_.names[i]) + ")";
  }

  const CostCsvOptions& options_;
  CostCsv table_;
  std::vector<std::size_t> columns_;  // indexes of the columns that are read
  std::size_t width_ = 0;             // fields per line
  std::size_t first_line_ = 0;
};

}  // namespace

Result<CostCsv> parse_cost_csv(std::string_view text, const CostCsvOptions& options) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  Parser parser(options);
  for (std::size_t number = 1; !text.empty(); ++number) {
    const auto end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    const std::string_view content = trimmed(line);
    if (content.empty() || content.front() == '#') continue;
    ISOCOST_TRY(parser.take(line, number));
  }
  return std::move(parser).finish();
}

}  // namespace isocost::cli
