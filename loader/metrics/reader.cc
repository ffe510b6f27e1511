#include "loader/metrics/reader.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace isocost {
namespace {

constexpr std::size_t kMostLabels = 16;

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == ':';
}
bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Reads one line from its front; what cannot be read says what was expected.
class Line {
 public:
  explicit Line(std::string_view text) : rest_(text) {}

  void skip_blanks() {
    while (!rest_.empty() && (rest_.front() == ' ' || rest_.front() == '\t')) {
      rest_.remove_prefix(1);
    }
  }
  bool take(char wanted) {
    if (rest_.empty() || rest_.front() != wanted) return false;
    rest_.remove_prefix(1);
    return true;
  }
  bool at_end() const { return rest_.empty(); }

  std::optional<std::string> name() {
    std::size_t size = 0;
    while (size < rest_.size() && (is_letter(rest_[size]) || (size > 0 && is_digit(rest_[size])))) {
      ++size;
    }
    if (size == 0) return std::nullopt;
    return take_text(size);
  }

  std::optional<std::string> quoted() {
    if (!take('"')) return std::nullopt;
    std::string value;
    while (!rest_.empty() && rest_.front() != '"') {
      char c = rest_.front();
      rest_.remove_prefix(1);
      if (c == '\\') {
        if (rest_.empty()) return std::nullopt;
        c = rest_.front() == 'n' ? '\n' : rest_.front();
        rest_.remove_prefix(1);
      }
      value.push_back(c);
    }
    if (!take('"')) return std::nullopt;
    return value;
  }

  std::optional<double> number() {
    take('+');
    double value = 0;
    const auto [end, code] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (code != std::errc()) return std::nullopt;
    rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
    return value;
  }

 private:
  std::string take_text(std::size_t size) {
    std::string text(rest_.substr(0, size));
    rest_.remove_prefix(size);
    return text;
  }

  std::string_view rest_;
};

using Expected = const char*;  // what the line lacks; null: nothing

Expected read_labels(Line& line, MetricSample& sample) {
  line.skip_blanks();
  while (!line.take('}')) {
    auto name = line.name();
    if (!name) return "a label's name";
    line.skip_blanks();
    if (!line.take('=')) return "= after a label's name";
    line.skip_blanks();
    auto value = line.quoted();
    if (!value) return "a label's value in quotes";
    if (sample.labels.size() == kMostLabels) return "at most 16 labels";
    sample.labels.emplace_back(*std::move(name), *std::move(value));
    line.skip_blanks();
    const bool more = line.take(',');
    line.skip_blanks();
    if (!more && !line.take('}')) return ", or } after a label";
    if (!more) return nullptr;
  }
  return nullptr;
}

Expected read_sample(Line& line, MetricSample& sample) {
  auto name = line.name();
  if (!name) return "a metric's name";
  sample.name = *std::move(name);
  line.skip_blanks();
  if (line.take('{')) {
    if (const Expected missing = read_labels(line, sample)) return missing;
    line.skip_blanks();
  }
  const auto value = line.number();
  if (!value) return "a number";
  sample.value = *value;
  line.skip_blanks();
  if (!line.at_end() && !line.number()) return "the end of the line, or a time";
  line.skip_blanks();
  return line.at_end() ? nullptr : "the end of the line";
}

}  // namespace

std::string_view MetricSample::label(std::string_view wanted) const {
  const auto found = std::find_if(labels.begin(), labels.end(),
                                  [&](const auto& label) { return label.first == wanted; });
  return found == labels.end() ? std::string_view() : std::string_view(found->second);
}

Result<std::vector<MetricSample>> parse_prometheus_text(std::string_view text) {
  std::vector<MetricSample> samples;
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view content = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (content.ends_with('\r')) content.remove_suffix(1);
    Line line(content);
    line.skip_blanks();
    if (line.at_end() || line.take('#')) continue;
    MetricSample sample;
    if (const Expected missing = read_sample(line, sample)) {
      return Error(ErrorCode::kCorrupt, "line " + std::to_string(number) +
                                            " of the metrics: " + missing + " is expected");
    }
    samples.push_back(std::move(sample));
  }
  return samples;
}

}  // namespace isocost
