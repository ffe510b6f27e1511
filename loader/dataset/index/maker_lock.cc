#include "loader/dataset/index/maker_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstddef>
#include <iterator>
#include <system_error>
#include <thread>
#include <utility>

namespace isocost {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr milliseconds kPoll{100};
constexpr milliseconds kTell{500};
constexpr seconds kLog{30};
constexpr std::size_t kMostText = 512;  // bytes of the file that are read

std::string host_name() {
  std::array<char, HOST_NAME_MAX + 1> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "?";
}

// Returns "process 12 on host a (3 of 10 shards)"; empty while the holder has not written yet.
std::string holder_of(int descriptor) {
  std::array<char, kMostText> bytes{};
  const ssize_t read = pread(descriptor, bytes.data(), bytes.size(), 0);
  const std::string_view text(bytes.data(), static_cast<std::size_t>(std::max<ssize_t>(read, 0)));
  const std::string_view who = text.substr(0, text.find('\n'));
  std::string_view progress = text.substr(std::min(who.size() + 1, text.size()));
  progress = progress.substr(0, progress.find('\n'));
  return std::string(who) + (progress.empty() ? "" : fmt::format(" ({})", progress));
}

// Returns whether the locked file is still the one of this name: its holder may have removed it
// between open and lock.
bool is_there(int descriptor, const fs::path& file) {
  struct stat locked{};
  struct stat named{};
  return fstat(descriptor, &locked) == 0 && stat(file.c_str(), &named) == 0 &&
         locked.st_dev == named.st_dev && locked.st_ino == named.st_ino;
}

Error failed(const fs::path& file, int error) {
  return {ErrorCode::kIo, file.string() + ": " + std::generic_category().message(error)};
}

}  // namespace

MakerLock::MakerLock(fs::path file, std::optional<FileDescriptor> descriptor)
    : file_(std::move(file)), descriptor_(std::move(descriptor)) {
  write("");
}

MakerLock::~MakerLock() {
  // Before the descriptor is closed, so that nobody takes the lock of a file without a name.
  if (descriptor_) unlink(file_.c_str());
}

void MakerLock::tell(std::string_view progress) {
  {
    const MutexLock lock(mutex_);
    if (Clock::now() - told_ < kTell) return;
    told_ = Clock::now();
  }
  write(progress);
}

// Writes without the mutex: a reader may see half of it, or an older text if two writes meet, which
// costs it a word of one log line.
void MakerLock::write(std::string_view progress) const {
  if (!descriptor_) return;
  const std::string text =
      fmt::format("process {} on host {}\n{}\n", getpid(), host_name(), progress);
  if (pwrite(descriptor_->get(), text.data(), text.size(), 0) != std::ssize(text)) return;
  // If this fails, the rest of an older text stays: lines that nobody reads.
  [[maybe_unused]] const int cut = ftruncate(descriptor_->get(), static_cast<off_t>(text.size()));
}

MakerLockRequest::MakerLockRequest(fs::path file, std::string what, LogSink log)
    : file_(std::move(file)), what_(std::move(what)), log_(std::move(log)) {}

Result<std::unique_ptr<MakerLock>> MakerLockRequest::poll() {
  constexpr mode_t kMode = 0644;
  for (;;) {
    FileDescriptor descriptor(open(file_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, kMode));
    if (descriptor.get() < 0 && errno == EACCES) {
      // Another user's file in a folder of both: locking it needs no right to write it.
      descriptor = FileDescriptor(open(file_.c_str(), O_RDONLY | O_CLOEXEC));
    }
    if (descriptor.get() < 0) return failed(file_, errno);
    // A lock of the open file. One by fcntl would belong to the process, and lock out no thread.
    if (flock(descriptor.get(), LOCK_EX | LOCK_NB) != 0) {
      switch (errno) {
        case EWOULDBLOCK:
        case EACCES:  // the same, of some network file systems
          log_holder(holder_of(descriptor.get()));
          return nullptr;
        case EOPNOTSUPP:
        case ENOLCK:  // NFS without its lock daemon
        case ENOSYS:
        case EINVAL:  // The file system has no locks, so nobody holds this file.
          unlink(file_.c_str());
          return std::unique_ptr<MakerLock>(new MakerLock(file_, std::nullopt));
        default:
          return failed(file_, errno);
      }
    }
    if (!is_there(descriptor.get(), file_)) continue;
    const std::string before = holder_of(descriptor.get());
    if (!before.empty()) {
      log(log_, LogLevel::kWarning,
          fmt::format("{}: {} ended before it was done; this process goes on", what_, before));
    }
    return std::unique_ptr<MakerLock>(new MakerLock(file_, std::move(descriptor)));
  }
}

Result<std::unique_ptr<MakerLock>> MakerLockRequest::wait(const std::stop_token& stop) {
  for (;;) {
    if (stop.stop_requested()) {
      return Error(ErrorCode::kCancelled, "stopped while another process makes " + what_);
    }
    ISOCOST_ASSIGN(std::unique_ptr<MakerLock> lock, poll());
    if (lock != nullptr) return lock;
    std::this_thread::sleep_for(kPoll);
  }
}

void MakerLockRequest::log_holder(const std::string& holder) {
  const auto now = Clock::now();
  if (logged_ && now - *logged_ < kLog) return;
  logged_ = now;
  log(log_, LogLevel::kWarning,
      fmt::format("{}: {} makes them; waiting until it has ended", what_,
                  holder.empty() ? "another process" : holder));
}

}  // namespace isocost
