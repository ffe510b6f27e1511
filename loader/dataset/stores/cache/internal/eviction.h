#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace isocost {

/// The file of an entry.
struct EntryFile {
  std::string name;
  std::int64_t disk_bytes = 0;
  std::int64_t used_ns = 0;  ///< Time of the last use, since 1970.
};

/// Lists the entries of a directory. Removes what processes left that ended while they made an
/// entry.
std::vector<EntryFile> list_entries(const std::filesystem::path& directory);

enum class Removal : std::uint8_t { kDone, kInUse, kFailed };
/// Removes an entry, unless a process reads or writes it. Its room on the disk is free at once,
/// also where processes have it open.
Removal remove_entry(const std::filesystem::path& directory, const std::string& name);

struct Eviction {
  std::int64_t disk_bytes = 0;  ///< Room of the entries that are left.
  std::int64_t removed = 0;
};
/// Removes whole entries, those first that were used least recently, until the others take at most
/// `most_bytes`. Leaves the one that is called `spared`, and those that are being read.
Eviction evict(const std::filesystem::path& directory, std::int64_t most_bytes,
               std::string_view spared);

}  // namespace isocost
