#include "decode/image/internal/gif_lzw.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/result.h"
#include "decode/bytes/media_bytes.h"

namespace isocost {

GifLzw::GifLzw(ByteView file, std::size_t at, int literal_bits)
    : file_(file), at_(at), literal_bits_(literal_bits) {
  for (std::size_t i = 0; i < clear_code(); ++i) {
    first_[i] = last_[i] = static_cast<std::uint8_t>(i);
    length_[i] = 1;
  }
  clear();
}

void GifLzw::clear() {
  bits_ = literal_bits_ + 1;
  size_ = clear_code() + 2;  // the clear and end codes
}

bool GifLzw::next_code(std::size_t& code) {
  while (held_ < bits_) {
    if (left_ == 0) {
      left_ = at_ < file_.size() ? file_[at_++] : 0U;
      if (left_ == 0 || left_ > file_.size() - at_) return false;
    }
    pool_ |= std::uint32_t{file_[at_++]} << held_;
    held_ += 8;
    --left_;
  }
  code = pool_ & ((1U << bits_) - 1);
  pool_ >>= bits_;
  held_ -= bits_;
  return true;
}

/// Gives a code to the previous sequence followed by the first index of this one.
void GifLzw::remember(std::size_t previous, std::size_t code) {
  if (size_ >= kCodes) return;
  prefix_[size_] = static_cast<std::uint16_t>(previous);
  length_[size_] = static_cast<std::uint16_t>(length_[previous] + 1);
  first_[size_] = first_[previous];
  last_[size_] = first_[code == size_ ? previous : code];
  ++size_;
  if (size_ == std::size_t{1} << bits_ && bits_ < kMaxBits) ++bits_;
}

/// Writes a sequence from its end; drops indices for which there is no room.
std::size_t GifLzw::emit(std::size_t code, std::span<std::uint8_t> to) const {
  const std::size_t length = length_[code];
  for (std::size_t i = length; i-- > 0; code = prefix_[code]) {
    if (i < to.size()) to[i] = last_[code];
  }
  return length < to.size() ? length : to.size();
}

Status GifLzw::fill(std::span<std::uint8_t> indices) {
  std::optional<std::size_t> previous;
  while (!indices.empty()) {
    std::size_t code = 0;
    if (!next_code(code) || code == clear_code() + 1) return corrupt("its GIF picture is cut off");
    if (code == clear_code()) {
      clear();
      previous.reset();
      continue;
    }
    const std::size_t known = previous ? size_ + (size_ < kCodes ? 1 : 0) : clear_code();
    if (code >= known) return corrupt("its GIF picture is damaged");
    if (previous) remember(*previous, code);
    const std::size_t emitted = emit(code, indices);
    indices = indices.subspan(emitted);
    filled_ += emitted;
    previous = code;
  }
  return {};
}

}  // namespace isocost
