#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "base/log.h"
#include "base/result.h"
#include "base/units.h"
#include "decode/probe.h"
#include "decode/recipe.h"
#include "decode/sample_decoder.h"
#include "loader/dataset/formats/sample_reading.h"
#include "loader/dataset/stores/stores.h"

namespace isocost {

/// Options of indexing shards and decoding samples, and the resources for both. See docs/config.md.
struct DecodeOptions {
  RecipeOptions recipe;
  std::int64_t max_decoded_pixels =
      ProbeLimits{}.max_pixels;     ///< Larger images and frames are bad.
  std::int64_t memory = 2 * kGiB;   ///< Budget for decoding, decoded samples and shared memory.
  std::int64_t workers = 0;         ///< Threads or processes; 0: one per core.
  std::filesystem::path index_dir;  ///< Empty: ".isocost" in the shards' directory.
  std::filesystem::path ca_file;    ///< Certificates of authorities; empty: see StoreOptions.
  std::filesystem::path cache;      ///< Directory of what servers sent; empty: none.
  std::int64_t cache_size = StoreOptions{}.cache_size;
  ReadingOptions reading;
  /// Time that reads of shards may fail, while delivery is paused, before the job ends.
  std::chrono::milliseconds io_timeout{120'000};
  /// CPU time that decoding one sample may take.
  std::chrono::milliseconds decode_timeout{60'000};
  /// Whether all samples are decoded in worker processes, and not only those that need one; see
  /// decode/isolation/.
  bool isolate = false;
  std::filesystem::path decode_program;  ///< The isocost program; empty: this process's.

  /// Checks the values. Errors: kInvalidArgument with field, value and what is allowed.
  Status validate() const;
};

/// Returns how servers are reached, without a log of its own.
StoreOptions store_options_of(const DecodeOptions& options);

/// Returns the decoder that the options describe. Errors: those of make_isolated_decoder.
Result<std::unique_ptr<SampleDecoder>> make_decoder(const Recipe& recipe,
                                                    const DecodeOptions& options, LogSink log);

}  // namespace isocost
