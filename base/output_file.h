#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>

#include "base/file_descriptor.h"
#include "base/result.h"

namespace isocost {

/// Checks that `file` can be written later, so that hours of work do not end in an error. Checks
/// permissions and writes nothing; an empty path passes. Errors: kInvalidArgument with `option` and
/// the reason.
Status check_output_file(std::string_view option, const std::filesystem::path& file);

/// A file that appears under its name only when it is complete: it is written beside that name and
/// renamed by commit(), when the disk has its bytes. Replaces an older file atomically, so that a
/// reader sees either the old bytes or the new ones, even after a loss of power. Mode 0644, less
/// the umask. Movable. Single-thread; several threads and processes may replace the same file, and
/// the last one wins.
class OutputFile {
 public:
  /// Creates the file beside `file`. Errors: kIo.
  static Result<OutputFile> create(const std::filesystem::path& file);
  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&&) = delete;
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  ~OutputFile();  ///< Leaves nothing behind if the file was not committed.

  const FileDescriptor& descriptor() const { return descriptor_; }
  /// Appends bytes. Errors: kIo.
  Status write(std::span<const std::byte> bytes);
  /// Makes the bytes durable and renames the file. Errors: kIo.
  Status commit();

 private:
  OutputFile(std::filesystem::path file, std::filesystem::path scratch, FileDescriptor descriptor);

  std::filesystem::path file_;
  std::filesystem::path scratch_;  // empty once committed or moved from
  FileDescriptor descriptor_;
};

/// Replaces `file` by these bytes, see OutputFile. A device or a pipe, such as /dev/stdout, is
/// written to instead. Errors: kIo.
Status replace_file(const std::filesystem::path& file, std::span<const std::byte> bytes);
Status replace_file(const std::filesystem::path& file, std::string_view bytes);

}  // namespace isocost
