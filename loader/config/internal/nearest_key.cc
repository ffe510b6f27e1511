#include "loader/config/internal/nearest_key.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>
#include <vector>

namespace isocost {
namespace {

constexpr std::size_t kLongestKey = 64;

// Returns the edit distance (V. Levenshtein, 1966).
std::size_t distance(std::string_view from, std::string_view to) {
  std::vector<std::size_t> row(to.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < from.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < to.size(); ++j) {
      const std::size_t replaced = diagonal + (from[i] == to[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

}  // namespace

std::string nearest_key(std::string_view key, std::span<const std::string_view> known) {
  if (key.size() > kLongestKey) return "";
  std::string_view nearest;
  std::size_t least = 3;
  for (const std::string_view name : known) {
    const std::size_t differs = distance(key, name);
    if (differs >= least || differs >= name.size()) continue;
    least = differs;
    nearest = name;
  }
  return std::string(nearest);
}

}  // namespace isocost
