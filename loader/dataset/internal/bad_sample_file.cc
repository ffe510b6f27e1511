#include "loader/dataset/internal/bad_sample_file.h"

#include <fcntl.h>
#include <sys/file.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <span>
#include <system_error>

#include "base/output_file.h"

namespace isocost {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t kMaxLineBytes = std::size_t{1} << 20;

// Returns whether the first line is one that this program writes.
bool is_list(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  std::string start(kMaxLineBytes, '\0');
  stream.read(start.data(), static_cast<std::streamsize>(start.size()));
  start.resize(static_cast<std::size_t>(stream.gcount()));
  const auto line = nlohmann::json::parse(start.substr(0, start.find('\n')), nullptr, false);
  return line.is_object() && line.size() == 4 && line.contains("shard") && line.contains("key") &&
         line.contains("part") && line.contains("reason");
}

}  // namespace

Result<BadSampleFile> BadSampleFile::create(const fs::path& name) {
  ISOCOST_TRY(check_output_file("bad_samples_file", name));
  std::error_code failed;
  const fs::file_status status = fs::symlink_status(name, failed);
  if (name.empty() || !fs::exists(status)) return BadSampleFile(name);
  if (!fs::is_regular_file(status) || !is_list(name)) {
    return Error(ErrorCode::kInvalidArgument,
                 "bad_samples_file: " + name.string() +
                     " is there, and is not a list of bad samples: name another file");
  }
  const FileDescriptor earlier(::open(name.c_str(), O_RDONLY | O_CLOEXEC));
  if (earlier.is_open() && ::flock(earlier.get(), LOCK_SH | LOCK_NB) != 0) {
    return Error(ErrorCode::kInvalidArgument, "bad_samples_file: " + name.string() +
                                                  " is the list of a node that runs: name "
                                                  "another file");
  }
  return BadSampleFile(name);
}

void BadSampleFile::remove_earlier() const {
  std::error_code ignored;
  if (!name_.empty() && !file_.is_open()) fs::remove(name_, ignored);
}

Status BadSampleFile::append(const std::string& line) {
  if (name_.empty()) return {};
  const bool first = !file_.is_open();
  if (first) {
    remove_earlier();
    file_ = FileDescriptor(
        ::open(name_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0644));
    if (!file_.is_open()) return last_file_error(name_, "write");
    // Another node may take the file for an earlier run's if the file system has no locks.
    static_cast<void>(::flock(file_.get(), LOCK_EX | LOCK_NB));
  }
  const Status written = file_.write(std::as_bytes(std::span(line)));
  if (written) return {};
  // A file without a whole line would not be recognised as a list when the next run replaces it.
  std::error_code ignored;
  if (first) fs::remove(name_, ignored);
  return Error(written.error()).with_context(name_.string());
}

}  // namespace isocost
