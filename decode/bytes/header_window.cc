#include "decode/bytes/header_window.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/result.h"
#include "decode/bytes/media_bytes.h"

namespace isocost {

Result<ByteView> HeaderWindow::some(std::int64_t offset, std::size_t n) {
  if (offset >= size_) return ByteView();
  const auto rest = static_cast<std::uint64_t>(size_ - offset);
  n = static_cast<std::size_t>(std::min<std::uint64_t>({n, rest, kBytes}));
  const auto end = offset + static_cast<std::int64_t>(n);
  if (offset < start_ || end > start_ + static_cast<std::int64_t>(filled_)) {
    filled_ = 0;
    ISOCOST_ASSIGN(filled_, source_.read_at(offset, std::as_writable_bytes(std::span(bytes_))));
    start_ = offset;
  }
  const auto at = static_cast<std::size_t>(offset - start_);
  return ByteView(bytes_).subspan(at, std::min(n, filled_ - at));
}

Result<ByteView> HeaderWindow::all(std::int64_t offset, std::size_t n, const char* what) {
  ISOCOST_ASSIGN(const ByteView bytes, some(offset, n));
  if (bytes.size() < n) return corrupt(std::string("cut off within ") + what);
  return bytes;
}

}  // namespace isocost
