#include "loader/dataset/stores/cache/internal/cache_place.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <span>
#include <string>
#include <system_error>

#include "base/file_descriptor.h"

namespace isocost {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMarkBegin = "isocost cache, version ";
constexpr mode_t kOwnerOnly = 0700;

struct NetworkKind {
  unsigned long number;
  std::string_view name;
};
// statfs(2), and linux/magic.h.
constexpr std::array kNetworkKinds = {
    NetworkKind{0x6969, "NFS"},        NetworkKind{0x517B, "SMB"},
    NetworkKind{0xFE534D42, "SMB"},    NetworkKind{0xFF534D42, "CIFS"},
    NetworkKind{0x65735546, "FUSE"},   NetworkKind{0x00C36400, "Ceph"},
    NetworkKind{0x0BD00BD0, "Lustre"}, NetworkKind{0x47504653, "GPFS"},
    NetworkKind{0x19830326, "BeeGFS"}, NetworkKind{0x5346414F, "AFS"},
    NetworkKind{0x6B414653, "AFS"},    NetworkKind{0x73757245, "Coda"},
    NetworkKind{0x01021997, "9P"},     NetworkKind{0x7461636F, "OCFS2"},
    NetworkKind{0x01161970, "GFS2"},
};

Error refused(const fs::path& directory, std::string_view problem) {
  return {ErrorCode::kInvalidArgument,
          fmt::format("the cache {}: {}", directory.string(), problem)};
}

// The error of the last system call: a disk that takes no bytes is no mistake of the caller.
Error last_error(const fs::path& file, std::string_view action) {
  const int number = errno;
  Error error = last_file_error(file, action);
  const bool takes_none = number == EROFS || number == ENOSPC || number == EDQUOT;
  return takes_none ? Error(ErrorCode::kResourceExhausted, error.message()) : error;
}

Status make_directory(const fs::path& directory) {
  std::error_code failed;
  fs::create_directories(fs::absolute(directory).lexically_normal().parent_path(), failed);
  if (::mkdir(directory.c_str(), kOwnerOnly) == 0 || errno == EEXIST) return {};
  return last_error(directory, "make");
}

Result<std::string> read_mark(const fs::path& directory) {
  const fs::path file = directory / kCacheMark;
  const FileDescriptor mark(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  if (!mark.is_open()) return last_error(file, "open");
  std::string text(64, '\0');
  ISOCOST_ASSIGN(const std::size_t read, mark.read_at(0, std::as_writable_bytes(std::span(text))));
  text.resize(read);
  return text;
}

std::string this_version() { return fmt::format("{}{}\n", kMarkBegin, kCacheVersion); }

// Writes the mark beside its name and links it there, so that it is never seen in part.
Status write_mark(const fs::path& directory) {
  const fs::path file = directory / kCacheMark;
  const fs::path unfinished = directory / fmt::format("{}-new-{}", kCacheMark, ::getpid());
  const FileDescriptor mark(
      ::open(unfinished.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!mark.is_open()) return last_error(unfinished, "write");
  const std::string text = this_version();
  const auto written = ::write(mark.get(), text.data(), text.size());
  const bool is_linked = written == static_cast<ssize_t>(text.size()) &&
                         (::link(unfinished.c_str(), file.c_str()) == 0 || errno == EEXIST);
  const int number = errno;
  ::unlink(unfinished.c_str());
  errno = number;
  return is_linked ? Status() : Status(last_error(file, "write"));
}

bool has_other_files(const fs::path& directory) {
  std::error_code failed;
  for (const auto& file : fs::directory_iterator(directory, failed)) {
    const std::string name = file.path().filename().string();
    if (name != "lost+found" && !name.starts_with(kCacheMark)) return true;
  }
  return false;
}

Status check_version(const fs::path& directory, std::string_view mark) {
  if (mark == this_version()) return {};
  if (!mark.starts_with(kMarkBegin)) {
    return refused(directory, fmt::format("its file {} is damaged; empty the directory, or give "
                                          "another one",
                                          kCacheMark));
  }
  std::string_view version = mark.substr(kMarkBegin.size());
  version = version.substr(0, version.find('\n'));
  return refused(directory, fmt::format("it is a cache of version {}, and this program uses "
                                        "version {}: empty it by `isocost cache rm {}`, or give "
                                        "another directory",
                                        version, kCacheVersion, directory.string()));
}

// Checks owner and file system of a directory that is there.
Status check_owner_and_place(const fs::path& directory) {
  struct stat status{};
  if (::stat(directory.c_str(), &status) != 0) return last_error(directory, "open");
  if (!S_ISDIR(status.st_mode)) return refused(directory, "it is no directory; give one");
  if (status.st_uid != ::geteuid()) {
    return refused(directory,
                   fmt::format("it belongs to user {}, and this process runs as user {}: a cache "
                               "is its user's alone; give a directory below it, which is made, "
                               "such as {}",
                               status.st_uid, ::geteuid(),
                               (directory / fmt::format("isocost-{}", ::geteuid())).string()));
  }
  struct statfs place{};
  if (::statfs(directory.c_str(), &place) != 0) return last_error(directory, "look at");
  const std::string_view network = network_file_system(static_cast<long>(place.f_type));
  if (network.empty()) return {};
  return refused(directory, fmt::format("it lies on a file system of the network ({}), which is "
                                        "no faster than the store, and which other hosts may "
                                        "change: give a directory on a local disk",
                                        network));
}

}  // namespace

std::string_view network_file_system(long kind) {
  // The number is signed on some machines, and has 32 bits.
  const auto number = static_cast<unsigned long>(kind) & 0xFFFF'FFFFUL;
  const auto found = std::ranges::find(kNetworkKinds, number, &NetworkKind::number);
  return found == kNetworkKinds.end() ? std::string_view() : found->name;
}

Status prepare_cache_place(const fs::path& directory) {
  ISOCOST_TRY(make_directory(directory));
  ISOCOST_TRY(check_owner_and_place(directory));
  Result<std::string> mark = read_mark(directory);
  if (!mark && mark.error().code() == ErrorCode::kNotFound) {
    if (has_other_files(directory)) {
      return refused(directory,
                     "it holds other files, and entries of a cache are removed: give an empty "
                     "directory, or one that is not there yet");
    }
    ISOCOST_TRY(write_mark(directory));
    mark = read_mark(directory);
  }
  if (!mark) return std::move(mark).error();
  ISOCOST_TRY(check_version(directory, *mark));
  struct stat status{};
  if (::stat(directory.c_str(), &status) == 0 && (status.st_mode & 0777U) != kOwnerOnly &&
      ::chmod(directory.c_str(), kOwnerOnly) != 0) {
    return last_error(directory, "set the mode of");
  }
  return {};
}

Status check_is_cache(const fs::path& directory, bool any_version) {
  struct stat status{};
  if (::stat(directory.c_str(), &status) != 0) return last_error(directory, "open");
  if (!S_ISDIR(status.st_mode)) return refused(directory, "it is no directory");
  const Result<std::string> mark = read_mark(directory);
  if (!mark && mark.error().code() != ErrorCode::kNotFound) return mark.error();
  if (!mark) {
    return refused(directory, fmt::format("it is no cache: it has no file {}; give the directory "
                                          "of --cache",
                                          kCacheMark));
  }
  if (any_version && mark->starts_with(kMarkBegin)) return {};
  return check_version(directory, *mark);
}

}  // namespace isocost
