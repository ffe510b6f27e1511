#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace isocost {

/// The key that clients of a node on loopback show, so that other users of the machine cannot
/// connect. The node keeps it in a file named after its endpoint, which only this user can read: in
/// /run/user/UID/isocost, or in /tmp/isocost-UID where the system has no such directory. Move-only;
/// the destructor removes the file.
class JobKeyFile {
 public:
  JobKeyFile() = default;  ///< No file.
  /// Writes the key of a node that listens on `endpoint`, port included, over an earlier node's.
  /// Errors: kInvalidArgument with the directory that cannot be made or written.
  static Result<JobKeyFile> write(std::string_view endpoint, const std::string& key);
  JobKeyFile(JobKeyFile&& other) noexcept;
  JobKeyFile& operator=(JobKeyFile&& other) noexcept;
  JobKeyFile(const JobKeyFile&) = delete;
  JobKeyFile& operator=(const JobKeyFile&) = delete;
  ~JobKeyFile() { remove(); }
  /// Writes the file again if it is gone, and renews its time, since cleaners of /tmp remove old
  /// files.
  void keep() const;

 private:
  JobKeyFile(std::filesystem::path path, std::string key)
      : path_(std::move(path)), key_(std::move(key)) {}
  Status save() const;
  void remove() noexcept;
  std::filesystem::path path_;
  std::string key_;
};

/// Returns a fresh key.
std::string make_job_key();

/// Returns the key of the node that listens on a loopback endpoint; nothing if it has none that
/// this user can read.
std::optional<std::string> find_job_key(std::string_view endpoint);

/// Removes keys that killed nodes have left: the one of this endpoint, and those more than a day
/// old.
void remove_old_job_keys(std::string_view endpoint);

}  // namespace isocost
