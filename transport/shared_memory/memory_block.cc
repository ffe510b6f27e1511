#include "transport/shared_memory/memory_block.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <utility>

#include "transport/shared_memory/internal/last_error.h"

namespace isocost {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
constexpr std::int64_t kLargest = std::int64_t{1} << 46;

Result<Mapping> map_file(int file, std::size_t size) {
  void* const address = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (address == MAP_FAILED) return last_error("cannot map shared memory");
  return Mapping({static_cast<std::byte*>(address), size});
}

std::size_t page_size() {
  static const auto size = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return size;
}

// Makes a memfd that cannot be executed, as some systems demand; older kernels do not know the
// flag.
FileDescriptor make_memory() {
  constexpr unsigned kFlags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  constexpr unsigned kNoExec = 8;  // MFD_NOEXEC_SEAL, which glibc 2.36 does not name
  FileDescriptor file(memfd_create("isocost", kFlags | kNoExec));
  if (!file.is_open() && errno == EINVAL) file = FileDescriptor(memfd_create("isocost", kFlags));
  return file;
}

bool has_seals(int file) {
  const int seals = fcntl(file, F_GET_SEALS);
  return seals >= 0 && (seals & kSeals) == kSeals;
}

}  // namespace

Mapping::Mapping(Mapping&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

Mapping::~Mapping() {
  if (!bytes_.empty()) munmap(bytes_.data(), bytes_.size());
}

Result<MemoryBlock> MemoryBlock::create(std::int64_t size) {
  if (size <= 0 || size > kLargest) {
    return Error(ErrorCode::kInvalidArgument, "no block has " + std::to_string(size) + " bytes");
  }
  const std::size_t page = page_size();
  const std::size_t whole = (static_cast<std::size_t>(size) + page - 1) / page * page;
  MemoryBlock block;
  block.file_ = make_memory();
  if (!block.file_.is_open()) return last_error("cannot make shared memory");
  // Writing to pages that the system cannot provide would end the process; allocating them here
  // returns an error instead.
  const int file = block.descriptor();
  int code = EINTR;
  while (code == EINTR) code = posix_fallocate(file, 0, static_cast<off_t>(whole));
  if (code != 0) {
    errno = code;
    return last_error("no shared memory");
  }
  ISOCOST_ASSIGN(block.mapping_, map_file(file, whole));
  // Without this, a child process would keep the memory.
  if (madvise(block.bytes().data(), whole, MADV_DONTFORK) != 0) {
    return last_error("cannot keep shared memory from children of fork");
  }
  if (fcntl(file, F_ADD_SEALS, kSeals) != 0) return last_error("cannot seal shared memory");
  return block;
}

Result<Mapping> map_block(const FileDescriptor& file) {
  if (!has_seals(file.get())) {
    return Error(ErrorCode::kCorrupt, "the node passed memory that is not sealed");
  }
  struct stat status{};
  if (fstat(file.get(), &status) != 0) return last_error("cannot look at shared memory");
  if (status.st_size <= 0 || status.st_size > kLargest ||
      static_cast<std::size_t>(status.st_size) % page_size() != 0) {
    return Error(ErrorCode::kCorrupt,
                 "the node passed a block of " + std::to_string(status.st_size) + " bytes");
  }
  return map_file(file.get(), static_cast<std::size_t>(status.st_size));
}

}  // namespace isocost
