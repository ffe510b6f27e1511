#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/file_descriptor.h"
#include "base/result.h"

namespace isocost {

/// Memory that a node and one decode worker map: the window, and after it the arena. Its size is
/// fixed from the start; pages are allocated on use. Move-only.
class WorkerMemory {
 public:
  /// Makes memory with an arena of `arena_bytes`. Its size is sealed, so that no worker can cut it
  /// under the node. Errors: kUnavailable.
  static Result<WorkerMemory> create(std::int64_t arena_bytes);
  /// Maps the memory that another process's `create` made; takes the descriptor. Errors:
  /// kUnavailable.
  static Result<WorkerMemory> map(FileDescriptor file);

  WorkerMemory(WorkerMemory&& other) noexcept;
  WorkerMemory& operator=(WorkerMemory&&) = delete;
  WorkerMemory(const WorkerMemory&) = delete;
  WorkerMemory& operator=(const WorkerMemory&) = delete;
  ~WorkerMemory();

  int descriptor() const { return file_.get(); }
  std::span<std::byte> window() const;
  std::span<std::byte> arena() const;
  /// Returns the arena's pages after the first `keep` bytes to the system; they become zeros.
  void release_beyond(std::int64_t keep) const;

 private:
  WorkerMemory(FileDescriptor file, std::span<std::byte> mapped);
  FileDescriptor file_;
  std::span<std::byte> mapped_;
};

}  // namespace isocost
