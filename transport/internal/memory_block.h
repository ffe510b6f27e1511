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

/// Memory that this process writes and others read: a memfd, sealed so that nobody else can write
/// to it or change its size. It has no name and goes with its last descriptor and mapping; a child
/// of `fork` does not have the mapping.
/// Move-only; single-thread, but its bytes may be written from several.
class MemoryBlock {
 public:
  /// `size`: bytes, which may be rounded up to whole pages. Its pages are there at once. Errors:
  /// kUnavailable with what the system says, such as that it has no memory left.
  static Result<MemoryBlock> create(std::int64_t size);

  std::span<std::byte> bytes() const { return mapping_.bytes(); }
  std::int64_t size() const { return static_cast<std::int64_t>(mapping_.bytes().size()); }
  /// -1 once it has been closed.
  int descriptor() const { return file_.get(); }
  /// For a block that has been passed on and is not to be passed again: one descriptor less.
  void close_descriptor() { file_ = FileDescriptor(); }

 private:
  FileDescriptor file_;
  Mapping mapping_;
};

/// Memory of another process, to be read and, privately, written: what this process writes stays
/// its own until `forget_writes`. Single-thread.
class ReceivedBlock {
 public:
  /// Maps the memory behind a descriptor that another process has passed. Errors: kCorrupt unless
  /// it has the seals that MemoryBlock gives it (else it could shrink, and reading it end this
  /// process); kUnavailable with what the system says, and where this process locks all its memory
  /// (mlockall), since it would then read its own copies.
  static Result<ReceivedBlock> map(const FileDescriptor& file);

  std::span<std::byte> bytes() const { return mapping_.bytes(); }
  /// Drops the pages that this process has written to, so that it reads those of the other process
  /// again. Returns false where that is impossible because the pages are locked (mlock): what the
  /// other process writes from then on does not show. Costs about a microsecond per MiB where
  /// nothing was written.
  [[nodiscard]] bool forget_writes();

 private:
  Mapping mapping_;
};

}  // namespace isocost
