#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "base/byte_source.h"
#include "base/file_descriptor.h"
#include "base/result.h"

namespace isocost {

/// The bytes of a regular file. Immutable; const-safe.
class FileSource final : public ByteSource {
 public:
  /// Opens a file. Errors: kNotFound, kIo (also if it is not a regular file).
  static Result<std::unique_ptr<FileSource>> open(const std::filesystem::path& path);

  std::int64_t size() const override { return bytes_; }
  Result<std::size_t> read_at(std::int64_t offset, std::span<std::byte> destination) const override;

 private:
  FileSource() = default;
  FileDescriptor file_;
  std::string name_;
  std::int64_t bytes_ = 0;
};

}  // namespace isocost
