#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "base/byte_source.h"
#include "base/result.h"
#include "loader/dataset/stores/file_stamp.h"

namespace isocost {

/// The bytes of a regular file. Immutable; const-safe.
class FileSource final : public ByteSource {
 public:
  /// Opens a file. Errors: kNotFound, kIo (also if it is not a regular file).
  static Result<std::unique_ptr<FileSource>> open(const std::filesystem::path& path);

  std::int64_t size() const override { return opened_.stamp.bytes; }
  /// Returns the stamp of the file when it was opened.
  const FileStamp& stamp() const { return opened_.stamp; }
  Result<std::size_t> read_at(std::int64_t offset, std::span<std::byte> destination) const override;

 private:
  FileSource() = default;
  StampedFile opened_;
  std::string name_;
};

}  // namespace isocost
