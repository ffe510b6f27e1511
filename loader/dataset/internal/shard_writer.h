#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string_view>

#include "base/byte_source.h"
#include "base/result.h"

namespace isocost {

/// Writes one tar file (ustar, pax where a name or size needs it), the same bytes for the same
/// members: times, owners and modes are fixed. It appears under its name only when `finish`
/// succeeds; until then, and after any failure, there is nothing but a temporary file beside it,
/// which goes with the writer. Single-thread.
class ShardWriter {
 public:
  /// Errors: kIo.
  static Result<std::unique_ptr<ShardWriter>> create(const std::filesystem::path& path, bool gzip);
  virtual ~ShardWriter() = default;

  /// Errors: kIo, those of reading `body`, kCorrupt where it ends before its size.
  virtual Status add(std::string_view member, const ByteSource& body) = 0;
  /// Ends the file and gives it its name. Nothing can be added after. Errors: kIo.
  virtual Status finish() = 0;
};

/// Bytes that a member of this size takes in an uncompressed tar, long names aside.
std::int64_t tar_member_bytes(std::int64_t body_bytes);

}  // namespace isocost
