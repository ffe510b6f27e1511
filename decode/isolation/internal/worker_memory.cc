#include "decode/isolation/internal/worker_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "decode/isolation/internal/worker_protocol.h"

namespace isocost {
namespace {

Error refused(const char* what) {
  return {ErrorCode::kUnavailable,
          std::string("memory for a decode worker: ") + what + ": " + std::strerror(errno)};
}

}  // namespace

Result<WorkerMemory> WorkerMemory::create(std::int64_t arena_bytes) {
  FileDescriptor file(memfd_create("isocost-decode", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file.is_open()) return refused("memfd_create");
  if (ftruncate(file.get(), static_cast<off_t>(kWindowBytes) + arena_bytes) != 0) {
    return refused("ftruncate");
  }
  if (fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return refused("sealing");
  }
  return map(std::move(file));
}

Result<WorkerMemory> WorkerMemory::map(FileDescriptor file) {
  struct stat status{};
  if (fstat(file.get(), &status) != 0) return refused("fstat");
  const auto size = static_cast<std::size_t>(status.st_size);
  if (size <= kWindowBytes) return Error(ErrorCode::kCorrupt, "no memory of a decode worker");
  void* address =
      mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file.get(), 0);
  if (address == MAP_FAILED) return refused("mmap");
  return WorkerMemory(std::move(file), {static_cast<std::byte*>(address), size});
}

WorkerMemory::WorkerMemory(FileDescriptor file, std::span<std::byte> mapped)
    : file_(std::move(file)), mapped_(mapped) {}

WorkerMemory::WorkerMemory(WorkerMemory&& other) noexcept
    : file_(std::move(other.file_)), mapped_(std::exchange(other.mapped_, {})) {}

WorkerMemory::~WorkerMemory() {
  if (!mapped_.empty()) munmap(mapped_.data(), mapped_.size());
}

std::span<std::byte> WorkerMemory::window() const { return mapped_.first(kWindowBytes); }
std::span<std::byte> WorkerMemory::arena() const { return mapped_.subspan(kWindowBytes); }

void WorkerMemory::release_beyond(std::int64_t keep) const {
  const auto from = static_cast<off_t>(kWindowBytes) + keep;
  const off_t bytes = static_cast<off_t>(mapped_.size()) - from;
  // If this is refused, the pages stay, and are reused.
  if (bytes > 0)
    (void)fallocate(file_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, from, bytes);
}

}  // namespace isocost
