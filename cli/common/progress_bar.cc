#include "cli/common/progress_bar.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "base/utf8.h"

namespace isocost::cli {

void ProgressBar::show(std::uint64_t done, std::uint64_t total, std::string_view what) {
  {
    const MutexLock lock(mutex_);
    if (!add(drawn(done, total, what))) return;
  }
  write_pending();
}

void ProgressBar::finish() {
  {
    const MutexLock lock(mutex_);
    const bool was_open = std::exchange(open_, false);
    if (!add(was_open ? "\n" : "")) return;
  }
  write_pending();
}

// Returns the text to write; nothing if the screen already shows this state.
std::string ProgressBar::drawn(std::uint64_t done, std::uint64_t total, std::string_view what) {
  constexpr int kWidth = 30;
  const auto permille = static_cast<int>(total == 0 ? 1000 : done * 1000 / total);
  const bool same = last_what_ == what;
  const int step = terminal_ ? 5 : 100;
  if (same && permille / step == last_permille_ / step && permille != 1000) return {};
  if (same && permille == last_permille_) return {};
  last_permille_ = permille;
  last_what_ = what;
  open_ = terminal_;
  const int filled = std::clamp(permille * kWidth / 1000, 0, kWidth);
  std::string bar(static_cast<std::size_t>(filled), '#');
  bar.resize(kWidth, '.');
  return (terminal_ ? "\r\033[K" : "") + printable_utf8(last_what_) + " [" + bar + "] " +
         std::to_string(done) + "/" + std::to_string(total) + (terminal_ ? "" : "\n");
}

// Queues text. Returns whether the caller must call write_pending().
bool ProgressBar::add(const std::string& text) {
  pending_ += text;
  if (writing_ || pending_.empty()) return false;
  writing_ = true;
  return true;
}

void ProgressBar::write_pending() {
  for (;;) {
    std::string text;
    {
      const MutexLock lock(mutex_);
      text = std::exchange(pending_, {});
      writing_ = !text.empty();
    }
    if (text.empty()) return;
    write_(text);
  }
}

}  // namespace isocost::cli
