#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string_view>

#include "base/byte_source.h"
#include "base/result.h"

namespace isocost {

/// Writes one tar file (ustar, pax where a name or size needs it), the same bytes for the same
/// members: times, owners and modes are fixed. The file gets its name when `finish` succeeds. Until
/// then it is a temporary file beside it, which the writer's destructor removes. Single-thread.
class TarWriter {
 public:
  /// Creates the temporary file. Errors: kIo.
  static Result<std::unique_ptr<TarWriter>> create(const std::filesystem::path& path, bool gzip);
  virtual ~TarWriter() = default;

  /// Adds a member. Errors: kIo, those of reading `body`, kCorrupt if it ends before its size.
  virtual Status add(std::string_view member, const ByteSource& body) = 0;
  /// Completes the file and gives it its name. No member can be added afterwards. Errors: kIo.
  virtual Status finish() = 0;
};

/// Returns the bytes that a member of this size takes in an uncompressed tar with a short name.
std::int64_t tar_member_bytes(std::int64_t body_bytes);

}  // namespace isocost
