#include "balancer/layout/cluster.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <string>
#include <utility>

namespace isocost {
namespace {

// Parses a number, an SI prefix and the unit: "12.5GB/s" with unit "B/s", "10us" with unit "s".
Result<double> quantity(std::string_view text, std::string_view unit, const std::string& name) {
  const Error wrong(ErrorCode::kInvalidArgument,
                    "interconnect: '" + name + "' is '" + std::string(text) +
                        "'; it must be a positive number with a unit, such as " +
                        (unit == "s" ? "10us" : "25GB/s"));
  double value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc()) return wrong;
  std::string_view rest(end, static_cast<std::size_t>(text.data() + text.size() - end));
  constexpr std::array<std::pair<char, double>, 6> kPrefixes = {
      {{'k', 1e3}, {'M', 1e6}, {'G', 1e9}, {'T', 1e12}, {'u', 1e-6}, {'m', 1e-3}}};
  if (rest.size() == unit.size() + 1) {
    const auto* const found =
        std::find_if(kPrefixes.begin(), kPrefixes.end(),
                     [&rest](const auto& prefix) { return prefix.first == rest.front(); });
    if (found == kPrefixes.end()) return wrong;
    value *= found->second;
    rest.remove_prefix(1);
  }
  if (rest != unit || !std::isfinite(value) || value <= 0) return wrong;
  return value;
}

Status apply_part(std::string_view name, std::string_view value, Cluster& cluster) {
  const std::string label(name);
  if (name == "node") {
    ISOCOST_ASSIGN(cluster.node_bytes_per_s, quantity(value, "B/s", label));
  } else if (name == "network") {
    ISOCOST_ASSIGN(cluster.network_bytes_per_s, quantity(value, "B/s", label));
  } else if (name == "latency") {
    ISOCOST_ASSIGN(cluster.latency_s, quantity(value, "s", label));
  } else if (name == "gpus-per-node") {
    std::size_t count = 0;
    const auto [end, failure] = std::from_chars(value.data(), value.data() + value.size(), count);
    if (failure != std::errc() || end != value.data() + value.size() || count < 1 || count > 4096) {
      return Error(ErrorCode::kInvalidArgument,
                   "interconnect: 'gpus-per-node' must be between 1 and 4096");
    }
    cluster.gpus_per_node = count;
  } else {
    return Error(ErrorCode::kInvalidArgument,
                 "interconnect: '" + label +
                     "' is unknown; known parts are node, network, latency and gpus-per-node");
  }
  return {};
}

}  // namespace

double Cluster::ring_bytes_per_s(const RankGroups& groups) const {
  const std::size_t ranks = groups.block_ranks();
  std::size_t fewest = gpus_per_node;  // members on one of several machines
  bool within = true;
  for (std::size_t block = 0; block < groups.blocks; ++block) {
    const std::size_t first = block * ranks % gpus_per_node;
    if (first + ranks <= gpus_per_node) {
      if (first == 0 && gpus_per_node % ranks == 0) break;  // and so do all others
      continue;
    }
    within = false;
    for (const std::size_t part : {gpus_per_node - first, (first + ranks) % gpus_per_node}) {
      if (part > 0) fewest = std::min(fewest, part);
    }
  }
  if (within) return node_bytes_per_s;
  const std::size_t links = std::max<std::size_t>(1, fewest / groups.stride);
  return std::min(node_bytes_per_s, static_cast<double>(links) * network_bytes_per_s);
}

Result<Cluster> Cluster::parse_interconnect(std::string_view text) {
  Cluster cluster;
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    const std::string_view part = text.substr(0, comma);
    text.remove_prefix(std::min(comma + 1, text.size()));
    const std::size_t equals = part.find('=');
    if (equals == std::string_view::npos) {
      return Error(ErrorCode::kInvalidArgument,
                   "interconnect: '" + std::string(part) + "' is not name=value");
    }
    ISOCOST_TRY(apply_part(part.substr(0, equals), part.substr(equals + 1), cluster));
  }
  return cluster;
}

}  // namespace isocost
