#include "transport/zmq/internal/job_key.h"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <system_error>
#include <tuple>
#include <utility>
#include <vector>

#include "base/file_descriptor.h"
#include "base/output_file.h"
#include "transport/zmq/internal/endpoint.h"

namespace isocost {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kKeyBytes = 32;
// A node touches its key at the first age; a key of the second age belongs to a dead node.
constexpr std::chrono::hours kYoung{1};
constexpr std::chrono::hours kOfTheDead{24};

// Returns whether nobody but this user can change or read the directory.
bool is_private(const fs::path& directory) {
  struct stat status{};
  return lstat(directory.c_str(), &status) == 0 && S_ISDIR(status.st_mode) &&
         status.st_uid == geteuid() && (status.st_mode & 077) == 0;
}

// Returns the directories where keys may be, the best one first. They do not depend on the
// environment, which a node and its trainers may not share.
std::vector<fs::path> directories() {
  const std::string user = std::to_string(geteuid());
  std::vector<fs::path> found;
  if (is_private("/run/user/" + user)) found.emplace_back("/run/user/" + user + "/isocost");
  found.emplace_back("/tmp/isocost-" + user);
  return found;
}

// Returns a name like "127.0.0.1:5800.key"; nothing for an endpoint that other machines reach, or
// without a port.
std::optional<std::string> file_name(std::string_view endpoint) {
  constexpr std::string_view kByName = "localhost:";
  const auto local = is_local_endpoint(endpoint);
  if (!local || !*local || !endpoint.starts_with(kTcp)) return std::nullopt;
  std::string name(endpoint.substr(kTcp.size()));
  if (name.starts_with(kByName)) name = "127.0.0.1:" + name.substr(kByName.size());
  if (name.find('/') != std::string::npos) return std::nullopt;
  return name + ".key";
}

Status make_private(const fs::path& directory) {
  if (mkdir(directory.c_str(), 0700) == 0 || is_private(directory)) return {};
  return Error(
      ErrorCode::kInvalidArgument,
      directory.string() +
          ": the key of a node on loopback is kept there, and it cannot be made, or is not "
          "a directory that only this user can read; mend that, give curve_key, or accept "
          "clients of all users with insecure");
}

}  // namespace

std::string make_job_key() {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::array<std::uint8_t, kKeyBytes> bytes{};
  while (getrandom(bytes.data(), bytes.size(), 0) != std::ssize(bytes)) {
  }
  std::string key;
  for (const std::uint8_t byte : bytes) {
    key += kDigits[byte >> 4];
    key += kDigits[byte & 15];
  }
  return key;
}

Result<JobKeyFile> JobKeyFile::write(std::string_view endpoint, const std::string& key) {
  const auto name = file_name(endpoint);
  if (!name) return JobKeyFile();
  const fs::path directory = directories().front();
  ISOCOST_TRY(make_private(directory));
  JobKeyFile file(directory / *name, key);
  ISOCOST_TRY(file.save());
  return file;
}

Status JobKeyFile::save() const {
  ISOCOST_TRY(replace_file(path_, key_ + "\n"));
  chmod(path_.c_str(), 0600);  // only this user can enter the directory in any case
  return {};
}

void JobKeyFile::keep() const {
  if (path_.empty()) return;
  std::error_code missing;
  const fs::file_time_type written = fs::last_write_time(path_, missing);
  const auto now = fs::file_time_type::clock::now();
  if (!missing && now - written < kYoung) return;
  // If this fails, the next beat tries again.
  if (!missing) {
    fs::last_write_time(path_, now, missing);
  } else if (make_private(path_.parent_path())) {
    std::ignore = save();
  }
}

JobKeyFile::JobKeyFile(JobKeyFile&& other) noexcept
    : path_(std::exchange(other.path_, {})), key_(std::move(other.key_)) {}

JobKeyFile& JobKeyFile::operator=(JobKeyFile&& other) noexcept {
  if (this != &other) {
    remove();
    path_ = std::exchange(other.path_, {});
    key_ = std::move(other.key_);
  }
  return *this;
}

void JobKeyFile::remove() noexcept {
  std::error_code ignored;
  if (!path_.empty()) fs::remove(path_, ignored);
}

std::optional<std::string> find_job_key(std::string_view endpoint) {
  const auto name = file_name(endpoint);
  if (!name) return std::nullopt;
  for (const fs::path& directory : directories()) {
    if (!is_private(directory)) continue;
    const FileDescriptor file(
        open((directory / *name).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    std::array<char, 2 * kKeyBytes> key{};
    if (!file.is_open()) continue;
    const auto read = file.read_at(0, std::as_writable_bytes(std::span(key)));
    if (read && *read == key.size()) return std::string(key.data(), key.size());
  }
  return std::nullopt;
}

void remove_old_job_keys(std::string_view endpoint) {
  const auto name = file_name(endpoint);
  if (!name) return;
  const auto oldest = fs::file_time_type::clock::now() - kOfTheDead;
  for (const fs::path& directory : directories()) {
    if (!is_private(directory)) continue;
    std::error_code ignored;
    fs::remove(directory / *name, ignored);
    for (fs::directory_iterator entry(directory, ignored), end; entry != end;
         entry.increment(ignored)) {
      const bool is_key = entry->path().extension() == ".key";
      if (is_key && entry->last_write_time(ignored) < oldest) fs::remove(entry->path(), ignored);
    }
  }
}

}  // namespace isocost
