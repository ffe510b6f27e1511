#include "decode/image/internal/heif_boxes.h"

#include <cstdint>
#include <string>

#include "base/result.h"
#include "decode/bytes/header_window.h"
#include "decode/bytes/media_bytes.h"

namespace isocost {

Result<bool> HeifBoxes::next(HeifBox& box) {
  constexpr std::int64_t kHead = 8;
  constexpr std::int64_t kWideHead = 16;
  if (at_ >= end_) return false;
  if (++read_ > kMost) return corrupt("it has too many boxes");
  ISOCOST_ASSIGN(const ByteView head, window_.all(at_, kHead, "a box"));
  auto size = static_cast<std::int64_t>(big_endian(head, 0, 4));
  box.type.assign(head.begin() + 4, head.begin() + 8);
  box.body = at_ + kHead;
  if (size == 1) {
    ISOCOST_ASSIGN(const ByteView wide, window_.all(at_ + kHead, 8, "a box"));
    const std::uint64_t stated = big_endian(wide, 0, 8);
    size = stated >> 62 == 0 ? static_cast<std::int64_t>(stated) : -1;
    box.body = at_ + kWideHead;
  } else if (size == 0) {
    size = end_ - at_;  // The box reaches the end of its parent.
  }
  if (size < box.body - at_) return corrupt("it has a box of an impossible size");
  if (size > end_ - at_) {
    return corrupt("cut off: a box ends at byte " + std::to_string(at_ + size) + ", and " +
                   std::to_string(end_) + " are there");
  }
  box.end = at_ + size;
  at_ = box.end;
  return true;
}

}  // namespace isocost
