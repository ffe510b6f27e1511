#include "examples/pipeline_trainer/routing.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <tuple>
#include <utility>

namespace isocost {
namespace {

// The number of units that the model's encoders merge into a token.
std::uint32_t merged(CostModule module) { return module == CostModule::kVision ? 4 : 2; }

Status check(const Route& route) {
  const std::uint32_t unit = merged(route.module);
  if (route.first_unit % unit == 0 && route.units % unit == 0) return {};
  return Error(ErrorCode::kCorrupt, "a route of " + std::to_string(route.units) + " " +
                                        std::string(module_name(route.module)) +
                                        " units from unit " + std::to_string(route.first_unit) +
                                        ": " + std::to_string(unit) +
                                        " units make a token, and a route may not split one");
}

}  // namespace

Result<std::vector<Exchange>> exchanges_of(const MicrobatchHeader& header, Side side) {
  // Both sides know where a range begins on the LLM's side, and order ranges by it.
  std::vector<Route> routes = header.routes;
  const auto key = [side](const Route& route) {
    const std::uint32_t first = side == Side::kLlm ? route.first_unit : route.peer_first_unit;
    return std::tuple(route.replica, route.microbatch, route.module, first);
  };
  std::sort(routes.begin(), routes.end(),
            [&](const Route& a, const Route& b) { return key(a) < key(b); });
  std::vector<Exchange> exchanges;
  for (const Route& route : routes) {
    ISOCOST_TRY(check(route));
    if (exchanges.empty() || exchanges.back().replica != route.replica ||
        exchanges.back().microbatch != route.microbatch) {
      Exchange& exchange = exchanges.emplace_back();
      exchange.replica = route.replica;
      exchange.microbatch = route.microbatch;
    }
    const std::uint32_t unit = merged(route.module);
    exchanges.back().ranges.push_back({route.module, route.first_unit / unit, route.units / unit});
    exchanges.back().rows += route.units / unit;
  }
  return exchanges;
}

torch::Tensor gather(const Exchange& exchange, const EncoderRows& rows) {
  std::vector<torch::Tensor> parts;
  for (const RowRange& range : exchange.ranges) {
    parts.push_back(
        rows.at(static_cast<std::size_t>(range.module)).narrow(0, range.first, range.count));
  }
  return torch::cat(parts);
}

void scatter(const Exchange& exchange, const torch::Tensor& message, EncoderRows& rows) {
  std::int64_t at = 0;
  for (const RowRange& range : exchange.ranges) {
    rows.at(static_cast<std::size_t>(range.module))
        .narrow(0, range.first, range.count)
        .copy_(message.narrow(0, at, range.count));
    at += range.count;
  }
}

EncoderRows empty_rows(const std::vector<Exchange>& exchanges, std::int64_t width,
                       torch::Dtype dtype) {
  std::array<std::int64_t, kModules> counts{};
  for (const Exchange& exchange : exchanges) {
    for (const RowRange& range : exchange.ranges) {
      std::int64_t& count = counts.at(static_cast<std::size_t>(range.module));
      count = std::max(count, range.first + range.count);
    }
  }
  EncoderRows rows;
  for (std::size_t m = 0; m < kModules; ++m) {
    if (counts.at(m) > 0) rows.at(m) = torch::zeros({counts.at(m), width}, dtype);
  }
  return rows;
}

}  // namespace isocost
