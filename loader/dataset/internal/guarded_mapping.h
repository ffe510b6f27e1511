#pragma once

#include <atomic>
#include <cstddef>
#include <filesystem>
#include <span>

#include "base/result.h"

namespace isocost {

/// A file mapped for reading that another process may cut meanwhile. Reading beyond the new end
/// would end this process by SIGBUS; here it gives zeros, and `damaged` tells. For this the first
/// mapping installs a handler of SIGBUS, which passes faults elsewhere on to the one before it.
/// Move-only; const-safe.
class GuardedMapping {
 public:
  GuardedMapping() = default;
  /// Errors: kNotFound, kIo; kCorrupt for an empty file, and for what is no regular file.
  static Result<GuardedMapping> map(const std::filesystem::path& file);
  GuardedMapping(GuardedMapping&& other) noexcept;
  GuardedMapping& operator=(GuardedMapping&& other) noexcept;
  GuardedMapping(const GuardedMapping&) = delete;
  GuardedMapping& operator=(const GuardedMapping&) = delete;
  ~GuardedMapping();

  std::span<const std::byte> bytes() const;
  /// Returns whether bytes were read that the file no longer had.
  bool damaged() const;

  struct Slot;  ///< What the handler knows of a mapping.

 private:
  explicit GuardedMapping(Slot* slot) : slot_(slot) {}
  void unmap();
  Slot* slot_ = nullptr;
};

}  // namespace isocost
