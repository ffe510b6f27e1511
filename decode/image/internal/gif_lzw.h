#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.h"
#include "decode/bytes/media_bytes.h"

namespace isocost {

/// The colour indices of a GIF picture: LZW codes of growing width in a chain of sub-blocks. Of
/// codes that begin at more than 8 bits an index is the lower 8, as in Pillow.
/// Single-thread; `file` must outlive it.
class GifLzw {
 public:
  static constexpr int kMaxBits = 12;

  /// `at` is the chain's first length byte; 0 <= `literal_bits` <= kMaxBits.
  GifLzw(ByteView file, std::size_t at, int literal_bits);

  /// Fills all of `indices`. Errors: kCorrupt if the chain ends early, or a code is undefined:
  /// the first `filled` are right then. A sub-block that is cut off has no codes, as in Pillow.
  Status fill(std::span<std::uint8_t> indices);
  std::size_t filled() const { return filled_; }

 private:
  static constexpr std::size_t kCodes = std::size_t{1} << kMaxBits;

  std::size_t clear_code() const { return std::size_t{1} << literal_bits_; }
  void clear();
  bool next_code(std::size_t& code);
  void remember(std::size_t previous, std::size_t code);
  std::size_t emit(std::size_t code, std::span<std::uint8_t> to) const;

  ByteView file_;
  std::size_t at_;
  std::size_t left_ = 0;  ///< Bytes of the present sub-block.
  std::uint32_t pool_ = 0;
  int held_ = 0;  ///< Bits in the pool.
  int literal_bits_;
  int bits_ = 0;          ///< Width of the next code.
  std::size_t size_ = 0;  ///< Number of codes that are defined.
  std::size_t filled_ = 0;
  std::array<std::uint16_t, kCodes> prefix_{};
  std::array<std::uint16_t, kCodes> length_{};
  std::array<std::uint8_t, kCodes> first_{};
  std::array<std::uint8_t, kCodes> last_{};
};

}  // namespace isocost
