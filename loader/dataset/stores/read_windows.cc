#include "loader/dataset/stores/read_windows.h"

#include <algorithm>

namespace isocost {

Result<std::size_t> ReadWindows::read_at(std::int64_t offset,
                                         std::span<std::byte> destination) const {
  if (offset < 0 || destination.size() >= kLargest) return source_->read_at(offset, destination);
  const std::int64_t rest = std::max<std::int64_t>(size() - offset, 0);
  const auto count =
      static_cast<std::size_t>(std::min<std::int64_t>(rest, std::ssize(destination)));
  if (count == 0) return std::size_t{0};
  const MutexLock lock(mutex_);
  ISOCOST_ASSIGN(const Window* window, window_of(offset, count));
  const auto at = static_cast<std::size_t>(offset - window->start);
  const std::span held = std::span(window->bytes).first(window->filled).subspan(at);
  const std::size_t copied = std::min(held.size(), count);  // fewer if the file shrank
  std::copy_n(held.begin(), copied, destination.begin());
  return copied;
}

// Returns the window for an offset. A window that the offset follows continues; otherwise the one
// that is farther behind is dropped.
Result<const ReadWindows::Window*> ReadWindows::window_of(std::int64_t offset,
                                                          std::size_t count) const {
  for (const Window& window : windows_) {
    if (window.holds(offset, count)) return &window;
  }
  Window& behind = windows_[0].start <= windows_[1].start ? windows_[0] : windows_[1];
  Window& ahead = &behind == windows_.data() ? windows_[1] : windows_[0];
  Window& window = ahead.leads_to(offset) ? ahead : behind;
  ISOCOST_TRY(fill(window, offset, count));
  return &window;
}

Status ReadWindows::fill(Window& window, std::int64_t offset, std::size_t count) const {
  const std::size_t next =
      window.leads_to(offset) ? std::min(2 * window.bytes.size(), kLargest) : kSmallest;
  window.filled = 0;
  window.start = offset;
  window.bytes.resize(std::max({next, count, kSmallest}));
  ISOCOST_ASSIGN(window.filled, source_->read_at(offset, window.bytes));
  return {};
}

}  // namespace isocost
