#pragma once

#include <filesystem>
#include <string_view>

#include "base/result.h"

namespace isocost {

/// A new, empty directory that belongs to this object: its destructor removes it with everything in
/// it. A moved-from object owns nothing, and its path is empty. Single-thread.
class ScratchDirectory {
 public:
  /// Makes PREFIX-XXXXXX (six characters that make the name unique, mode 0700) in the system's
  /// directory for temporary files, which the user chooses with TMPDIR. Errors: kInvalidArgument if
  /// the directory cannot be made there; the message gives the reason and names TMPDIR.
  static Result<ScratchDirectory> create(std::string_view prefix);
  ~ScratchDirectory() { remove(); }
  ScratchDirectory(ScratchDirectory&& other) noexcept;
  ScratchDirectory& operator=(ScratchDirectory&&) = delete;

  const std::filesystem::path& path() const { return path_; }
  /// Returns the path of an entry in it.
  std::filesystem::path operator/(std::string_view name) const { return path_ / name; }

 private:
  explicit ScratchDirectory(std::filesystem::path path);
  void remove() noexcept;

  std::filesystem::path path_;
};

}  // namespace isocost
