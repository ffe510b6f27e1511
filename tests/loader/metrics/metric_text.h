#pragma once

#include <map>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

namespace isocost {

/// A family of the page /metrics.
struct MetricFamily {
  std::string name;
  std::string help;
  std::string type;
  std::vector<std::string> labels;       ///< Labels of its first series.
  std::map<std::string, double> series;  ///< `name{label="value",...}` as written -> value.
};

/// Reads the page. Families are in its order.
inline std::vector<MetricFamily> read_metrics(const std::string& text) {
  static const std::regex kLabel("[{,](\\w+)=\"");
  std::vector<MetricFamily> families;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("# HELP ")) {
      const std::size_t end = line.find(' ', 7);
      families.push_back({line.substr(7, end - 7), line.substr(end + 1), {}, {}, {}});
      continue;
    }
    MetricFamily& family = families.at(families.size() - 1);
    const std::size_t space = line.rfind(' ');
    if (line.starts_with('#')) {
      family.type = line.substr(space + 1);
      continue;
    }
    const std::string series = line.substr(0, space);
    if (family.series.empty()) {
      for (std::sregex_iterator at(series.begin(), series.end(), kLabel), end; at != end; ++at) {
        family.labels.push_back((*at)[1]);
      }
    }
    family.series.emplace(series, std::stod(line.substr(space + 1)));
  }
  return families;
}

}  // namespace isocost
