#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace isocost {

class BufferPool;

/// Owned bytes, 64-byte aligned, taken from a BufferPool and returned to it on destruction.
/// Uninitialised. Move-only. Single-thread, but may be moved between threads.
class Buffer {
 public:
  Buffer() = default;
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer();

  std::byte* data() { return data_; }
  const std::byte* data() const { return data_; }
  std::int64_t size() const { return size_; }
  std::span<std::byte> bytes() { return {data_, static_cast<std::size_t>(size_)}; }
  std::span<const std::byte> bytes() const { return {data_, static_cast<std::size_t>(size_)}; }

 private:
  friend class BufferPool;
  struct Shelf;
  Buffer(std::shared_ptr<Shelf> shelf, std::byte* data, std::int64_t size, std::int64_t capacity);

  std::shared_ptr<Shelf> shelf_;  // outlives the pool, so a buffer may outlive it, too
  std::byte* data_ = nullptr;
  std::int64_t size_ = 0;
  std::int64_t capacity_ = 0;
};

/// Rules for the kept block that a BufferPool may return for a size.
enum class BlockFit : std::uint8_t {
  kClose,  ///< At most an eighth of a block is unused.
  kLoose,  ///< At most three quarters of a block are unused, and what is kept and in use is no more
           ///< than two of the largest block that was requested, or what is in use alone: where
           ///< sizes vary, two or three blocks serve them all.
};

/// Recycles buffers and counts the bytes in use. It limits the bytes kept for reuse (`keep_bytes`):
/// blocks of the sizes that were not requested for the longest time go first. The caller limits the
/// bytes in use. Thread-safe.
class BufferPool {
 public:
  explicit BufferPool(std::int64_t keep_bytes = 64 << 20, BlockFit fit = BlockFit::kClose);
  /// Takes all buffers from `arena`, which must outlive them and is 64-byte aligned. Starts again
  /// at its beginning once no buffer is in use.
  explicit BufferPool(std::span<std::byte> arena);
  ~BufferPool();

  /// Returns a buffer of `size` >= 0 bytes. Throws std::bad_alloc, also if the arena has no room.
  Buffer allocate(std::int64_t size);

  /// Returns the capacity, in bytes, of all buffers in use.
  std::int64_t bytes_in_use() const;
  /// Returns the capacity, in bytes, kept for reuse.
  std::int64_t bytes_kept() const;
  /// Returns whether `address` lies in a buffer of this pool that is in use. Lets tests check that
  /// a tensor was not copied.
  bool owns(const void* address) const;

 private:
  std::shared_ptr<Buffer::Shelf> shelf_;
};

}  // namespace isocost
