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
/// to it or change its size. It has no name and goes with its last descriptor and mapping.
/// Move-only; single-thread, but its bytes may be written from several.
class MemoryBlock {
 public:
  /// `size`: bytes, which may be rounded up to whole pages. Its pages are there at once. Errors:
  /// kUnavailable with what the system says, such as that it has no memory left.
  static Result<MemoryBlock> create(std::int64_t size);

  std::span<std::byte> bytes() const { return mapping_.bytes(); }
  std::int64_t size() const { return static_cast<std::int64_t>(mapping_.bytes().size()); }
  int descriptor() const { return file_.get(); }

 private:
  FileDescriptor file_;
  Mapping mapping_;
};

/// Memory of another process, to be read and, privately, written: what this process writes stays
/// its own until `forget_writes`. Single-thread.
class ReceivedBlock {
 public:
  /// Maps the memory behind a descriptor that another process has passed. Errors: kCorrupt unless
  /// it is sealed as MemoryBlock seals it (else it could shrink, and reading it end this process);
  /// kUnavailable with what the system says.
  static Result<ReceivedBlock> map(const FileDescriptor& file);

  std::span<std::byte> bytes() const { return mapping_.bytes(); }
  /// Drops the pages that this process has written to, so that it reads those of the other process
  /// again. Costs about a microsecond per MiB where nothing was written.
  void forget_writes();

 private:
  Mapping mapping_;
};

}  // namespace isocost
