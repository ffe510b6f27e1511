#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/byte_source.h"
#include "base/result.h"
#include "loader/dataset/stores/internal/stream_decoder.h"

namespace isocost {

/// Returns whether a file that begins with these bytes is compressed by gzip or zstd.
bool is_compressed(std::span<const std::byte> begin);

/// Decompresses all frames of a source, in their order and in pieces. Takes memory for one piece of
/// the source and for the decoder's window. Single-thread.
class CompressedStream {
 public:
  /// Makes a reader for a source for which is_compressed is true. `kind` is what messages call it:
  /// "shard" or "file". `source` must outlive the reader. Errors: kInternal; those of reading.
  static Result<std::unique_ptr<CompressedStream>> open(const ByteSource& source,
                                                        std::string_view kind);

  /// Decompresses the next piece. Returns its bytes: 0 at the end, also where the stream is cut off
  /// or damaged. Errors: those of reading.
  Result<std::size_t> read(std::span<std::byte> output);

  /// Returns the reason why the stream ends early, and what to do; empty: it does not.
  const std::string& problem() const { return problem_; }
  /// Returns what follows the end of the stream; empty: only zeros.
  const std::string& unread() const { return unread_; }
  /// Returns the offset in the source of the next byte to decode.
  std::int64_t offset() const { return offset_ - static_cast<std::int64_t>(end_ - begin_); }

 private:
  CompressedStream(const ByteSource& source, std::string_view kind,
                   std::unique_ptr<StreamDecoder> decoder);
  Status refill();
  Result<std::size_t> step(std::span<std::byte> output);
  Status look_behind();
  std::span<const std::byte> input() const {
    return std::span(input_).subspan(begin_, end_ - begin_);
  }

  const ByteSource& source_;
  const std::string kind_;
  const std::unique_ptr<StreamDecoder> decoder_;
  std::vector<std::byte> input_;
  std::size_t begin_ = 0;  // of the input that is not decoded yet
  std::size_t end_ = 0;
  std::int64_t offset_ = 0;  // after the input that was read
  bool between_frames_ = true;
  bool holds_back_ = false;  // the decoder may have output that found no room
  bool done_ = false;
  std::string problem_;
  std::string unread_;
};

}  // namespace isocost
