#include "decode/audio/internal/mp3_frame.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/result.h"
#include "decode/bytes/media_bytes.h"

namespace isocost {
namespace {

constexpr std::size_t kHeaderBytes = 4;
constexpr std::size_t kChecksumBytes = 2;

/// Returns bits per second; 0 for a free format and for no rate.
std::int64_t bit_rate(bool mpeg1, int layer, std::size_t index) {
  using Rates = std::array<std::int16_t, 16>;
  constexpr Rates kMpeg1Layer2 = {0,   32,  48,  56,  64,  80,  96,  112,
                                  128, 160, 192, 224, 256, 320, 384, 0};
  constexpr Rates kMpeg1Layer3 = {0,   32,  40,  48,  56,  64,  80,  96,
                                  112, 128, 160, 192, 224, 256, 320, 0};
  constexpr Rates kMpeg2 = {0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160, 0};
  const Rates& mpeg1_rates = layer == 2 ? kMpeg1Layer2 : kMpeg1Layer3;
  return 1000 * std::int64_t{mpeg1 ? mpeg1_rates[index] : kMpeg2[index]};
}

class BitReader {
 public:
  explicit BitReader(ByteView bytes) : bytes_(bytes) {}

  unsigned take(int count) {
    unsigned value = 0;
    for (; count > 0; --count, ++at_) {
      value = (value << 1) | ((bytes_[at_ / 8] >> (7 - at_ % 8)) & 1U);
    }
    return value;
  }
  void skip(std::size_t count) { at_ += count; }

 private:
  ByteView bytes_;
  std::size_t at_ = 0;
};

/// Reads the part of the side information that a granule has of a channel. Returns the bits of its
/// main data.
Result<std::size_t> read_granule(BitReader& bits, bool is_mpeg1) {
  constexpr unsigned kMostPairs = 288;
  const std::size_t main_data = bits.take(12);
  if (bits.take(9) > kMostPairs) return corrupt("a granule has more than 576 values");
  bits.skip(8U + (is_mpeg1 ? 4U : 9U));
  const bool switches_window = bits.take(1) == 1;
  const unsigned block_type = bits.take(2);
  if (switches_window && block_type == 0) return corrupt("a granule has no such type of window");
  bits.skip(22U - 2U + (is_mpeg1 ? 3U : 2U));
  return main_data;
}

/// The first four bytes of a frame.
struct Header {
  unsigned version = 0;  ///< 3: MPEG-1, 2: MPEG-2, 0: 2.5
  int layer = 0;
  std::size_t bits_index = 0;
  std::size_t rate_index = 0;
};

/// Returns a header of layer II or III; nothing for other bytes.
std::optional<Header> parse_header(ByteView bytes, std::size_t at) {
  if (at > bytes.size() || bytes.size() - at < kHeaderBytes) return std::nullopt;
  if (bytes[at] != 0xFF || (bytes[at + 1] & 0xE0) != 0xE0) return std::nullopt;
  const Header header{.version = (bytes[at + 1] >> 3) & 3U,
                      .layer = 4 - ((bytes[at + 1] >> 1) & 3),
                      .bits_index = static_cast<std::size_t>(bytes[at + 2] >> 4),
                      .rate_index = (bytes[at + 2] >> 2) & std::size_t{3}};
  const bool is_read = header.layer == 3 || (header.layer == 2 && header.version != 0);
  if (header.version == 1 || header.rate_index == 3 || !is_read) return std::nullopt;
  return header;
}

}  // namespace

bool is_free_format(ByteView bytes, std::size_t at) {
  const auto header = parse_header(bytes, at);
  return header && header->bits_index == 0;
}

std::optional<Mp3Frame> parse_mp3_frame(ByteView bytes, std::size_t at) {
  const auto header = parse_header(bytes, at);
  if (!header) return std::nullopt;
  Mp3Frame frame;
  frame.layer = header->layer;
  frame.is_mpeg1 = header->version == 3;
  const bool is_layer2 = frame.layer == 2;
  const std::int64_t bits = bit_rate(frame.is_mpeg1, frame.layer, header->bits_index);
  if (bits == 0) return std::nullopt;
  constexpr std::array<std::int64_t, 3> kRates = {44'100, 48'000, 32'000};
  const int divisor = frame.is_mpeg1 ? 1 : (header->version == 2 ? 2 : 4);
  frame.sample_rate = kRates.at(header->rate_index) / divisor;
  frame.channels = (bytes[at + 3] >> 6) == 3 ? 1 : 2;
  frame.samples = is_layer2 || frame.is_mpeg1 ? 1152 : 576;
  frame.has_checksum = (bytes[at + 1] & 1) == 0;
  const std::int64_t padding = (bytes[at + 2] >> 1) & 1;
  frame.bytes = static_cast<std::size_t>(frame.samples / 8 * bits / frame.sample_rate + padding);
  const bool mono = frame.channels == 1;
  if (!is_layer2) frame.side_info = frame.is_mpeg1 ? (mono ? 17 : 32) : (mono ? 9 : 17);
  return frame;
}

Status check_mp3_side_info(ByteView bytes) {
  const auto frame = parse_mp3_frame(bytes, 0);
  if (!frame) return corrupt("it has no frame header");
  if (frame->layer != 3) return {};
  const std::size_t side_at = kHeaderBytes + (frame->has_checksum ? kChecksumBytes : 0);
  const std::size_t body_at = side_at + frame->side_info;
  if (bytes.size() < body_at) return corrupt("it is too short");
  BitReader bits(bytes.subspan(side_at, frame->side_info));
  const std::size_t borrowed = bits.take(frame->is_mpeg1 ? 9 : 8);
  const auto channels = static_cast<std::size_t>(frame->channels);
  const bool mono = channels == 1;
  bits.skip(frame->is_mpeg1 ? (mono ? 5 + 4 : 3 + 8) : channels);
  std::size_t main_data = 0;
  const std::size_t granules = frame->is_mpeg1 ? 2 : 1;
  for (std::size_t i = 0; i < granules * channels; ++i) {
    ISOCOST_ASSIGN(const std::size_t part, read_granule(bits, frame->is_mpeg1));
    main_data += part;
  }
  if (main_data > 8 * (borrowed + bytes.size() - body_at)) {
    return corrupt("its granules have more data than it holds");
  }
  return {};
}

}  // namespace isocost
