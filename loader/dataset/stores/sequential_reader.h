#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>

#include "base/result.h"

namespace isocost {

/// The bytes of a file in their order. A file that begins as a gzip or zstd stream, whatever its
/// name, is decompressed piece by piece: memory is bounded by the window of the stream, 128 MiB at
/// most. Single-thread.
class SequentialReader {
 public:
  /// Opens a regular file. Errors: kNotFound, kIo, kInternal.
  static Result<std::unique_ptr<SequentialReader>> open(const std::filesystem::path& path);
  virtual ~SequentialReader() = default;

  /// Reads the next bytes, up to the size of `destination`. Returns 0 at the end. Errors: kIo, also
  /// for a compressed stream that is cut off, damaged or followed by other bytes; it names the
  /// file.
  virtual Result<std::size_t> read(std::span<std::byte> destination) = 0;
  /// Returns how many bytes of the file, as it is on disk, were read.
  virtual std::uint64_t done() const = 0;
  /// Returns the size of the file on disk.
  virtual std::uint64_t total() const = 0;
};

}  // namespace isocost
