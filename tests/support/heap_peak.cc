#include "tests/support/heap_peak.h"

#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>

namespace {

std::atomic<std::int64_t> now{0};
std::atomic<std::int64_t> peak{0};

void add(std::int64_t bytes) {
  const std::int64_t total = now.fetch_add(bytes) + bytes;
  std::int64_t seen = peak.load();
  while (total > seen && !peak.compare_exchange_weak(seen, total)) {
  }
}

[[maybe_unused]] void* counted(void* block) {
  if (block != nullptr) add(static_cast<std::int64_t>(malloc_usable_size(block)));
  return block;
}

}  // namespace

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define ISOCOST_HAS_OTHER_MALLOC
#endif
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define ISOCOST_HAS_OTHER_MALLOC
#endif

#ifndef ISOCOST_HAS_OTHER_MALLOC
// Symbols of a program come before those of the C library, whose own names these are.
extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);
void __libc_free(void*);

void* malloc(std::size_t size) { return counted(__libc_malloc(size)); }
void* calloc(std::size_t count, std::size_t size) { return counted(__libc_calloc(count, size)); }
void* memalign(std::size_t to, std::size_t size) { return counted(__libc_memalign(to, size)); }
void* aligned_alloc(std::size_t to, std::size_t size) { return counted(__libc_memalign(to, size)); }
int posix_memalign(void** block, std::size_t to, std::size_t size) {
  *block = counted(__libc_memalign(to, size));
  return *block == nullptr ? ENOMEM : 0;
}
void free(void* block) {
  if (block != nullptr) add(-static_cast<std::int64_t>(malloc_usable_size(block)));
  __libc_free(block);
}
void* realloc(void* block, std::size_t size) {
  const auto before = block == nullptr ? 0 : static_cast<std::int64_t>(malloc_usable_size(block));
  void* const after = __libc_realloc(block, size);
  if (after != nullptr || size == 0) add(-before);
  return counted(after);
}
}
#endif

namespace isocost::test {

HeapPeak::HeapPeak() : begun_(now.load()) { peak.store(begun_); }
std::int64_t HeapPeak::bytes() const { return peak.load() - begun_; }

}  // namespace isocost::test
