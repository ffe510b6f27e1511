#include "transport/internal/memory_block.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <string>
#include <system_error>
#include <utility>

namespace isocost {
namespace {

constexpr int kSeals = F_SEAL_FUTURE_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
constexpr std::int64_t kLargest = std::int64_t{1} << 46;

Error last_error(const char* action) {
  return {ErrorCode::kUnavailable,
          std::string(action) + ": " + std::generic_category().message(errno)};
}

Result<Mapping> map_file(int file, std::size_t size, int flags) {
  void* const address = mmap(nullptr, size, PROT_READ | PROT_WRITE, flags, file, 0);
  if (address == MAP_FAILED) return last_error("cannot map shared memory");
  return Mapping({static_cast<std::byte*>(address), size});
}

std::size_t page_size() {
  static const auto size = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return size;
}

// Memory that cannot be executed, for systems that demand to be told; others do not know the flag.
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

// Whether this process has a page of its own there instead of the file's. `entry` is of
// /proc/self/pagemap (https://docs.kernel.org/admin-guide/mm/pagemap.html).
bool is_private_page(std::uint64_t entry) {
  constexpr std::uint64_t kPresent = std::uint64_t{1} << 63;
  constexpr std::uint64_t kSwapped = std::uint64_t{1} << 62;
  constexpr std::uint64_t kOfFile = std::uint64_t{1} << 61;
  return (entry & (kPresent | kSwapped)) != 0 && (entry & kOfFile) == 0;
}

// True also where the system does not say.
bool may_have_private_pages(std::span<const std::byte> bytes) {
  // Opened each time: a descriptor that was kept would be of the parent after a fork.
  const FileDescriptor pages(open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC));
  if (!pages.is_open()) return true;
  std::array<std::uint64_t, 4096> entries{};
  const std::size_t first = std::bit_cast<std::uintptr_t>(bytes.data()) / page_size();
  const std::size_t end = first + bytes.size() / page_size();
  for (std::size_t page = first; page < end;) {
    const auto some = std::span(entries).first(std::min(entries.size(), end - page));
    const auto read = pages.read_at(static_cast<std::int64_t>(page * sizeof(std::uint64_t)),
                                    std::as_writable_bytes(some));
    if (!read || *read != some.size_bytes()) return true;
    if (std::any_of(some.begin(), some.end(), is_private_page)) return true;
    page += some.size();
  }
  return false;
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
  // A write to memory that the system lacks would end the process; asked for here, it is an error.
  const int file = block.descriptor();
  if (const int code = posix_fallocate(file, 0, static_cast<off_t>(whole)); code != 0) {
    errno = code;
    return last_error("no shared memory");
  }
  ISOCOST_ASSIGN(block.mapping_, map_file(file, whole, MAP_SHARED));
  // A child would keep the memory, and could write to what trainers read.
  if (madvise(block.bytes().data(), whole, MADV_DONTFORK) != 0) {
    return last_error("cannot keep shared memory from children of fork");
  }
  if (fcntl(file, F_ADD_SEALS, kSeals) != 0) return last_error("cannot seal shared memory");
  return block;
}

Result<ReceivedBlock> ReceivedBlock::map(const FileDescriptor& file) {
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
  ReceivedBlock block;
  ISOCOST_ASSIGN(block.mapping_,
                 map_file(file.get(), static_cast<std::size_t>(status.st_size), MAP_PRIVATE));
  if (!block.forget_writes()) {
    return Error(ErrorCode::kUnavailable,
                 "this process locks its memory (mlockall), so it would not see what the node "
                 "writes to shared memory");
  }
  return block;
}

bool ReceivedBlock::forget_writes() {
  const std::span<std::byte> all = bytes();
  return !may_have_private_pages(all) || madvise(all.data(), all.size(), MADV_DONTNEED) == 0;
}

}  // namespace isocost
