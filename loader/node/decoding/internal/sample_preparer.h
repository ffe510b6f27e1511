#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "base/buffer.h"
#include "base/result.h"
#include "base/tensor.h"
#include "decode/sample_decoder.h"
#include "loader/dataset/dataset.h"
#include "loader/dataset/stores/watched_source.h"

namespace isocost {

/// Reads a sample and has it decoded. Distinguishes damage of the sample from failures of the
/// machine. All arguments must outlive it. Thread-safe.
class SamplePreparer {
 public:
  SamplePreparer(const Dataset& dataset, SampleDecoder& decoder, BufferPool& pool)
      : dataset_(dataset), decoder_(decoder), pool_(pool) {}

  /// A value, or why the sample is bad.
  template <typename T>
  using OrBad = tl::expected<T, BadSample>;

  /// Returns the sample's tensors. `ahead` has what was read of it; null: nothing was. Errors:
  /// those of the machine; kOutOfMemory; kCancelled.
  Result<OrBad<std::vector<NamedTensor>>> prepare(SampleId id, const BytesAhead& ahead,
                                                  const std::stop_token& stop) const;

  /// Returns what SampleEntry::json holds. `prepare` checks whether the shard has changed.
  /// Errors: those of the machine.
  Result<std::string> read_json(SampleId id, const BytesAhead& ahead) const;

  /// Begins to read a sample that was not read ahead: see Dataset::read_ahead. Null for one on a
  /// disk, which is read when it is asked for.
  BytesAhead read(SampleId id, const std::stop_token& stop) const {
    return dataset_.is_on_server(id) ? dataset_.read_ahead(id, stop) : nullptr;
  }

 private:
  OrBad<std::vector<NamedTensor>> bad(SampleId id, std::size_t part, const Error& error) const;
  Status check_reads(SampleId id, std::span<const std::unique_ptr<WatchedSource>> sources) const;

  const Dataset& dataset_;
  SampleDecoder& decoder_;
  BufferPool& pool_;
};

}  // namespace isocost
