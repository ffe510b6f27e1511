#include "loader/dataset/stores/cache/internal/eviction.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <memory>

#include "base/file_descriptor.h"
#include "loader/dataset/stores/cache/internal/entry_format.h"

namespace isocost {
namespace {

constexpr std::int64_t kBlock = 512;           // unit of st_blocks
constexpr std::int64_t kAbandonedAfter = 600;  // seconds in which any entry is made

struct CloseDirectory {
  void operator()(DIR* open) const { ::closedir(open); }
};

}  // namespace

std::vector<EntryFile> list_entries(const std::filesystem::path& directory) {
  std::vector<EntryFile> entries;
  const std::unique_ptr<DIR, CloseDirectory> files(::opendir(directory.c_str()));
  if (!files) return entries;
  const std::int64_t now = std::time(nullptr);
  // NOLINTNEXTLINE(concurrency-mt-unsafe): the stream is this function's.
  while (const dirent* file = ::readdir(files.get())) {
    const std::string name = file->d_name;
    const bool is_unfinished = is_unfinished_name(name);
    struct stat status{};
    if ((!is_unfinished && !is_entry_name(name)) ||
        ::fstatat(::dirfd(files.get()), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0 ||
        !S_ISREG(status.st_mode)) {
      continue;
    }
    if (is_unfinished) {
      if (now - status.st_mtim.tv_sec > kAbandonedAfter) {
        ::unlinkat(::dirfd(files.get()), name.c_str(), 0);
      }
      continue;
    }
    entries.push_back(
        {name, status.st_blocks * kBlock,
         std::int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec});
  }
  return entries;
}

Removal remove_entry(const std::filesystem::path& directory, const std::string& name) {
  const std::filesystem::path path = directory / name;
  const FileDescriptor file(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
  if (!file.is_open()) return Removal::kFailed;
  if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) return Removal::kInUse;
  struct stat status{};
  // Another process may have removed it, and its name may be a new entry's by now.
  if (::fstat(file.get(), &status) != 0 || status.st_nlink == 0) return Removal::kFailed;
  if (::unlink(path.c_str()) != 0) return Removal::kFailed;
  // Nobody reads it, and who has it open looks at its links before reading.
  return ::ftruncate(file.get(), 0) == 0 ? Removal::kDone : Removal::kFailed;
}

Eviction evict(const std::filesystem::path& directory, std::int64_t most_bytes,
               std::string_view spared) {
  std::vector<EntryFile> entries = list_entries(directory);
  Eviction eviction;
  for (const EntryFile& entry : entries) eviction.disk_bytes += entry.disk_bytes;
  if (eviction.disk_bytes <= most_bytes) return eviction;
  std::ranges::sort(entries, {}, &EntryFile::used_ns);
  for (const EntryFile& entry : entries) {
    if (eviction.disk_bytes <= most_bytes) break;
    if (entry.name == spared || remove_entry(directory, entry.name) != Removal::kDone) continue;
    eviction.disk_bytes -= entry.disk_bytes;
    ++eviction.removed;
  }
  return eviction;
}

}  // namespace isocost
