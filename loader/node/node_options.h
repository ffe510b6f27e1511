#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "base/load.h"
#include "base/result.h"
#include "loader/dataset/bad_samples.h"
#include "loader/dataset/data_source.h"
#include "loader/dataset/decode_options.h"
#include "loader/dataset/shard_options.h"
#include "loader/plan/mixture/mixture_description.h"
#include "loader/plan/plan_options.h"

namespace isocost {

struct CostProfile;

/// The cost model that a node starts from and corrects. See docs/config.md.
struct CostModelOptions {
  std::filesystem::path profile_file;          ///< Model profile; empty: the built-in profile.
  std::shared_ptr<const CostProfile> profile;  ///< Null: not read yet.
  std::array<bool, kModules> padded{};         ///< Modules whose sequences the trainer pads.
  bool correct = true;                         ///< Whether measured seconds correct the cost model.
  std::filesystem::path correction_file;  ///< File that keeps the cost model's state; empty: none.
};

/// Options for how a node is reached and observed, and when it considers a trainer lost. See
/// docs/config.md.
struct ServiceOptions {
  std::int64_t plan_ahead = 2;  ///< Steps that are decoded and planned ahead of training.
  std::string bind = "tcp://127.0.0.1:5800";
  bool insecure = false;
  std::string curve_key;
  std::string curve_clients;
  std::int64_t io_threads = 1;  ///< Threads of ZeroMQ, each for some of the trainers.
  bool shared_memory = true;    ///< Trainers on this host receive microbatches in shared memory.
  std::chrono::milliseconds heartbeat_timeout{30000};
  /// Time that ranks may train without acknowledging what they were sent or, while they have
  /// nothing to acknowledge, without anything planned or sent, before the node announces it;
  /// 0: never.
  std::chrono::milliseconds stall_timeout{1'800'000};
  std::string
      metrics;  ///< Address of the metrics endpoint, see parse_metrics_address; empty: none.
  std::filesystem::path summary;  ///< JSON written at the end; empty: none.

  /// Checks the values. Errors: kInvalidArgument with field, value and what is allowed.
  Status validate() const;
};

/// All options of `isocost serve`, as flags and as TOML keys. See docs/config.md.
struct NodeOptions {
  std::string data;     ///< Data to train on; see Dataset::open.
  DataSources sources;  ///< The sources that `data` names, if it is a mixture; else none.
  /// Proportions and limits of the sources; null: `data` is no mixture.
  std::shared_ptr<const MixtureDescription> mixture;
  PlanOptions plan;
  CostModelOptions cost_model;
  DecodeOptions decode;
  BadSampleOptions bad_samples;
  ShardOptions shards;
  ServiceOptions service;

  /// Reads the layout and the model profile unless they are there, so that a file is read once and
  /// all parts of the node see the same content. Errors: those of Layout::load and
  /// CostProfile::load.
  Status read_files();
  /// Checks the values, together with the files that were read. Errors: kInvalidArgument with
  /// field, value and what is allowed; those of check_layout.
  Status validate() const;
};

}  // namespace isocost
