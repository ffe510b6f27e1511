#pragma once

#include <cstdint>
#include <stop_token>
#include <vector>

#include "base/result.h"
#include "loader/dataset/dataset.h"
#include "loader/dataset/decode_options.h"

namespace isocost {

struct CheckOptions {
  DatasetOptions
      dataset;  ///< Options of the data set; the progress sink covers indexing and decoding.
  /// Options of decoding, except those of pixels and the index, which `dataset` has.
  DecodeOptions decode;
  std::stop_token stop;
};

struct CheckReport {
  std::vector<DatasetSource> sources;
  ShardFindings findings;     ///< Those of all sources.
  std::uint64_t samples = 0;  ///< Good samples.
  std::uint64_t parts = 0;    ///< Parts of the good samples.
  std::uint64_t bytes = 0;    ///< Encoded bytes of all parts read.
  /// Bad samples that indexing found, then shards whose bytes differ from the last check (their key
  /// is empty), then samples that decoding found bad, in the order of the samples. A
  /// sample with two bad parts occurs twice.
  std::vector<BadSample> bad;
  std::vector<Remark> remarks;  ///< The remarks of Dataset::remarks.
};

/// Reads the whole data set: indexes shards without a current index, compares each shard's bytes
/// with those of the last check, and decodes every part as training would. Blocks until it is done.
/// Bad samples are in the report. Errors: those of Dataset::open, Recipe::create,
/// DecodeOptions::validate and make_decoder; kCancelled; kIo, kNotFound or kUnavailable for a shard
/// that cannot be read or has changed meanwhile.
Result<CheckReport> check_dataset(const DataSources& data, const CheckOptions& options);

}  // namespace isocost
