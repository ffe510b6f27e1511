#include "base/buffer.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <map>
#include <new>
#include <optional>
#include <utility>

#include "base/mutex.h"
#include "base/sanitized.h"

namespace isocost {
namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::int64_t kSmallest = 256;
constexpr std::int64_t kLargest = std::int64_t{1} << 46;

// Rounds a size up to its four leading bits, so that at most an eighth of a block is unused, and
// samples of nearly equal size can use the same blocks.
std::int64_t capacity_for(std::int64_t size) {
  if (size <= kSmallest) return kSmallest;
  const int shift = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(size - 1))) - 4;
  const std::int64_t step = std::int64_t{1} << shift;
  return (size + step - 1) / step * step;
}

// Size from which each block is mapped on its own, so that the kernel gets it back when it is
// freed. malloc keeps a freed block as long as a later one in its heap is in use. Sanitizers watch
// malloc's blocks.
constexpr std::int64_t kMapped = kIsSanitized ? kLargest + 1 : 1 << 20;
// Size from which blocks lie in pages of 2 MiB where the kernel has some: the first touch of fresh
// memory page by page costs about as much as the writes to it.
constexpr std::int64_t kLargeBlock = 4 << 20;
constexpr std::size_t kLargePage = 2 << 20;

std::byte* map(std::size_t bytes) {
  void* const memory =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  return static_cast<std::byte*>(memory);
}

void unmap(std::byte* begin, const std::byte* end) {
  if (begin != end) munmap(begin, static_cast<std::size_t>(end - begin));
}

// Maps memory that begins with a large page; gives back the rest before and after it.
std::byte* map_large(std::size_t bytes) {
  std::byte* const begin = map(bytes + kLargePage);
  std::byte* const end = begin + bytes + kLargePage;
  const std::size_t odd = reinterpret_cast<std::uintptr_t>(begin) % kLargePage;
  std::byte* const block = begin + (odd == 0 ? 0 : kLargePage - odd);
  unmap(begin, block);
  unmap(block + bytes, end);
  // Advice only: a kernel without large pages declines it, and nothing else changes.
  static_cast<void>(madvise(block, bytes, MADV_HUGEPAGE));
  return block;
}

// Returns whether a block is mapped on its own. Capacities of this size are whole pages.
bool is_mapped(std::int64_t capacity) { return capacity >= kMapped; }

std::byte* map_block(std::int64_t capacity) {
  const auto bytes = static_cast<std::size_t>(capacity);
  return capacity < kLargeBlock ? map(bytes) : map_large(bytes);
}

std::align_val_t alignment_of(std::int64_t capacity) {
  return std::align_val_t{capacity < kLargeBlock ? kAlignment : kLargePage};
}

std::byte* make_block(std::int64_t capacity) {
  if (is_mapped(capacity)) return map_block(capacity);
  return static_cast<std::byte*>(
      ::operator new(static_cast<std::size_t>(capacity), alignment_of(capacity)));
}

void free_block(std::byte* data, std::int64_t capacity) {
  if (is_mapped(capacity)) return unmap(data, data + capacity);
  ::operator delete(data, alignment_of(capacity));
}

}  // namespace

// The state a pool shares with its buffers. Kept blocks are sorted by size class; blocks in use are
// known by address so that `owns` can answer.
struct Buffer::Shelf {
  explicit Shelf(std::int64_t keep, BlockFit block_fit, std::span<std::byte> whole_arena = {})
      : keep_bytes(keep), fit(block_fit), arena(whole_arena) {}
  Shelf(const Shelf&) = delete;
  Shelf& operator=(const Shelf&) = delete;
  ~Shelf() { drop_kept(); }

  struct Block {
    std::byte* data = nullptr;
    std::int64_t capacity = 0;
  };
  struct SizeClass {
    std::vector<std::byte*> blocks;
    std::uint64_t asked = 0;  // number of the last call of take_kept for it
  };

  void drop_kept() {
    std::vector<Block> dropped;
    {
      const MutexLock lock(mutex);
      dropped = make_room(most_kept());
    }
    free_blocks(dropped);
  }

  void give_back(std::byte* data, std::int64_t capacity) {
    std::vector<Block> dropped;
    {
      const MutexLock lock(mutex);
      used.erase(data);
      in_use -= capacity;
      if (!arena.empty()) return;
      if (capacity > most_kept()) {
        dropped.push_back({data, capacity});
      } else {
        dropped = make_room(capacity);
        classes[capacity].blocks.push_back(data);
        kept += capacity;
      }
    }
    free_blocks(dropped);
  }

  std::int64_t most_kept() const ISOCOST_REQUIRES(mutex) {
    if (fit == BlockFit::kClose) return keep_bytes;
    return std::min(keep_bytes, std::max<std::int64_t>(2 * largest - in_use, 0));
  }

  // Takes out blocks of the classes that were not requested for the longest time, until `bytes`
  // more may be kept.
  std::vector<Block> make_room(std::int64_t bytes) ISOCOST_REQUIRES(mutex) {
    std::vector<Block> dropped;
    while (kept > 0 && kept + bytes > most_kept()) {
      const auto oldest = std::ranges::min_element(classes, {}, [](const auto& entry) {
        return std::pair(entry.second.blocks.empty(), entry.second.asked);
      });
      auto& [capacity, size_class] = *oldest;
      dropped.push_back({size_class.blocks.back(), capacity});
      size_class.blocks.pop_back();
      kept -= capacity;
    }
    return dropped;
  }

