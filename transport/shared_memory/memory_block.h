#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/file_descriptor.h"
#include "base/result.h"

namespace isocost {

/// Pages of a process's address space that are unmapped on destruction. Move-only.
class Mapping {
 public:
  Mapping() = default;
  explicit Mapping(std::span<std::byte> bytes) : bytes_(bytes) {}
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping();

  std::span<std::byte> bytes() const { return bytes_; }

 private:
  std::span<std::byte> bytes_;
};

/// Memory that this process fills and another reads: a memfd, sealed so that nobody can change its
/// size. It has no name and goes with its last descriptor and mapping; a child of `fork` does not
/// have the mapping.
/// Move-only; single-thread, but its bytes may be written from several.
class MemoryBlock {
 public:
  /// Allocates at least `size` bytes, rounded up to whole pages, all of them at once. Errors:
  /// kUnavailable with what the system says, such as that it has no memory left.
  static Result<MemoryBlock> create(std::int64_t size);

  std::span<std::byte> bytes() const { return mapping_.bytes(); }
  std::int64_t size() const { return static_cast<std::int64_t>(mapping_.bytes().size()); }
  /// Returns the descriptor; -1 once it has been closed.
  int descriptor() const { return file_.get(); }
  /// Closes the descriptor of a block that has been passed on and is not to be passed again.
  void close_descriptor() { file_ = FileDescriptor(); }

 private:
  FileDescriptor file_;
  Mapping mapping_;
};

/// Maps the memory of another process's MemoryBlock, whose descriptor that process has passed.
/// Errors: kCorrupt unless it has the seals that MemoryBlock gives it (without them it could
/// shrink, and reading it would end this process); kUnavailable with what the system says.
Result<Mapping> map_block(const FileDescriptor& file);

}  // namespace isocost
