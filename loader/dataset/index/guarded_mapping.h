#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <utility>

#include "base/result.h"
#include "loader/dataset/stores/file_stamp.h"

namespace isocost {

/// A file mapped for reading that another process may cut meanwhile. Reading beyond the new end
/// would end this process by SIGBUS; here it gives zeros, and `damaged` reports it. For this the
/// first mapping installs a handler of SIGBUS, which passes faults elsewhere on to the previous
/// one. Move-only; const-safe.
class GuardedMapping {
 public:
  GuardedMapping() = default;
  /// Maps a file. Errors: kNotFound, kIo; kCorrupt for an empty file, and for anything but a
  /// regular file.
  static Result<GuardedMapping> map(const std::filesystem::path& file);
  GuardedMapping(GuardedMapping&& other) noexcept;
  GuardedMapping& operator=(GuardedMapping&& other) noexcept;
  GuardedMapping(const GuardedMapping&) = delete;
  GuardedMapping& operator=(const GuardedMapping&) = delete;
  ~GuardedMapping();

  std::span<const std::byte> bytes() const;
  /// Returns the size and the time that the file had when it was mapped.
  const FileStamp& stamp() const { return stamp_; }
  /// Returns whether the file has been cut: bytes read since then may be zeros. The end of a cut
  /// page raises no signal, so this checks the file's size.
  bool damaged() const;

  struct Slot;  ///< A mapping's entry for the handler.

 private:
  GuardedMapping(Slot* slot, std::filesystem::path file, std::uint64_t inode,
                 const FileStamp& stamp)
      : slot_(slot), file_(std::move(file)), inode_(inode), stamp_(stamp) {}
  void unmap();
  Slot* slot_ = nullptr;
  std::filesystem::path file_;
  std::uint64_t inode_ = 0;
  FileStamp stamp_;
};

}  // namespace isocost
