#include "loader/dataset/index/guarded_mapping.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#include "base/file_descriptor.h"
#include "base/mutex.h"

namespace isocost {

// A slot for a mapping. Slots are in a list that only grows, because the handler may walk it at any
// time; a free one, of no bytes, is reused.
struct GuardedMapping::Slot {
  std::atomic<std::byte*> begin = nullptr;
  std::atomic<std::size_t> size = 0;
  std::atomic<bool> damaged = false;
  Slot* next = nullptr;
};

namespace {

using Slot = GuardedMapping::Slot;

static_assert(std::atomic<std::byte*>::is_always_lock_free &&
              std::atomic<std::size_t>::is_always_lock_free);

std::atomic<Slot*>& slots() {
  static std::atomic<Slot*> first = nullptr;
  return first;
}

struct sigaction& handler_before() {
  static struct sigaction before{};
  return before;
}

// Puts a page of zeros where the file has none any more. Uses only functions that are safe in a
// signal handler.
bool mend(const void* address) {
  const auto* at = static_cast<const std::byte*>(address);
  for (Slot* slot = slots().load(); slot != nullptr; slot = slot->next) {
    std::byte* const begin = slot->begin.load();
    const std::size_t size = slot->size.load();
    if (size == 0 || at < begin || at >= begin + size) continue;
    const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
    std::byte* const first = begin + static_cast<std::size_t>(at - begin) / page * page;
    slot->damaged.store(true);
    return mmap(first, page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) !=
           MAP_FAILED;
  }
  return false;
}

void on_bus_error(int signal, siginfo_t* info, void* context) {
  const int kept_errno = errno;
  const bool mended = info->si_code == BUS_ADRERR && mend(info->si_addr);
  errno = kept_errno;
  if (mended) return;
  const struct sigaction& before = handler_before();
  if ((before.sa_flags & SA_SIGINFO) != 0) {
    before.sa_sigaction(signal, info, context);
  } else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
    before.sa_handler(signal);
  } else {
    ::signal(signal, SIG_DFL);  // the access is repeated, and ends the process
  }
}

void install_handler() {
  static std::once_flag once;
  std::call_once(once, [] {
    (void)slots();  // initialised before the handler can need it
    struct sigaction action{};
    action.sa_sigaction = on_bus_error;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, &handler_before());
  });
}

// Slots that no mapping has. The handler does not need them.
struct FreeSlots {
  Mutex mutex;
  std::vector<Slot*> slots ISOCOST_GUARDED_BY(mutex);
};

FreeSlots& free_slots() {
  static auto* const free = new FreeSlots;  // mappings may be let go after the statics
  return *free;
}

Slot* take_slot(std::byte* begin, std::size_t size) {
  FreeSlots& free = free_slots();
  const MutexLock lock(free.mutex);
  const bool fresh = free.slots.empty();
  Slot* const slot = fresh ? new Slot : free.slots.back();  // never deleted
  if (!fresh) free.slots.pop_back();
  slot->damaged.store(false);
  slot->begin.store(begin);
  slot->size.store(size);
  if (fresh) {
    slot->next = slots().load();
    slots().store(slot);
  }
  return slot;
}

void give_slot_back(Slot* slot) {
  FreeSlots& free = free_slots();
  const MutexLock lock(free.mutex);
  free.slots.push_back(slot);
}

}  // namespace

Result<GuardedMapping> GuardedMapping::map(const std::filesystem::path& path) {
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.is_open()) return last_file_error(path, "open");
  struct stat status{};
  if (fstat(file.get(), &status) != 0) return last_file_error(path, "stat");
  if (!S_ISREG(status.st_mode) || status.st_size <= 0) {
    return Error(ErrorCode::kCorrupt, "broken index: empty or not a file");
  }
  const auto size = static_cast<std::size_t>(status.st_size);
  void* address = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (address == MAP_FAILED) return last_file_error(path, "map");
  install_handler();
  constexpr std::int64_t kNsPerSecond = 1'000'000'000;
  const FileStamp stamp{status.st_size,
                        status.st_mtim.tv_sec * kNsPerSecond + status.st_mtim.tv_nsec};
  return GuardedMapping(take_slot(static_cast<std::byte*>(address), size), path, status.st_ino,
                        stamp);
}

GuardedMapping::GuardedMapping(GuardedMapping&& other) noexcept
    : slot_(std::exchange(other.slot_, nullptr)),
      file_(std::move(other.file_)),
      inode_(other.inode_),
      stamp_(other.stamp_) {}

GuardedMapping& GuardedMapping::operator=(GuardedMapping&& other) noexcept {
  if (this != &other) {
    unmap();
    slot_ = std::exchange(other.slot_, nullptr);
    file_ = std::move(other.file_);
    inode_ = other.inode_;
    stamp_ = other.stamp_;
  }
  return *this;
}

GuardedMapping::~GuardedMapping() { unmap(); }

void GuardedMapping::unmap() {
  if (slot_ == nullptr) return;
  std::byte* const begin = slot_->begin.load();
  const std::size_t size = slot_->size.exchange(0);
  munmap(begin, size);
  slot_->begin.store(nullptr);
  give_slot_back(slot_);
}

std::span<const std::byte> GuardedMapping::bytes() const {
  if (slot_ == nullptr) return {};
  return {slot_->begin.load(), slot_->size.load()};
}

bool GuardedMapping::damaged() const {
  if (slot_ == nullptr) return false;
  if (slot_->damaged.load()) return true;
  struct stat status{};
  // A file that was replaced or removed keeps its bytes as long as it is mapped.
  const bool is_ours = stat(file_.c_str(), &status) == 0 && status.st_ino == inode_;
  return is_ours && static_cast<std::size_t>(status.st_size) < slot_->size.load();
}

}  // namespace isocost
