#include "decode/bytes/internal/fragments.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "decode/bytes/media_bytes.h"

namespace isocost {
namespace {

/// Adds up the samples of the runs. The demuxer finds runs below any box that it descends into, and
/// clips boxes that exceed their parent, so this does, too.
class FragmentRuns {
 public:
  explicit FragmentRuns(const ByteSource& source) : source_(source) {}

  Status walk(std::int64_t at, std::int64_t end, int depth) {
    while (end - at >= 8) {
      if (++boxes_ > kMaxBoxes) return corrupt("it has too many MP4 boxes");
      ISOCOST_ASSIGN(const auto head, read_some(source_, at, kHead));
      if (head.size() < 8) return {};
      const bool is_wide = big_endian(head, 0, 4) == 1 && head.size() >= 16;
      const std::int64_t body = at + (is_wide ? 16 : 8);
      const std::int64_t next = box_end(head, at, end, is_wide);
      if (next < body) return {};
      if (has_tag(head, 4, "trun")) ISOCOST_TRY(add_run(head, is_wide ? 16 : 8, next - body));
      if (is_parent(head) && depth < kMaxDepth) ISOCOST_TRY(walk(body, next, depth + 1));
      at = next;
    }
    return {};
  }

 private:
  static constexpr int kMaxBoxes = 2'000'000;  ///< A day of fragments of a second.
  static constexpr int kMaxDepth = 10;
  static constexpr std::size_t kHead = 24;  ///< A wide header, and a run's flags and count.

  static std::int64_t box_end(ByteView head, std::int64_t at, std::int64_t end, bool is_wide) {
    const std::uint64_t size = is_wide ? big_endian(head, 8, 8) : big_endian(head, 0, 4);
    const auto room = static_cast<std::uint64_t>(end - at);
    return size == 0 ? end : at + static_cast<std::int64_t>(std::min(size, room));
  }

  static bool is_parent(ByteView head) {
    constexpr std::array<std::string_view, 11> kParents = {
        "moof", "traf", "moov", "trak", "mdia", "minf", "stbl", "mvex", "udta", "edts", "dinf"};
    return std::ranges::any_of(kParents,
                               [&](std::string_view type) { return has_tag(head, 4, type); });
  }

  Status add_run(ByteView head, std::size_t body, std::int64_t body_bytes) {
    if (body_bytes < 8 || head.size() < body + 8) return {};
    samples_ += static_cast<std::int64_t>(big_endian(head, body + 4, 4));
    if (samples_ <= source_.size()) return {};
    return corrupt("cut off: its fragments say " + std::to_string(samples_) + " samples, " +
                   std::to_string(source_.size()) + " bytes are there");
  }

  const ByteSource& source_;
  std::int64_t samples_ = 0;  ///< At most the source's size and a 32-bit number.
  int boxes_ = 0;
};

}  // namespace

Status check_fragments(const ByteSource& source) {
  return FragmentRuns(source).walk(0, source.size(), 0);
}

}  // namespace isocost
