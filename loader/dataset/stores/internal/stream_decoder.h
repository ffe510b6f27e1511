#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace isocost {

/// Decoder of a compressed stream, which is a sequence of frames (of gzip: members). Single-thread.
class StreamDecoder {
 public:
  /// The most bytes needed to see whether a frame begins.
  static constexpr std::size_t kMagicBytes = 4;

  struct Step {
    std::size_t consumed = 0;
    std::size_t produced = 0;
    bool frame_ended = false;
    std::string damage;   ///< Why the stream cannot be decoded further; empty: it can.
    std::string refusal;  ///< Reason why a whole stream cannot be read here, and what to do.
  };

  virtual ~StreamDecoder() = default;
  /// Returns the name of the compression, for messages.
  virtual std::string_view name() const = 0;
  /// Returns whether a frame begins with these bytes, of which there are kMagicBytes or all that
  /// are left.
  virtual bool begins(std::span<const std::byte> bytes) const = 0;
  /// Decodes a piece. With empty `input` it gives what it holds back.
  virtual Step decode(std::span<const std::byte> input, std::span<std::byte> output) = 0;
};

/// Make a decoder. Errors: kInternal if the library cannot be set up.
Result<std::unique_ptr<StreamDecoder>> make_gzip_decoder();
Result<std::unique_ptr<StreamDecoder>> make_zstd_decoder();

/// Return whether a file that begins with these bytes is compressed in this way.
bool is_gzip(std::span<const std::byte> bytes);
bool is_zstd(std::span<const std::byte> bytes);

}  // namespace isocost
