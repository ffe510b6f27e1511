#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>

#include "base/load.h"
#include "base/result.h"
#include "base/units.h"
#include "decode/probe.h"
#include "decode/recipe.h"
#include "loader/plan/cursor.h"

namespace isocost {

enum class BalancePolicy : std::uint8_t {
  kNone,     ///< Data-blind: samples are dealt in order, as loaders do today.
  kIsocost,  ///< Equal predicted cost.
};

enum class BadSamplePolicy : std::uint8_t { kSkip, kReplace, kFail };

/// Everything that `isocost serve` can be told, flags and TOML alike: see docs/config.md for each.
struct NodeOptions {
  // What is trained on.
  std::filesystem::path shards;
  std::int64_t ranks = 0;  ///< 0: as many as the clients say.
  std::int64_t global_batch = 64;
  std::int64_t microbatches = 4;
  std::filesystem::path layout;  ///< Of `isocost plan`; empty: ranks are data-parallel only.
  std::int64_t lookahead = 1;    ///< Global batches composed together; 1: as they are drawn.
  std::int64_t epochs = 1;       ///< 0: without end.
  std::int64_t steps = 0;        ///< An epoch ends after this many; 0: all.
  std::uint64_t seed = 0;
  bool shuffle = true;
  TailPolicy tail = TailPolicy::kDeliver;
  BalancePolicy balance = BalancePolicy::kIsocost;
  bool correct = true;
  bool reprofile = false;  ///< Ask a trainer for a new profile where the old one no longer holds.
  std::filesystem::path correction_file;  ///< Keeps what was learnt; empty: forgotten at the end.
  std::filesystem::path profile;          ///< Cost profile; empty: the stated default.
  std::array<bool, kModules> padded{};    ///< Modules whose sequences the trainer pads.
  RecipeOptions recipe;

  // Bad input.
  BadSamplePolicy on_bad_sample = BadSamplePolicy::kSkip;
  std::string max_bad_samples = "100%";  ///< A count, or a percentage of the data set.
  std::filesystem::path bad_samples_file = "bad_samples.jsonl";
  std::int64_t max_pixels = ProbeLimits{}.max_pixels;

  // Resources.
  std::int64_t memory = 2 * kGiB;
  std::int64_t microbatch_memory = 0;  ///< Cap on a microbatch's tensor bytes; 0: none.
  std::int64_t workers = 0;            ///< 0: one per core.
  std::int64_t plan_ahead = 2;
  std::filesystem::path index_dir;

  // The wire.
  std::string bind = "tcp://127.0.0.1:5800";
  bool insecure = false;
  std::string curve_key;
  std::string curve_clients;
  std::chrono::milliseconds timeout{30000};

  // What people see.
  std::string metrics;  ///< Where /metrics is served; empty: nowhere. See parse_metrics_address.
  std::filesystem::path summary;  ///< JSON written at the end; empty: none.

  /// Errors: kInvalidArgument with field, value and what is allowed.
  Status validate() const;
};

}  // namespace isocost
