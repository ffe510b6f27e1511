#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>

#include "base/result.h"
#include "loader/dataset/bad_samples.h"
#include "loader/dataset/decode_options.h"
#include "loader/plan/plan_options.h"

namespace isocost {

/// Where a node is reached, when it gives a trainer up, and what people see of it.
struct ServiceOptions {
  std::int64_t plan_ahead = 2;  ///< Steps decoded and planned ahead of training.
  std::string bind = "tcp://127.0.0.1:5800";
  bool insecure = false;
  std::string curve_key;
  std::string curve_clients;
  std::chrono::milliseconds heartbeat_timeout{30000};
  std::string metrics;  ///< Where /metrics is served; empty: nowhere. See parse_metrics_address.
  std::filesystem::path summary;  ///< JSON written at the end; empty: none.

  /// Errors: kInvalidArgument with field, value and what is allowed.
  Status validate() const;
};

/// Everything that `isocost serve` can be told, flags and TOML alike: see docs/config.md for each.
struct NodeOptions {
  std::filesystem::path data;  ///< Directory of shards to train on.
  PlanOptions plan;
  DecodeOptions decode;
  BadSampleOptions bad_samples;
  ServiceOptions service;

  /// Errors: kInvalidArgument with field, value and what is allowed.
  Status validate() const;
};

}  // namespace isocost