  // Returns the smallest kept block that fits, marked as used.
  std::optional<Block> take_kept(std::int64_t capacity) {
    const std::int64_t most = fit == BlockFit::kLoose ? 4 * capacity : capacity;
    const MutexLock lock(mutex);
    ++asks;
    largest = std::max(largest, capacity);
    auto found = classes.lower_bound(capacity);
    while (found != classes.end() && found->second.blocks.empty()) ++found;
    if (found == classes.end() || found->first > most) {
      classes[capacity].asked = asks;
      return std::nullopt;
    }
    auto& [size, size_class] = *found;
    size_class.asked = asks;
    const Block block{size_class.blocks.back(), size};
    size_class.blocks.pop_back();
    kept -= size;
    mark_used(block);
    return block;
  }

  void mark_used(const Block& block) ISOCOST_REQUIRES(mutex) {
    in_use += block.capacity;
    used.emplace(block.data, block.capacity);
  }

  // Returns a block of its own, or the next part of the arena.
  std::byte* new_block(std::int64_t capacity) {
    if (arena.empty()) return make_block(capacity);
    const auto bytes = static_cast<std::size_t>(capacity);
    const MutexLock lock(mutex);
    if (in_use == 0) arena_used = 0;
    if (bytes > arena.size() - arena_used) throw std::bad_alloc();
    std::byte* block = arena.data() + arena_used;
    arena_used += (bytes + kAlignment - 1) / kAlignment * kAlignment;
    arena_used = std::min(arena_used, arena.size());
    return block;
  }

  static void free_blocks(const std::vector<Block>& blocks) {
    for (const Block& block : blocks) free_block(block.data, block.capacity);
  }

  const std::int64_t keep_bytes;
  const BlockFit fit;
  const std::span<std::byte> arena;
  mutable Mutex mutex;
  std::size_t arena_used ISOCOST_GUARDED_BY(mutex) = 0;
  std::map<std::int64_t, SizeClass> classes ISOCOST_GUARDED_BY(mutex);  // kept blocks, by capacity
  std::uint64_t asks ISOCOST_GUARDED_BY(mutex) = 0;
  std::int64_t largest ISOCOST_GUARDED_BY(mutex) = 0;  // largest capacity that was requested
  std::map<const std::byte*, std::int64_t> used ISOCOST_GUARDED_BY(mutex);
  std::int64_t in_use ISOCOST_GUARDED_BY(mutex) = 0;
  std::int64_t kept ISOCOST_GUARDED_BY(mutex) = 0;
};

Buffer::Buffer(std::shared_ptr<Shelf> shelf, std::byte* data, std::int64_t size,
               std::int64_t capacity)
    : shelf_(std::move(shelf)), data_(data), size_(size), capacity_(capacity) {}

Buffer::Buffer(Buffer&& other) noexcept
    : shelf_(std::move(other.shelf_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      capacity_(std::exchange(other.capacity_, 0)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  if (this != &other) {
    if (data_ != nullptr) shelf_->give_back(data_, capacity_);
    shelf_ = std::move(other.shelf_);
    data_ = std::exchange(other.data_, nullptr);
    size_ = std::exchange(other.size_, 0);
    capacity_ = std::exchange(other.capacity_, 0);
  }
  return *this;
}

Buffer::~Buffer() {
  if (data_ != nullptr) shelf_->give_back(data_, capacity_);
}

BufferPool::BufferPool(std::int64_t keep_bytes, BlockFit fit)
    : shelf_(std::make_shared<Buffer::Shelf>(keep_bytes, fit)) {}

BufferPool::BufferPool(std::span<std::byte> arena)
    : shelf_(std::make_shared<Buffer::Shelf>(0, BlockFit::kClose, arena)) {}

BufferPool::~BufferPool() { shelf_->drop_kept(); }

Buffer BufferPool::allocate(std::int64_t size) {
  if (size < 0 || size > kLargest) throw std::bad_alloc();
  const std::int64_t capacity = capacity_for(size);
  if (const auto kept = shelf_->take_kept(capacity)) {
    return Buffer(shelf_, kept->data, size, kept->capacity);
  }
  std::byte* data = shelf_->new_block(capacity);
  const MutexLock lock(shelf_->mutex);
  shelf_->mark_used({data, capacity});
  return Buffer(shelf_, data, size, capacity);
}

std::int64_t BufferPool::bytes_in_use() const {
  const MutexLock lock(shelf_->mutex);
  return shelf_->in_use;
}

std::int64_t BufferPool::bytes_kept() const {
  const MutexLock lock(shelf_->mutex);
  return shelf_->kept;
}

bool BufferPool::owns(const void* address) const {
  const auto* byte = static_cast<const std::byte*>(address);
  const MutexLock lock(shelf_->mutex);
  auto after = shelf_->used.upper_bound(byte);
  if (after == shelf_->used.begin()) return false;
  --after;
  return byte < after->first + after->second;
}

}  // namespace isocost
