#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/byte_source.h"
#include "decode/shape/media_formats.h"

// Makes audio and video at run time with libsndfile's and FFmpeg's encoders. A failure to encode
// throws std::runtime_error, as the test machine then lacks a library.
namespace isocost::test {

using Bytes = std::vector<std::byte>;

/// A sine of amplitude 0.5, the same in all channels, interleaved.
std::vector<float> sine(std::int32_t rate, std::int32_t channels, std::int64_t frames, double hz);

enum class WavEncoding { kPcm8, kPcm16, kPcm24, kPcm32, kFloat32, kFloat64, kALaw, kMuLaw };
Bytes make_wav(std::span<const float> interleaved, std::int32_t rate, std::int32_t channels,
               WavEncoding encoding = WavEncoding::kPcm16);
/// kWav, kFlac, kOggVorbis, kOpus or kMp3.
Bytes make_audio(MediaFormat format, std::span<const float> interleaved, std::int32_t rate,
                 std::int32_t channels);

struct VideoSpec {
  MediaFormat container = MediaFormat::kMp4;
  std::string encoder = "libx264";  ///< libx264, libx265, libvpx-vp9, libvpx, mpeg4, ...
  std::int32_t width = 96;          ///< Multiples of 16.
  std::int32_t height = 64;
  std::int32_t fps = 10;
  std::int32_t frames = 20;
  std::int32_t gop = 10;
  std::int32_t b_frames = 0;
  bool moov_at_start = false;
  bool fragmented = false;             ///< MP4
  bool live = false;                   ///< Matroska without duration and cues.
  std::int32_t clockwise_degrees = 0;  ///< How a player should turn it; MP4.
  bool noise = false;                  ///< Pictures that compress badly, for a large file.
  std::int32_t repeats = 0;            ///< How often the last packet is written again: a long video
                                       ///< of few bytes.
  std::int32_t still_from = INT32_MAX;  ///< The first frame that looks like the one before it.
  std::vector<std::uint8_t> end = {};   ///< A sample behind those of the encoder; empty: none.
  double silence_s = 0;                 ///< Length of an additional, silent PCM stream.
  std::optional<std::array<std::uint8_t, 3>> yuv = {};  ///< A plain colour instead of the number.
};
/// Makes a video in which every picture shows its number, 16 bits as 4×4 black and white tiles.
Bytes make_video(const VideoSpec& spec);
/// Makes a container that has only an audio stream.
Bytes make_video_without_video(MediaFormat container);
/// Returns the number that an unrotated picture of make_video shows.
int shown_number(std::span<const std::uint8_t> rgb, std::int32_t width, std::int32_t height);

/// Counts the bytes that are read from another source.
class CountingByteSource final : public ByteSource {
 public:
  explicit CountingByteSource(const ByteSource& inner) : inner_(inner) {}
  std::int64_t size() const override { return inner_.size(); }
  Result<std::size_t> read_at(std::int64_t offset, std::span<std::byte> destination) const override;
  std::int64_t bytes_read() const { return bytes_read_; }

 private:
  const ByteSource& inner_;
  mutable std::int64_t bytes_read_ = 0;
};

/// Fails with kIo for every read that reaches `fails_from`.
class FailingByteSource final : public ByteSource {
 public:
  FailingByteSource(const ByteSource& inner, std::int64_t fails_from)
      : inner_(inner), fails_from_(fails_from) {}
  std::int64_t size() const override { return inner_.size(); }
  Result<std::size_t> read_at(std::int64_t offset, std::span<std::byte> destination) const override;

 private:
  const ByteSource& inner_;
  std::int64_t fails_from_;
};

}  // namespace isocost::test
