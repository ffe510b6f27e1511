#include "transport/wire/copy_bytes.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace isocost {
namespace {

// Size from which bytes have left the caches: a core's share of the last cache, which other cores
// fill as well.
constexpr std::int64_t kBeyondCaches = std::int64_t{8} << 20;

void copy(std::byte* to, const std::byte* from, std::size_t size) {
  if (size > 0) std::memcpy(to, from, size);
}

#ifdef __SSE2__

constexpr std::size_t kLine = 64;  // bytes of a cache line
constexpr std::size_t kAhead =
    512;  // bytes; a shorter distance is too late, and a longer one gained nothing

// Copies one line; `to` is at the beginning of a line.
void copy_line(std::byte* to, const std::byte* from) {
  const auto* in = reinterpret_cast<const __m128i*>(from);
  auto* out = reinterpret_cast<__m128i*>(to);
  const __m128i a = _mm_loadu_si128(in);
  const __m128i b = _mm_loadu_si128(in + 1);
  const __m128i c = _mm_loadu_si128(in + 2);
  const __m128i d = _mm_loadu_si128(in + 3);
  _mm_stream_si128(out, a);
  _mm_stream_si128(out + 1, b);
  _mm_stream_si128(out + 2, c);
  _mm_stream_si128(out + 3, d);
}

// Copies the whole lines, from the first byte that begins one. Returns the number of bytes copied.
std::size_t copy_lines(std::byte* to, const std::byte* from, std::size_t size) {
  const std::size_t whole = size / kLine * kLine;
  for (std::size_t at = 0; at < whole; at += kLine) {
    // A prefetch never faults, wherever its address points.
    _mm_prefetch(reinterpret_cast<const char*>(from) + at + kAhead, _MM_HINT_NTA);
    copy_line(to + at, from + at);
  }
  _mm_sfence();  // orders the streamed bytes before all that this thread writes later
  return whole;
}

void copy_past_caches(std::span<std::byte> to, std::span<const std::byte> from) {
  const std::size_t head =
      std::min(from.size(), -reinterpret_cast<std::uintptr_t>(to.data()) % kLine);
  copy(to.data(), from.data(), head);
  const std::size_t lines = copy_lines(to.data() + head, from.data() + head, from.size() - head);
  const std::size_t copied = head + lines;
  copy(to.data() + copied, from.data() + copied, from.size() - copied);
}

#else

void copy_past_caches(std::span<std::byte> to, std::span<const std::byte> from) {
  copy(to.data(), from.data(), from.size());
}

#endif

}  // namespace

void copy_part(std::span<std::byte> to, std::span<const std::byte> from, std::int64_t whole_bytes) {
  if (whole_bytes < kBeyondCaches) {
    copy(to.data(), from.data(), from.size());
  } else {
    copy_past_caches(to, from);
  }
}

}  // namespace isocost
