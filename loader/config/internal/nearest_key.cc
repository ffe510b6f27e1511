#include "loader/config/internal/nearest_key.h"

#include <cstddef>

#include "base/edit_distance.h"

namespace isocost {
namespace {

constexpr std::size_t kLongestKey = 64;

}  // namespace

std::string nearest_key(std::string_view key, std::span<const std::string_view> known) {
  if (key.size() > kLongestKey) return "";
  std::string_view nearest;
  std::size_t least = 3;
  for (const std::string_view name : known) {
    const std::size_t differs = edit_distance(key, name);
    if (differs >= least || differs >= name.size()) continue;
    least = differs;
    nearest = name;
  }
  return std::string(nearest);
}

}  // namespace isocost
